"""The recursive ReAct machine."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import BaseMessage

from segue import Agent, Event, load_agents, tool
from segue.app import App
from segue.server.views import Recursion
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer, call_tool, plan, plan_json, remend
from tests.loopback import LengthCut, LoopbackServer, Scripted, Text, ToolCalls
from tests.loopback_wire import Wire
from tests.server.serving import Served
from tests.server.serving import chat as converse

from .conftest import Chat

asked: list[str] = []


def lookup(city: str) -> str:
    """Look up the weather."""
    asked.append(city)
    return f"sunny in {city}"


def first_call(protocol: str) -> list[Scripted]:
    call = ToolCalls([("c", "lookup", '{"city": "Beijing"}')])
    return [call if protocol == "native" else Text(call_tool(("lookup", {"city": "Beijing"})))]


async def test_an_agent_bounds_and_extends_its_requests_also_from_a_file(app: App, tmp_path: Path) -> None:
    async with LoopbackServer([Text(answer("yes"))]) as server:
        (tmp_path / "agents.toml").write_text(f"""
            [[agent]]
            agent_id = "a"
            model = "openai:x"
            base_url = "{server.base_url}"
            api_key = "k"
            mode = "react"
            max_tokens = 77
            reasoning_effort = "low"
            extra_body = {{ top_k = 5 }}
        """)
        app.register(*load_agents(tmp_path / "agents.toml"))
        await app.ask("go", agent="a")
    (sent,) = server.requests
    assert (sent.body["max_tokens"], sent.body["reasoning_effort"], sent.body["top_k"]) == (77, "low", 5)
    assert sent.body["response_format"]["type"] == "json_schema"


@dataclass(frozen=True)
class Whole:
    """A reply in one piece where a stream was requested."""

    media_type: str

    def play(self, wire: Wire) -> None:
        message = {"role": "assistant", "content": answer("in one piece")}
        reply = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        wire.raw(200, self.media_type, json.dumps(reply).encode())


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream", "text/plain"])
async def test_a_json_response_to_a_streaming_request_is_read(chat: Chat, media_type: str) -> None:
    talk = await chat([Whole(media_type)], mode="react")
    assert talk.result["answer"] == talk.text("token") == "in one piece"


PROSE = "It is sunny in Beijing."


async def test_plain_prose_is_the_answer_after_three_unreadable_replies(chat: Chat) -> None:
    talk = await chat([Text('{"observe": '), Text(""), Text(PROSE)], mode="react")
    assert talk.result["answer"] == talk.text("token") == PROSE and talk.result["success"]
    assert talk.result["malformed"] is True
    assert "the text of the last one is the answer" in talk.of_type("error")[-1]["message"]


@cases("protocol", ["json", "native"])
@cases("last", [Text(""), LengthCut('{"action": {'), ToolCalls([("c", "lookup", '{"city"')])])
async def test_a_task_ends_with_what_it_found_after_three_unreadable_replies(
    chat: Chat, protocol: str, last: Scripted
) -> None:
    if protocol == "native" and isinstance(last, LengthCut):
        last = ToolCalls([("c", "lookup", '{"city": "Beijing"}')], finish_reason="length")
    talk = await chat([*first_call(protocol), *[last] * 3], mode="react", protocol=protocol, tools=(lookup,))
    assert not talk.result["success"] and "3 replies could not be read" in talk.result["error"]
    assert "sunny in Beijing" in talk.result["answer"]
    assert talk.text("token") == talk.result["answer"]


@pytest.mark.parametrize("protocol", ["json", "native"])
async def test_a_successful_call_runs_twice_and_then_its_result_is_returned(chat: Chat, protocol: str) -> None:
    asked.clear()
    last = Text(answer(PROSE)) if protocol == "json" else Text(PROSE)
    talk = await chat([*first_call(protocol) * 3, last], mode="react", protocol=protocol, tools=(lookup,))
    assert talk.result["answer"] == PROSE and asked == ["Beijing", "Beijing"]
    third = talk.of_type("tool_result")[2]["result"]
    assert third["success"] == "sunny in Beijing" and "answer with what you have" in third["repeated"]
    sent = json.dumps(talk.requests[-1].body["messages"])
    assert sent.count("answer with what you have") == 1


@tool
def double(number: int) -> dict[str, int]:
    """Double a number."""
    return {"doubled": number * 2}


@tool
def fail(reason: str) -> str:
    """Fail."""
    raise RuntimeError(reason)


PLANNED = [
    plan(["double it", "tell"], thought="two steps", observe="This is the first round."),
    call_tool(("double", {"number": 2}), step_id="1", observe="I see a plan."),
    answer("4", step_status_update=[{"step_id": "2", "status": "done"}], observe="I see 4."),
]


def scripted(app: App, script: Sequence[Any], **fields: Any) -> ScriptedChatModel:
    model = ScriptedChatModel(script)
    app.register(Agent(**{"agent_id": "a", "model": model, "mode": "react", "tools": (double, fail), **fields}))
    return model


async def chat_events(app: App, message: str = "go") -> list[Event]:
    return [event async for event in app.chat(message, agent="a")]


def of_type(events: Sequence[Event], kind: str) -> list[Mapping[str, Any]]:
    return [event.data for event in events if event.type == kind]


async def test_every_recursion_has_a_trace_id_of_its_own_and_every_event_the_ids(app: App) -> None:
    scripted(app, PLANNED)
    events = [event for event in await chat_events(app) if event.seq]
    assert len({event.task_id for event in events}) == 1
    rounds = [event for event in events if event.type == "recursion_start"]
    assert [event.iteration for event in rounds] == [1, 2, 3]
    assert len({UUID(event.trace_id).hex for event in rounds}) == 3
    assert {event.step_id for event in events if event.type in ("tool_call", "tool_result")} == {"1"}


async def test_a_task_is_traced_by_its_id_and_an_agents_tasks_are_listed(app: App) -> None:
    scripted(app, [*PLANNED, answer("later")])
    first = await app.ask("go", agent="a")
    second = await app.ask("and?", agent="a", session_id=first["session_id"])
    listed = await app.tasks.list(agent_id="a")
    assert [task.task_id for task in listed] == [second["task_id"], first["task_id"]]
    trace = await app.trace(first["task_id"])
    assert trace.task.message == "go"
    assert [call.outcome for call in trace.calls] == [{"success": {"doubled": 4}}]
    done = [event.type for event in trace.events]
    assert done.count("recursion_start") == 3 and done.count("plan_update") == 1


def test_a_page_can_read_the_recursions_the_plan_and_an_agents_tasks(tmp_path: Path) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel(PLANNED), mode="react", tools=(double,))
    with Served(tmp_path / "a.db", agents=[agent]) as served, served.client() as client:
        task_id = converse(client, "go", agent_id="a")[-1]["result"]["task_id"]
        recursions = client.get(f"/api/tasks/{task_id}/recursions").json()["items"]
        steps = client.get(f"/api/tasks/{task_id}/plan").json()["steps"]
        (task,) = client.get("/api/agents/a/tasks").json()["items"]
    actions = [(one["iteration"], one["action"]["action_type"]) for one in recursions]
    assert actions == [(1, "PLAN"), (2, "CALL_TOOL"), (3, "ANSWER")]
    assert recursions[0]["observe"] == "This is the first round."
    assert recursions[0].keys() == Recursion.model_fields.keys()
    assert [(step["step"], step["step_id"], step["status"]) for step in steps] == [(1, "1", "done"), (2, "2", "done")]
    assert task["task_id"] == task_id


async def test_the_stream_has_the_plan_and_its_steps_while_the_task_runs(app: App) -> None:
    awaited = {"plan_update": asyncio.Event(), "step 1 done": asyncio.Event()}

    @tool
    async def watch(name: str) -> str:
        """Wait until the client has seen an event."""
        await awaited[name].wait()
        return "seen"

    script = [plan(["one", "two"]), *(call_tool(("watch", {"name": name}), step_id="1") for name in awaited)]
    scripted(app, [*script, answer("ok")], tools=(watch,))
    async with asyncio.timeout(60):
        async for event in app.chat("go", agent="a"):
            name = f"step {event.step_id} {event.data['status']}" if event.type == "step_update" else event.type
            if name in awaited:
                awaited[name].set()
    assert event.data["new"] == "done"


async def test_the_limit_of_rounds_is_the_agents_with_a_default_of_30(app: App) -> None:
    assert Agent(agent_id="b").max_iteration == 30
    model = scripted(app, lambda sent: call_tool(("double", {"number": len(sent)})), max_iteration=3)
    result = await app.ask("go", agent="a")
    assert len(model.calls) == 3
    assert (result["success"], result["status"]) == (False, "error")
    assert "3" in result["error"] and "doubled" in result["answer"]


async def test_every_call_of_a_task_goes_to_the_agents_model(app: App) -> None:
    other = ScriptedChatModel([])
    app.register(Agent(agent_id="b", model=other))
    model = scripted(app, PLANNED)
    await app.ask("go", agent="a")
    model.assert_spent()
    assert other.calls == []


def state_of(sent: Sequence[BaseMessage]) -> dict[str, Any]:
    text = str(sent[1].content).removeprefix("You are exact.\n")
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return found


async def test_messages_are_the_request_the_state_and_one_record_a_recursion(app: App) -> None:
    model = scripted(app, PLANNED, prompt="You are exact.\n{{current_state}}")
    await app.ask("double two", agent="a")
    for number, sent in enumerate(model.calls, start=1):
        assert [message.type for message in sent] == ["human", "system", *["ai"] * (number - 1)]
        assert sent[0].content == "double two"
        assert str(sent[1].content).startswith("You are exact.\n{")
        assert str(sent).count("You are exact.") == 1
        assert state_of(sent)["global"]["iteration"] == number
    record = json.loads(str(model.calls[2][3].content))
    assert record["result"][0]["function"]["result"] == {"success": {"doubled": 4}}


async def test_a_plan_is_in_the_context_of_the_next_rounds_with_its_progress(app: App) -> None:
    model = scripted(app, PLANNED, prompt="You are exact.\n{{current_state}}")
    await app.ask("go", agent="a")
    plans = [state_of(sent)["context"]["plan"] for sent in model.calls]
    assert plans[0] == []
    assert [[step["status"] for step in steps] for steps in plans[1:]] == [["pending"] * 2, ["done", "pending"]]


async def test_a_new_plan_keeps_the_steps_that_are_done(app: App) -> None:
    again = plan([{"step_id": "2", "description": "write"}, {"step_id": "3", "description": "tell"}])
    scripted(app, [*PLANNED[:2], again, answer("4")])
    result = await app.ask("go", agent="a")
    assert [(step["step_id"], step["status"]) for step in result["plan"]][:2] == [("1", "done"), ("2", "pending")]


async def test_tool_calls_run_in_their_order_and_each_has_one_result(app: App) -> None:
    scripted(
        app, [call_tool(("double", {"number": 1}), ("fail", {"reason": "x"}), ("double", {"number": 3})), answer("-")]
    )
    events = await chat_events(app)
    results = [data["result"] for data in of_type(events, "tool_result")]
    assert [data["arguments"] for data in of_type(events, "tool_call")] == [
        {"number": 1},
        {"reason": "x"},
        {"number": 3},
    ]
    assert (results[0], results[2]) == ({"success": {"doubled": 2}}, {"success": {"doubled": 6}})
    assert results[1]["error"] == "RuntimeError: x"


async def test_a_failure_gives_its_stack_to_the_repair(app: App) -> None:
    repair = remend("use another tool", ("double", {"number": 3}))
    model = scripted(app, [call_tool(("fail", {"reason": "broken"})), repair, answer("6")])
    events = await chat_events(app)
    assert "RuntimeError: broken" in str(model.calls[1][2].content) and "in fail" in str(model.calls[1][2].content)
    assert [data["action_type"] for data in of_type(events, "action")] == ["CALL_TOOL", "REMEND", "ANSWER"]
    assert of_type(events, "task_complete")[-1]["result"]["answer"] == "6"


async def test_a_reply_that_is_not_valid_is_the_next_rounds_error_log(app: App) -> None:
    model = scripted(app, ['{"action": {"action_type": "JUMP", "output": {}}}', answer("ok")])
    result = await app.ask("go", agent="a")
    assert result["answer"] == "ok"
    assert "CALL_TOOL, PLAN, REMEND, ANSWER" in str(model.calls[1][2].content)


async def test_the_answer_ends_the_task(app: App) -> None:
    scripted(app, [answer("done", thought="enough")])
    events = await chat_events(app)
    assert [data["answer"] for data in of_type(events, "answer")] == ["done"]
    assert of_type(events, "task_complete")[-1]["result"]["success"] is True
    assert (await app.tasks.list(agent_id="a"))[0].status == "done"


@cases("protocol", ["json", "native"])
@cases(
    "name, arguments, error",
    [("eval", {"code": "1"}, 'There is no tool "eval"'), ("lookup", {"town": "Beijing"}, "city")],
)
async def test_the_same_invalid_call_ends_the_task_the_third_time(
    chat: Chat, protocol: str, name: str, arguments: dict[str, Any], error: str
) -> None:
    native = ToolCalls([("c", name, json.dumps(arguments))])
    call: Scripted = native if protocol == "native" else Text(call_tool((name, arguments)))
    talk = await chat([call] * 3, "weather?", tools=(lookup,), mode="react", protocol=protocol)
    assert talk.result["success"] is False
    assert f"the same call failed 3 times: {name} {json.dumps(arguments)}" in talk.result["error"]
    assert error in talk.result["error"] and "refused" not in talk.result["error"]
    (raised,) = [event for event in talk.of_type("error") if event["final"]]
    assert raised["message"] == talk.result["error"]


async def test_a_plan_that_is_carried_out_by_the_same_invalid_call_ends_too(chat: Chat) -> None:
    steps = [{"action": "lookup", "params": {"city": "Beijing"}, "description": "look"}]
    script = [Text(plan_json("the weather", steps)), *[Text(call_tool(("eval", {})))] * 3]
    talk = await chat(script, "weather?", tools=(lookup,), mode="plan_react")
    assert "the same call failed 3 times: eval {}" in talk.result["error"]


async def test_two_calls_that_fail_in_turn_end_the_task_the_third_time_of_one(chat: Chat) -> None:
    turn = [Text(call_tool(("eval", {}))), Text(call_tool(("lookup", {"town": "Beijing"})))]
    talk = await chat([*turn * 2, turn[0]], "weather?", tools=(lookup,), mode="react")
    assert talk.result["success"] is False
    assert "the same call failed 3 times: eval {}" in talk.result["error"]


async def test_a_failing_call_beside_one_that_succeeds_does_not_end_the_task(chat: Chat) -> None:
    rounds = [Text(call_tool(("eval", {}), ("lookup", {"city": f"city {n}"}))) for n in range(6)]
    talk = await chat([*rounds, Text(answer("six times sunny"))], "weather?", tools=(lookup,), mode="react")
    assert (talk.result["success"], talk.result["answer"]) == (True, "six times sunny")


async def test_a_failing_call_beside_one_that_is_only_repeated_ends_the_task(chat: Chat) -> None:
    same = Text(call_tool(("eval", {}), ("lookup", {"city": "Beijing"})))
    talk = await chat([same] * 5, "weather?", tools=(lookup,), mode="react")
    assert "the same call failed 3 times: eval {}" in talk.result["error"]
