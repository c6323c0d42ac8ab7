"""The engine's document: its phases, events, pause, snapshots, errors and transitions."""

import asyncio
import json
from typing import Any

import pytest

from segue.core.errors import IllegalTransition
from segue.core.lifecycle import next_state
from segue.lifecycle import (
    VALID_STATE_TRANSITIONS,
    Context,
    ConversationEngine,
    EngineBusy,
    EngineEventType,
    EngineState,
)
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer
from tests.lifecycle.conftest import Library, Workshop, chain, rest, task, told, until


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


PRESCRIBED = {
    "STATE_CHANGED": {"from", "to"},
    "CONTEXT_RECEIVED": {"rules_count", "tools_count", "knowledge_count"},
    "TASK_DECOMPOSED": {"task_count", "tasks"},
    "TASK_SPAWNED": {"task_id", "description"},
    "TASK_SCHEDULED": {"task_id", "priority"},
    "TASK_STARTED": {"task_id"},
    "TASK_COMPLETED": {"task_id", "result", "progress"},
    "TASK_FAILED": {"task_id", "error"},
    "ENGINE_PAUSED": {"progress"},
    "ENGINE_RESUMED": {"progress"},
    "ENGINE_COMPLETED": {"total_tasks", "completed_tasks"},
    "ENGINE_ERROR": {"error", "phase"},
}


async def test_a_run_tells_every_phase_in_order(shop: Workshop) -> None:
    engine = shop.engine(chain(2), coordinator=Library())
    assert engine.state is EngineState.IDLE
    events = await rest(engine.run("the goal"))
    assert told(events) == [
        "idle → receiving",
        "receiving → context_fetching",
        "context_received",
        "context_fetching → decomposing",
        "task_decomposed",
        "decomposing → scheduling",
        "task_scheduled t1",
        "task_scheduled t2",
        "scheduling → executing",
        "task_started t1",
        "task_completed t1",
        "task_started t2",
        "task_completed t2",
        "executing → completed",
        "engine_completed",
    ]
    assert engine.state is EngineState.COMPLETED
    assert (engine.completed_tasks, engine.total_tasks, engine.current_progress) == (2, 2, 1.0)
    assert [event.data["progress"] for event in events if event.event_type == "task_completed"] == [0.5, 1.0]


async def test_the_events_have_the_prescribed_fields_and_values(shop: Workshop) -> None:
    shop.broken = {"b"}
    events = await rest(shop.engine([task("a", priority=3), task("b")], coordinator=Library()).run("the goal"))
    by_type = {event.event_type: event.data for event in events}
    assert all(PRESCRIBED[kind.name] <= data.keys() for kind, data in by_type.items())
    counts = by_type[EngineEventType.CONTEXT_RECEIVED]
    assert (counts["rules_count"], counts["knowledge_count"], counts["tools_count"]) == (2, 1, 1)
    assert counts["rules"] == ["tone: be kind", "no lies"]
    decomposed = by_type[EngineEventType.TASK_DECOMPOSED]
    assert decomposed["task_count"] == 2
    assert [(t["id"], t["description"]) for t in decomposed["tasks"]] == [("a", "do a"), ("b", "do b")]
    assert by_type[EngineEventType.TASK_SCHEDULED] == {"task_id": "a", "priority": 3}
    assert by_type[EngineEventType.TASK_COMPLETED] == {"task_id": "a", "result": "made a", "progress": 0.5}
    ended = by_type[EngineEventType.ENGINE_COMPLETED]
    assert (ended["total_tasks"], ended["completed_tasks"], ended["failed_tasks"]) == (2, 1, 1)
    assert set(PRESCRIBED) == {kind.name for kind in EngineEventType}


async def test_without_a_coordinator_the_context_is_empty_and_without_a_model_the_goal_is_one_task() -> None:
    engine = ConversationEngine()
    events = await rest(engine.run("做一件事"))
    assert next(event.data for event in events if event.event_type == "context_received") == {
        "rules_count": 0,
        "tools_count": 0,
        "knowledge_count": 0,
        "rules": [],
        "tools": [],
        "knowledge": [],
    }
    assert [(t.id, t.description, t.status) for t in engine.tasks] == [("1", "做一件事", "error")]


