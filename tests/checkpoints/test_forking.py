"""Forks of real threads at every one of their snapshots: what had run never runs again, what had not may."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from segue.checkpoints.leases import Lease
from segue.checkpoints.saver import FencedSaver
from segue.checkpoints.tasks import Tasks
from segue.core.agents import Agent
from segue.core.context import Ids
from segue.core.errors import (
    DamagedCheckpoint,
    ModelRefused,
    TaskError,
    ThreadBusy,
    ThreadExists,
    UnknownSnapshot,
    UnknownThread,
)
from segue.core.records import NewTask
from segue.runtime.run import thread_config
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

from .conftest import Store
from .graphs import HELLO, Steps, compiled, config_of, run
from .worlds import World, fork, look_at_once, look_in_a_batch, note_the_turn, note_up_to, payments, snapshots, world


@pytest.fixture
async def on_file(path: str) -> AsyncIterator[World]:
    async with world(path) as opened:
        yield opened


async def taken(here: World, thread_id: str = "s") -> list[dict[str, Any]]:
    return await snapshots(here.database, thread_id, limit=1000)


async def check_whole(here: World, thread_id: str, task_id: str) -> None:
    """A fork's task has all that a task has, under its own id alone."""
    trace = await here.app.trace(task_id)
    kinds = [event.type for event in trace.events]
    assert [event.seq for event in trace.events] == list(range(1, len(kinds) + 1))
    assert kinds.count("task_started") == kinds.count("task_complete") == 1
    assert {event.task_id for event in trace.events} == {task_id}
    assert all(call.state == "done" for call in trace.calls)
    state = await here.app._runner.graph.aget_state(thread_config(thread_id))
    assert state.values["task_id"] == task_id and not state.tasks
    results = [message for message in state.values["messages"] if message.type == "tool"]
    assert {result.additional_kwargs["key"]["task_id"] for result in results} <= {task_id}
    assert {result.additional_kwargs["ref"][:8] for result in results} <= {task_id[:8]}


async def fork_everywhere(here: World, original: str, numbers: set[int]) -> int:
    """Fork at each chosen snapshot of a task that has `numbers` noted in the end, and resume each; how many it has."""
    before = here.rows("s")
    found = await taken(here)
    newest = {snapshot["inside"]: snapshot["checkpoint_id"] for snapshot in reversed(found)}
    ran = list(here.effects)
    for place, snapshot in enumerate(here.chosen(found)):
        had = {number for number, at in ran if at < snapshot["created_at"]}
        if snapshot["checkpoint_id"] == newest[snapshot["inside"]]:
            had = {number for number, _ in ran}  # the thread still stands there
        here.effects.clear()
        name = f"fork-{place}"
        task_id = await fork(here.database, "s", snapshot["checkpoint_id"], name)
        assert task_id not in (None, original)
        row = await here.task(str(task_id))
        if row.status == "done":
            assert snapshot["next"] == [] and snapshot["inside"] == ""
        else:
            assert row.status == "paused" and row.result is None
            events = (await here.app.trace(str(task_id))).events
            assert [e.data["new"] for e in events if e.type == "state_changed"][-1] == "paused"
            assert events[-1].data == {"reason": "forked from session 's'", "forked": True, "partial": ""}
            result = await here.app.resume(str(task_id))
            assert result["success"], result
        assert set(here.noted) == numbers - had and len(here.noted) == len(set(here.noted))
        await check_whole(here, name, str(task_id))
        said = await here.app.history(name)
        assert [message["role"] for message in said if message["role"] == "user"] == ["user"]
        assert len([message for message in said if message["role"] == "tool"]) == len(numbers)
        assert here.rows("s") == before
    return len(found)


async def test_a_finished_task_is_forked_at_every_snapshot(here: World) -> None:
    here.register("a", note_up_to(3), "react")
    task_id = await here.run("note three numbers", agent="a")
    assert here.noted == [1, 2, 3]
    assert await fork_everywhere(here, task_id, {1, 2, 3}) == 20


