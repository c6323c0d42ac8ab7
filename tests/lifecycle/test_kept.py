"""Engines over an app's database: a task of the lifecycle mode that any process can pause, resume and look at."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.errors import ConfigurationError, TaskError, ThreadBusy
from segue.graphs.lifecycle import build_lifecycle
from segue.lifecycle import ConversationEngine, EngineState
from segue.testing.backtest import Restored
from tests.lifecycle.conftest import GOAL, Planner, Workshop, agent_of, chain, rest, soon, task, told, until


def opened(database: Path, shop: Workshop, count: int = 3) -> Any:
    return segue.open(database, agents=[agent_of(shop, chain(count))])


async def test_a_run_is_a_task_with_a_trace_and_a_history(database: Path, shop: Workshop) -> None:
    async with opened(database, shop, 2) as app:
        engine = ConversationEngine(app=app, agent="worker", session_id="s")
        events = await rest(engine.run(GOAL))
        (row,) = await app.tasks.list()
        trace = await app.trace(row.task_id)
        history = await app.history("s")
    assert told(events)[-1] == "engine_completed" and engine.results == {"t1": "made t1", "t2": "made t2"}
    assert (row.mode, row.status, row.result["success"]) == ("lifecycle", "done", True)
    assert [call.name for call in trace.calls] == ["work", "work"]
    logged = [event.data["event_type"] for event in trace.events if event.type == "lifecycle"]
    assert logged == [event.event_type.value for event in events]
    assert {event.step_id for event in trace.events if event.type == "tool_result"} == {"t1", "t2"}
    assert [message["role"] for message in history] == ["user", *["assistant", "tool"] * 2, "assistant"]
    assert [event.type for event in trace.events].count("answer") == 1


async def test_the_background_comes_no_further_than_what_was_told(database: Path, shop: Workshop) -> None:
    async with opened(database, shop) as app:
        run = ConversationEngine(app=app, agent="worker").run(GOAL)
        await until(run, "task_started", "t1")
        await asyncio.sleep(0.1)
        assert shop.done == []
        await until(run, "task_completed", "t1")
        await asyncio.sleep(0.1)
        assert shop.done == ["t1"]
        await rest(run)
    assert shop.done == ["t1", "t2", "t3"]


async def soon_status(app: App, status: str) -> None:
    async with asyncio.timeout(60):
        while (await app.tasks.list())[0].status != status:  # noqa: ASYNC110 - another process may change it
            await asyncio.sleep(0.02)


async def test_another_opening_resumes_what_an_engine_left(database: Path, shop: Workshop) -> None:
    async with opened(database, shop) as app:
        run = ConversationEngine(app=app, agent="worker").run(GOAL)
        await until(run, "task_completed", "t1")
        await run.aclose()
        assert (await app.tasks.list())[0].status == "paused"
    async with opened(database, shop) as app:
        (row,) = await app.resumable()
        result = await app.resume(row.task_id)
    assert shop.done == ["t1", "t2", "t3"]
    assert result["success"] and result["answer"] == "made t3"


async def test_an_unfinished_lifecycle_is_checked_before_its_agent_changes(database: Path, shop: Workshop) -> None:
    shop.hold("t2")
    async with opened(database, shop) as app:
        row = await app.start(GOAL, agent="worker", mode="lifecycle")
        await soon(lambda: "t2" in shop.begun and shop.begun["t2"].is_set())
        await app.pause(row.task_id)
        shop.release("t2")
        await soon_status(app, "paused")
    async with opened(database, shop) as app:
        (found,) = await app.check_unfinished()
    assert (found.task_id, found.verdict) == (row.task_id, Restored.SAME)


async def test_an_engine_goes_on_with_a_task_that_the_app_paused(database: Path, shop: Workshop) -> None:
    shop.hold("t2")
    async with opened(database, shop) as app:
        row = await app.start(GOAL, agent="worker", mode="lifecycle")
        await soon(lambda: "t2" in shop.begun and shop.begun["t2"].is_set())
        await app.pause(row.task_id)
        shop.release("t2")
        await soon_status(app, "paused")
        engine = ConversationEngine(app=app, task_id=row.task_id)
        lines = told(await rest(engine.run(None)))
    assert lines[:2] == ["paused → executing", "engine_resumed"]
    assert [line for line in lines if line.startswith("task_completed")] == ["task_completed t2", "task_completed t3"]
    assert engine.completed_tasks == 3 and shop.done == ["t1", "t2", "t3"]


async def test_a_snapshot_of_a_kept_run_leads_back_to_its_task(database: Path, shop: Workshop) -> None:
    async with opened(database, shop) as app:
        first = ConversationEngine(app=app, agent="worker")
        run = first.run(GOAL)
        await until(run, "task_completed", "t1")
        snapshot = json.loads(json.dumps(first.create_snapshot()))
        await until(run, "task_completed", "t2")  # the database is further than the snapshot
        await run.aclose()
    async with opened(database, shop) as app:
        second = ConversationEngine(app=app)
        assert second.restore_from_snapshot(snapshot) is True
        await rest(second.run(None))
        assert len(await app.tasks.list()) == 1
    assert shop.done == ["t1", "t2", "t3"] and second.completed_tasks == 3


async def test_paused_from_elsewhere_the_engine_says_so_and_waits(database: Path, shop: Workshop) -> None:
    async with opened(database, shop) as app, opened(database, shop) as other:
        engine = ConversationEngine(app=app, agent="worker")
        run = engine.run(GOAL)
        await until(run, "task_completed", "t1")
        (row,) = await other.tasks.list()
        await other.pause(row.task_id)
        await soon_status(other, "paused")
        assert told([await anext(run), await anext(run)])[-1] in ("engine_paused", "executing → paused")
        assert engine.state is EngineState.PAUSED
        assert engine.resume() is True
        await rest(run)
    assert shop.done == ["t1", "t2", "t3"]


async def test_cancelled_from_elsewhere_the_run_ends_in_an_error(database: Path, shop: Workshop) -> None:
    async with opened(database, shop) as app, opened(database, shop) as other:
        engine = ConversationEngine(app=app, agent="worker")
        run = engine.run(GOAL)
        await until(run, "task_completed", "t1")
        await other.cancel((await other.tasks.list())[0].task_id)
        events = await rest(run)
        assert events[-1].event_type == "engine_error" and "was cancelled" in events[-1].data["error"]
    assert shop.done == ["t1"] and engine.state is EngineState.ERROR


async def test_a_busy_session_is_refused_and_the_engine_stays_idle(database: Path, shop: Workshop) -> None:
    async with opened(database, shop) as app:
        first = ConversationEngine(app=app, agent="worker", session_id="s").run(GOAL)
        await until(first, "task_started")
        second = ConversationEngine(app=app, agent="worker", session_id="s")
        with pytest.raises(ThreadBusy):
            await rest(second.run(GOAL))
        assert second.state is EngineState.IDLE
        await rest(first)


async def test_a_mode_of_ones_own_may_have_a_coordinator_and_a_planner(database: Path, shop: Workshop) -> None:
    graph = build_lifecycle(decompose=Planner([chain(2)]).decompose_goal, concurrency=2)
    async with segue.open(database, agents=[agent_of(shop, [])], modes={"mine": graph}) as app:
        engine = ConversationEngine(app=app, agent="worker", mode="mine")
        await rest(engine.run("anything"))
    assert shop.done == ["t1", "t2"]


async def test_a_small_budget_of_rounds_does_not_bound_the_number_of_tasks(database: Path, shop: Workshop) -> None:
    tasks = [task(str(n)) for n in range(6)]
    agent = agent_of(shop, tasks, max_iteration=2, budget=segue.Budget(tool_calls=1))
    async with segue.open(database, agents=[agent]) as app:
        result = await app.ask(GOAL, agent="worker", mode="lifecycle")
    assert result["success"] and len(shop.done) == 6


async def test_with_an_app_what_belongs_to_its_agent_is_refused(database: Path) -> None:
    async with segue.open(database) as app:
        with pytest.raises(ConfigurationError, match="build_lifecycle"):
            ConversationEngine(llm="offline", app=app)
        engine = ConversationEngine(app=app)
        assert engine.restore_from_snapshot({"state": "paused", "tasks": [], "completed_tasks": 0}) is True
        with pytest.raises(TaskError, match="without an app"):
            await rest(engine.run(None))
