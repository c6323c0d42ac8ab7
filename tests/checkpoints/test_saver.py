"""The saver under real graphs: no event lost or repeated, no finished node run again, no stale owner's write."""

import asyncio
import multiprocessing
import os
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from segue.checkpoints.database import Database, open_database
from segue.checkpoints.event_log import EventLog
from segue.checkpoints.lease import Lease
from segue.checkpoints.saver import FencedSqliteSaver
from segue.errors import DatabaseUnavailable, StaleOwner

from .conftest import Clock
from .graphs import Crash, Steps, Talk, at, build, chain, compiled, config_of, run, thought

HELLO = {"messages": [HumanMessage("hello")]}
ALL = [f"{name} {n}" for name in ("first", "second", "third", "last") for n in range(2)]


@dataclass
class Place:
    """A saver on a database, and the events that it told of."""

    database: Database
    told: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.saver = FencedSqliteSaver(self.database, self.told.extend)

    async def texts(self, task_id: str = "t1") -> list[str]:
        """The logged events' texts; their numbers must be contiguous."""
        kept = await EventLog(self.database).read(task_id)
        assert [event["seq"] for event in kept] == list(range(1, len(kept) + 1))
        return [event["data"]["text"] for event in kept]

    async def count(self, query: str, *values: Any) -> int:
        return int(await self.database.rows.read(lambda db: db.execute(query, values).fetchone()[0]))


@pytest.fixture
async def place(database: Database) -> AsyncIterator[Place]:
    yield Place(database)


async def test_events_go_to_the_log_and_everything_else_to_the_checkpoint(place: Place) -> None:
    steps = Steps()
    graph = compiled(steps, place.saver)
    await run(graph, HELLO)
    assert await place.texts() == ALL
    assert place.told == await EventLog(place.database).read("t1")
    assert await place.count("SELECT count(*) FROM writes WHERE channel = 'events'") == 0
    kept = (await graph.aget_state(config_of())).values
    assert [message.content for message in kept["messages"]] == ["hello", "first", "last"]
    assert "events" not in kept


@pytest.mark.parametrize("crashing", ["first", "second", "third", "last"])
async def test_a_crash_anywhere_loses_and_repeats_nothing(place: Place, crashing: str) -> None:
    steps = Steps(crashing={crashing})
    with pytest.raises(Crash):
        await run(compiled(steps, place.saver), HELLO)
    before = await place.texts()
    assert before == ALL[: ALL.index(f"{crashing} 0")]
    steps.crashing.clear()
    graph = compiled(steps, Place(place.database).saver)
    await run(graph, None)
    assert await place.texts() == ALL
    assert sorted(steps.ran) == sorted(["first", "second", "third", "last", crashing])
    kept = (await graph.aget_state(config_of())).values
    assert [message.content for message in kept["messages"]] == ["hello", "first", "last"]


async def test_a_node_that_wrote_only_events_counts_as_finished(place: Place) -> None:
    steps = Steps(crashing={"loud"})
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Talk)
    graph.add_node("quiet", steps.node("quiet", quiet=True))
    graph.add_node("loud", _after(0.1, steps.node("loud")))
    graph.add_edge(START, "quiet")
    graph.add_edge(START, "loud")
    wired = graph.compile(checkpointer=place.saver)
    with pytest.raises(Crash):
        await run(wired, HELLO)
    steps.crashing.clear()
    await run(wired, None)
    assert steps.ran == ["quiet", "loud", "loud"]
    assert await place.texts() == ["quiet 0", "quiet 1", "loud 0", "loud 1"]


async def test_a_fan_out_numbers_every_branch(place: Place) -> None:
    steps = Steps(crashing={"unit 7"})

    async def unit(given: Any) -> Any:
        await asyncio.sleep(0.2 if given["n"] == 7 else 0)
        return await steps.node(f"unit {given['n']}", events=3)({})

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(Talk)
    graph.add_node("unit", unit)
    graph.add_conditional_edges(START, lambda state: [Send("unit", {"n": n}) for n in range(12)], ["unit"])
    wired = graph.compile(checkpointer=place.saver)
    with pytest.raises(Crash):
        await run(wired, HELLO)
    steps.crashing.clear()
    output = await run(wired, None)
    assert sorted(await place.texts()) == sorted(f"unit {n} {e}" for n in range(12) for e in range(3))
    assert output["done"] == [f"unit {n}" for n in range(12)]
    assert len(steps.ran) == 13


