"""The spans that a task's event log becomes."""

import asyncio
import json
import time
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import segue
from segue.core.agents import Agent, Budget
from segue.core.records import TaskTrace
from segue.telemetry.trace_export import TraceExport, resource, spans_of, trace_id_of
from tests.fakes import ScriptedChatModel, ScriptRanDry, answer, call_tool, plan_json
from tests.polling import until


@segue.tool(read_only=True)
def look_up(order: int) -> str:
    """Look an order up."""
    return f"the secret of order {order}"


@segue.tool(read_only=True)
def fail() -> None:
    """Fail."""
    raise ValueError("the secret reason")


@segue.tool(needs_approval=True)
def refund() -> str:
    """Refund an order."""
    return "refunded"


@segue.tool
def stall() -> None:
    """Take longer than it may."""
    time.sleep(1.5)


def agent(*script: Any, tool_seconds: float = 60) -> Agent:
    return Agent(
        agent_id="shop",
        model=ScriptedChatModel(script),
        tools=[look_up, fail, refund, stall],
        mode="react",
        budget=Budget(tool_seconds=tool_seconds),
    )


async def recorded(*script: Any, message: str = "the secret message", **limits: float) -> TaskTrace:
    """The trace of one task of an agent whose model says what the script says."""
    async with segue.open(":memory:", agents=[agent(*script, **limits)]) as app:
        result = await app.ask(message, agent="shop", session_id="ann")
        return await app.tasks.trace(result.task_id)


def by_name(spans: list[ReadableSpan]) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans}


def told(spans: list[ReadableSpan]) -> str:
    return json.dumps([json.loads(span.to_json()) for span in spans])


async def test_a_task_is_one_trace_of_its_model_calls_and_tool_calls() -> None:
    trace = await recorded(call_tool(("look_up", {"order": 7}), ("fail", {})), answer("the secret answer"))
    spans = spans_of(trace, resource())
    root, *children = spans
    assert [span.name for span in children] == [
        *("chat ScriptedChatModel", "execute_tool look_up", "execute_tool fail", "chat ScriptedChatModel")
    ]
    assert root.name == "invoke_agent shop" and root.parent is None
    assert {span.parent.span_id for span in children if span.parent} == {root.context.span_id}
    assert f"{root.context.trace_id:032x}" == trace.task.task_id.replace("-", "")
    assert len({span.context.span_id for span in spans}) == 5
    assert root.start_time is not None and root.end_time is not None
    for span in children:
        assert root.start_time <= (span.start_time or 0) <= (span.end_time or 0) <= root.end_time
    found = by_name(spans)
    chat, looked, failed = (
        dict(found[name].attributes or {}) for name in [children[0].name, children[1].name, children[2].name]
    )
    assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", "ScriptedChatModel")
    assert found["chat ScriptedChatModel"].kind == SpanKind.CLIENT
    assert (looked["gen_ai.tool.name"], looked["gen_ai.operation.name"]) == ("look_up", "execute_tool")
    assert looked["segue.iteration"] == 1 and "error.type" not in looked
    assert failed["error.type"] == "tool_error"
    assert found["execute_tool fail"].status.status_code == StatusCode.ERROR
    assert found["execute_tool look_up"].status.status_code == root.status.status_code == StatusCode.UNSET
    assert (root.attributes or {})["gen_ai.conversation.id"] == "ann"


async def test_each_attempt_of_a_step_has_the_id_that_the_ledger_has_for_it() -> None:
    plan = plan_json("look", [{"action": "fail", "params": {}, "description": "look"}])
    async with segue.open(":memory:", agents=[agent(plan, plan)]) as app:
        with pytest.raises(ScriptRanDry):
            await app.ask("look", agent="shop", mode="plan")
        trace = await app.tasks.trace((await app.tasks.list())[0].task_id)
    ids = [span.attributes["gen_ai.tool.call.id"] for span in spans_of(trace, resource()) if "fail" in span.name]  # type: ignore[index]
    assert ids == [f"{call.scope}/{call.idx}" for call in trace.calls] and len({*ids}) > 1