async def test_a_paused_task_is_forked_at_every_snapshot_and_goes_on_itself(here: World) -> None:
    here.register("a", note_up_to(4), "react")

    task_id = await here.run_to(2, "note four numbers", agent="a")
    assert here.noted == [1, 2]
    assert await fork_everywhere(here, task_id, {1, 2, 3, 4}) > 10
    here.effects.clear()
    assert (await here.app.resume(task_id))["success"]
    assert here.noted == [3, 4]


async def test_parallel_steps_of_a_paused_plan_are_not_taken_again(here: World) -> None:
    """Two of the three steps have ended when the third is stopped: their results are in no checkpoint yet."""
    here.register("a", look_at_once(3), "plan")
    stuck, ended = asyncio.Event(), 0

    async def hang_in_the_third(number: int) -> None:
        if number == 3:
            stuck.set()
            await asyncio.Event().wait()

    here.hook = hang_in_the_third
    row = await here.app.start("look", session_id="s", agent="a")
    async for event in here.app.follow(row.task_id):
        ended += event.type == "tool_result"
        if ended == 2 and event.type == "tool_result":
            await stuck.wait()
            here.app.stop_now(row.task_id)
    here.hook = None
    assert await fork_everywhere(here, row.task_id, {1, 2, 3}) > 8
    here.effects.clear()
    assert (await here.app.resume(row.task_id))["answer"] == "seen 1,2,3"
    assert here.noted == [3]