async def test_a_cancelled_run_goes_on_where_it_stood(place: Place) -> None:
    steps, started = Steps(), asyncio.Event()

    async def slow(state: Talk) -> Any:
        if not started.is_set():
            started.set()
            await asyncio.sleep(60)
        return await steps.node("slow")(state)

    wired = chain(StateGraph(Talk), first=steps.node("first"), slow=slow).compile(checkpointer=place.saver)
    running = asyncio.ensure_future(run(wired, HELLO))
    await started.wait()
    running.cancel()
    await asyncio.wait([running])
    await run(wired, None)
    assert steps.ran == ["first", "slow"]
    assert await place.texts() == ["first 0", "first 1", "slow 0", "slow 1"]


async def test_an_answered_question_tells_its_events_once(place: Place) -> None:
    async def ask(state: Talk) -> dict[str, Any]:
        answer = interrupt("sure?")
        return {"events": [thought(f"answered {answer}")], "done": [answer]}

    wired = chain(StateGraph(Talk), ask=ask, last=Steps().node("last")).compile(checkpointer=place.saver)
    await run(wired, HELLO)
    assert await place.texts() == []
    output = await run(wired, Command(resume="yes"))
    assert output["done"] == ["yes", "last"]
    assert await place.texts() == ["answered yes", "last 0", "last 1"]


async def test_messages_survive_many_turns_of_a_delta_channel(place: Place) -> None:
    graph = compiled(Steps(), place.saver)
    for n in range(12):
        await run(graph, {"messages": [HumanMessage(f"turn {n}")]})
    kept = (await compiled(Steps(), Place(place.database).saver).aget_state(config_of())).values["messages"]
    assert [m.content for m in kept] == [text for n in range(12) for text in (f"turn {n}", "first", "last")]
    assert len(await place.texts()) == 12 * len(ALL)


async def test_writes_put_again_add_no_event_and_take_no_number(place: Place) -> None:
    config = at("s", "c1")
    first = [("done", ["a"]), ("events", [thought("one"), thought("two")])]
    await place.saver.aput_writes(config, first, "lg1")
    await place.saver.aput_writes(config, first, "lg1")
    await place.saver.aput_writes(config, [("events", [thought("three"), thought("of another", "t2")])], "lg2")
    await place.saver.aput_writes(config, [("events", [thought("four")])], "lg3")
    assert await place.texts() == ["one", "two", "three", "four"]
    assert await place.texts("t2") == ["of another"]
    assert [event["data"]["text"] for event in place.told] == ["one", "two", "three", "of another", "four"]


async def test_a_copied_thread_and_later_input_keep_their_own_events(place: Place) -> None:
    nobody = "00000000-0000-0000-0000-000000000000"
    for thread_id, checkpoint_id in (("s", "c1"), ("copy", "c1"), ("s", "c2")):
        config = at(thread_id, checkpoint_id)
        await place.saver.aput_writes(config, [("events", [thought(f"{thread_id} {checkpoint_id}")])], nobody)
    assert await place.texts() == ["s c1", "copy c1", "s c2"]


async def test_a_stale_owner_is_stopped_at_its_next_write(place: Place, other: Database, clock: Clock) -> None:
    steps, stopped = Steps(), Steps()
    fence = await Lease(place.database, clock).acquire("s", "me")
    place.saver.hold("s", fence)

    async def overtaken(state: Talk) -> Any:
        clock.now += 16
        await Lease(other, clock).acquire("s", "you")
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
        await place.saver.drop_subgraphs("s")
    with pytest.raises(StaleOwner):
        await place.saver.adelete_thread("s")


async def test_the_new_owner_goes_on(place: Place, other: Database) -> None:
    lease, steps = Lease(place.database), Steps(crashing={"third"})
    stale = await lease.acquire("s", "me", ttl=0)
    place.saver.hold("s", stale)
    with pytest.raises(Crash):
        await run(compiled(steps, place.saver), HELLO)
    successor = Place(other)
    successor.saver.hold("s", await Lease(other).acquire("s", "you"))
    steps.crashing.clear()
    await run(compiled(steps, successor.saver), None)
    assert await place.texts() == ALL
    with pytest.raises(StaleOwner):
        await run(compiled(steps, place.saver), HELLO)
    place.saver.release("s")
    await run(compiled(steps, place.saver), HELLO)


