"""Snapshots: JSON that a new engine, also of a new process, goes on from with only what is left."""

import asyncio
import json
from typing import Any

import pytest

from segue.core.agents import Agent
from segue.core.errors import ModelUnreachable
from segue.lifecycle import ConversationEngine, EngineState
from segue.lifecycle.engine import RegistryCoordinator
from segue.tools.registry import tool
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.lifecycle.conftest import Planner, Workshop, chain, rest, task, told, until


def through_json(snapshot: dict[str, Any]) -> dict[str, Any]:
    restored: dict[str, Any] = json.loads(json.dumps(snapshot))
    return restored


async def test_what_a_task_needs_is_known_to_the_new_engine(shop: Workshop) -> None:
    first = shop.engine(chain(2), coordinator=RegistryCoordinator(shop_registry(), "worker"))
    run = first.run("the whole goal")
    await until(run, "task_completed", "t1")
    second = shop.engine(chain(2))
    second.restore_from_snapshot(through_json(first.create_snapshot()))
    await run.aclose()
    await rest(second.run(None))
    text = "\n".join(str(message.content) for message in shop.seen[-1])
    assert "made t1" in text and "the whole goal" in text and "Never guess." in text


def shop_registry() -> Any:
    from segue.registry import Registry

    return Registry((Agent(agent_id="worker", prompt="Never guess."),), environ={})


async def test_a_task_is_paused_between_two_calls_and_none_is_made_again(shop: Workshop) -> None:
    made: list[int] = []
    shop.hold("second")

    @tool
    async def step(number: int) -> int:
        """One step of several."""
        if number == 1:
            shop.begun["second"].set()
            await shop.holding["second"].wait()
        made.append(number)
        return number

    def reply(messages: Any) -> str:
        return answer("all done") if len(made) >= 4 else call_tool(("step", {"number": len(made)}))

    def engine() -> ConversationEngine:
        agent = Agent(agent_id="w", model=ScriptedChatModel(reply), tools=(step,))
        return ConversationEngine(llm=Planner([[task("long")]]), agent=agent)

    first = engine()
    run = first.run("go")
    following = asyncio.create_task(until(run, "engine_paused"))
    await shop.begun["second"].wait()
    assert first.pause() is True
    shop.release("second")
    await following
    await run.aclose()
    snapshot = through_json(first.create_snapshot())
    assert [call["arguments"]["number"] for call in snapshot["calls"]["long"]] == made == [0, 1]
    second = engine()
    second.restore_from_snapshot(snapshot)
    await rest(second.run(None))
    assert made == [0, 1, 2, 3]
    assert second.results == {"long": "all done"}


async def test_after_the_model_was_unreachable_the_run_goes_on_where_it_failed(shop: Workshop) -> None:
    down = [True]

    def reply(messages: Any) -> str:
        if down[0] and messages[0].content == "do t2":
            raise ModelUnreachable("The endpoint does not answer: check it, then resume.")
        return shop.reply(messages)

    agent = Agent(agent_id="w", model=ScriptedChatModel(reply), tools=(shop.tool(),))
    engine = ConversationEngine(llm=Planner([chain(3)]), agent=agent)
    events = await rest(engine.run("go"))
    assert told(events)[-2:] == ["executing → error", "engine_error"]
    assert events[-1].data == {
        "error": "The endpoint does not answer: check it, then resume.",
        "phase": "executing",
    }
    assert engine.state is EngineState.ERROR and engine.completed_tasks == 1
    down[0] = False
    lines = told(await rest(engine.run(None)))
    assert lines[:3] == ["error → idle", "paused → executing", "engine_resumed"]
    assert [line for line in lines if line.startswith("task_started")] == ["task_started t3"]
    assert shop.done == ["t1", "t2", "t3"] and engine.state is EngineState.COMPLETED


async def test_failed_and_skipped_tasks_stay_what_they_are(shop: Workshop) -> None:
    shop.broken = {"a"}
    tasks = [task("a"), task("b", "a"), task("c", priority=5)]
    first = shop.engine(tasks)
    run = first.run("go")
    await until(run, "task_started", "c")
    second = shop.engine(tasks)
    second.restore_from_snapshot(through_json(first.create_snapshot()))
    await run.aclose()
    shop.broken = set()
    events = await rest(second.run(None))
    assert shop.done == ["c"]
    assert [t.status for t in second.tasks] == ["error", "skipped", "done"]
    assert events[-1].data["failed_tasks"] == events[-1].data["skipped_tasks"] == 1


GOOD: dict[str, Any] = {
    "state": "executing",
    "tasks": [{"id": "a", "description": "do a", "status": "pending", "priority": 0}],
    "completed_tasks": 0,
    "total_tasks": 1,
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": "flying"}, "state cannot be 'flying'"),
        ({"state": ["executing"]}, "state"),
        ({"tasks": None}, "does not have the form that create_snapshot returns"),
        ({"tasks": [{"description": "no id"}]}, "'id' is missing"),
        ({"tasks": [{**GOOD["tasks"][0], "status": "half"}]}, "half"),
        ({"tasks": [{**GOOD["tasks"][0], "dependencies": ["x"]}]}, "'x', which is not a step"),
        ({"tasks": [*GOOD["tasks"], *GOOD["tasks"]], "total_tasks": 2}, "more than once"),
        ({"completed_tasks": 4}, "completed_tasks is 4"),
        ({"version": 99}, "version 99"),
        ({"version": "x"}, "version"),
        ({"paused_from": "idle"}, "paused_from"),
        ({"calls": {"a": [{"name": "x"}]}}, "'arguments' is missing"),
        ({"results": ["x"]}, "cannot be read"),
    ],
)
async def test_a_snapshot_that_is_none_is_refused_and_changes_nothing(
    shop: Workshop, change: dict[str, Any], said: str
) -> None:
    engine = shop.engine(chain(2))
    assert engine.restore_from_snapshot(GOOD) is True
    before = engine.create_snapshot()
    assert engine.restore_from_snapshot({**GOOD, **change}) is False
    assert said in engine.refused
    assert engine.create_snapshot() == before


def test_what_is_no_snapshot_is_refused() -> None:
    engine = ConversationEngine()
    for nothing in (None, [], "snapshot", {}, {"state": "idle"}):
        assert engine.restore_from_snapshot(nothing) is False  # type: ignore[arg-type]
        assert engine.refused and engine.state is EngineState.IDLE