async def test_a_chat_model_breaks_the_goal_down_and_carries_the_tasks_out() -> None:
    tasks = '{"tasks": [{"id": "x", "description": "look", "priority": 1, "dependencies": []}]}'
    with ScriptedChatModel([f"```json\n{tasks}\n```", answer("found")]) as model:
        engine = ConversationEngine(llm=model)
        await rest(engine.run("find it"))
    assert engine.results == {"x": "found"}
    assert "find it" in str(model.calls[0][-1].content)


async def test_lower_priorities_come_first_and_dependencies_before_that(shop: Workshop) -> None:
    tasks = [
        task("late", priority=9),
        task("first", "late", priority=1),
        task("mid", priority=5),
        task("same", priority=5),
    ]
    events = await rest(shop.engine(tasks).run("go"))
    scheduled = [event.data["task_id"] for event in events if event.event_type == "task_scheduled"]
    assert scheduled == shop.done == ["mid", "same", "late", "first"]


async def test_tasks_are_really_carried_out_with_tools(shop: Workshop) -> None:
    engine = shop.engine(chain(2))
    await rest(engine.run("the goal"))
    assert shop.done == ["t1", "t2"]
    assert engine.results == {"t1": "made t1", "t2": "made t2"}


async def test_a_tasks_timeout_is_enforced(shop: Workshop) -> None:
    shop.hold("slow")
    engine = shop.engine([task("slow", timeout=0.05), task("next", priority=1)])
    events = await rest(engine.run("go"))
    (failed,) = [event.data for event in events if event.event_type == "task_failed"]
    assert (failed["task_id"], failed["error"]) == ("slow", "it took longer than 0.05 s and was stopped")
    assert shop.done == ["next"]


async def test_a_second_run_begins_anew_and_progress_never_passes_one(shop: Workshop) -> None:
    engine = shop.engine(chain(3))
    await rest(engine.run("one"))
    seen = []
    async for event in engine.run("two"):
        seen.append(engine.current_progress)
        assert event.data.get("progress", 0) <= 1
    assert told([event async for event in engine.run("three")])[:2] == ["completed → idle", "idle → receiving"]
    assert max(seen) == 1.0 and seen[0] == 0.0
    assert (engine.completed_tasks, engine.total_tasks) == (3, 3)


async def test_the_way_back_to_idle_is_announced_once_at_the_beginning_of_the_next_run(shop: Workshop) -> None:
    engine = shop.engine([])
    failed = told(await rest(engine.run("one")))
    assert failed[-2:] == ["decomposing → error", "engine_error"]
    engine.reset()
    engine.reset()
    assert engine.state is EngineState.IDLE
    again = told(await rest(engine.run("two")))
    assert again[:2] == ["error → idle", "idle → receiving"] and again.count("error → idle") == 1
    third = told(await rest(engine.run("three")))
    assert third[:2] == ["error → idle", "idle → receiving"]


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@cases("coordinator", [None, Context(rules=["be kind"])])
async def test_the_tools_of_an_engine_count_in_its_context(coordinator: Context | None) -> None:
    class Rules:
        def get_context_async(self, text: str) -> Any:
            return coordinator

    engine = ConversationEngine(coordinator and Rules(), tools=[multiply])
    events = await rest(engine.run("What is 6 times 7?"))
    context = next(event.data for event in events if event.event_type == "context_received")
    assert (context["tools_count"], context["tools"]) == (1, ["multiply: Multiply two numbers."])


class Broken:
    """A coordinator that cannot be reached."""

    async def get_context_async(self, text: str) -> Context:
        raise ConnectionError("no route to the library")


async def test_a_coordinator_that_fails_ends_the_run_with_the_phase(shop: Workshop) -> None:
    engine = shop.engine(chain(1), coordinator=Broken())
    events = await rest(engine.run("go"))
    assert told(events)[-2:] == ["context_fetching → error", "engine_error"]
    assert events[-1].data == {
        "error": "The context could not be fetched: no route to the library",
        "phase": "context_fetching",
    }


class Prompt:
    """A coordinator that has nothing to wait for."""

    def get_context_async(self, text: str) -> Context:
        return Context(rules=["be kind"])