async def test_no_checkpoint_passes_a_step_that_could_not_be_saved(place: Place) -> None:
    def refuse(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'refused'); END")

    steps = Steps()
    wired = chain(StateGraph(Talk), first=steps.node("first", quiet=True), last=steps.node("last")).compile(
        checkpointer=place.saver
    )
    await place.database.rows.write(refuse)
    with pytest.raises(DatabaseUnavailable, match=r"could not be saved \(refused\): resume its task"):
        await run(wired, HELLO)
    assert (await wired.aget_state(config_of())).next == ("first",)
    assert (steps.ran, place.told) == (["first"], [])
    await place.database.rows.write(lambda db: db.execute("DROP TRIGGER refuse"))
    await run(wired, None)
    assert await place.texts() == ["first 0", "first 1", "last 0", "last 1"]
    assert steps.ran == ["first", "first", "last"]


async def test_dropping_subgraphs_leaves_the_conversation(place: Place, other: Database) -> None:
    graph = compiled(Steps(), place.saver)
    await run(graph, HELLO, "s")
    await run(graph, HELLO, "s2")
    inner = "SELECT count(*) FROM {} WHERE thread_id = ? AND checkpoint_ns != ''"
    for table in ("checkpoints", "writes"):
        assert await place.count(inner.format(table), "s") > 0
    place.saver.hold("s", await Lease(place.database).acquire("s", "me"))
    await place.saver.drop_subgraphs("s")
    for table in ("checkpoints", "writes"):
        assert await place.count(inner.format(table), "s") == 0
        assert await place.count(inner.format(table), "s2") > 0
    await run(graph, HELLO, "s")
    kept = (await compiled(Steps(), Place(other).saver).aget_state(config_of())).values["messages"]
    assert [m.content for m in kept] == ["hello", "first", "last"] * 2


async def test_only_known_types_come_back(place: Place) -> None:
    config = at("s", "c1")
    values = {"message": AIMessage("hi"), "steps": Steps(), "json": {"a": [1, None, "你好"]}}
    checkpoint: Any = {
        "id": "c2",
        "v": 4,
        "ts": "",
        "channel_versions": {},
        "versions_seen": {},
        "channel_values": values,
    }
    await place.saver.aput(config, checkpoint, {}, {})
    found = await place.saver.aget_tuple(config_of())
    assert found is not None
    kept = found.checkpoint["channel_values"]
    assert (kept["message"], kept["json"]) == (values["message"], values["json"])
    assert not isinstance(kept["steps"], Steps)
    trusting = FencedSqliteSaver(place.database, allowed=[Steps])
    found = await trusting.aget_tuple(config_of())
    assert found is not None
    assert found.checkpoint["channel_values"]["steps"] == Steps()


async def test_threads_run_beside_each_other_and_beside_readers(place: Place) -> None:
    reading = asyncio.ensure_future(_read_on(place))
    graph = compiled(Steps(), place.saver)
    await asyncio.gather(*(run(graph, HELLO, f"s{n}") for n in range(20)))
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert len(await place.texts()) == 20 * len(ALL)
    assert [event["seq"] for event in place.told] == list(range(1, 20 * len(ALL) + 1))


async def _read_on(place: Place) -> None:
    graph = compiled(Steps(), place.saver)
    while True:
        await place.texts()
        await graph.aget_state(config_of("s3"))
        await asyncio.sleep(0)


async def test_a_killed_process_loses_and_repeats_nothing(path: str) -> None:
    for n, name in enumerate(("second", "third", "last")):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool, pytest.raises(BrokenProcessPool):
            pool.submit(_run_and_die, path, f"s{n}", name).result()
        async with await open_database(path) as database:
            place, steps = Place(database), Steps()
            place.saver.hold(f"s{n}", await Lease(database, clock=lambda: 9e12).acquire(f"s{n}", "you"))
            await run(compiled(steps, place.saver), None, f"s{n}")
            assert (await place.texts())[n * len(ALL) :] == ALL
            assert [f"{ran} 0" for ran in steps.ran] == [text for text in ALL[ALL.index(f"{name} 0") :: 2]]


def _run_and_die(path: str, thread_id: str, name: str) -> None:
    class Mortal(Steps):
        def node(self, name_: str, events: int = 2, quiet: bool = False) -> Any:
            step = super().node(name_, events, quiet)

            async def die(state: Talk) -> dict[str, Any]:
                os._exit(1)

            return die if name_ == name else step

    async def start() -> None:
        database = await open_database(path)
        saver = FencedSqliteSaver(database)
        saver.hold(thread_id, await Lease(database).acquire(thread_id, "me"))
        await run(build(Mortal()).compile(checkpointer=saver), HELLO, thread_id)

    asyncio.run(start())


def _after(seconds: float, step: Any) -> Any:
    async def late(state: Talk) -> Any:
        await asyncio.sleep(seconds)
        return await step(state)

    return late
