"""Pruning: whatever is kept reads as before, wherever the cut is."""

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.core.errors import ConfigurationError, TaskError
from segue.core.records import Session
from segue.core.timeline import Place, Pruned, Retention
from segue.runtime.history import Pruning
from segue.runtime.run import config_of
from tests.cases import cases

from .worlds import World, look_at_once, note_the_turn, note_up_to, payments, snapshots, world

Json = dict[str, Any]
NOTED = ("segue_ran", "segue_next", "segue_since", "counters_since_delta_snapshot")


async def reading(here: World) -> dict[str, Any]:
    """Each snapshot of the session as LangGraph and the lists read it."""
    found: dict[str, Any] = {}
    for snapshot in await snapshots(here.database, "s", limit=-1):
        place: Place = await here.app._storage.sessions.find_place(snapshot["checkpoint_id"], "s")
        state = await here.app._runner.graph.aget_state(config_of(place))
        metadata = {name: value for name, value in (state.metadata or {}).items() if name not in NOTED}
        shown = {name: value for name, value in snapshot.items() if name != "since"}
        read = (state.values, state.next, [task.id for task in state.tasks], state.interrupts, metadata, shown)
        found[snapshot["checkpoint_id"]] = read
    return found


async def kept(here: World, session: str = "s") -> Json:
    """What no pruning may change."""
    tasks = await here.app.tasks.list(session_id=session, limit=-1)
    traces = [await here.app.trace(task.task_id) for task in tasks]
    return {"history": await here.app.history(session), "traces": traces}


async def check_every_cut(here: World) -> int:
    """Prune to one snapshot less each time; returns how many there were."""
    original, before = await reading(here), await kept(here)
    timeline = {entry.checkpoint_id: entry for entry in await here.app.rewind.timeline("s")}
    for last in range(len(timeline) - 1, 0, -1):
        assert (await here.app.sessions.prune(last, session_id="s")).snapshots > 0
        now = await reading(here)
        assert now.items() <= original.items()
        listed = await here.app.rewind.timeline("s")
        assert [entry.checkpoint_id for entry in listed] == [*timeline][-last:]
        assert listed == [timeline[entry.checkpoint_id] for entry in listed]
        assert await kept(here) == before
    assert await here.app.sessions.prune(1, session_id="s") == Pruned()
    return len(timeline)


async def test_of_an_ended_session_every_kept_snapshot_reads_as_before_and_it_goes_on(here: World) -> None:
    here.register("a", note_the_turn, "react")
    for turn in (1, 2):
        await here.run(f"turn {turn}", agent="a")
    assert await check_every_cut(here) > 6
    assert (await here.app.ask("turn 3", session_id="s", agent="a"))["answer"] == "done 3"
    said = [message["content"] for message in await here.app.history("s") if message["role"] == "user"]
    assert said == [f"turn {turn}" for turn in (1, 2, 3)]


@pytest.mark.parametrize(("script", "mode", "number"), [(note_up_to(4), "react", 2), (look_at_once(3), "plan", 2)])
async def test_of_an_unfinished_task_what_had_run_does_not_run_again(
    here: World, script: Any, mode: str, number: int
) -> None:
    here.register("a", script, mode)
    task_id = await here.run_to(number, "go", agent="a")
    ran = list(here.noted)
    await check_every_cut_of_paused(here)
    here.effects.clear()
    assert (await here.app.resume(task_id))["success"]
    assert not {*here.noted} & {*ran}


async def check_every_cut_of_paused(here: World) -> None:
    original = await reading(here)
    for last in range(len(await here.app.rewind.timeline("s")) - 1, 0, -1):
        await here.app.sessions.prune(last, session_id="s")
        assert (await reading(here)).items() <= original.items()


async def test_a_waiting_task_can_be_answered_afterwards(here: World) -> None:
    paid = payments(here)
    task_id = await here.run("pay 5", agent="a")
    await check_every_cut_of_paused(here)
    approved = {"verdicts": [{"index": 1, "verdict": "approve"}]}
    assert (await here.app.answer(task_id, approved))["answer"] == "it is paid"
    assert paid == [5]


