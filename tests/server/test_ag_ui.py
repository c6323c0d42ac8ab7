"""Runs over AG-UI, checked by the protocol's models and a validator: tools, approval, questions, pauses, restarts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui.core import AssistantMessage, Context, Event, FunctionCall, RunAgentInput, Tool, ToolMessage, UserMessage
from ag_ui.core import ToolCall as MadeCall
from ag_ui_validate.pytest_plugin import assert_valid_agui
from jsonpatch import apply_patch
from langgraph.graph import START, StateGraph
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from segue.core.agents import Agent
from segue.core.flows import BranchConfig, FlowConfig
from segue.tools.registry import tool
from tests.fakes import ScriptedChatModel, answer, call_tool, choose, plan_json
from tests.modes import agent_that, native_call
from tests.polling import wait_until

from .serving import ALPHA, BETA, KEYS, Held, Json, Served, ServerSettings
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


EVENT: TypeAdapter[Event] = TypeAdapter(Event)


ANNOUNCED_BEFORE = {"AGUI207": "off"}
"""The validator knows one run; the call of an approval is announced by one, and its result comes in the next."""


def run(
    client: httpx.Client, form: Json, agent: str = "shop", rules: dict[str, str] | None = None, **options: Any
) -> list[Json]:
    """The events of a run, which are the protocol's, without other fields, and break no rule of it."""
    answered = client.post(f"/ag-ui/{agent}", json=form, **options)
    assert answered.status_code == 200, answered.text
    events = [json.loads(line.removeprefix("data: ")) for line in answered.text.splitlines() if line.startswith("data")]
    assert_valid_agui(events, severity_overrides=rules)
    for event in events:
        assert EVENT.validate_python(event).model_extra == {}
    return events


def states(events: list[Json]) -> list[Json]:
    """The state after its snapshot, and after each delta."""
    found: list[Json] = []
    for event in events:
        if event["type"] == "STATE_SNAPSHOT":
            found.append(event["snapshot"])
        elif event["type"] == "STATE_DELTA":
            found.append(apply_patch(found[-1], event["delta"]))
    return found


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
    events = run(client, body("帮我规划一个北京3日游", "r1", forwarded_props={"mode": "plan"}), "travel")
    first, *_, last = states(events)
    assert "plan" not in first and types(events).count("STATE_SNAPSHOT") == 1
    assert {step["status"] for step in last["plan"]["steps"]} == {"done"}
    assert last["task"] == {"task_id": events[-1]["result"]["task_id"], "status": "done", "mode": "plan"}
    statuses = {state["plan"]["steps"][0]["status"] for state in states(events) if "plan" in state}
    assert {"pending", "running", "done"} <= statuses


@tool(needs_approval=True, keywords=("refund",))
def pay_back(amount: int = 5) -> str:
    """Pay money back."""
    return f"refunded {amount}"