async def test_content_is_there_only_on_request() -> None:
    trace = await recorded(call_tool(("look_up", {"order": 7}), ("fail", {})), answer("the secret answer"))
    without, full = told(spans_of(trace, resource())), told(spans_of(trace, resource(), content=True))
    assert "secret" not in without and "order" not in without
    for text in ("the secret message", "the secret answer", "the secret of order 7", "the secret reason"):
        assert text in full


async def test_exporting_twice_gives_the_same_spans() -> None:
    trace, origin = await recorded(call_tool(("look_up", {"order": 7})), answer("done")), resource()
    assert told(spans_of(trace, origin, content=True)) == told(spans_of(trace, origin, content=True))


async def test_a_pause_is_no_error_and_the_task_has_one_span_when_it_has_ended() -> None:
    exporter = InMemorySpanExporter()
    async with segue.open(":memory:", agents=[agent(call_tool(("refund", {})), answer("done"))]) as app:
        TraceExport(app, exporter)
        waiting = await app.ask("refund it", agent="shop")
        assert waiting.status == "waiting"
        await until(exporter.get_finished_spans)
        before = exporter.get_finished_spans()
        assert [span.name for span in before] == ["chat ScriptedChatModel"]
        await app.answer(waiting.task_id, "approve")
    spans = exporter.get_finished_spans()
    after = spans[len(before) :]
    assert {span.context.span_id for span in before} < {span.context.span_id for span in after}
    assert {span.context.trace_id for span in spans} == {trace_id_of(waiting.task_id)}
    (root,) = [span for span in after if span.parent is None]
    assert [event.name for event in root.events] == [
        *("segue.mode_selected", "segue.approval_requested", "segue.resumed", "segue.approval_given")
    ]
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}


async def test_an_unknown_outcome_is_an_error_of_its_call_not_of_its_task() -> None:
    trace = await recorded(call_tool(("stall", {})), answer("it may have happened"), tool_seconds=0.2)
    found = by_name(spans_of(trace, resource()))
    stalled, root = found["execute_tool stall"], found["invoke_agent shop"]
    assert (stalled.attributes or {})["error.type"] == "unknown_outcome"
    assert stalled.status.status_code == StatusCode.ERROR
    assert (root.status.status_code, (root.attributes or {})["segue.task.unknown_outcomes"]) == (StatusCode.UNSET, 1)


async def test_a_failed_task_is_an_error() -> None:
    async with segue.open(":memory:", agents=[agent()]) as app:
        task = await app.start("hello", agent="shop")
        assert [event async for event in app.follow(task.task_id)]
        (root,) = [span for span in spans_of(await app.tasks.trace(task.task_id), resource()) if not span.parent]
    assert root.status.status_code == StatusCode.ERROR
    assert (root.attributes or {})["segue.task.status"] == "error"


async def test_a_call_under_way_when_its_task_was_cancelled_has_a_span_with_an_unknown_outcome() -> None:
    begun = asyncio.Event()

    async def hold() -> None:
        """Hold on."""
        begun.set()
        await asyncio.sleep(60)

    own = Agent(agent_id="shop", model=ScriptedChatModel([call_tool(("hold", {}))]), tools=[hold], mode="react")
    async with segue.open(":memory:", agents=[own]) as app:
        task = await app.start("hold it", agent="shop")
        await asyncio.wait_for(begun.wait(), 60)
        await app.cancel(task.task_id)
        found = by_name(spans_of(await app.tasks.trace(task.task_id), resource()))
    held, root = found["execute_tool hold"], found["invoke_agent shop"]
    assert (held.attributes or {})["error.type"] == "unknown_outcome"
    assert (root.status.status_code, (root.attributes or {})["segue.task.status"]) == (StatusCode.UNSET, "cancelled")


@pytest.mark.parametrize("task_id", ["t-1", "", "aufgabe"])
def test_an_id_that_is_no_uuid_has_a_trace_as_well(task_id: str) -> None:
    assert 0 < trace_id_of(task_id) < 2**128
