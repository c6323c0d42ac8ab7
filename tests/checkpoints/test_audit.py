"""The audit log of each backend: what it tells, and what it says was done to the database behind Segue's back."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

import segue
from segue import tool
from segue.checkpoints.audit import record
from segue.core.actor import SEGUE, acting
from segue.core.agents import Agent
from segue.core.audit import _ALWAYS, _AT_THE_END, Act, AuditHead, Finding, differences
from segue.core.errors import ConfigurationError
from segue.core.records import FIXED, Session, Task, names_of
from segue.runtime.audit_log import read_anchor
from tests.fakes import ScriptedChatModel, answer, call_tool

from .worlds import World, note_up_to, world

CALLS = note_up_to(3)
UNSEALED = {"agent_id", "mode", "language", "origin", "bot_session", "called_by", "rating"}
"""Columns of a task that are written once and are not in what later seals compare; a rating has its own statement."""


@pytest.fixture
async def here(address: str) -> AsyncIterator[World]:
    """An app over a database with an audit log."""
    async with world(address) as opened:
        await opened.app.audit.begin()
        yield opened


async def acts(world: World) -> list[tuple[str, str]]:
    return [(entry.actor, entry.action) for entry in reversed(await world.app.audit.list(limit=100))][2:]


async def found(world: World, *heads: AuditHead) -> list[Finding]:
    return [*(await world.app.audit.verify(heads)).findings]


async def edit(world: World, *statements: str) -> None:
    """Change the database as somebody does who has the file or the server."""
    for statement in statements:
        await world.database.write(lambda connection, each=statement: connection.execute(each) and None)


def test_each_column_of_a_task_that_is_written_once_is_compared_by_later_seals() -> None:
    changed = names_of(Task, without=FIXED)
    assert {*names_of(Task)} - {*changed} - {*_ALWAYS} == UNSEALED, "add it to _ALWAYS of core/audit.py, or here"
    assert {*_ALWAYS} & {*changed} == set()
    assert {*_AT_THE_END} <= {*names_of(Task)}


async def finished(world: World) -> str:
    """The id of a task that made three calls."""
    world.register("a", CALLS, "react")
    return await world.run("note them", agent="a")


async def test_every_act_is_told_with_who_did_it(here: World) -> None:
    task_id = await finished(here)
    with acting("key:support"):
        await here.app.sessions.rate(task_id, 4)
        newest = (await here.app.sessions.snapshots("s"))[0].checkpoint_id
        await here.app.rewind.fork("s", newest, session_id="f")
    with acting("terminal"):
        await here.app.sessions.import_(await here.app.sessions.export("s"), session_id="i")
        await here.app.sessions.delete("f")
    assert await acts(here) == [
        ("segue", "done"),
        ("key:support", "rated"),
        ("key:support", "forked"),
        ("terminal", "exported"),
        ("terminal", "imported"),
        ("terminal", "deleted"),
    ]
    assert [entry.action for entry in await here.app.audit.list(session_id="f")] == ["deleted", "forked"]
    assert [entry.action for entry in await here.app.audit.list(actor="key:support")] == ["forked", "rated"]
    assert [entry.action for entry in await here.app.audit.list(user_id="default")] == ["rated", "done"]
    assert await found(here) == []


async def test_a_person_is_told_with_the_verdicts_but_not_with_what_was_said(here: World) -> None:
    here.register("a", CALLS, "react", approve="always")
    task_id = await here.run("note them", agent="a")
    with acting("key:boss"):
        await here.app.answer(task_id, {"verdicts": [{"index": 0, "verdict": "edit", "arguments": {"number": 7}}]})
        await here.app.answer(task_id, "approve")
        await here.app.answer(task_id, {"verdicts": [{"index": 0, "verdict": "reject", "reason": "a secret"}]})
    entries = [entry for entry in await here.app.audit.list() if entry.actor == "key:boss"]
    assert [entry.action for entry in reversed(entries)] == ["edited", "approved", "rejected"]
    assert [entry.details["calls"][0]["name"] for entry in entries] == ["note"] * 3
    assert "secret" not in json.dumps([entry.details for entry in entries])
    assert here.noted == [7, 1] and await found(here) == []


async def test_who_pauses_steers_and_cancels_is_told(here: World) -> None:
    here.register("a", CALLS, "react")
    task_id = await here.run_to(1, "note them", agent="a")
    with acting("terminal"):
        await here.app.sessions.save_settings(Session("s", agent_id="a", created_at=1.0))
        await here.app.cancel(task_id)
    assert await acts(here) == [
        ("python", "asked_to_pause"),
        ("segue", "paused"),
        ("terminal", "chose"),
        ("terminal", "cancelled"),
    ]
    assert await found(here) == []


@pytest.mark.parametrize("change", ["position = 'x'", "details = '{'", "moment = 'x'"])
async def test_an_entry_that_is_damaged_is_found_and_stops_no_write(tmp_path: Path, change: str) -> None:
    file = tmp_path / "segue.db"
    agent = Agent(agent_id="a", model=ScriptedChatModel(["one", "two"]), mode="direct")
    async with segue.open(file, agents=[agent]) as app:
        await app.audit.begin()
        await app.ask("first", session_id="s", agent="a")
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"UPDATE audit SET {change} WHERE position = (SELECT max(position) FROM audit)")
        await app.ask("second", session_id="s", agent="a")
        assert len([entry for entry in await app.audit.list() if entry.action == "done"]) >= 1


async def test_without_a_log_nothing_is_stored(address: str) -> None:
    async with world(address) as plain:
        await finished(plain)
        assert (await plain.app.audit.list(), await plain.app.audit.head()) == ([], None)
        assert not (await plain.app.audit.verify()).ok


async def test_what_was_stored_before_is_sealed_when_the_log_is_begun(address: str) -> None:
    async with world(address) as plain:
        task_id = await finished(plain)
        await plain.app.audit.begin()
        await plain.app.audit.begin()
        assert [entry.action for entry in await plain.app.audit.list()] == ["began", "sealed", "enabled"]
        assert await found(plain) == []
        await edit(plain, f"UPDATE tasks SET result = NULL WHERE task_id = '{task_id}'")
        assert [(each.kind, each.table) for each in await found(plain)] == [("changed", "tasks")]


EDITS = {
    "events changed": (("UPDATE events SET event = event || ' ' WHERE seq = 4",), ["event 4"]),
    "events removed": (("DELETE FROM events WHERE seq = 4",), ["event 4"]),
    "events truncated": (
        ("DELETE FROM events WHERE seq >= (SELECT max(seq) - 1 FROM events)",),
        None,
    ),
    "events inserted": (
        (
            """INSERT INTO events (task_id, seq, thread_id, source, ordinal, event)
            SELECT task_id, 1000, thread_id, NULL, 0, event FROM events WHERE seq = 1""",
        ),
        ["event 1000"],
    ),
    "events reordered": (
        (
            "UPDATE events SET seq = -1 WHERE seq = 3",
            "UPDATE events SET seq = 3 WHERE seq = 4",
            "UPDATE events SET seq = 4 WHERE seq = -1",
        ),
        None,
    ),
    "calls changed": (('UPDATE calls SET outcome = \'{"success": "lie"}\' WHERE idx = 0',), None),
    "calls removed": (("DELETE FROM calls WHERE position = (SELECT min(position) FROM calls)",), ["call 1"]),
    "calls truncated": (("DELETE FROM calls WHERE position = (SELECT max(position) FROM calls)",), ["call 3"]),
    "calls inserted": (
        (
            """INSERT INTO calls (thread_id, task_id, scope, idx, name, arguments, state, outcome, fence, started_at,
            finished_at, orphaned, checksum) SELECT thread_id, task_id, 'forged', 9, name, arguments, state, outcome,
            fence, started_at, finished_at, orphaned, checksum FROM calls ORDER BY position LIMIT 1""",
        ),
        ["call 4, note"],
    ),
    "calls inserted beside the session": (
        (
            """INSERT INTO calls (thread_id, task_id, scope, idx, name, arguments, state, outcome, fence, started_at,
            finished_at, orphaned, checksum) SELECT 'other', task_id, 'forged', 9, name, arguments, state, outcome,
            fence, started_at, finished_at, orphaned, checksum FROM calls ORDER BY position LIMIT 1""",
        ),
        [""],
    ),
    "tasks changed": (("UPDATE tasks SET user_id = 'somebody'",), None),
    "tasks removed": (("DELETE FROM tasks",), None),
    "audit changed": (("UPDATE audit SET actor = 'somebody' WHERE position = 3",), ["entry 3"]),
    "audit removed": (("DELETE FROM audit WHERE position = 2",), ["entry 2"]),
    "audit inserted": (
        (
            """INSERT INTO audit SELECT 1 + (SELECT max(position) FROM audit), moment, actor, action, thread_id,
            task_id, user_id, details, seals, previous, digest FROM audit WHERE position = 3""",
        ),
        None,
    ),
}
"""What is done to a database, by what is found, and the rows that are named."""


@pytest.mark.parametrize("what", EDITS)
async def test_what_was_done_to_the_rows_is_named(here: World, what: str) -> None:
    task_id = await finished(here)
    await here.app.sessions.rate(task_id, 3)
    assert await found(here) == []
    table, kind, *_ = what.split()
    statements, rows = EDITS[what]
    await edit(here, *statements)
    named = [each for each in await found(here) if each.table == table]
    expected = {"audit inserted": "reordered"}.get(what, kind)
    assert expected in {each.kind for each in named}
    assert rows is None or [each.row for each in named] == rows
    assert table == "audit" or {each.task_id for each in named} == {task_id}


async def test_a_result_that_speaks_of_waiting_is_sealed_like_another(here: World) -> None:
    @tool(read_only=True)
    async def count_tables() -> dict[str, int]:
        """Count the parties."""
        return {"waits": 3}

    model = ScriptedChatModel([call_tool(("count_tables", {})), answer("three")])
    here.app.register(Agent(agent_id="a", model=model, mode="react", tools=[count_tables]))
    await here.run("how many?", agent="a")
    assert await found(here) == []
    await edit(here, """UPDATE calls SET outcome = '{"success": {"waits": 0}}'""")
    assert [(each.kind, each.table) for each in await found(here)] == [("changed", "calls")]


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ("""seals = '{"tasks": 5}'""", "entry 3"),
        ("""seals = '{"tasks": {"x": {"task": 1}}}'""", "entry 3"),
        ("position = 99999999999", "entries 3 to 99999999998"),
    ],
)
async def test_a_log_that_was_made_unreadable_is_reported(here: World, change: str, row: str) -> None:
    await finished(here)
    await edit(here, f"UPDATE audit SET {change} WHERE position = 3")
    assert row in {each.row for each in await found(here)}


async def test_an_entry_whose_position_is_no_number_is_reported(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", audit=True) as app:
        with closing(sqlite3.connect(tmp_path / "segue.db")) as file, file:
            file.execute("UPDATE audit SET position = 'x' WHERE position = 2")
        assert [each.row for each in (await app.audit.verify()).findings] == ["entry x"]


async def test_a_forged_task_and_a_deleted_session_are_told_apart(here: World) -> None:
    await finished(here)
    columns = ", ".join(name for name in await columns_of(here) if name not in ("position", "task_id", "thread_id"))
    forged = f"INSERT INTO tasks (task_id, thread_id, {columns}) SELECT 'forged', 'x', {columns} FROM tasks"
    await edit(here, forged)
    assert [(each.kind, each.row) for each in await found(here)] == [("inserted", "task forged")]
    await edit(here, "DELETE FROM tasks WHERE task_id = 'forged'")
    await here.app.sessions.delete("s")
    assert await found(here) == []


async def columns_of(world: World) -> list[str]:
    return await world.database.read(lambda connection: [*connection.fetched("SELECT * FROM tasks")[0].keys()])


async def test_a_head_that_was_kept_elsewhere_tells_that_the_log_was_cut(here: World) -> None:
    await finished(here)
    head = await here.app.audit.head()
    assert head is not None and AuditHead.parse(str(head)) == head
    assert await found(here, head) == []
    await edit(here, f"DELETE FROM audit WHERE position = {head.position}")
    named = next(iter(await found(here, head)))
    assert (named.kind, named.row) == ("truncated", f"entry {head.position}")
    with pytest.raises(ConfigurationError, match="is not a head"):
        AuditHead.parse("7:abc")


async def test_the_head_goes_to_the_anchor_at_the_end(tmp_path: Path) -> None:
    database, anchor = tmp_path / "segue.db", tmp_path / "anchor"
    for _ in range(2):
        async with segue.open(database, audit=segue.AuditSettings(anchor=str(anchor))) as app:
            await app.ask("hello", model="offline", mode="direct")
    positions = [json.loads(line)["position"] for line in anchor.read_text().splitlines()]
    assert positions == [2, 3, 4]
    with closing(sqlite3.connect(database)) as file, file:
        file.execute("DELETE FROM audit WHERE position > 2")
    async with segue.open(database) as app:
        findings = (await app.audit.verify(anchor=anchor)).findings
        assert [each.row for each in findings if each.table == "audit"] == ["entry 3", "entry 4"]
    with pytest.raises(ConfigurationError, match="cannot be written"):
        await segue.open(database, audit=segue.AuditSettings(anchor=str(tmp_path / "no" / "anchor")))


async def test_an_anchor_whose_last_line_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor"
    for message in ("hello", "again"):
        async with segue.open(tmp_path / "segue.db", audit=segue.AuditSettings(anchor=str(anchor))) as app:
            await app.ask(message, model="offline", mode="direct")
        with anchor.open("a") as opened:
            opened.write('{"position": 3, "dig')
    async with segue.open(tmp_path / "segue.db") as app:
        assert [head.position for head in read_anchor(anchor)] == [2, 3, 4]
        assert (await app.audit.verify(anchor=anchor)).ok
        anchor.write_text("something else\n")
        with pytest.raises(ConfigurationError, match="cannot be read"):
            await app.audit.verify(anchor=anchor)


async def test_processes_append_one_after_the_other(address: str) -> None:
    async with world(address) as one, world(address) as two:
        await one.app.audit.begin()
        one.register("a", [answer("yes")] * 10, "react")
        two.register("a", [answer("yes")] * 10, "react")
        runs = [each.run("hello", session_id=f"s{n}", agent="a") for n, each in enumerate([one, two] * 10)]
        await asyncio.gather(*runs)
        entries = await one.app.audit.list(limit=100)
        assert [entry.position for entry in entries] == [*range(22, 0, -1)] and await found(one) == []


async def test_a_task_that_goes_on_is_covered_up_to_its_last_stop(here: World) -> None:
    here.register("a", CALLS, "react")
    task_id = await here.run_to(2, "note them", agent="a")
    await here.app.resume(task_id)
    assert not (await here.app.audit.verify()).unsealed and await found(here) == []


def test_rows_are_compared_by_their_digests() -> None:
    kept = ["a", "b", "c", "d"]
    assert [*differences(kept, kept)] == []
    assert [*differences(kept, ["a", "x", "c", "d"])] == [("changed", 1)]
    assert [*differences(kept, ["a", "c", "d"])] == [("removed", 1)]
    assert [*differences(kept, ["a", "b"])] == [("truncated", 2), ("truncated", 3)]
    assert [*differences(kept, ["a", "b", "x", "c", "d"])] == [("inserted", 2)]
    assert {kind for kind, _ in differences(kept, ["a", "c", "b", "d"])} == {"reordered"}
    assert [*differences(kept, ["a", "b", "c", "a"])] == [("changed", 3)]


async def cover(world: World, task_id: str, action: str = "changed") -> None:
    """Append an entry that seals a task's rows as they are, as somebody can who has the database."""
    await world.database.write(lambda connection: record(connection, Act(action, actor=SEGUE), "s", task_id))