def test_a_run_that_goes_on_has_the_plan_from_its_beginning(database: Path) -> None:
    planner = Agent(agent_id="shop", model="offline", tools=(pay_back,), mode="plan")
    with Served(database, OPEN, agents=[planner]) as served, served.client() as client:
        first = run(client, body("please refund it", "r1"))
        second = run(client, resumed(first, "r2", {"approved": True}))
    assert types(second)[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert states(first)[-1]["task"]["status"] == "waiting"
    plans = [state["plan"]["steps"] for state in states(second)]
    assert [step["status"] for step in plans[0]] == ["pending", "pending"]
    assert {step["status"] for step in plans[-1]} == {"done"}


@pytest.mark.parametrize(
    ("payload", "status", "ran"),
    [
        ({"approved": True}, "resolved", 1),
        ({"approved": True, "editedArgs": {"amount": 4}}, "resolved", 1),
        ({"approved": False, "reason": "yes"}, "resolved", 0),
        (None, "cancelled", 0),
    ],
)
def test_an_approval_is_an_interrupt(client: httpx.Client, payload: Any, status: str, ran: int) -> None:
    events = run(client, body("please refund", "r1"))
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("tool_call", "Approve refund(amount=5)?")
    started = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    assert [interrupt["toolCallId"]] == started
    answer = resumed(events, "r2", payload, status)
    after = run(client, answer)
    assert text(after) == "Settled, 好的."
    ended = [event["toolCallId"] for event in after if event["type"] == "TOOL_CALL_RESULT"]
    assert started == ended
    assert run(client, answer)[-1] == {**after[-1], "timestamp": pytest.approx(after[-1]["timestamp"], abs=60_000)}
    trace = client.get(f"/api/tasks/{after[-1]['result']['task_id']}").json()
    changed = (payload or {}).get("editedArgs") or {"amount": 5}
    assert [call["arguments"] for call in trace["calls"]] == [changed] * ran
    closed = client.post("/ag-ui/shop", json=resumed(events, "r3", payload, status))
    assert (closed.status_code, closed.json()["error"]["type"]) == (409, "QuestionClosed")


def test_a_question_is_answered_in_resume(client: httpx.Client) -> None:
    events = run(client, body("paint it", "r1", forwarded_props={"mode": "controller"}))
    assert events[-1]["outcome"]["interrupts"][0]["message"] == "Which colour?"
    assert text(run(client, resumed(events, "r2", {"answer": "blue"}))) == "It is blue."


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
    assert events[-1]["outcome"]["interrupts"][0]["reason"] == "segue:paused"
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
        stolen = client.post("/ag-ui/shop", json=resumed(events, "r2", {"approved": True}), headers=BETA)
        assert stolen.status_code == 422 and "no run" in stolen.json()["error"]["message"]
        answered = run(client, resumed(events, "r2", {"approved": True}), headers=ALPHA)
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
    assert "TOOL_CALL_RESULT" not in types(events)
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [call["toolCallId"]]}
    with Served(database, OPEN, agents=[shop(held)]) as served, served.client() as client:
        other = result_of(events, "r2", "shown the cart")
        other["messages"][0]["toolCallId"] = "none"
        refused = client.post("/ag-ui/shop", json=other)
        assert (refused.status_code, "No call 'none'" in refused.text) == (404, True)
        rest = run(client, result_of(events, "r2", "shown the cart"))
        assert text(rest) == "Settled, 好的." and "TOOL_CALL_START" not in types(rest)
        assert text(run(client, result_of(events, "r3", "shown the cart"))) == "Settled, 好的."
        other = client.post("/ag-ui/shop", json=result_of(events, "r4", "shown nothing"))
        assert (other.status_code, "already has a result" in other.text) == (409, True)
        calls = client.get(f"/api/tasks/{rest[-1]['result']['task_id']}").json()["calls"]
        assert [(each["name"], each["outcome"]) for each in calls] == [("show", {"success": "shown the cart"})]


@pytest.mark.parametrize(
    ("content", "more", "fields", "what"),
    [
        ("", [], {}, "it returned nothing"),
        ("", [], {"error": "no such page"}, "reports an error: no such page"),
        ("shown", [UserMessage(id="m", content="kiwis")], {}, "shown"),
    ],
)
def test_what_the_front_end_brings_of_its_call(
    client: httpx.Client, content: str, more: list[UserMessage], fields: Json, what: str
) -> None:
    events = run(client, body("please show", "r1", tools=[SHOW]))
    rest = run(client, result_of(events, "r2", content, *more, **fields))
    (call, *_) = client.get(f"/api/tasks/{rest[-1]['result']['task_id']}").json()["calls"]
    assert what in call["outcome"]["success"]


@pytest.mark.parametrize(
    "reload",
    [
        lambda asked: {"messages": asked["messages"]},
        lambda asked: {
            "messages": [*asked["messages"], {"id": "r1:call", "role": "assistant", "content": "I refund."}]
        },
        lambda asked: {"messages": []},
        lambda asked: {"messages": body("yes", "r2")["messages"]},
        lambda asked: {"messages": [*asked["messages"], *body("no", "r2")["messages"]]},
    ],
    ids=["reload", "reload-with-reply", "reload-without-messages", "yes", "no"],
)
def test_a_run_without_resume_shows_the_question_again(client: httpx.Client, reload: Any) -> None:
    """A page that is loaded again sends what it has under another run id, which decides nothing."""
    asked = body("please refund", "r1")
    first = run(client, asked)
    again = run(client, {**asked, "runId": "r2", **reload(asked)})
    assert again[-1]["outcome"] == first[-1]["outcome"]
    task_id = first[-1]["result"]["task_id"]
    said = [each["content"] for each in client.get("/api/sessions/t/history").json()["items"] if each["role"] == "user"]
    assert (again[-1]["result"]["task_id"], said) == (task_id, ["please refund"])
    assert text(run(client, resumed(again, "r3", {"approved": True}))) == "Settled, 好的."
    assert [call["arguments"] for call in client.get(f"/api/tasks/{task_id}").json()["calls"]] == [{"amount": 5}]


