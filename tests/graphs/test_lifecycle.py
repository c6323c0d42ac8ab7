"""The lifecycle graph on scripted models, in memory and on SQLite."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from langgraph.runtime import RunControl, Runtime

import segue
from segue.core.agents import Budget
from segue.core.calls import CallKey, Claim
from segue.core.context import RunContext
from segue.core.errors import UnknownMemory
from segue.graphs.lifecycle import build_lifecycle
from segue.nodes.lifecycle import LifecycleState, executing, scheduling
from segue.prompts.catalogue import error_text
from segue.tools.registry import tool
from tests.fakes import MemoryLedger, ScriptedChatModel, answer, call_tool
from tests.graphs.conftest import Make


def tasks(*items: dict[str, Any]) -> str:
    return json.dumps({"tasks": list(items)})


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "description": f"do {name}", "dependencies": list(needs), **more}


async def test_the_model_writes_the_tasks_and_react_carries_them_out(bed: Make) -> None:
    script = [
        tasks(task("a"), task("b", "a")),
        call_tool(("double", {"number": 3})),
        answer("six"),
        answer("six it is"),
    ]
    with (test := bed(build_lifecycle, script)).model:
        out = await test.send("double three")
    result = out["result"]
    assert (result["mode"], result["success"], result["answer"]) == ("lifecycle", True, "six it is")
    assert result["reasoning"]["tools_used"] == ["double"] and result["usage"]["calls"] == 4
    assert [(step["step_id"], step["status"]) for step in result["plan"]] == [("a", "done"), ("b", "done")]
    assert [entry["step"] for entry in result["history"]] == ["a"]
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "ai"]
    assert [e["data"]["event_type"] for e in test.of_type("lifecycle")] == [
        "state_changed", "state_changed", "context_received", "state_changed", "task_decomposed", "state_changed",
        "task_scheduled", "task_scheduled", "state_changed", "task_started", "task_completed", "task_started",
        "task_completed", "state_changed", "engine_completed",
    ]  # fmt: skip
    assert [(e["step_id"], e["data"]["status"]) for e in test.of_type("step_update")] == [
        ("a", "running"), ("a", "done"), ("b", "running"), ("b", "done"),
    ]  # fmt: skip
    assert test.types.count("answer") == test.types.count("task_complete") == test.types.count("plan_update") == 1


async def test_what_a_task_does_is_told_with_its_step_and_is_no_answer_of_the_whole(bed: Make) -> None:
    script = [tasks(task("a")), call_tool(("double", {"number": 3})), answer("six")]
    test = bed(build_lifecycle, script)
    await test.send("double three")
    assert {e["step_id"] for e in test.of_type("tool_result")} == {"a"}
    written = [(d.type, d.step_id) for d in test.deltas if "six" in str(d.data.get("content"))]
    assert written == [("thinking", "a"), ("token", "")]


async def test_a_second_turn_begins_anew_and_knows_what_was_said(bed: Make) -> None:
    script = [tasks(task("a")), answer("blue"), tasks(task("b")), answer("red")]
    test = bed(build_lifecycle, script)
    await test.send("the first colour")
    out = await test.send("another")
    assert [step["step_id"] for step in out["result"]["plan"]] == ["b"]
    assert out["result"]["usage"]["calls"] == 2
    assert "the first colour" in str(test.model.calls[2][0].content)
    assert "the first colour" in str(test.model.calls[3]) and "blue" in str(test.model.calls[3])
    assert [message.text for message in out["messages"]] == ["the first colour", "blue", "another", "red"]


async def test_a_task_sees_the_conversation_and_the_calls_that_were_made_in_it(bed: Make) -> None:
    script = [tasks(task("a")), call_tool(("note", {"text": "my number is 4471"})), answer("noted")]
    test = bed(build_lifecycle, [*script, tasks(task("b"), task("c", "b")), answer("red"), answer("4471")])
    await test.send("note my number, 4471")
    out = await test.send("another colour, then my number")
    for asked in test.model.calls[4:]:
        assert "note my number, 4471" in str(asked) and "my number is 4471" in str(asked)
    calls = [message for message in out["messages"] if message.type == "tool"]
    assert len(calls) == 1 and out["result"]["answer"] == "4471"


@pytest.mark.parametrize(
    "node", ["RECEIVING", "DECOMPOSING", "SCHEDULING", "EXECUTING", "EXECUTE_SUBTASK", "CALL_TOOL"]
)
async def test_paused_behind_any_node_it_goes_on_without_repeating(bed: Make, node: str) -> None:
    script = [tasks(task("a"), task("b", "a")), call_tool(("note", {"text": "x"})), answer("one"), answer("two")]
    with (test := bed(build_lifecycle, script)).model:
        test.pause_after = node
        assert await test.send("go") == {}
        out = await test.resume()
    assert out["result"]["success"] and out["result"]["answer"] == "two"
    assert out["result"]["reasoning"]["tools_used"] == ["note"]


@pytest.mark.parametrize("node", [scheduling, executing(1)])
async def test_a_phase_that_finds_a_pause_asked_for_begins_nothing(node: Any) -> None:
    control = RunControl()
    control.request_drain("pause")
    state: LifecycleState = {"steps": []}  # type: ignore[typeddict-item]
    assert await node(state, Runtime(context=RunContext(), control=control)) == {"held": True}


async def test_a_spent_budget_of_time_ends_the_run_with_what_was_done(bed: Make) -> None:
    script = [tasks(task("a"), task("b")), answer("one")]
    test = bed(build_lifecycle, script, budget=Budget(seconds=100))
    clock = test.services.clock
    spent = [False]
    test.services.clock = lambda: clock() + (1000 if spent[0] else 0)
    test.model._script[1] = lambda messages: (spent.__setitem__(0, True), answer("one"))[1]
    out = await test.send("go")
    assert out["result"]["success"] is False
    assert "time limit of 100 seconds" in out["result"]["error"] and "one" in out["result"]["answer"]
    assert test.of_type("lifecycle")[-1]["data"]["details"]["phase"] == "executing"


async def test_what_a_person_adds_reaches_the_tasks_that_come_and_the_history(bed: Make) -> None:
    script = [tasks(task("a"), task("b", "a")), answer("one"), answer("two")]
    test = bed(build_lifecycle, script)
    test.pause_after = "EXECUTING"
    await test.send("go")
    test.notes.append("in French, please")
    out = await test.resume()
    assert "in French, please" in str(test.model.calls[-1])
    assert [m.text for m in out["messages"] if m.type == "human"] == ["go", "in French, please"]


async def test_the_native_protocol_carries_tasks_out_as_well(bed: Make) -> None:
    from langchain_core.messages import AIMessage

    call = AIMessage("", tool_calls=[{"id": "c", "name": "double", "args": {"number": 2}, "type": "tool_call"}])
    script = [tasks(task("a"), task("b", "a")), call, AIMessage("four"), AIMessage("it is four")]
    with (test := bed(build_lifecycle, script, protocol="native")).model:
        out = await test.send("double two")
    assert out["result"]["answer"] == "it is four"
    assert "four" in str(test.model.calls[3][1].content)


async def test_the_agents_own_tools_are_the_context_where_there_is_no_coordinator(bed: Make) -> None:
    test = bed(build_lifecycle, [tasks(task("a")), answer("x")])
    await test.send("go")
    (received,) = [e for e in test.of_type("lifecycle") if e["data"]["event_type"] == "context_received"]
    assert received["data"]["details"]["tools"] == [
        "double: Double a number.",
        "note: Write a note down.",
        "fail: Fail.",
    ]
    assert "double: Double a number." in str(test.model.calls[0][0].content)


@pytest.mark.parametrize(
    ("goal", "said"), [("pay it", "pay may or may not have taken effect"), ("付款", "pay 是否已经生效并不清楚")]
)
async def test_a_task_says_which_of_its_calls_may_or_may_not_have_taken_effect(bed: Make, goal: str, said: str) -> None:
    @tool
    def pay(order: int) -> str:
        """Pay an order."""
        return "paid"

    script = [tasks(task("a"), task("b", "a")), call_tool(("pay", {"order": 1})), answer("all paid"), answer("the end")]
    with (test := bed(build_lifecycle, script, tools=(pay,))).model:
        test.services.ledger = CutOff()
        out = await test.send(goal)
    told = [e["data"]["details"] for e in test.of_type("lifecycle") if e["data"]["event_type"] == "task_completed"]
    assert told[0]["result"].startswith("all paid\n\n") and said in told[0]["result"]
    assert told[1]["result"] == "the end"
    assert out["result"]["answer"].startswith("the end\n\n") and out["result"]["answer"].count(said) == 1
    assert [s["status"] for s in out["result"]["plan"]] == ["done", "done"]


async def test_the_error_of_a_task_is_in_the_runs_language(bed: Make) -> None:
    def fail(messages: Any) -> str:
        raise UnknownMemory("list.md")

    test = bed(build_lifecycle, [tasks(task("a")), fail])
    out = await test.send("看一下清单")
    why = error_text(UnknownMemory("list.md"), "zh")
    assert out["result"]["plan"][0]["note"] == why and why in out["result"]["error"]


@pytest.mark.parametrize(("language", "said"), [("en", "no user message"), ("zh", "消息无法发送")])
async def test_why_there_is_nothing_to_do_is_in_the_agents_language(bed: Make, language: str, said: str) -> None:
    test = bed(build_lifecycle, [], language=language)
    out = await test.start({"messages": []})
    assert said in out["result"]["error"]


class CutOff(MemoryLedger):
    """A ledger that a killed process has left with every call under way."""

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        await super().claim(key, name, arguments, synced=synced)
        return Claim("interrupted")


async def test_in_the_thinking_an_answer_of_a_subtask_is_glued_to_nothing() -> None:
    split = tasks(task("a"), task("b"))
    model = ScriptedChatModel([split, answer("one", thought="I know"), answer("two", thought="I know, too")])
    agent = segue.Agent(agent_id="a", model=model, mode="lifecycle", protocol="json", tools=[])
    async with segue.open(":memory:", agents=[agent]) as app:
        events = [event async for event in app.chat("do both", agent="a")]
    lines = "".join(event.data["content"] for event in events if event.type == "thinking").splitlines()
    assert {"I know", "one", "I know, too", "two"} <= {*lines}
    assert [line for line in lines if "━" in line and set(line) != {"━"}] == []