ALLOW = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
SEALED_EDITS = {
    "events changed": "UPDATE events SET event = event || ' ' WHERE seq = 4",
    "events removed": "DELETE FROM events WHERE seq = 4",
    "events reordered": "UPDATE events SET seq = CASE seq WHEN 3 THEN 1003 ELSE 1004 END WHERE seq IN (3, 4)",
    "calls changed": 'UPDATE calls SET outcome = \'{"success": "lie"}\' WHERE idx = 0',
    "calls removed": "DELETE FROM calls WHERE position = (SELECT min(position) FROM calls)",
    "tasks changed": "UPDATE tasks SET message = 'pay'",
    "tasks result changed": "UPDATE tasks SET result = '{}'",
    "permissions inserted": """INSERT INTO permissions (thread_id, agent_id, tool, scope, task_id, granted_at, version)
        SELECT thread_id, agent_id, 'refund', scope, task_id, granted_at, version FROM permissions""",
    "permissions changed": "UPDATE permissions SET version = 'x'",
    "permissions removed": "DELETE FROM permissions",
    "shares inserted": """INSERT INTO shares (share_id, thread_id, created_at, expires_at)
        SELECT 'forged', thread_id, created_at, expires_at FROM shares""",
    "shares changed": "UPDATE shares SET expires_at = expires_at + 1000000",
    "shares removed": "DELETE FROM shares",
    "schedules inserted": """INSERT INTO schedules (schedule_id, message, options, every, timezone, overlap, missed,
        is_active, created_at) SELECT 'forged', message, options, every, timezone, overlap, missed, is_active,
        created_at FROM schedules""",
    "schedules changed": "UPDATE schedules SET message = 'refund all'",
    "schedules due changed": "UPDATE schedules SET due = 1",
    "schedules removed": "DELETE FROM schedules",
    "spend changed": "UPDATE spend SET raised_tokens = 1000000000",
    "spend tokens changed": "UPDATE spend SET tokens = 0",
    "spend removed": "DELETE FROM spend",
}
"""Edits by their table and kind."""
OF_TASK = [what for what in SEALED_EDITS if what.split()[0] in ("events", "calls", "tasks")]