async def test_a_batch_that_was_stopped_is_finished_from_the_ledger(here: World) -> None:
    """The batch is one node, which runs again: only the ledger knows that two of its calls have ended."""
    here.register("a", look_in_a_batch(3), "react")
    original = await here.stop_in_the_last(3, "look", agent="a")
    assert sorted(here.noted) == [1, 2]
    forked = str(await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f"))
    for task_id in (forked, original):
        here.effects.clear()
        assert (await here.app.resume(task_id))["answer"] == "seen 1,2,3"
        assert here.noted == [3]


async def test_a_thread_of_three_turns_is_forked_at_every_snapshot(here: World) -> None:
    here.register("a", note_the_turn, "react")
    originals = [await here.run(f"turn {turn}", agent="a") for turn in (1, 2, 3)]
    found, before = await taken(here), here.rows("s")
    assert len(found) == 42
    for place, snapshot in enumerate(here.chosen(found)):
        had = here.noted_before(snapshot["created_at"])
        turn = originals.index(snapshot["task_id"]) + 1
        effects, here.effects = here.effects, []
        name = f"fork-{place}"
        task_id = str(await fork(here.database, "s", snapshot["checkpoint_id"], name))
        rows = list(reversed(await here.app.tasks.list(session_id=name)))
        assert [row.message for row in rows] == [f"turn {number}" for number in range(1, turn + 1)]
        assert [row.copy_of for row in rows[:-1]] == originals[: turn - 1]
        assert not {row.task_id for row in rows} & set(originals)
        if snapshot["next"] or snapshot["inside"]:
            assert (rows[-1].status, rows[-1].copy_of) == ("paused", None)
            assert (await here.app.resume(task_id))["answer"] == f"done {turn}"
        else:
            assert (rows[-1].status, rows[-1].copy_of) == ("done", originals[turn - 1])
        assert set(here.noted) == set(range(1, turn + 1)) - had
        for row in rows:
            await check_whole_log(here, row.task_id)
        assert (await here.app.ask("turn 4", session_id=name, agent="a"))["answer"] == "done 4"
        said = [m["content"] for m in await here.app.history(name) if m["role"] == "user"]
        assert said == [*(f"turn {number}" for number in range(1, turn + 1)), "turn 4"]
        assert here.rows("s") == before
        here.effects = effects


async def check_whole_log(here: World, task_id: str) -> None:
    trace = await here.app.trace(task_id)
    kinds = [event.type for event in trace.events]
    assert [event.seq for event in trace.events] == list(range(1, len(kinds) + 1))
    assert kinds.count("tool_result") == kinds.count("task_complete") == len(trace.calls) == 1


async def test_the_original_and_its_fork_go_on_side_by_side(here: World) -> None:
    here.register("a", note_up_to(4), "react")

    original = await here.run_to(2, "note four numbers", agent="a")
    newest = (await taken(here))[0]
    forked = str(await fork(here.database, "s", newest["checkpoint_id"], "f"))
    here.effects.clear()
    results = await asyncio.gather(here.app.resume(original), here.app.resume(forked))
    assert [result["session_id"] for result in results] == ["s", "f"]
    assert sorted(here.noted) == [3, 3, 4, 4]
    for task_id in (original, forked):
        trace = await here.app.trace(task_id)
        assert [json.loads(json.dumps(call.arguments))["number"] for call in trace.calls] == [1, 2, 3, 4]
        assert {event.task_id for event in trace.events} == {task_id}


async def test_a_fork_that_goes_another_way_tells_only_of_that(here: World) -> None:
    here.register("a", note_up_to(3), "react")
    await here.run_to(2, "note three numbers", agent="a")
    found = [snapshot for snapshot in await taken(here) if snapshot["next"] == ["CALL_LLM"]]
    forked = str(await fork(here.database, "s", found[0]["checkpoint_id"], "f"))
    here.register("a", [answer("enough")], "react")
    here.effects.clear()
    assert (await here.app.resume(forked))["answer"] == "enough"
    events = (await here.app.trace(forked)).events
    assert [e.data["arguments"]["number"] for e in events if e.type in ("tool_call", "tool_result")] == [1, 1]
    assert [e.data["action_type"] for e in events if e.type == "action"] == ["CALL_TOOL", "ANSWER"]
    assert here.noted == []


async def test_a_fork_can_be_forked(here: World) -> None:
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f")
    await here.app.ask("turn 2", session_id="f", agent="a")
    here.effects.clear()
    found = [snapshot for snapshot in await taken(here, "f") if snapshot["next"] == ["FINISH"]]
    task_id = str(await fork(here.database, "f", found[0]["checkpoint_id"], "g"))
    assert (await here.app.resume(task_id))["answer"] == "done 2"
    assert here.noted == []
    assert [m["content"] for m in await here.app.history("g") if m["role"] == "tool"] == ["noted 1", "noted 2"]
    origins = [snapshot["forked_from"] for snapshot in await taken(here, "g") if "forked_from" in snapshot]
    assert [origin["session_id"] for origin in origins] == ["f", "s"]


async def test_a_call_that_was_under_way_is_not_made_again_by_the_fork(here: World) -> None:
    """The original still runs: nobody knows yet whether its call takes effect."""
    here.register("a", note_up_to(2), "react")
    stuck, seen = asyncio.Event(), asyncio.Event()

    async def hang_in_the_second(number: int) -> None:
        if number == 2:
            stuck.set()
            await seen.wait()

    here.hook = hang_in_the_second
    row = await here.app.start("note two numbers", session_id="s", agent="a")
    await stuck.wait()
    task_id = str(await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f"))
    assert here.noted == [1, 2]
    here.hook = None
    await here.app.resume(task_id)
    outcomes = [call.outcome for call in (await here.app.trace(task_id)).calls]
    assert outcomes[0] == {"success": "noted 1"} and outcomes[1]["unknown_outcome"] is True
    seen.set()
    async for _ in here.app.follow(row.task_id):
        pass
    assert [call.outcome for call in (await here.app.trace(row.task_id)).calls] == [
        {"success": "noted 1"},
        {"success": "noted 2"},
    ]


async def test_what_cannot_be_forked_is_refused_and_leaves_nothing(here: World, store: Store) -> None:
    here.register("a", note_the_turn, "react")
    with pytest.raises(UnknownThread):
        await fork(store, "s", "x", "f")
    await here.run("turn 1", agent="a")
    await here.run("turn 1", session_id="t", agent="a")
    checkpoint_id = (await taken(here))[0]["checkpoint_id"]
    with pytest.raises(UnknownSnapshot):
        await fork(store, "s", "x", "f")
    with pytest.raises(UnknownSnapshot):
        await fork(store, "t", checkpoint_id, "f")
    for name in ("s", "t"):
        with pytest.raises(ThreadExists):
            await fork(store, "s", checkpoint_id, name)
    await Lease(store).acquire("f", "somebody")
    with pytest.raises(ThreadBusy):
        await fork(store, "s", checkpoint_id, "f")
    assert not any(here.rows("f").values())


async def test_a_task_that_waits_for_a_person_is_forked_at_every_snapshot(here: World) -> None:
    paid = payments(here)
    original = await here.run("pay 5", agent="a")
    found, waiting = await taken(here), []
    approved = {"verdicts": [{"index": 1, "verdict": "approve"}]}
    for place, snapshot in enumerate(found):
        task_id = str(await fork(here.database, "s", snapshot["checkpoint_id"], f"fork-{place}"))
        if (await here.task(task_id)).status == "waiting":
            waiting.append((snapshot["inside"], snapshot["next"]))
        else:
            assert (await here.app.resume(task_id))["status"] == "waiting"
        assert paid == []
        assert (await here.app.answer(task_id, approved))["answer"] == "it is paid"
        assert paid == [5]
        await check_whole(here, f"fork-{place}", task_id)
        paid.clear()
    assert waiting == [("react", ["CALL_TOOL"]), ("", ["react"])]
    assert (await here.app.answer(original, approved))["answer"] == "it is paid"


async def test_a_fork_from_between_an_approval_and_its_call_asks_again(here: World) -> None:
    async def copy_all(number: int) -> None:
        for place, snapshot in enumerate(await taken(here)):
            copies.append(str(await fork(here.database, "s", snapshot["checkpoint_id"], f"fork-{place}")))

    copies: list[str] = []
    paid = payments(here, first=True)
    original = await here.run("pay 5", agent="a")
    here.hook = copy_all
    assert (await here.app.answer(original, "approve"))["answer"] == "it is paid"
    here.hook, ends = None, []
    for task_id in copies:
        if (await here.task(task_id)).status == "paused":
            ends.append((await here.app.resume(task_id))["status"])
    assert paid == [5]
    assert ends.count("waiting") > 3 and "done" in ends
    task_id = copies[ends.index("waiting")]
    assert (await here.app.answer(task_id, "approve"))["answer"] == "it is paid"
    assert paid == [5, 5]


async def test_a_fork_does_not_take_over_an_answer_that_was_not_acted_upon(here: World) -> None:
    paid = payments(here)
    original = await here.run("pay 5", agent="a")
    question = await here.app.question(original)
    given = {"interrupt_id": question["interrupt_id"], "value": {"verdicts": [{"index": 1, "verdict": "approve"}]}}
    stored = "UPDATE tasks SET status = 'paused', answer = ? WHERE task_id = ?"  # and then its process ended
    await here.database.write(lambda connection: connection.execute(stored, (json.dumps(given), original)))
    task_id = str(await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f"))
    assert (await here.app.resume(task_id))["status"] == "waiting"
    assert paid == []
    assert (await here.app.answer(task_id, "approve"))["answer"] == "it is paid"
    assert paid == [5]


async def test_a_graph_within_a_graph_within_the_thread_is_forked_at_every_snapshot(here: World) -> None:
    """plan_react: the plan's graph runs the react graph; the fork goes on in the innermost."""

    def reply(messages: Sequence[BaseMessage]) -> str:
        if any("Write a plan" in message.text for message in messages):
            return plan_json("note", [{"action": "note", "params": {"number": 1}, "description": "note all"}])
        return note_up_to(3)(messages)

    here.register("a", reply, "plan_react")

    task_id = await here.run_to(2, "note three numbers", agent="a")
    assert {snapshot["inside"] for snapshot in await taken(here)} == {"", "plan_react", "plan_react/REACT"}
    assert await fork_everywhere(here, task_id, {1, 2, 3}) > 15


async def test_a_task_that_went_over_to_another_mode_is_forked_at_every_snapshot(here: World) -> None:
    """The plan cannot be read, so react takes over; the snapshots of the plan's graph are still there."""
    reply = note_up_to(3)
    here.register("a", lambda messages: reply(messages) if "trace_id" in str(messages) else "no plan", "plan")

    await here.run_to(2, "note three numbers", agent="a")
    assert {snapshot["inside"] for snapshot in await taken(here)} == {"", "plan", "react"}
    before = here.rows("s")
    for place, snapshot in enumerate(here.chosen(await taken(here))):
        here.effects.clear()
        forked = str(await fork(here.database, "s", snapshot["checkpoint_id"], f"fork-{place}"))
        assert (await here.app.resume(forked))["answer"] == "all noted"
        await check_whole(here, f"fork-{place}", forked)
        assert [call.arguments["number"] for call in (await here.app.trace(forked)).calls] == [1, 2, 3]
        assert here.rows("s") == before


async def test_a_large_result_can_be_recalled_after_a_fork_in_the_middle_of_a_batch(here: World) -> None:
    opened: list[str] = []

    async def dump(part: int) -> str:
        """Return a lot."""
        if part == 2:
            (row,) = [row for row in await here.app.tasks.list() if row.status == "running"]
            await here.app.pause(row.task_id)
        return f"part {part} " + "x" * 200_000 + " end"

    def decide(messages: Sequence[BaseMessage]) -> str:
        text = "\n".join(message.text for message in messages)
        refs = re.findall(r"recall\(ref='([^']+)'", text)
        if not refs:
            return call_tool(*(("dump", {"part": part}) for part in (1, 2, 3)))
        if not opened:
            opened.append(refs[0])
            return call_tool(("recall", {"ref": refs[0], "offset": 199_990}))
        return answer("recalled" if " end" in text else text[-2000:])

    here.app.register(Agent(agent_id="a", model=ScriptedChatModel(decide), mode="react", tools=(dump,)))
    await here.run("dump", agent="a")
    assert not opened
    task_id = str(await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f"))
    assert (await here.app.resume(task_id))["answer"] == "recalled"
    assert opened[0].startswith(task_id[:8])


async def test_what_was_added_to_a_task_comes_along_only_if_it_was_added_before(here: World) -> None:
    here.register("a", note_up_to(4), "react")

    task_id = await here.run_to(1, "note four numbers", agent="a")
    middle = (await taken(here))[0]
    await here.run_to(2, "be quick", agent="a", steer=True)
    later = (await taken(here))[0]
    await here.run_to(3, "be polite", agent="a", steer=True)
    assert (await here.task(task_id)).notes == ["be quick", "be polite"]
    for name, snapshot, notes in (("f", middle, []), ("g", later, ["be quick"])):
        forked = str(await fork(here.database, "s", snapshot["checkpoint_id"], name))
        assert (await here.task(forked)).notes == notes
        assert (await here.app.resume(forked))["answer"] == "all noted"
        said = [message["content"] for message in await here.app.history(name) if message["role"] == "user"]
        assert said == ["note four numbers", *notes]


async def test_a_task_that_was_cancelled_ends_its_fork_too_unless_it_is_forked_before(here: World) -> None:
    here.register("a", note_up_to(3), "react")

    original = await here.run_to(2, "note three numbers", agent="a")
    await here.app.cancel(original)
    newest, *older = await taken(here)
    ended = await here.task(str(await fork(here.database, "s", newest["checkpoint_id"], "f")))
    assert (newest["source"], newest["next"], ended.status, ended.copy_of) == (
        "update",
        [],
        "cancelled",
        original,
    )
    here.register("a", note_the_turn, "react")
    here.effects.clear()
    assert (await here.app.ask("turn 7", session_id="f", agent="a"))["answer"] == "done 7"
    assert here.noted == [7]
    here.register("a", note_up_to(3), "react")
    reopened = str(await fork(here.database, "s", older[0]["checkpoint_id"], "g"))
    assert (await here.app.resume(reopened))["answer"] == "all noted"


async def test_damage_is_copied_as_damage(on_file: World, path: str) -> None:
    """The checksum of a copy is made anew, but not where the original's was wrong."""
    on_file.register("a", note_the_turn, "react")
    await on_file.run("turn 1", agent="a")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE checkpoints SET checkpoint = CAST(substr(checkpoint, 1, length(checkpoint) - 8) || x'00' AS BLOB)"
            " WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)"
        )
    await fork(on_file.database, "s", (await taken(on_file))[0]["checkpoint_id"], "f")
    for thread_id in ("s", "f"):
        with pytest.raises(DamagedCheckpoint):
            await on_file.app.history(thread_id)


async def test_a_task_that_failed_is_paused_in_its_fork(here: World) -> None:
    here.register("a", [call_tool(("note", {"number": 1})), ModelRefused("no more"), answer("late")], "react")
    task_id = await here.run("note", agent="a")
    assert (await here.task(task_id)).status == "error"
    forked = str(await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f"))
    assert ((await here.task(forked)).status, (await here.task(forked)).error) == ("paused", None)
    assert (await here.app.resume(forked))["answer"] == "late"
    assert here.noted == [1]


async def test_a_task_that_had_not_begun_begins_in_the_fork(here: World) -> None:
    """Its process ended before it came to a first checkpoint, so it shows in none."""
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    row = {"session_id": "s", "agent_id": "a", "user_id": "default", "mode": "react", "model": "", "message": "turn 2"}
    await Tasks(here.database).create(NewTask(task_id=Ids().task(), **row))
    newest, *older = await taken(here)
    forked = str(await fork(here.database, "s", newest["checkpoint_id"], "f"))
    assert (await here.task(forked)).status == "paused"
    assert (await here.app.resume(forked))["answer"] == "done 2"
    before = str(await fork(here.database, "s", older[0]["checkpoint_id"], "g"))
    assert (await here.task(before)).message == "turn 1"


async def test_a_fork_is_the_thread_that_was_used_last(here: World) -> None:
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    await here.run("turn 1", session_id="t", agent="a")
    await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f")
    assert [thread.session_id for thread in await here.app.threads()] == ["f", "t", "s"]


async def test_a_thread_of_a_graph_that_ran_without_the_app_is_forked_too(store: Store) -> None:
    """It has checkpoints, in a graph within a graph too, and no tasks."""
    graph = compiled(Steps(), FencedSaver(store))
    whole = await run(graph, HELLO)
    for name, snapshot in enumerate(await snapshots(store, "s")):
        assert await fork(store, "s", snapshot["checkpoint_id"], str(name)) is None
        if snapshot["next"] or snapshot["inside"]:
            await run(graph, None, str(name))
        copied = (await graph.aget_state(config_of(str(name)))).values
        assert [message.text for message in copied["messages"]] == [message.text for message in whole["messages"]]
        assert copied["done"] == whole["done"]
    assert (await run(graph, HELLO, "0"))["done"] == (await run(graph, HELLO))["done"]


async def test_a_task_whose_id_is_not_segues_own_is_not_copied(here: World) -> None:
    here.register("a", note_the_turn, "react")
    await here.run("turn 1", agent="a")
    row = {"session_id": "s", "agent_id": "a", "user_id": "default", "mode": "react", "model": "", "message": "x"}
    await Tasks(here.database).create(NewTask(task_id="t1", **row))
    with pytest.raises(TaskError, match="t1"):
        await fork(here.database, "s", (await taken(here))[0]["checkpoint_id"], "f")
    assert not any(here.rows("f").values())
