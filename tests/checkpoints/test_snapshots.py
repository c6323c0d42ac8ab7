"""The list of a thread's snapshots, held against what LangGraph itself says of them."""

import asyncio
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import StateSnapshot

from segue.checkpoints.saver import FencedSaver
from segue.core.errors import UnknownThread
from segue.runtime.run import thread_config

from .conftest import Store
from .graphs import HELLO, Crash, Steps, Talk, compiled, config_of, run
from .worlds import World, look_at_once, note_the_turn, note_up_to, snapshots

Row = dict[str, Any]


async def history(here: World) -> list[StateSnapshot]:
    return [state async for state in here.app._runner.graph.aget_state_history(thread_config("s"))]


async def check_against_langgraph(here: World, found: list[Row]) -> None:
    """The outermost snapshots are LangGraph's, in its order."""
    states = await history(here)
    outermost = [snapshot for snapshot in found if snapshot["inside"] == ""]
    ids = [state.config["configurable"]["checkpoint_id"] for state in states]
    assert [snapshot["checkpoint_id"] for snapshot in outermost] == ids
    for snapshot, state in zip(outermost, states, strict=True):
        metadata = dict(state.metadata or {})
        assert tuple(snapshot["next"]) == state.next
        assert (snapshot["source"], snapshot["step"]) == (metadata["source"], metadata["step"])


async def test_the_snapshots_of_a_thread_are_langgraphs_with_who_made_them_when(here: World) -> None:
    here.register("a", note_the_turn, "react")
    first, second = [await here.run(f"turn {turn}", agent="a") for turn in (1, 2)]
    every = await snapshots(here.database, "s")
    await check_against_langgraph(here, every)
    found = [snapshot for snapshot in every if not snapshot["inside"]]
    assert [snapshot["task_id"] for snapshot in found] == [second] * 5 + [first] * 5
    assert [snapshot["nodes"] for snapshot in found[:5]] == [["FINISH"], ["react"], ["INIT"], ["__start__"], []]
    times = [snapshot["created_at"] for snapshot in found]
    assert times == sorted(times, reverse=True)
    rows = {row.task_id: row for row in await here.app.tasks.list()}
    for snapshot in found:
        row = rows[snapshot["task_id"]]
        assert row.created_at <= snapshot["created_at"] <= row.updated_at


async def test_pages_follow_each_other_without_gap_or_repeat(here: World) -> None:
    here.register("a", note_the_turn, "react")
    for turn in (1, 2):
        await here.run(f"turn {turn}", agent="a")
    whole, pages, before = await snapshots(here.database, "s"), [], None
    afters = [None, *(snapshot["checkpoint_id"] for snapshot in whole[:-1])]
    assert [(await snapshots(here.database, "s", 1, after))[0] for after in afters] == whole
    while page := await snapshots(here.database, "s", 5, before):
        pages.append(page)
        before = page[-1]["checkpoint_id"]
    assert [len(page) for page in pages] == [5] * 5 + [3]
    assert [snapshot for page in pages for snapshot in page] == whole


async def test_a_task_that_has_not_ended_shows_the_rounds_inside_its_mode(here: World) -> None:
    here.register("a", look_at_once(3), "plan")
    stuck = asyncio.Event()

    async def hang_in_the_third(number: int) -> None:
        if number == 3:
            stuck.set()
            await asyncio.Event().wait()

    here.hook = hang_in_the_third
    row = await here.app.start("look", session_id="s", agent="a")
    await stuck.wait()
    found = await snapshots(here.database, "s")
    assert found[0]["inside"] == "plan"
    assert (found[0]["nodes"], found[0]["next"]) == (["SCHEDULE"], ["EXECUTE_STEP"] * 3)
    here.app.stop_now(row.task_id)
    async for _ in here.app.follow(row.task_id):
        pass
    here.hook = None
    await check_against_langgraph(here, await snapshots(here.database, "s"))
    await here.app.resume(row.task_id)
    ended = await snapshots(here.database, "s")
    assert {snapshot["inside"] for snapshot in ended} == {"", "plan"}
    await check_against_langgraph(here, ended)


async def test_the_steps_of_a_wave_are_shown_as_what_ran_and_what_follows_once(here: World) -> None:
    here.register("a", look_at_once(3), "plan")

    await here.run_to(2, "look", agent="a")
    newest, *_ = await snapshots(here.database, "s")
    assert (newest["nodes"], newest["next"]) == (["EXECUTE_STEP"] * 3, ["SCHEDULE"])


async def test_an_update_from_outside_is_read_from_the_state(here: World) -> None:
    """A cancelled task's turn is closed by one."""
    here.register("a", note_up_to(3), "react")

    task_id = await here.run_to(1, "note", agent="a")
    await here.app.cancel(task_id)
    found = await snapshots(here.database, "s")
    assert (found[0]["source"], found[0]["next"], found[0]["task_id"]) == ("update", [], task_id)
    await check_against_langgraph(here, found)


async def test_an_update_that_lets_another_node_run_says_so(store: Store) -> None:
    graph = compiled(Steps(), FencedSaver(store))
    await run(graph, HELLO)
    await graph.aupdate_state(config_of(), {"done": ["first"]}, as_node="first")
    newest, *_ = await snapshots(store, "s")
    assert (newest["source"], newest["nodes"], newest["next"]) == ("update", [], ["inner"])


async def test_an_update_beside_a_step_that_was_cut_off_says_what_the_state_says(store: Store) -> None:
    """`first` had ended and called `last` when its neighbour crashed; the update goes on without either."""
    steps = Steps(crashing={"second"})
    graph = StateGraph(Talk)
    for name in ("first", "second", "third", "last"):
        graph.add_node(name, steps.node(name))
    graph.add_edge(START, "first")
    graph.add_edge(START, "second")
    graph.add_edge("first", "last")
    graph.add_edge("third", END)
    ready = graph.compile(checkpointer=FencedSaver(store))
    with pytest.raises(Crash):
        await run(ready, HELLO)
    await ready.aupdate_state(config_of(), {"done": ["third"]}, as_node="third")
    state = await ready.aget_state(config_of())
    newest, *_ = await snapshots(store, "s")
    assert (newest["source"], tuple(newest["next"])) == ("update", state.next)


async def test_a_thread_that_is_not_there_has_no_snapshots(here: World) -> None:
    with pytest.raises(UnknownThread):
        await snapshots(here.database, "s")
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    with pytest.raises(UnknownThread):
        await snapshots(here.database, "t")
    assert await snapshots(here.database, "s", before="0") == []