def test_a_message_that_comes_again_is_no_new_input(client: httpx.Client, held: Held) -> None:
    held.go.set()
    first = run(client, body("please hold", "r1"))
    same = {**body("please hold", "r1"), "runId": "r2"}
    assert run(client, same)[-1]["result"] == first[-1]["result"] and held.effects == ["one"]
    (asked, *_) = next(event for event in run(client, body("hi", "r3")) if event["type"] == "MESSAGES_SNAPSHOT")[
        "messages"
    ]
    given = run(client, {**same, "runId": "r4", "messages": [asked]})
    assert given[-1]["result"] == first[-1]["result"] and held.effects == ["one"]
    edited = {**same, "runId": "r5", "messages": [{**same["messages"][0], "content": "apples"}]}
    assert run(client, edited)[-1]["result"] != first[-1]["result"]


def test_a_call_of_the_front_end_that_waits_is_announced_again(client: httpx.Client) -> None:
    asked = body("please show", "r1", tools=[SHOW])
    first, again = run(client, asked), run(client, {**asked, "runId": "r2"})
    assert again[-1]["outcome"] == first[-1]["outcome"] and "TOOL_CALL_START" in types(again)
    assert text(run(client, result_of(again, "r3", "shown the cart"))) == "Settled, 好的."


def test_a_decision_is_about_the_question_that_its_client_was_shown(client: httpx.Client) -> None:
    first = run(client, body("refund twice", "r1"))
    task_id = client.get("/api/waiting").json()["items"][0]["task_id"]
    client.post(f"/api/tasks/{task_id}/answer", json={"verdicts": "approve"}).raise_for_status()  # a colleague
    wait_until(lambda: "500" in client.get("/api/waiting").text)
    late = client.post("/ag-ui/shop", json=resumed(first, "r2", {"approved": True}))
    assert (late.status_code, late.json()["error"]["type"]) == (409, "QuestionClosed")
    assert len(client.get(f"/api/tasks/{task_id}").json()["calls"]) == 1
    shown = run(client, {**body("refund twice", "r1"), "runId": "r3"})
    assert shown[-1]["outcome"]["interrupts"][0]["message"] == "Approve refund(amount=500)?"
    assert text(run(client, resumed(shown, "r4", {"approved": True}))) == "Settled, 好的."


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
        (Tool(name="a b", description=""), "'a b' is not valid"),
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
    assert states(events)[-1]["theme"] == "dark" and states(events)[-1]["memory"] == []
    later = run(client, body("pears", "r2", state={**states(events)[-1], "plan": {}}))
    assert states(later)[-1].keys() == {"theme", "task", "memory"}


def test_system_messages_and_a_schema_of_the_answer_reach_the_model(database: Path) -> None:
    model = ScriptedChatModel([lambda _: '{"fruit": "plums"}'])
    form = body("plums", "r1", forwarded_props={"responseSchema": {"type": "object", "required": ["fruit"]}})
    form["messages"].insert(0, {"id": "m0", "role": "system", "content": "Be brief."})
    shop = Agent(agent_id="shop", model=model, mode="direct")
    with Served(database, OPEN, agents=[shop]) as served, served.client() as client:
        assert json.loads(text(run(client, form))) == {"fruit": "plums"}
        wrong = {**form, "runId": "r2", "forwardedProps": {"responseSchema": {"type": "what"}}}
        refused = client.post("/ag-ui/shop", json=wrong)
        assert (refused.status_code, "responseSchema" in refused.text) == (422, True)
    assert "Be brief." in [message.content for message in model.calls[0] if message.type == "system"]


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


