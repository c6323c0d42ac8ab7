"""A run that is left after any of its events goes on: nothing is yielded twice, every task is carried out once."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

import segue
from segue.lifecycle import ConversationEngine, EngineState
from tests.lifecycle.conftest import Workshop, agent_of, chain, rest, told

PLACES = (1, 3, 5, 7, 9, 10, 11, 14)
"""In each state, and around each kind of event, of the 15 that two tasks have."""

Left = tuple[ConversationEngine, list[str], ConversationEngine]
Way = Callable[[Workshop, Path, int], AbstractAsyncContextManager[Left]]


async def leave(engine: ConversationEngine, place: int) -> list[str]:
    """Run an engine up to that event and close the run there."""
    run = engine.run("the goal")
    lines = told([await anext(run) for _ in range(place)])
    await run.aclose()
    return lines


@asynccontextmanager
async def same_engine(shop: Workshop, folder: Path, place: int) -> AsyncIterator[Left]:
    engine = shop.engine(chain(2))
    yield engine, await leave(engine, place), engine


@asynccontextmanager
async def restored_engine(shop: Workshop, folder: Path, place: int) -> AsyncIterator[Left]:
    first, second = shop.engine(chain(2)), shop.engine(chain(2))
    lines = await leave(first, place)
    snapshot = json.loads(json.dumps(first.create_snapshot()))
    assert second.restore_from_snapshot(snapshot) is True
    assert (second.state, second.current_progress) == (snapshot["state"], snapshot["progress"])
    yield first, lines, second


@asynccontextmanager
async def reopened_database(shop: Workshop, folder: Path, place: int) -> AsyncIterator[Left]:
    async with segue.open(folder / "segue.db", agents=[agent_of(shop, chain(2))]) as app:
        first = ConversationEngine(app=app, agent="worker")
        lines = await leave(first, place)
    async with segue.open(folder / "segue.db", agents=[agent_of(shop, chain(2))]) as app:
        (row,) = await app.resumable()
        yield first, lines, ConversationEngine(app=app, task_id=row.task_id)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", [same_engine, restored_engine, reopened_database], ids=lambda way: way.__name__)
async def test_left_after_any_event_exactly_the_rest_is_carried_out(
    shop: Workshop, tmp_path: Path, way: Way, place: int
) -> None:
    async with way(shop, tmp_path, place) as (first, lines, second):
        done = list(shop.done)
        assert done == [t.id for t in first.tasks if t.status == "done"]
        left = told(await rest(second.run(None)))
    assert shop.done == ["t1", "t2"]
    assert second.results == {"t1": "made t1", "t2": "made t2"}
    assert (second.completed_tasks, second.total_tasks, second.state) == (2, 2, EngineState.COMPLETED)
    events = [line for line in lines + left if "paused" not in line and "resumed" not in line]
    if way is same_engine:
        assert len(events) == len(set(events)) == 15
    assert [line for line in events if line.startswith("task_completed")] == ["task_completed t1", "task_completed t2"]
