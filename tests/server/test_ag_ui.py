"""Runs over AG-UI, each checked by the protocol's validator: tools, approval, a question, a pause, a restart."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui.core import Context, RunAgentInput, Tool, ToolMessage, UserMessage
from ag_ui_validate.pytest_plugin import assert_valid_agui

from segue.core.agents import Agent
from segue.tools.registry import tool
from tests.fakes import answer, call_tool

from .serving import ALPHA, BETA, KEYS, Held, Json, Served, ServerSettings, wait_until
from .shop import refund, reply

OPEN = ServerSettings(heartbeat_seconds=0.2)


def shop(held: Held) -> Agent:
    return held.agent("shop", reply, tools=(refund,))


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def served(held: Held, database: Path) -> Iterator[Served]:
    with Served(database, OPEN, agents=[shop(held)]) as served:
        yield served
        held.go.set()


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


def body(text: str, run_id: str, thread_id: str = "t", **fields: Any) -> Json:
    """The request that the SDK's model writes."""
    message = UserMessage(id=f"{run_id}-m", content=text)
    given = RunAgentInput(
        **{"thread_id": thread_id, "run_id": run_id, "messages": [message], "tools": [], "context": [], **fields}
    )
    form: Json = json.loads(given.model_dump_json(by_alias=True))
    return form


