"""The saver when the owner of a thread changes, dies, or cannot write."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from segue.checkpoints.leases import Lease
from segue.checkpoints.sqlite.database import SqliteConnection
from segue.core.errors import DatabaseUnavailable, StaleOwner

from .conftest import Clock, Store
from .graphs import ALL, HELLO, Crash, Place, Said, Steps, Talk, chain, compiled, config_of, run


async def test_a_stale_owner_is_stopped_at_its_next_write(place: Place, second: Store, clock: Clock) -> None:
    steps, stopped = Steps(), Steps()
    fence = await Lease(place.database, clock).acquire("s", "me")
    place.saver.hold("s", fence)

    async def overtaken(state: Talk) -> Any:
        clock.now += 16
        await Lease(second, clock).acquire("s", "you")
        return await steps.node("second")(state)

    nodes = {"first": steps.node("first"), "second": overtaken, "last": stopped.node("last")}
    wired = chain(StateGraph(Talk), **nodes).compile(checkpointer=place.saver)
    with pytest.raises(StaleOwner):
        await run(wired, HELLO)
    assert stopped.ran == []
    assert await place.texts() == ["first 0", "first 1"]
    snapshot = await wired.aget_state(config_of())
    assert (snapshot.next, snapshot.values["done"]) == (("second",), ["first"])
    with pytest.raises(StaleOwner):
        await place.saver.adelete_thread("s")


async def test_the_new_owner_goes_on(place: Place, second: Store) -> None:
    lease, steps = Lease(place.database), Steps(crashing={"third"})
    stale = await lease.acquire("s", "me", ttl=0)
    place.saver.hold("s", stale)
    with pytest.raises(Crash):
        await run(compiled(steps, place.saver), HELLO)
    successor = Place(second)
    successor.saver.hold("s", await Lease(second).acquire("s", "you"))
    steps.crashing.clear()
    await run(compiled(steps, successor.saver), None)
    assert await place.texts() == ALL
    with pytest.raises(StaleOwner):
        await run(compiled(steps, place.saver), HELLO)
    place.saver.release("s")
    await run(compiled(steps, place.saver), HELLO)


def refuse(table: str, what: str = "TRUE") -> Callable[[Any], None]:
    """Let no row be added to a table that `what` is true of."""

    def add(connection: Any) -> None:
        head = "CREATE TRIGGER refuse BEFORE INSERT ON"
        if isinstance(connection, SqliteConnection):
            connection.execute(f"{head} {table} WHEN {what} BEGIN SELECT RAISE(ABORT, 'refused'); END")
            return
        body = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'refused'; END$$"
        connection.execute(body)
        own = table.replace("writes", "checkpoint_writes")  # the other is a view
        connection.execute(f"{head} {own} FOR EACH ROW WHEN ({what}) EXECUTE FUNCTION refuse()")

    return add


def allow(table: str) -> Callable[[Any], None]:
    def drop(connection: Any) -> None:
        on = "" if isinstance(connection, SqliteConnection) else f" ON {table}"
        connection.execute(f"DROP TRIGGER refuse{on}")

    return drop


async def asks(state: Talk) -> dict[str, Any]:
    await asyncio.sleep(0.1)
    return {"done": [interrupt("sure?")]}


NOT_SAVED = r"could not be saved \(refused[^)]*\).*: resume its task"


@pytest.fixture
async def held(place: Place) -> Place:
    """The place, with a thread that it holds."""
    place.saver.hold("s", await Lease(place.database).acquire("s", "me"))
    return place


async def test_no_question_passes_a_step_that_could_not_be_saved(held: Place) -> None:
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Talk)
    graph.add_node("first", Steps().node("first"))
    graph.add_node("asks", asks)
    graph.add_edge(START, "first")
    graph.add_edge(START, "asks")
    await held.database.write(refuse("events"))
    with pytest.raises(DatabaseUnavailable, match=NOT_SAVED):
        await run(graph.compile(checkpointer=held.saver), HELLO)


async def test_a_question_of_an_inner_graph_that_could_not_be_saved_is_not_asked(held: Place) -> None:
    """LangGraph lets an interrupt of an inner graph pass, whatever became of its writes."""
    inner = chain(StateGraph(Talk, output_schema=Said), asks=asks).compile()
    wired = chain(StateGraph(Talk), inner=inner).compile(checkpointer=held.saver)
    await held.database.write(refuse("writes", "NEW.channel = '__interrupt__' AND NEW.checkpoint_ns <> ''"))
    with pytest.raises(DatabaseUnavailable, match=NOT_SAVED):
        await run(wired, HELLO)
    assert not (await wired.aget_state(config_of())).interrupts


async def test_nothing_passes_a_checkpoint_that_could_not_be_saved(held: Place) -> None:
    """LangGraph runs the first nodes while it saves the checkpoint that they begin from."""
    steps = Steps()
    wired = chain(StateGraph(Talk), first=steps.node("first"), last=steps.node("last")).compile(checkpointer=held.saver)
    await held.database.write(refuse("checkpoints"))
    with pytest.raises((DatabaseUnavailable, sqlite3.IntegrityError, psycopg.Error), match="refused"):
        await run(wired, HELLO)
    with pytest.raises(DatabaseUnavailable, match=NOT_SAVED):
        held.saver.check_saved("s")
    await held.database.write(allow("checkpoints"))
    with pytest.raises(DatabaseUnavailable, match=NOT_SAVED):  # not even now: what it builds on is not there
        await run(wired, HELLO)
    assert await held.texts() == []
    held.saver.hold("s", held.saver.fence("s"))
    await run(wired, HELLO)
    assert await held.texts() == ["first 0", "first 1", "last 0", "last 1"]


async def test_no_checkpoint_passes_a_step_that_could_not_be_saved(held: Place) -> None:
    steps = Steps()
    wired = chain(StateGraph(Talk), first=steps.node("first", quiet=True), last=steps.node("last")).compile(
        checkpointer=held.saver
    )
    await held.database.write(refuse("events"))
    with pytest.raises(DatabaseUnavailable, match=NOT_SAVED):
        await run(wired, HELLO)
    assert (await wired.aget_state(config_of())).next == ("first",)
    assert (steps.ran, held.told) == (["first"], [])
    await held.database.write(allow("events"))
    held.saver.hold("s", held.saver.fence("s"))
    await run(wired, None)
    assert await held.texts() == ["first 0", "first 1", "last 0", "last 1"]
    assert steps.ran == ["first", "first", "last"]


async def test_a_write_is_stored_as_it_was_when_its_node_ended(held: Place) -> None:
    wired = chain(StateGraph(Talk), first=Steps().node("first")).compile(checkpointer=held.saver)
    await run(wired, HELLO)
    config, done = (await wired.aget_state(config_of())).config, ["first"]
    await held.saver.aput_writes(config, [("done", done)], "step")
    done.append("of a node that runs meanwhile")
    found = await held.saver.aget_tuple(config)
    assert found is not None and found.pending_writes == [("step", "done", ["first"])]


def nested(steps: Steps, held: Place) -> Any:
    async def first(state: Talk) -> Any:
        await asyncio.sleep(0.3)  # LangGraph runs it while the checkpoint that it begins from is being saved
        return await steps.node("first")(state)

    inner = chain(StateGraph(Talk, output_schema=Said), first=first, last=steps.node("last")).compile()
    return chain(StateGraph(Talk), inner=inner).compile(checkpointer=held.saver)


async def test_what_the_next_checkpoint_supersedes_is_not_stored(held: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.checkpoints.database.DEFERRAL", 3.0)
    nodes = "NEW.checkpoint_ns <> '' AND NEW.task_path <> '~__pregel_pull, __start__'"
    await held.database.write(refuse("writes", f"NEW.channel = 'done' AND {nodes}"))
    await run(nested(Steps(), held), HELLO)
    assert await held.texts() == ["first 0", "first 1", "last 0", "last 1"]


async def test_a_step_that_goes_with_its_checkpoint_is_stored_whole_or_not_at_all(held: Place) -> None:
    steps = Steps()
    wired = nested(steps, held)
    await held.database.write(refuse("events"))
    with pytest.raises((DatabaseUnavailable, sqlite3.IntegrityError, psycopg.Error), match="refused"):
        await run(wired, HELLO)
    assert (steps.ran, held.told) == (["first"], [])
    await held.database.write(allow("events"))
    held.saver.hold("s", held.saver.fence("s"))
    await run(wired, None)
    assert steps.ran == ["first", "first", "last"]
    assert await held.texts() == ["first 0", "first 1", "last 0", "last 1"]
