"""Tasks: their rows, their statuses, their lists."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.checkpoints.events import EventLog
from segue.checkpoints.leases import Lease
from segue.checkpoints.sessions import ThreadList, Threads, name_thread
from segue.checkpoints.sqlite.database import SqliteBackend, SqliteDatabase
from segue.checkpoints.tasks import Tasks
from segue.core.agents import Agent
from segue.core.errors import DatabaseDamaged, IllegalTransition, StaleOwner, TaskError, UnknownTask, UnknownThread
from segue.core.events import ASKING, Paused, Steered
from segue.core.records import NewTask, RequestKey, Session, SessionFilter, Task
from segue.core.task import ACTIVE, ENDED, OPEN, TASK_TRANSITIONS, TaskStatus, next_status
from tests.fakes import ScriptedChatModel
from tests.server.shop import refund, reply

from .conftest import Clock, Store, opened

EVERY = SessionFilter()


async def create(
    tasks: Tasks, task_id: str, thread_id: str = "s", agent_id: str = "support", fence: int | None = None
) -> Task:
    new = NewTask(
        task_id=task_id,
        session_id=thread_id,
        agent_id=agent_id,
        user_id="default",
        mode="react",
        model="offline",
        message=f"message of {task_id}: 你好",
    )
    return await tasks.create(new, fence=fence)


async def test_a_created_task_is_pending_and_the_same_when_read(store: Store, clock: Clock) -> None:
    tasks = Tasks(store, clock)
    created = await create(tasks, "t1")
    assert created == await tasks.get("t1")
    assert created.json() == {
        "task_id": "t1",
        "session_id": "s",
        "agent_id": "support",
        "user_id": "default",
        "mode": "react",
        "model": "offline",
        "status": "pending",
        "message": "message of t1: 你好",
        "language": None,
        "error": None,
        "result": None,
        "requested": None,
        "notes": [],
        "answer": None,
        "rating": None,
        "copy_of": None,
        "agents_file": None,
        "agent_version": None,
        "on_upgrade": None,
        "offered_version": None,
        "due": None,
        "awaited": None,
        "asked_by": [],
        "decisions": None,
        "attachments": [],
        "client_tools": [],
        "reply_options": {},
        "origin": "python",
        "bot_session": None,
        "called_by": None,
        "created_at": 1000.0,
        "updated_at": 1000.0,
    }


async def test_an_unknown_task_is_named(store: Store) -> None:
    tasks = Tasks(store)
    with pytest.raises(UnknownTask, match="'t9'"):
        await tasks.get("t9")
    with pytest.raises(UnknownTask, match="'t9'"):
        await tasks.move("t9", TaskStatus.RUNNING)


async def test_a_status_comes_with_result_and_error(store: Store, clock: Clock) -> None:
    tasks = Tasks(store, clock)
    await create(tasks, "t1")
    await tasks.move("t1", TaskStatus.RUNNING)
    clock.now += 5
    failed, _ = await tasks.move("t1", TaskStatus.ERROR, error="no answer", result={"done": ["a"]})
    assert (failed.status, failed.error, failed.result) == ("error", "no answer", {"done": ["a"]})
    assert (failed.created_at, failed.updated_at) == (1000.0, 1005.0)
    again, _ = await tasks.move("t1", TaskStatus.RUNNING)
    assert (again.error, again.result) == (None, {"done": ["a"]})
    assert again == await tasks.get("t1")


async def test_an_illegal_transition_changes_nothing(store: Store) -> None:
    tasks = Tasks(store)
    before = await create(tasks, "t1")
    with pytest.raises(IllegalTransition, match="'pending' to 'done'"):
        await tasks.move("t1", TaskStatus.DONE, result={"answer": "x"}, events=[Paused(task_id="t1")])
    assert await tasks.get("t1") == before
    assert await EventLog(store).read("t1") == []


def test_the_table_is_what_the_documents_say() -> None:
    allowed = {
        "pending": {"running", "waiting", "paused", "cancelled", "error"},
        "running": {"running", "waiting", "pausing", "paused", "done", "error", "cancelled"},
        "waiting": {"running", "paused", "cancelled", "error"},
        "pausing": {"paused", "running", "waiting", "done", "error", "cancelled"},
        "paused": {"running", "waiting", "cancelled"},
        "error": {"running", "waiting", "paused", "cancelled"},
        "done": set(),
        "cancelled": set(),
    }
    assert set(TASK_TRANSITIONS) == set(TaskStatus)
    assert {status for status, ways in TASK_TRANSITIONS.items() if not ways} == ENDED
    assert OPEN | ENDED | {TaskStatus.ERROR} == set(TaskStatus)
    assert OPEN - {TaskStatus.PAUSED, TaskStatus.WAITING} == ACTIVE
    for old, new in product(TaskStatus, TaskStatus):
        if new in allowed[old]:
            assert next_status(old, new) is new
        else:
            with pytest.raises(IllegalTransition):
                next_status(old, new)


async def test_a_stale_owner_sets_no_status(store: Store, second: Store, clock: Clock) -> None:
    tasks = Tasks(store)
    await create(tasks, "t1")
    stale = await Lease(store, clock).acquire("s", "me")
    await tasks.move("t1", TaskStatus.RUNNING, fence=stale)
    clock.now += 16
    fence = await Lease(second, clock).acquire("s", "you")
    with pytest.raises(StaleOwner):
        await tasks.move("t1", TaskStatus.DONE, fence=stale)
    assert (await tasks.get("t1")).status == "running"
    with pytest.raises(StaleOwner):
        await create(tasks, "t2", fence=stale)
    with pytest.raises(UnknownTask):
        await tasks.get("t2")
    assert (await Tasks(second).move("t1", TaskStatus.DONE, fence=fence))[0].status == "done"
    assert [event.data["new"] for event in await EventLog(second).read("t1")] == ["running", "done"]


async def test_a_change_and_what_is_told_of_it_are_one_transaction(store: Store) -> None:
    tasks = Tasks(store)
    await create(tasks, "t1")
    row, told = await tasks.move(
        "t1", TaskStatus.RUNNING, events=[Paused(task_id="t1", reason="asked")], requested="pause"
    )
    assert [event.type for event in told] == ["state_changed", "paused"]
    assert told == await EventLog(store).read("t1")
    assert row.requested == "pause"
    row, told = await tasks.move("t1", None, requested=None)
    assert (row.status, row.requested, told) == ("running", None, [])


async def test_what_other_processes_want_is_found(store: Store) -> None:
    tasks = Tasks(store)
    for task_id in ("t1", "t2", "t3"):
        await create(tasks, task_id)
    await tasks.move("t1", None, requested="pause")
    await tasks.move("t2", None, requested="cancel")
    assert await tasks.requested(["t1", "t3"]) == {"t1": "pause"}
    assert await tasks.requested(["t1", "t2", "t3"]) == {"t1": "pause", "t2": "cancel"}


async def test_notes_are_kept_in_order_until_the_task_has_ended(store: Store) -> None:
    tasks = Tasks(store)
    await create(tasks, "t1")
    for text in ("to Xi'an", "并且便宜"):
        row, told = await tasks.add_note("t1", text, Steered(task_id="t1", message=text))
        assert told[0].data["message"] == text
    assert row.notes == ["to Xi'an", "并且便宜"]
    row, told = await tasks.move("t1", TaskStatus.RUNNING, steered=Steered(task_id="t1", message="by rail"))
    assert [event.type for event in told] == ["state_changed", "steered"]
    assert row.notes == ["to Xi'an", "并且便宜", "by rail"]
    await tasks.move("t1", TaskStatus.CANCELLED)
    with pytest.raises(TaskError, match="is cancelled"):
        await tasks.add_note("t1", "more", Steered(task_id="t1", message="more"))


async def test_a_task_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    tasks = Tasks(store)
    for task_id in ("abcdef-1", "abcdef-2", "x%zzzz-1"):
        await create(tasks, task_id)
    assert await tasks.find("abcdef-2") == "abcdef-2"
    assert await tasks.find("x%zzzz") == "x%zzzz-1"
    with pytest.raises(TaskError, match="abcdef-1, abcdef-2"):
        await tasks.find("abcdef")
    for short in ("", "%", "abcde"):
        with pytest.raises(TaskError, match=f"'{short}' is too short .* at least its first 6 characters"):
            await tasks.find(short)
    with pytest.raises(UnknownTask):
        await tasks.find("abcdeg")


async def test_unfinished_tasks_come_with_the_live_owner_of_their_thread(store: Store, clock: Clock) -> None:
    tasks, lease = Tasks(store, clock), Lease(store)
    for task_id, thread_id in (("t1", "s1"), ("t2", "s2"), ("t3", "s3")):
        await create(tasks, task_id, thread_id)
    await lease.acquire("s1", "dead", ttl=-1)
    await lease.acquire("s2", "alive", ttl=60)
    await tasks.move("t3", TaskStatus.CANCELLED)
    assert [(row.task_id, owner) for row, owner in await tasks.unfinished()] == [("t1", ""), ("t2", "alive")]


async def test_tasks_are_counted_by_status_without_copies(store: Store, clock: Clock) -> None:
    tasks = Tasks(store, clock)
    assert await tasks.tally() == []
    for number in range(4):
        clock.now = 1000.0 + number
        await create(tasks, f"t{number}", thread_id=f"s{number}")
    await tasks.move("t1", TaskStatus.RUNNING)
    await store.write(lambda db: db.execute("UPDATE tasks SET copy_of = 't9' WHERE task_id = 't0'"))
    found = {row.status: (row.tasks, row.oldest) for row in await tasks.tally()}
    assert found == {TaskStatus.PENDING: (2, 1002.0), TaskStatus.RUNNING: (1, 1003.0)}


async def test_a_thread_has_its_tasks_in_order(database: Store) -> None:
    tasks = Tasks(database)
    assert await tasks.latest_of("s") is None
    for task_id in ("t2", "t1", "t3"):
        await create(tasks, task_id)
    await create(tasks, "elsewhere", thread_id="s2")
    assert [task.task_id for task in await tasks.list(thread_id="s")] == ["t3", "t1", "t2"]
    latest = await tasks.latest_of("s")
    assert latest is not None
    assert latest.task_id == "t3"


async def test_tasks_are_listed_newest_first_by_agent_thread_and_page(store: Store, clock: Clock) -> None:
    tasks = Tasks(store, clock)
    for n in range(7):
        await create(tasks, f"t{n}", thread_id=f"s{n % 2}", agent_id="even" if n % 2 == 0 else "odd")

    async def ids(**filters: str | int) -> list[str]:
        return [task.task_id for task in await tasks.list(**filters)]  # type: ignore[arg-type]

    assert await ids() == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    assert await ids(agent_id="odd") == ["t5", "t3", "t1"]
    assert await ids(thread_id="s0") == ["t6", "t4", "t2", "t0"]
    assert await ids(agent_id="odd", thread_id="s0") == []
    assert await ids(limit=3) == ["t6", "t5", "t4"]
    assert await ids(limit=3, before="t4") == ["t3", "t2", "t1"]
    assert await ids(limit=3, before="t1") == ["t0"]


async def test_threads_show_their_last_task(database: SqliteDatabase, clock: Clock) -> None:
    tasks = Tasks(database, clock)
    threads = ThreadList(database)
    assert await threads.list(EVERY) == []
    await create(tasks, "t1", thread_id="old")
    clock.now += 1
    await create(tasks, "t2", thread_id="new")
    clock.now += 1
    await create(tasks, "t3", thread_id="new")
    clock.now += 1
    await tasks.move("t3", TaskStatus.RUNNING)
    await Threads(SqliteBackend(database)).create(Session("empty", "support", "offline", created_at=clock.now))
    of_both = {"agent_id": "support", "mode": "react", "model": "offline", "default_agent": "", "default_model": ""}
    of_both |= {"origin": "python", "pinned": False, "archived": False}
    chosen = {
        "origin": "api",
        "mode": "",
        "default_agent": "support",
        "default_model": "offline",
        "status": "done",
        "updated_at": 1003.0,
    }
    empty = {"session_id": "empty", "root": "empty", "turns": 0, "title": "", "message": ""}
    new = {
        "session_id": "new",
        "root": "new",
        "turns": 2,
        "title": "message of t2: 你好",
        "message": "message of t3: 你好",
    }
    old = {
        "session_id": "old",
        "root": "old",
        "turns": 1,
        "title": "message of t1: 你好",
        "message": "message of t1: 你好",
    }
    assert [thread.json() for thread in await threads.list(EVERY)] == [
        {**new, **of_both, "status": "running", "updated_at": 1003.0},
        {**empty, **of_both, **chosen, "updated_at": 1003.0},
        {**old, **of_both, "status": "pending", "updated_at": 1000.0},
    ]
    await database.write(lambda connection: name_thread(connection, "empty", "later"))
    for thread in await threads.list(EVERY):
        assert await threads.get(thread.session_id) == thread
    with pytest.raises(UnknownThread):
        await threads.get("ne")
    assert [thread.title for thread in await threads.list(SessionFilter(search="late"))] == ["later"]
    assert [thread.session_id for thread in await threads.list(EVERY, limit=1)] == ["new"]


async def test_threads_are_those_with_a_task_of_another_mode_since_a_moment(store: Store, clock: Clock) -> None:
    tasks = Tasks(store, clock)
    await create(tasks, "t1", "a:old")
    await create(tasks, "t2", "a:both")
    clock.now += 10
    moment = clock.now
    await create(tasks, "t3", "a:both")
    await create(tasks, "t4", "b:new")
    assert await tasks.threads(0.0, "", "conversation") == ["a:both", "a:old", "b:new"]
    assert await tasks.threads(moment, "", "conversation") == ["a:both", "b:new"]
    assert await tasks.threads(moment, "a:", "conversation") == ["a:both"]
    assert await tasks.threads(0.0, "", "react") == []


# What the requests with keys did, in both databases.


AGENT = Agent(agent_id="a", model=ScriptedChatModel(lambda _: "Fine."), mode="direct", protocol="native")


async def test_the_newest_attempt_is_found_and_what_nobody_stores_is_deleted(address: str) -> None:
    async with segue.open(address, agents=[AGENT]) as app:

        async def ask(key: str, session_id: str, about: Any) -> None:
            await app.ask("Hello.", session_id=session_id, idempotency_key=RequestKey(key, "", about))

        for number in (0, 2, 10):
            await ask(f"r:{number}", f"unstored{number}", {"store": False, "schema": {"store": True}})
        await ask("r:x", "stored", {"store": True, "schema": {"store": False}})
        await ask("q:1", "unstored2", {})
        await ask("r:3x", "no-number", {})
        await app.ask("Hello.", session_id="named", idempotency_key="r:11")
        newest = await app.tasks.last_requests("r:", 2)
        assert [(each.key, each.is_stored) for each in newest] == [("r:10", False), ("r:2", False)]
        assert await app.tasks.last_requests("s:") == []
        assert await app.sessions.delete_unstored(3600) == 0
        assert await app.sessions.delete_unstored(0) == 2
        assert {thread.session_id for thread in await app.sessions.list()} == {
            "stored",
            "unstored2",
            "no-number",
            "named",
        }
        assert [each.key for each in await app.tasks.last_requests("r:")] == ["r:2"]


async def ask_unstored(app: App, *sessions: str) -> None:
    for name in sessions:
        await app.ask("Hello.", session_id=name, idempotency_key=RequestKey(f"r:{name}", "", {"store": False}))


async def test_what_is_continued_while_others_are_deleted_stays(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with segue.open(address, agents=[AGENT]) as app:
        await ask_unstored(app, "s1", "s2", "s3")
        forget = app.memory.forget_tasks

        async def forget_later(task_ids: Any, **options: Any) -> int:
            """What a deletion does first: other sessions continue meanwhile."""
            first = (await app.task(next(iter(task_ids)))).session_id
            for other in {"s1", "s2", "s3"} - {first}:
                await app.ask("Go on.", session_id=other)
            return await forget(task_ids, **options)

        monkeypatch.setattr(app.memory, "forget_tasks", forget_later)
        assert await app.sessions.delete_unstored(0) == 1
        assert [thread.turns for thread in await app.sessions.list()] == [2, 2]


async def test_what_has_branches_stays_with_them(address: str) -> None:
    async with segue.open(address, agents=[AGENT]) as app:
        await ask_unstored(app, "root", "other")
        (task,) = await app.tasks.list(session_id="root")
        await app.rewind.branch(task.task_id, "branch", "Another way.")
        await app.ask("Go on.", session_id="branch", wait=20)
        assert await app.sessions.delete_unstored(0) == 1
        assert [branch.session_id for branch in await app.sessions.branches("branch")] == ["root", "branch"]


async def test_what_cannot_be_deleted_or_read_keeps_nothing_else(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with segue.open(address, agents=[AGENT], memory=tmp_path) as app:
        await ask_unstored(app, "s1", "s2")
        unstored = RequestKey("r:m", "", {"store": False})
        await app.ask("Hello.", session_id="m", user_id="other", idempotency_key=unstored)
        await ask_unstored(app, "s3")
        (tmp_path / "other" / ".lock").mkdir(parents=True)
        (tmp_path / "other" / "notes.md").write_text("Nobody can lock this file.")
        async with await opened(address) as database:
            await database.write(
                lambda connection: connection.execute("UPDATE request_keys SET about = '{' WHERE key = 'r:s1'")
            )
        with pytest.raises(DatabaseDamaged, match="idempotency key of task"):
            await app.ask("Hello.", session_id="s1", idempotency_key=RequestKey("r:s1", ""))
        assert await app.sessions.delete_unstored(0) == 3
        assert [thread.session_id for thread in await app.sessions.list()] == ["m"]
        assert "Session m could not be deleted: " in caplog.text


async def test_a_message_to_a_question_that_its_client_was_not_shown_is_stored_without_effect(address: str) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel(reply), tools=(refund,), mode="react")
    async with segue.open(address, agents=[agent]) as app:
        asked = await app.ask("refund twice", agent="a", idempotency_key=RequestKey("door:1", ""))
        task = await app.task(asked["task_id"])
        await app.answer(task.task_id, "approve")
        question = await app.question(task.task_id)

        async def shown(number: int, named: str = "", prefix: str = "door:") -> int | None:
            key = RequestKey(f"{prefix}{number}", "")
            return await app.tasks.before_unseen_question(task, question, key, prefix, named)

        before = await shown(2)
        (event,) = [each for each in await app.tasks.events(task.task_id, before or 0) if isinstance(each, ASKING)]
        assert event.calls[0]["arguments"] == {"amount": 500}
        assert before == event.seq - 1
        assert await shown(3, "another") == before
        assert await shown(4, question["interrupt_id"]) is None
        assert await shown(4) == before, "it may not have arrived"
        await app.tasks.note_delivered(task, question, "door:")
        assert await shown(6) is None
        assert await shown(5, prefix="doo_:") == before, "a prefix is no pattern"