async def test_a_pruned_session_is_forked_and_exported_as_before(here: World) -> None:
    here.register("a", note_the_turn, "react")
    for turn in (1, 2):
        await here.run(f"turn {turn}", agent="a")
    await here.app.sessions.prune(3)
    oldest = (await here.app.rewind.timeline("s"))[0]
    task = await here.app.rewind.fork("s", oldest.short_id, session_id="f")
    here.effects.clear()
    assert (await here.app.resume(task.task_id))["answer"] == "done 2"
    assert (await here.app.history("f"))[-1]["content"] == "done 2"
    await here.app.sessions.import_(await here.app.sessions.export("s"), session_id="i")
    assert [m["content"] for m in await here.app.history("i")] == [m["content"] for m in await here.app.history("s")]
    with pytest.raises(TaskError, match="were pruned"):
        await here.app.rewind.edit("s", oldest.short_id, session_id="e", message="turn 2, again")


async def test_a_limit_gives_the_end_of_the_timeline_also_of_a_pruned_session_a_fork_and_a_damaged_one(
    here: World,
) -> None:
    here.register("a", note_the_turn, "react")
    for turn in range(1, 9):
        await here.run(f"turn {turn}", agent="a")
    whole = await here.app.rewind.timeline("s")
    await check_limits(here, "s", (1, 2, 3, 7, len(whole) - 1, len(whole), 1000))
    assert [effect.task_id for entry in whole[-20:] for effect in entry.effects]
    await here.app.rewind.fork("s", whole[-5].short_id, session_id="f")
    await check_limits(here, "f", (1, 6, 50))
    await here.app.sessions.prune(12, session_id="s")
    await check_limits(here, "s", (1, 2, 5, 6, 7, 11, 12, 13))
    damaged = whole[-6].checkpoint_id
    broken = "UPDATE checkpoints SET metadata = '[]' WHERE thread_id = 's' AND checkpoint_id = ?"
    await here.database.write(lambda connection: connection.execute(broken, (damaged,)))
    assert any(entry.damaged for entry in await here.app.rewind.timeline("s"))
    await check_limits(here, "s", (1, 2, 5, 6, 7, 11, 12, 13))


async def check_limits(here: World, session: str, limits: Iterable[int]) -> None:
    whole = await here.app.rewind.timeline(session)
    for limit in limits:
        assert await here.app.rewind.timeline(session, limit=limit) == whole[-limit:], limit


async def test_a_session_whose_task_runs_is_left_as_it_is(here: World) -> None:
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    before = here.rows("s")
    async with here.app._runner.leased("s"):
        assert await here.app.sessions.prune(1) == Pruned(busy=("s",))
    assert here.rows("s") == before


async def test_an_age_keeps_what_is_younger(here: World) -> None:
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    assert (await here.app.sessions.prune("1m")).snapshots == 0
    assert (await here.app.sessions.prune(Retention(seconds=0.0))).snapshots > 0
    assert len(await here.app.rewind.timeline("s")) == 1


async def test_a_policy_prunes_in_the_background(tmp_path: Path) -> None:
    async with world(str(tmp_path / "segue.db")) as here:
        here.register("a", note_the_turn, "react")
        await here.run("turn 1", agent="a")
        await here.app.sessions.shares.create("s", 0.0)
        _, kept = await here.app.sessions.shares.create("s", 60.0)
    async with segue.open(tmp_path / "segue.db", retention=2) as app, asyncio.timeout(60):
        while len(await app.rewind.timeline("s")) > 2:  # noqa: ASYNC110 - nothing tells that it has pruned
            await asyncio.sleep(0.01)
    with closing(sqlite3.connect(tmp_path / "segue.db")) as file:
        assert file.execute("SELECT share_id FROM shares").fetchall() == [(kept.share_id,)]


async def test_a_session_without_a_message_is_nothing_to_prune_and_nothing_to_warn_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        await app.sessions.create(Session("empty"))
        await app.ask("echo hello", session_id="used")
        assert (await app.sessions.prune("100d")).sessions == 0
        assert (await app.sessions.prune(1)).sessions == 1
        assert await app.sessions.prune(1, session_id="empty") == Pruned()
        with pytest.raises(TaskError, match="nowhere"):
            await app.sessions.prune(1, session_id="nowhere")
    assert not caplog.records


async def test_why_the_background_cannot_prune_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    storage: Any = None
    pruning = Pruning(storage, storage)
    pruning.start(Retention(last=2))
    await asyncio.sleep(0)
    await pruning.close()
    (record,) = caplog.records
    assert record.message == "Snapshots could not be pruned"
    assert record.exc_info and record.exc_info[0] is AttributeError


@cases("given", ["30", "30d", "2w, 100", 5])
def test_a_retention_is_an_age_a_number_or_both(given: Any) -> None:
    assert Retention.of(given) != Retention()


@cases("given", ["", "0", "30 days", "-1", "d"])
def test_any_other_retention_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="write an age such as 30d"):
        Retention.of(given)
