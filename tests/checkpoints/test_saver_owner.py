"""The saver when the owner of a thread changes, dies, or cannot write."""

import asyncio
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from segue.checkpoints.sqlite.database import SqliteConnection
from segue.checkpoints.tables.leases import Lease
from segue.core.errors import DatabaseUnavailable, StaleOwner

from .conftest import Clock, Store
from .graphs import ALL, HELLO, Crash, Place, Steps, Talk, chain, compiled, config_of, run


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


def refuse(connection: Any) -> None:
    if isinstance(connection, SqliteConnection):
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END")
        return
    body = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'refused'; END$$"
    connection.execute(body)
    connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()")


def allow(connection: Any) -> None:
    on = "" if isinstance(connection, SqliteConnection) else " ON events"
    connection.execute(f"DROP TRIGGER refuse{on}")


async def test_no_question_passes_a_step_that_could_not_be_saved(place: Place) -> None:
    async def ask(state: Talk) -> dict[str, Any]:
        await asyncio.sleep(0.1)
        return {"done": [interrupt("sure?")]}

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Talk)
    graph.add_node("first", Steps().node("first"))
    graph.add_node("ask", ask)
    graph.add_edge(START, "first")
    graph.add_edge(START, "ask")
    await place.database.write(refuse)
    with pytest.raises(DatabaseUnavailable, match=r"could not be saved \(refused[^)]*\).*: resume its task"):
        await run(graph.compile(checkpointer=place.saver), HELLO)


async def test_no_checkpoint_passes_a_step_that_could_not_be_saved(place: Place) -> None:
    steps = Steps()
    wired = chain(StateGraph(Talk), first=steps.node("first", quiet=True), last=steps.node("last")).compile(
        checkpointer=place.saver
    )
    await place.database.write(refuse)
    with pytest.raises(DatabaseUnavailable, match=r"could not be saved \(refused[^)]*\).*: resume its task"):
        await run(wired, HELLO)
    assert (await wired.aget_state(config_of())).next == ("first",)
    assert (steps.ran, place.told) == (["first"], [])
    await place.database.write(allow)
    await run(wired, None)
    assert await place.texts() == ["first 0", "first 1", "last 0", "last 1"]
    assert steps.ran == ["first", "first", "last"]