def snapshot(events: list[Json]) -> list[tuple[str, Any]]:
    """The roles and contents of the messages of the one snapshot."""
    (sent,) = [event["messages"] for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    return [(message["role"], message["content"]) for message in sent]


def test_a_new_client_is_given_the_messages_of_the_thread(client: httpx.Client) -> None:
    assert "MESSAGES_SNAPSHOT" not in types(run(client, body("apples", "r1")))
    turn = [("user", "apples"), ("assistant", "Heard apples.")]
    asked = run(client, body("please refund", "r2"))
    assert snapshot(asked) == [*turn, ("user", "please refund")]
    settled = run(client, {**resumed(asked, "r3", {"approved": True}), "messages": []})
    assert snapshot(settled) == [*turn, ("user", "please refund")]
    assert types(settled).count("TOOL_CALL_START") == 1


def test_a_call_that_the_client_has_is_not_announced_again(client: httpx.Client) -> None:
    asked = run(client, body("please refund", "r1"))
    (call_id,) = [event["toolCallId"] for event in asked if event["type"] == "TOOL_CALL_START"]
    call = MadeCall(id=call_id, function=FunctionCall(name="refund", arguments="{}"))
    answer = resumed(asked, "r2", {"approved": True})
    answer["messages"].append(
        json.loads(AssistantMessage(id=call_id, tool_calls=[call]).model_dump_json(by_alias=True))
    )
    after = run(client, answer, rules=ANNOUNCED_BEFORE)
    assert "TOOL_CALL_START" not in types(after) and "MESSAGES_SNAPSHOT" not in types(after)
    assert [event["toolCallId"] for event in after if event["type"] == "TOOL_CALL_RESULT"] == [call_id]


def test_a_stream_that_broke_off_is_followed_again_without_what_it_had_sent(client: httpx.Client) -> None:
    first = run(client, body("apples", "r1"))
    form = body("apples", "r1")
    (begun,) = {event["messageId"] for event in first if event["type"] == "TEXT_MESSAGE_START"}
    form["messages"].append({"id": begun, "role": "assistant", "content": "Heard a"})
    again = run(client, form)
    assert again[-1]["result"] == first[-1]["result"]
    assert snapshot(again) == [("user", "apples")]
    assert begun not in {event["messageId"] for event in again if event["type"] == "TEXT_MESSAGE_START"}


def test_each_call_of_an_approval_is_an_interrupt(database: Path) -> None:
    def pay_twice(messages: Any) -> str:
        if "rejected" in str(messages):
            return answer("Settled.")
        return call_tool(("refund", {"amount": 1}), ("refund", {"amount": 2}))

    agent = Held().agent("shop", pay_twice, tools=(refund,))
    with Served(database, OPEN, agents=[agent]) as served, served.client() as client:
        events = run(client, body("pay both", "r1"))
        interrupts = events[-1]["outcome"]["interrupts"]
        assert [each["message"] for each in interrupts] == [f"Approve refund(amount={n})?" for n in (1, 2)]
        entries = [
            {"interruptId": each["id"], "status": "resolved", "payload": {"approved": n == 0}}
            for n, each in enumerate(interrupts)
        ]
        for given, why in (
            (entries[:1], "one entry for each interrupt"),
            ([entries[0], {**entries[1], "payload": {"verdict": "approve"}}], '{"approved": true}'),
        ):
            refused = client.post("/ag-ui/shop", json=body("", "r2", resume=given))
            assert (refused.status_code, why in refused.json()["error"]["message"]) == (422, True), refused.text
        rest = run(client, body("", "r2", resume=entries))
        assert text(rest) == "Settled."
        (call,) = client.get(f"/api/tasks/{rest[-1]['result']['task_id']}").json()["calls"]
    assert call["outcome"] == {"success": "refunded 1"}


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


PAY = ("pay_back", {"amount": 5})


@pytest.mark.parametrize("mode", ["native", "plan", "controller"])  # whose calls have ids, none, and a step's
def test_an_approval_names_its_call_in_every_mode(mode: str, database: Path) -> None:
    payer = agent_that(mode, PAY, agent_id="shop", tools=(pay_back,))
    with Served(database, OPEN, agents=[payer]) as served, served.client() as client:
        asked = run(client, body("pay it", "r1"))
        announced = [event["toolCallId"] for event in asked if event["type"] == "TOOL_CALL_START"]
        (interrupt,) = asked[-1]["outcome"]["interrupts"]
        assert (interrupt["reason"], [interrupt["toolCallId"]]) == ("tool_call", announced)
        paid = run(client, resumed(asked, "r2", {"approved": True}))
    (result,) = [event for event in paid if event["type"] == "TOOL_CALL_RESULT"]
    assert (result["toolCallId"], result["content"]) == (interrupt["toolCallId"], '{"success":"refunded 5"}')
    assert states(paid)[-1]["task"]["status"] == "done"


def test_an_agent_that_works_for_a_flow_is_a_subagent_also_where_it_waits(database: Path) -> None:
    clerk = Agent(agent_id="clerk", model=ScriptedChatModel([call_tool(PAY), answer("looked")]), tools=(pay_back,))
    broken = Agent(agent_id="broken", model=ScriptedChatModel(reply), mode="direct")
    script = [
        plan_json("g", [{"description": "look"}]),
        choose("clerk", goal="look"),
        choose("broken", goal="please fail"),
        choose("finish", summary="ok"),
    ]
    branches = {name: BranchConfig(agent=name, description=f"A {name} one") for name in ("clerk", "broken")}
    desk = FlowConfig(name="desk", subflows_config={"Executor": {"branches": branches}})
    shop = Agent(agent_id="shop", model=ScriptedChatModel(script), mode="desk")
    with (
        Served(database, OPEN, agents=[shop, clerk, broken], modes={"desk": desk}) as served,
        served.client() as client,
    ):
        asked = run(client, body("look", "r1"))
        events = run(client, resumed(asked, "r2", {"approved": True}), rules=ANNOUNCED_BEFORE)
    about = [event for event in [*asked, *events] if event["type"].startswith("SUBAGENT")]
    assert [event["type"].removeprefix("SUBAGENT_") for event in about] == [
        "STARTED", "FINISHED", "STARTED", "FINISHED", "STARTED", "ERROR",
    ]  # fmt: skip
    suspended, ended = about[1], about[3]
    assert len({event["subagentRunId"] for event in about[:4]}) == 1
    assert (about[0]["name"], suspended["outcome"]["type"]) == ("clerk", "suspended")
    assert "looked" in str(ended["result"]) and about[4]["name"] == "broken"


class Looked(TypedDict, total=False):
    """What a graph is asked, and says."""

    goal: str
    result: str


def test_a_graph_that_works_for_a_flow_is_an_activity(database: Path) -> None:
    graph = StateGraph(Looked)
    graph.add_node("look", lambda state: {"result": f"looked for {state['goal']}"})
    graph.add_edge(START, "look")
    script = [plan_json("g", [{"description": "look"}]), choose("lookup", goal="tea"), choose("finish", summary="ok")]
    branches = {"lookup": BranchConfig(graph=graph.compile(), description="Looks it up")}
    desk = FlowConfig(name="desk", subflows_config={"Executor": {"branches": branches}})
    shop = Agent(agent_id="shop", model=ScriptedChatModel(script), mode="desk")
    with Served(database, OPEN, agents=[shop], modes={"desk": desk}) as served, served.client() as client:
        events = run(client, body("look", "r1"))
    (begun,) = [event for event in events if event["type"] == "ACTIVITY_SNAPSHOT"]
    (ended,) = [event for event in events if event["type"] == "ACTIVITY_DELTA"]
    content = apply_patch(begun["content"], ended["patch"])
    assert (begun["messageId"], content["branch"], content["kind"]) == (ended["messageId"], "lookup", "graph")
    assert "looked for tea" in str(content["result"])


@pytest.mark.parametrize("then", ["message", "regenerate", "retry"])
def test_a_client_that_disconnects_stops_its_run(held: Held, database: Path, then: str) -> None:
    """No call that it had decided runs any more, unless the same run is sent again."""
    work = native_call(("1", "hold", {}), ("2", "note", {"name": "two"}))
    script = [work, work, "Answered."] if then == "regenerate" else [work, "Answered."]
    agents = [held.agent("shop", script, protocol="native")]
    with Served(database, OPEN, agents=agents) as served, served.client() as client:
        with client.stream("POST", "/ag-ui/shop", json=body("please work", "r1")) as response:
            task_id = response.headers["x-task-id"]
            held.begun.wait(60)
        wait_until(lambda: served.do(served.service.app.task(task_id)).requested == "stop")
        held.go.set()
        wait_until(lambda: client.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "paused")
        form = body("never mind", "r2") if then == "message" else body("please work", "r1")
        again = run(client, {**form, "runId": "r1" if then == "retry" else "r2"})
        assert text(again) == "Answered." and again[-1]["outcome"] == {"type": "success"}
        status = client.get(f"/api/tasks/{task_id}").json()["task"]["status"]
        assert (again[-1]["result"]["task_id"] == task_id, status) == (
            (True, "done") if then == "retry" else (False, "cancelled")
        )
    assert held.effects == {"message": ["one"], "regenerate": ["one", "one", "two"], "retry": ["one", "two"]}[then]