async def test_a_coordinator_may_be_synchronous(shop: Workshop) -> None:
    events = await rest(shop.engine(chain(1), coordinator=Prompt()).run("go"))
    assert next(event.data["rules"] for event in events if event.event_type == "context_received") == ["be kind"]


async def test_a_restored_task_without_a_result_is_no_part_of_the_answer(shop: Workshop) -> None:
    done = {"id": "a", "description": "look", "status": "completed", "priority": 0}
    left = {"id": "b", "description": "do b", "status": "pending", "priority": 1}
    engine = shop.engine([])
    assert engine.restore_from_snapshot(
        {"state": "executing", "tasks": [done, left], "completed_tasks": 1, "total_tasks": 2}
    )
    events = await rest(engine.run(None))
    assert "look" not in events[-1].data["answer"] and engine.results["b"] == events[-1].data["answer"]


def test_the_table_is_the_prescribed_one() -> None:
    assert {old.value: {new.value for new in news} for old, news in VALID_STATE_TRANSITIONS.items()} == {
        "idle": {"receiving"},
        "receiving": {"context_fetching", "error"},
        "context_fetching": {"decomposing", "error"},
        "decomposing": {"scheduling", "error"},
        "scheduling": {"executing", "paused", "error"},
        "executing": {"completed", "paused", "error"},
        "paused": {"executing", "scheduling"},
        "completed": {"idle"},
        "error": {"idle"},
    }


@cases("old", EngineState)
@cases("new", EngineState)
def test_only_the_tables_moves_are_allowed(old: EngineState, new: EngineState) -> None:
    if new in VALID_STATE_TRANSITIONS[old]:
        assert next_state(old, new) is new
    else:
        with pytest.raises(IllegalTransition):
            next_state(old, new)


PAUSE = ["executing → paused", "engine_paused"]


RESUME = ["paused → executing", "engine_resumed"]


async def test_after_five_events_the_engine_is_decomposing_and_cannot_be_paused(shop: Workshop) -> None:
    engine = shop.engine(chain(2))
    run = engine.run("go")
    for _ in range(5):
        await run.__anext__()
    assert engine.state is EngineState.DECOMPOSING
    assert engine.pause() is False
    assert engine.resume() is False
    assert (await rest(run))[-1].event_type == "engine_completed"


async def test_paused_while_scheduling_it_goes_back_to_scheduling(shop: Workshop) -> None:
    engine = shop.engine(chain(3))
    run = engine.run("go")
    await until(run, "task_scheduled", "t1")
    assert engine.pause() is True
    assert engine.state is EngineState.PAUSED
    assert told([await anext(run), await anext(run)]) == ["scheduling → paused", "engine_paused"]
    assert engine.resume() is True
    assert engine.state is EngineState.SCHEDULING
    assert told(await rest(run))[:5] == [
        "paused → scheduling",
        "engine_resumed",
        "task_scheduled t2",
        "task_scheduled t3",
        "scheduling → executing",
    ]
    assert shop.done == ["t1", "t2", "t3"]


async def test_paused_at_a_tasks_start_the_task_does_not_begin_until_it_is_resumed(shop: Workshop) -> None:
    engine = shop.engine(chain(2))
    run = engine.run("go")
    await until(run, "task_started", "t1")
    progress = engine.current_progress
    assert engine.pause() is True
    assert engine.current_progress == progress
    assert told([await anext(run), await anext(run)]) == PAUSE
    waiting = asyncio.ensure_future(anext(run))
    await asyncio.sleep(0.1)
    assert not waiting.done() and shop.done == []
    assert engine.resume() is True
    assert engine.state is EngineState.EXECUTING
    assert told([await waiting, *await rest(run)]) == [
        *RESUME,
        "task_completed t1",
        "task_started t2",
        "task_completed t2",
        "executing → completed",
        "engine_completed",
    ]
    assert shop.done == ["t1", "t2"]


async def test_closed_in_the_middle_it_is_paused_and_goes_on_without_repeating(shop: Workshop) -> None:
    engine = shop.engine(chain(3))
    run = engine.run("go")
    await until(run, "task_completed", "t1")
    await run.aclose()
    assert engine.state is EngineState.PAUSED
    assert engine.pause() is False
    events = await rest(engine.run(None))
    assert told(events)[:4] == [*PAUSE, *RESUME]
    assert engine.state is EngineState.COMPLETED
    assert shop.done == ["t1", "t2", "t3"]