def run(client: httpx.Client, form: Json, **options: Any) -> list[Json]:
    """The events of a run, which break no rule of the protocol."""
    answered = client.post("/ag-ui/shop", json=form, **options)
    assert answered.status_code == 200, answered.text
    events = [json.loads(line.removeprefix("data: ")) for line in answered.text.splitlines() if line.startswith("data")]
    assert_valid_agui(events)
    return events


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def text(events: list[Json]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def resumed(events: list[Json], run_id: str, payload: Any, status: str = "resolved") -> Json:
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    return body("", run_id, resume=[{"interruptId": interrupt["id"], "status": status, "payload": payload}])


def test_a_run_streams_its_rounds_thoughts_calls_and_answer(client: httpx.Client, held: Held) -> None:
    held.go.set()
    events = run(client, body("please hold", "r1"))
    assert types(events)[0] == "RUN_STARTED" and types(events)[-1] == "RUN_FINISHED"
    for kind in ("STEP_STARTED", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"):
        assert kind in types(events)
    assert text(events) == "Settled, 好的."
    assert events[-1]["outcome"] == {"type": "success"}
    again = run(client, body("apples", "r2", forwarded_props={"mode": "direct"}))
    assert again[-1]["result"]["mode"] == "direct"


def test_a_plan_is_the_state(client: httpx.Client) -> None:
    form = body("帮我规划一个北京3日游", "r1", forwarded_props={"mode": "plan"})
    answered = client.post("/ag-ui/travel", json=form)
    states = [json.loads(line[6:]) for line in answered.text.splitlines() if "STATE_SNAPSHOT" in line]
    assert {step["status"] for step in states[-1]["snapshot"]["plan"]["steps"]} == {"done"}


@tool(needs_approval=True, keywords=("refund",))
def pay_back(amount: int = 5) -> str:
    """Pay money back."""
    return f"refunded {amount}"


def test_a_run_that_goes_on_has_the_plan_from_its_beginning(database: Path) -> None:
    planner = Agent(agent_id="shop", model="offline", tools=(pay_back,), mode="plan")
    with Served(database, OPEN, agents=[planner]) as served, served.client() as client:
        first = run(client, body("please refund it", "r1"))
        second = run(client, resumed(first, "r2", {"verdict": "approve"}))
    assert types(second)[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    plans = [event["snapshot"]["plan"]["steps"] for event in second if event["type"] == "STATE_SNAPSHOT"]
    assert [step["status"] for step in plans[0]] == ["pending", "pending"]
    assert {step["status"] for step in plans[-1]} == {"done"}


@pytest.mark.parametrize(
    ("payload", "status", "ran"),
    [
        ({"verdict": "approve"}, "resolved", 1),
        ({"reason": "too expensive"}, "resolved", 0),
        ({"verdict": "reject", "reason": "yes"}, "resolved", 0),
        (None, "cancelled", 0),
    ],
)
def test_an_approval_is_an_interrupt(client: httpx.Client, payload: Any, status: str, ran: int) -> None:
    events = run(client, body("please refund", "r1"))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("approval", "Approve refund(amount=5)?")
    answer = resumed(events, "r2", payload, status)
    after = run(client, answer)
    assert text(after) == "Settled, 好的."
    started = [event["toolCallId"] for event in events + after if event["type"] == "TOOL_CALL_START"]
    ended = [event["toolCallId"] for event in after if event["type"] == "TOOL_CALL_RESULT"]
    assert started == ended * 2  # one call, announced in each run by the same id
    assert run(client, answer)[-1] == {**after[-1], "timestamp": pytest.approx(after[-1]["timestamp"], abs=60_000)}
    trace = client.get(f"/api/tasks/{after[-1]['result']['task_id']}").json()
    assert len(trace["calls"]) == ran
    closed = client.post("/ag-ui/shop", json=resumed(events, "r3", payload, status))
    assert (closed.status_code, closed.json()["error"]["type"]) == (409, "QuestionClosed")


def test_a_question_is_answered_in_resume_or_by_the_next_message(client: httpx.Client) -> None:
    for thread, payload in (("t", {"answer": "blue"}), ("u", None)):
        events = run(client, body("paint it", f"{thread}1", thread, forwarded_props={"mode": "controller"}))
        assert events[-1]["outcome"]["interrupts"][0]["message"] == "Which colour?"
        following = resumed(events, "t2", payload) if payload else body("blue", "u2", thread)
        assert text(run(client, following)) == "It is blue."


def test_a_paused_run_is_resumed(client: httpx.Client, served: Served, held: Held) -> None:
    with client.stream("POST", "/ag-ui/shop", json=body("please hold", "r1")) as response:
        task_id = response.headers["x-task-id"]
        held.begun.wait(60)
        with served.client() as other:
            other.post(f"/api/tasks/{task_id}/pause").raise_for_status()
        held.go.set()
        response.read()
    wait_until(lambda: client.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "paused")
    events = run(client, body("please hold", "r1"))
    assert events[-1]["outcome"]["interrupts"][0]["reason"] == "paused"
    assert text(run(client, resumed(events, "r2", None))) == "Settled, 好的."
    assert held.effects == ["one"]


def test_a_failed_run_and_mistakes_say_why(client: httpx.Client) -> None:
    failed = run(client, body("please fail", "r1"))[-1]
    assert (failed["type"], failed["code"]) == ("RUN_ERROR", "task_failed") and "is down" in failed["message"]
    for path, form, status, why in (
        ("/ag-ui/none", body("hi", "r1"), 404, "no agent 'none'"),
        ("/ag-ui/shop", {**body("hi", "r9"), "messages": []}, 422, "send the user's message last"),
        ("/ag-ui/shop", {**body("hi", "r9"), "threadId": "a b"}, 422, "threadId"),
    ):
        refused = client.post(path, json=form)
        assert refused.status_code == status and why in refused.json()["error"]["message"], refused.text


def test_a_thread_survives_a_restart_and_is_its_tenants_own(held: Held, database: Path) -> None:
    settings = ServerSettings(keys=KEYS)
    with Served(database, settings, agents=[shop(held)]) as served, served.client(headers=ALPHA) as client:
        events = run(client, body("please refund", "r1"))
    with Served(database, settings, agents=[shop(held)]) as served, served.client() as client:
        assert client.post("/ag-ui/shop", json=body("hi", "r1")).status_code == 401
        stolen = client.post("/ag-ui/shop", json=resumed(events, "r2", {"verdict": "approve"}), headers=BETA)
        assert stolen.status_code == 422 and "no run" in stolen.json()["error"]["message"]
        answered = run(client, resumed(events, "r2", {"verdict": "approve"}), headers=ALPHA)
        assert text(answered) == "Settled, 好的."


SHOW = Tool(name="show", description="Show a page.", parameters={"type": "object", "properties": {"page": {}}})


def result_of(events: list[Json], run_id: str, content: str, *then: UserMessage, **fields: Any) -> Json:
    """The run that brings the result of the call which the events end with."""
    call = next(event for event in events if event["type"] == "TOOL_CALL_START")
    result = ToolMessage(id=f"{run_id}-t", tool_call_id=call["toolCallId"], content=content, **fields)
    return body("", run_id, messages=[result, *then], tools=[SHOW])


def test_a_tool_of_the_front_end_ends_the_run_and_its_result_goes_on_after_a_restart(
    held: Held, database: Path
) -> None:
    with Served(database, OPEN, agents=[shop(held)]) as served, served.client() as client:
        events = run(client, body("please show", "r1", tools=[SHOW]))
    call = next(event for event in events if event["type"] == "TOOL_CALL_ARGS")
    assert json.loads(call["delta"]) == {"page": "cart"} and types(events).count("TOOL_CALL_START") == 1
    assert "TOOL_CALL_RESULT" not in types(events) and events[-1]["outcome"] == {"type": "success"}
    with Served(database, OPEN, agents=[shop(held)]) as served, served.client() as client:
        other = result_of(events, "r2", "shown the cart")
        other["messages"][0]["toolCallId"] = "none"
        refused = client.post("/ag-ui/shop", json=other)
        assert (refused.status_code, "no call 'none'" in refused.text) == (404, True)
        rest = run(client, result_of(events, "r2", "shown the cart"))
        assert text(rest) == "Settled, 好的." and "TOOL_CALL_START" not in types(rest)
        assert text(run(client, result_of(events, "r3", "shown the cart"))) == "Settled, 好的."
        other = client.post("/ag-ui/shop", json=result_of(events, "r4", "shown nothing"))
        assert (other.status_code, "has a result already" in other.text) == (409, True)
        calls = client.get(f"/api/tasks/{rest[-1]['result']['task_id']}").json()["calls"]
        assert [(each["name"], each["outcome"]) for each in calls] == [("show", {"success": "shown the cart"})]


@pytest.mark.parametrize(
    ("content", "more", "fields", "what"),
    [
        ("", [], {}, "it returned nothing"),
        ("", [], {"error": "no such page"}, "reports an error: no such page"),
        ("shown", [UserMessage(id="m", content="kiwis")], {}, "shown\n\nThe user wrote: kiwis"),
    ],
)
def test_what_the_front_end_brings_of_its_call(
    client: httpx.Client, content: str, more: list[UserMessage], fields: Json, what: str
) -> None:
    events = run(client, body("please show", "r1", tools=[SHOW]))
    rest = run(client, result_of(events, "r2", content, *more, **fields))
    (call, *_) = client.get(f"/api/tasks/{rest[-1]['result']['task_id']}").json()["calls"]
    assert what in call["outcome"]["success"]


def test_the_result_of_a_tool_approves_nothing(client: httpx.Client) -> None:
    run(client, body("please refund", "r1"))
    result = ToolMessage(id="t", tool_call_id="c", content="yes")
    refused = client.post("/ag-ui/shop", json=body("", "r2", messages=[result]))
    assert (refused.status_code, "not for a tool's result" in refused.text) == (422, True)
    (waiting,) = client.get("/api/waiting").json()["items"]
    assert waiting["kind"] == "approval"


def test_the_tools_of_a_front_end_that_cannot_be_offered(client: httpx.Client) -> None:
    for tool_, why in (
        (Tool(name="refund", description=""), "two tools called refund"),
        (Tool(name="a b", description=""), "cannot be called 'a b'"),
        (Tool(name="show", description="", parameters={"type": "array"}), "not a JSON schema of an object"),
        (Tool(name="show", description="", parameters={"properties": {"page": 3}}), "not a JSON schema of an object"),
    ):
        refused = client.post("/ag-ui/shop", json=body("hi", "r1", tools=[tool_]))
        assert (refused.status_code, why in refused.text) == (422, True), refused.text
    alone = body("", "r1", messages=[ToolMessage(id="t", tool_call_id="c", content="x")])
    assert "no run" in client.post("/ag-ui/shop", json=alone).text


def test_the_context_is_read_with_the_message_and_the_state_comes_back(client: httpx.Client) -> None:
    context = [Context(description="the basket", value="kiwis")]
    events = run(client, body("apples", "r1", context=context, state={"theme": "dark"}))
    assert text(events) == "Heard apples, kiwis."
    (snapshot,) = [event["snapshot"] for event in events if event["type"] == "STATE_SNAPSHOT"]
    assert snapshot == {"theme": "dark"}


def test_calls_of_the_front_end_wait_together(database: Path) -> None:
    def show_both(messages: Any) -> str:
        if "shown 2" in str(messages):
            return answer("Settled.")
        return call_tool(("show", {"page": "1"}), ("show", {"page": "2"}))

    with Served(database, OPEN, agents=[Held().agent("shop", show_both)]) as served, served.client() as client:
        events = run(client, body("show both", "r1", tools=[SHOW]))
        calls = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
        results = [ToolMessage(id=f"t{n}", tool_call_id=call, content=f"shown {n}") for n, call in enumerate(calls, 1)]
        rest = run(client, body("", "r2", messages=results, tools=[SHOW]))
        assert (len(calls), text(rest)) == (2, "Settled.")
        made = client.get(f"/api/tasks/{rest[-1]['result']['task_id']}").json()["calls"]
    assert [call["outcome"] for call in made] == [{"success": "shown 1"}, {"success": "shown 2"}]


@pytest.mark.parametrize(
    "changed",
    [
        {"tools": [SHOW]},
        {"context": [Context(description="the basket", value="kiwis")]},
        {"forwarded_props": {"mode": "react"}},
    ],
)
def test_a_run_id_is_of_one_request(client: httpx.Client, changed: Json) -> None:
    first = run(client, body("apples", "r1"))
    assert run(client, body("apples", "r1"))[-1]["result"] == first[-1]["result"]
    other = client.post("/ag-ui/shop", json=body("apples", "r1", **changed))
    assert (other.status_code, other.json()["error"]["type"]) == (409, "KeyUsed")