@asynccontextmanager
async def edited(address: str, what: str) -> AsyncIterator[tuple[World, str, AuditHead]]:
    """A world whose log has an entry of each kind, after an edit; with its task, and the head from before."""
    async with world(address, spend={"per_day_tokens": 10**6, "per_task_tokens": 10**6}) as here:
        await here.app.audit.begin()
        here.register("a", CALLS, "react", approve="always")
        task_id = await here.run("note them", agent="a")
        await here.app.answer(task_id, ALLOW)
        await here.app.sessions.shares.create("s", 3600.0)
        await here.app.schedules.create("m", {"every": "0 9 * * *", "agent": "a"})
        assert {"granted", "shared", "scheduled", "done"} <= {each.action for each in await here.app.audit.list()}
        await edit(here, "UPDATE spend_calls SET created_at = 1")  # no call is under way any more
        await here.app.sessions.rate(task_id, 3)
        head = await here.app.audit.head()
        assert head is not None and await found(here, head) == []
        await edit(here, SEALED_EDITS[what])
        yield here, task_id, head


@pytest.mark.parametrize("what", OF_TASK)
async def test_an_edit_that_an_appended_entry_covers_is_found(address: str, what: str) -> None:
    async with edited(address, what) as (here, task_id, head):
        for action in ("changed", "recovered"):
            await cover(here, task_id, action)
            assert what.split()[0] in {each.table for each in await found(here, head)}


@pytest.mark.parametrize("what", [what for what in SEALED_EDITS if what not in OF_TASK])
async def test_an_edit_of_permissions_links_schedules_and_limits_is_found(address: str, what: str) -> None:
    async with edited(address, what) as (here, *_):
        named = await found(here)
        assert {(each.table, each.kind) for each in named} == {(what.split()[0], what.split()[-1])}
        assert all(each.row for each in named)


async def test_revoking_and_deleting_are_no_edits(here: World) -> None:
    here.register("a", CALLS, "react", approve="always")
    task_id = await here.run("note them", agent="a")
    await here.app.answer(task_id, ALLOW)
    for _ in range(2):
        await here.app.sessions.shares.create("s", 3600.0)
    made = await here.app.schedules.create("m", {"every": "0 9 * * *", "agent": "a"})
    await here.app.sessions.shares.revoke("s")
    await here.app.sessions.revoke("s")
    await here.app.schedules.delete(made.schedule_id)
    await here.app.sessions.shares.create("s", 3600.0)
    assert await found(here) == []
    await here.app.sessions.delete("s")
    assert await found(here) == []
