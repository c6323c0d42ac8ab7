"""The saver under real graphs: no event lost or repeated, no finished node run again, no stale owner's write."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, cast

import psycopg
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from segue.checkpoints.events import EventLog
from segue.checkpoints.leases import Lease
from segue.checkpoints.sqlite.database import SqliteConnection
from segue.core.errors import DatabaseUnavailable, StaleOwner

from .conftest import Clock, Store
from .graphs import ALL, HELLO, Crash, Place, Said, Steps, Talk, at, chain, compiled, config_of, run, thought


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
    graph.add_node("unit", cast(Any, unit))
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


async def test_writes_put_again_add_no_event_and_take_no_number(place: Place) -> None:
    config = at("s", "c1")
    first = [("done", ["a"]), ("events", [thought("one"), thought("two")])]
    await place.saver.aput_writes(config, first, "lg1")
    await place.saver.aput_writes(config, first, "lg1")
    await place.saver.aput_writes(config, [("events", [thought("three"), thought("of another", "t2")])], "lg2")
    await place.saver.aput_writes(config, [("events", [thought("four")])], "lg3")
    assert await place.texts() == ["one", "two", "three", "four"]
    assert await place.texts("t2") == ["of another"]
    assert [event.data["text"] for event in place.told] == ["one", "two", "three", "of another", "four"]


async def test_a_copied_thread_and_later_input_keep_their_own_events(place: Place) -> None:
    nobody = "00000000-0000-0000-0000-000000000000"
    for thread_id, checkpoint_id in (("s", "c1"), ("copy", "c1"), ("s", "c2")):
        config = at(thread_id, checkpoint_id)
        await place.saver.aput_writes(config, [("events", [thought(f"{thread_id} {checkpoint_id}")])], nobody)
    assert await place.texts() == ["s c1", "copy c1", "s c2"]


async def test_what_was_read_of_a_held_thread_is_kept_until_it_is_written_to(place: Place) -> None:
    async def said() -> list[Any]:
        state = await compiled(Steps(), place.saver).aget_state(config_of())
        return [message.content for message in state.values["messages"]]

    await run(compiled(Steps(), place.saver), HELLO)
    place.saver.keep_reads("s")
    one_turn = ["hello", "first", "last"]
    assert await said() == one_turn
    await run(compiled(Steps(), Place(place.database).saver), HELLO)
    assert await said() == one_turn
    await run(compiled(Steps(), place.saver), HELLO)
    assert await said() == one_turn * 2


async def test_only_known_types_come_back(place: Place) -> None:
    config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
    values = {"message": AIMessage("hi"), "steps": Steps(), "json": {"a": [1, None, "你好"]}}
    checkpoint: Any = {
        "id": "c2",
        "v": 4,
        "ts": "",
        "channel_versions": dict.fromkeys(values, "1"),
        "versions_seen": {},
        "channel_values": values,
    }
    await place.saver.aput(config, checkpoint, {}, checkpoint["channel_versions"])
    found = await place.saver.aget_tuple(config_of())
    assert found is not None
    kept = found.checkpoint["channel_values"]
    assert (kept["message"], kept["json"]) == (values["message"], values["json"])
    assert not isinstance(kept["steps"], Steps)


async def test_threads_run_beside_each_other_and_beside_readers(place: Place) -> None:
    reading = asyncio.ensure_future(_read_on(place))
    graph = compiled(Steps(), place.saver)
    await asyncio.gather(*(run(graph, HELLO, f"s{n}") for n in range(20)))
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert len(await place.texts()) == 20 * len(ALL)
    assert [event.seq for event in place.told] == list(range(1, 20 * len(ALL) + 1))


async def _read_on(place: Place) -> None:
    graph = compiled(Steps(), place.saver)
    while True:
        await place.texts()
        await graph.aget_state(config_of("s3"))
        await asyncio.sleep(0)


def _after(seconds: float, step: Any) -> Any:
    async def late(state: Talk) -> Any:
        await asyncio.sleep(seconds)
        return await step(state)

    return late


async def test_the_input_of_a_held_thread_is_committed_with_the_step_after_it(place: Place) -> None:
    runs: list[int] = []

    async def first(state: Talk) -> dict[str, Any]:
        runs.append(await place.count("SELECT count(*) FROM checkpoints"))
        return {"done": ["first"]}

    place.saver.hold("s", await Lease(place.database).acquire("s", "me"))
    graph = chain(StateGraph(Talk), first=first).compile(checkpointer=place.saver)
    submitted, submit = list[bool](), place.database.submit

    def noted(*given: Any, **options: Any) -> Any:
        submitted.append(bool(options.get("deferred")))
        return submit(*given, **options)

    place.database.submit = noted  # type: ignore[method-assign]
    await run(graph, HELLO)
    # the input, its writes and the checkpoint before the node; what the node wrote, and the last checkpoint
    assert submitted == [True, True, False, True, False]
    assert runs == [2]  # nothing ran before both were stored
    assert await place.count("SELECT count(*) FROM checkpoints") == 3


async def test_what_an_inner_step_wrote_is_dropped_once_its_checkpoint_is_stored(place: Place) -> None:
    nodes = {f"n{number}": Steps().node(f"n{number}") for number in range(8)}
    inner = chain(StateGraph(Talk, output_schema=Said), **nodes).compile()
    graph = chain(StateGraph(Talk), first=Steps().node("first"), inner=inner).compile(checkpointer=place.saver)
    await run(graph, HELLO)
    kept = await place.database.read(
        lambda db: db.execute("SELECT channel, count(*) FROM writes WHERE checkpoint_ns <> '' GROUP BY 1").fetchall()
    )
    counts = {channel: count for channel, count in kept if not channel.startswith("branch:")}
    assert counts == {"messages": 6}
    (ns,) = await place.database.read(
        lambda db: db.execute("SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE checkpoint_ns <> ''").fetchone()
    )
    config: Any = {"configurable": {"thread_id": "s", "checkpoint_ns": ns}}
    states = [state async for state in graph.aget_state_history(config)]
    said = [[message.content for message in state.values["messages"]] for state in reversed(states)]
    assert said == [[], *(["hello", "first", *(f"n{n}" for n in range(length))] for length in range(9))]
    assert [len(state.values.get("done", [])) for state in reversed(states)] == [0, *range(1, 10)]


async def test_a_thread_with_versions_of_langgraphs_own_form_keeps_them(place: Place) -> None:
    versions = AsyncSqliteSaver.get_next_version(place.saver, None, None)
    assert place.saver.get_next_version(None, None)[:8] == "00000001"
    assert place.saver.get_next_version("00000009", None)[:8] == "00000010"
    assert place.saver.get_next_version("00000009.ff", None) > "00000009.ff"
    assert versions < place.saver.get_next_version(versions, None) < place.saver.get_next_version(f"{3:032}.0.5", None)


# The saver when the owner of a thread changes, dies, or cannot write.


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


@pytest.mark.parametrize("deferral", [3.0, 0.0])
async def test_of_what_a_step_wrote_as_much_is_counted_and_kept_whenever_it_was_stored(
    held: Place, monkeypatch: pytest.MonkeyPatch, deferral: float
) -> None:
    monkeypatch.setattr("segue.checkpoints.database.DEFERRAL", deferral)
    graph = nested(Steps(), held)
    await run(graph, HELLO)
    held.saver.hold("s", held.saver.fence("s"))  # as another process that goes on: nothing is known of what is stored
    await run(graph, HELLO)
    channels = (
        "SELECT DISTINCT channel FROM writes WHERE checkpoint_ns <> '' AND task_path <> '~__pregel_pull, __start__'"
    )
    kept = await held.database.read(lambda db: [row[0] for row in db.execute(channels).fetchall()])
    assert kept == ["messages"]
    unequal = """
        SELECT count(*) FROM checkpoints WHERE kept_writes <> (
            SELECT count(*) FROM writes WHERE channel = 'messages'
                AND writes.thread_id = checkpoints.thread_id AND writes.checkpoint_ns = checkpoints.checkpoint_ns
                AND writes.checkpoint_id = checkpoints.parent_checkpoint_id
        )
    """
    assert await held.count(unequal) == 0
    async for state in graph.aget_state_history(config_of()):
        assert (state.metadata or {}).get("segue_next", [*state.next]) == [*state.next]