async def test_a_second_run_at_once_is_refused_and_changes_nothing(shop: Workshop) -> None:
    engine = shop.engine(chain(2))
    run = engine.run("go")
    await until(run, "task_started", "t1")
    before = engine.create_snapshot()
    for given in ("another", None):
        with pytest.raises(IllegalTransition, match="under way"):
            await rest(engine.run(given))
    with pytest.raises(EngineBusy, match="aclose"):
        engine.reset()
    assert engine.restore_from_snapshot(before) is False and "in progress" in engine.refused
    assert engine.create_snapshot() == before
    await rest(run)
    assert shop.done == ["t1", "t2"]


async def test_there_is_nothing_to_go_on_with_at_first_and_after_a_reset(shop: Workshop) -> None:
    engine = shop.engine(chain(2))
    with pytest.raises(EngineBusy, match="nothing to continue"):
        await rest(engine.run())
    run = engine.run("go")
    await until(run, "task_completed", "t1")
    await run.aclose()
    with pytest.raises(EngineBusy, match=r"reset\(\)"):
        await rest(engine.run("another"))
    engine.reset()
    assert (engine.state, engine.total_tasks, engine.current_progress) == (EngineState.IDLE, 0, 0.0)
    with pytest.raises(EngineBusy):
        await rest(engine.run(None))
    await rest(engine.run("another"))
    assert shop.done == ["t1", "t1", "t2"]


def through_json(snapshot: dict[str, Any]) -> dict[str, Any]:
    restored: dict[str, Any] = json.loads(json.dumps(snapshot))
    return restored


async def test_a_snapshot_says_where_the_run_stands(shop: Workshop) -> None:
    engine = shop.engine([task("a", priority=2), task("b", "a", priority=1)])
    run = engine.run("the goal")
    await until(run, "task_completed", "a")
    engine.pause()
    snapshot = engine.create_snapshot()
    assert snapshot == through_json(snapshot)
    assert {name: snapshot[name] for name in ("version", "state", "progress", "completed_tasks", "total_tasks")} == {
        "version": 1,
        "state": "paused",
        "progress": 0.5,
        "completed_tasks": 1,
        "total_tasks": 2,
    }
    assert [{name: t[name] for name in ("id", "description", "status", "priority")} for t in snapshot["tasks"]] == [
        {"id": "a", "description": "do a", "status": "done", "priority": 2},
        {"id": "b", "description": "do b", "status": "pending", "priority": 1},
    ]
    assert snapshot["results"] == {"a": "made a"}
    assert snapshot["dependencies"] == {"a": [], "b": ["a"]}
    assert snapshot["input"] == "the goal"
    await run.aclose()


async def test_a_paused_engine_is_restored_paused_and_goes_back_to_where_it_was_paused(shop: Workshop) -> None:
    first = shop.engine(chain(2))
    run = first.run("go")
    await until(run, "task_scheduled", "t1")
    first.pause()
    second = shop.engine(chain(2))
    assert second.restore_from_snapshot(through_json(first.create_snapshot())) is True
    assert second.state is EngineState.PAUSED
    assert told(await rest(second.run(None)))[:3] == ["paused → scheduling", "engine_resumed", "task_scheduled t1"]
    third = shop.engine(chain(2))
    third.restore_from_snapshot(first.create_snapshot())
    assert third.resume() is True and third.state is EngineState.SCHEDULING
    assert told(await rest(third.run(None)))[0] == "paused → scheduling"
    await run.aclose()


async def test_the_plain_form_of_a_snapshot_is_enough(shop: Workshop) -> None:
    snapshot = {
        "state": "paused",
        "progress": 0.5,
        "tasks": [
            {"id": "a", "description": "do a", "status": "completed", "priority": 1},
            {"id": "b", "description": "do b", "status": "pending", "priority": 2},
        ],
        "completed_tasks": 1,
        "total_tasks": 2,
    }
    engine = shop.engine(chain(1))
    assert engine.restore_from_snapshot(snapshot) is True
    assert (engine.state, engine.current_progress) == (EngineState.PAUSED, 0.5)
    await rest(engine.run(None))
    assert shop.done == ["b"] and engine.completed_tasks == 2
