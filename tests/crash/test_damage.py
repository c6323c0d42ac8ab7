"""A damaged file: every way in ends with a right answer or a sentence, never with a traceback or a hang."""

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import segue
from segue.app import App
from segue.checkpoints.leases import Lease, Renewal
from segue.checkpoints.sqlite.database import open_database
from segue.checkpoints.sqlite.state import SCHEMA_VERSION
from segue.cli import app as command_line
from segue.core.errors import SegueError, StorageError
from tests.checkpoints.damage import damage
from tests.server.serving import Served

PAGE = 4096
SECONDS = 60


@dataclass(frozen=True)
class Sound:
    """A database before it is damaged: one task is done, one is paused."""

    path: Path
    done: str
    paused: str
    history: Sequence[dict[str, Any]]

    def copy(self, folder: Path) -> Path:
        shutil.copy(self.path, folder / "segue.db")
        return folder / "segue.db"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    path = tmp_path_factory.mktemp("sound") / "segue.db"
    return asyncio.run(_written(path))


async def _written(path: Path) -> Sound:
    async with segue.open(path) as app:
        done = await app.ask("1 + 1", session_id="s", mode="react", model="offline")
        await app.ask("帮我规划一个北京3日游", session_id="s", mode="react", model="offline")
        history = await app.history("s")
        row = await app.start("帮我规划一个北京3日游", session_id="t", mode="react", model="offline")
        await _pause_after_a_tool(app, row.task_id)
    return Sound(path, done["task_id"], row.task_id, history)


async def _pause_after_a_tool(app: App, task_id: str) -> None:
    asked = False
    async for event in app.follow(task_id):
        if event.type == "tool_result" and not asked:
            asked = True
            await app.pause(task_id)


def ways_in(sound: Sound) -> dict[str, list[str]]:
    return {
        "tasks": ["tasks"],
        "threads": ["threads"],
        "history": ["history", "s"],
        "trace": ["trace", sound.done],
        "resume": ["resume", sound.paused],
        "chat": ["chat", "hello", "--session", "s", "--model", "offline"],
        "doctor": ["doctor", "--model", "offline"],
    }


Damage = Callable[[Path], None]


def write_at(path: Path, place: int, data: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:place] + data + whole[place + len(data) :])


def noise(length: int) -> bytes:
    return bytes((place * 137 + 41) % 251 for place in range(length))


def garbled_header(path: Path) -> None:
    write_at(path, 0, noise(100))


def unknown_format(path: Path) -> None:
    """The header's number of the schema format is one that SQLite does not know."""
    write_at(path, 44, b"\x00\x00\x00\x77")


def garbled_schema(path: Path) -> None:
    """What SQLite complains of is then no text itself."""
    place = path.read_bytes().index(b"PRIMARY KEY (task_id, seq)")
    write_at(path, place, b"PRIMARY \xcbEY")


def renamed_column(path: Path) -> None:
    place = path.read_bytes().index(b"agent_id TEXT NOT NULL")
    write_at(path, place, b"agent_iz")


def garbled_middle(path: Path) -> None:
    """All that lies behind the leases."""
    place = root_page(path, "tasks")
    write_at(path, place, noise(path.stat().st_size - place))


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_within_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3 + 1000)


def root_page(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return (int(page) - 1) * PAGE


def zeroed(name: str) -> Damage:
    """The first page of a table or index is empty."""

    def damage(path: Path) -> None:
        write_at(path, root_page(path, name), bytes(PAGE))

    return damage


# What each damage must not let pass; the other ways in may do without the damaged part.
EVERY = frozenset({"tasks", "threads", "history", "trace", "resume", "chat", "doctor"})
DAMAGES: dict[str, tuple[Damage, frozenset[str]]] = {
    "a garbled header": (garbled_header, EVERY),
    "an unknown format": (unknown_format, EVERY),
    "a garbled schema": (garbled_schema, EVERY),
    "a renamed column": (renamed_column, EVERY),
    "a garbled middle": (garbled_middle, EVERY),
    "a file cut in half": (cut_in_half, EVERY),
    "a file cut within a page": (cut_within_a_page, EVERY),
    "a zeroed table of tasks": (zeroed("tasks"), EVERY - {"history"}),
    "a zeroed index of tasks": (zeroed("sqlite_autoindex_tasks_1"), frozenset({"trace", "resume", "doctor"})),
    "a zeroed table of checkpoints": (zeroed("checkpoints"), frozenset({"history", "resume", "chat", "doctor"})),
    "a zeroed index of checkpoints": (
        zeroed("sqlite_autoindex_checkpoints_1"),
        frozenset({"history", "resume", "chat", "doctor"}),
    ),
    "a zeroed table of writes": (zeroed("writes"), frozenset({"history", "resume", "chat", "doctor"})),
    "a zeroed log of events": (zeroed("events"), frozenset({"trace", "resume", "chat", "doctor"})),
    "a zeroed ledger": (zeroed("calls"), frozenset({"trace", "resume", "doctor"})),
    "zeroed leases": (zeroed("leases"), frozenset({"resume", "chat", "doctor"})),
}


READING = ("tasks", "threads", "history", "trace")
SAID = (
    *("is damaged", "is not a SQLite database", "belongs to another program", "check the disk"),
    *("已损坏", "不是 SQLite 数据库", "属于其他程序", "检查磁盘"),
)


@pytest.mark.parametrize("name", DAMAGES)
def test_every_way_in_ends_with_a_sentence(sound: Sound, tmp_path: Path, name: str) -> None:
    damage, fails = DAMAGES[name]
    for way, arguments in ways_in(sound).items():
        path = sound.copy(tmp_path)
        damage(path)
        outcome = CliRunner().invoke(command_line, [*arguments, "--db", str(path)])
        ended = (way, outcome.exit_code, repr(outcome.exception))
        assert outcome.exception is None or isinstance(outcome.exception, SystemExit), ended
        assert outcome.exit_code == 1 if way in fails else outcome.exit_code in (0, 1), (ended, outcome.output)
        if outcome.exit_code == 0 and way in READING:
            assert outcome.output == CliRunner().invoke(command_line, [*arguments, "--db", str(sound.path)]).output
        if outcome.exit_code:
            assert any(word in outcome.output for word in SAID), outcome.output
            assert "Traceback" not in outcome.output
        for file in tmp_path.iterdir():
            file.unlink()


def test_the_doctor_finds_damage_and_says_how_to_save_the_rest(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    pages = path.stat().st_size // PAGE
    write_at(path, 28, (pages + 1).to_bytes(4, "big"))
    write_at(path, pages * PAGE, bytes(PAGE))  # a page that nothing leads to
    outcome = CliRunner().invoke(command_line, ["doctor", "--model", "offline", "--db", str(path)])
    assert outcome.exit_code == 1
    assert "is damaged (faults: 1; the first is " in outcome.output
    saved = path.with_name("segue-saved.db")
    assert f"&& sqlite3 {saved} 'PRAGMA user_version = {SCHEMA_VERSION}'" in outcome.output
    sound_one = CliRunner().invoke(command_line, ["doctor", "--model", "offline", "--db", str(sound.path)])
    assert (sound_one.exit_code, "no damage found" in sound_one.output) == (0, True)


def test_a_lost_write_ahead_log_leaves_the_state_before_it(sound: Sound, tmp_path: Path) -> None:
    path = asyncio.run(_left_by_a_crash(sound, tmp_path))
    for way, arguments in ways_in(sound).items():
        outcome = CliRunner().invoke(command_line, [*arguments, "--db", str(path)])
        assert outcome.exit_code == 0, (way, outcome.output)
    history = CliRunner().invoke(command_line, ["history", "new", "--db", str(path)])
    assert (history.exit_code, "There is no session 'new'" in history.output) == (2, True)


async def _left_by_a_crash(sound: Sound, folder: Path) -> Path:
    """The file as it lies there while another session is written, without the log beside it."""
    path = sound.copy(folder)
    async with segue.open(path) as app:
        await app.ask("1 + 1", session_id="new", mode="react", model="offline")
        left = folder / "left.db"
        shutil.copy(path, left)
    return left


def test_damaged_rows_are_found_and_repaired_by_the_commands_that_are_named(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    sound_ones = [run(way, "--db", str(path))[1] for way in ("tasks", "threads")]
    damage(path, "UPDATE tasks SET notes = '{', status = 'dome' WHERE thread_id = 't'")
    for way, before in zip(("tasks", "threads"), sound_ones, strict=True):
        code, output = run(way, "--db", str(path))
        assert (code, len(output.splitlines())) == (0, len(before.splitlines()))
        assert [line for line in before.splitlines() if "paused" not in line][1:] == [
            line for line in output.splitlines() if "error" not in line
        ][1:]
    task = json.loads(run("tasks", "--session", "t", "--json", "--db", str(path))[1])[0]
    assert (task["status"], "segue recover t repairs it" in task["error"]) == ("error", True)
    cure = f"segue recover t --db {path}"
    for stopped in (("trace", sound.paused), ("resume", sound.paused), ("chat", "hello", "--session", "t")):
        code, output = run(*stopped, "--db", str(path))
        assert (code, cure in output, "Traceback" in output) == (1, True, False)
    assert run("chat", "hello", "--session", "s", "--model", "offline", "--db", str(path))[0] == 0
    code, output = run("doctor", "--model", "offline", "--db", str(path))
    assert (code, f"session 't' is damaged: task {sound.paused} (status " in output, cure in output) == (
        1,
        True,
        True,
    )
    code, output = run("resume", "--all", "--db", str(path))
    assert (code, "1 task: 1 failed." in output, "segue recover t repairs it" in output) == (1, True, True)
    code, output = run("recover", "t", "--db", str(path))
    repaired, kept, go_on, command = output.splitlines()
    assert (code, go_on, command) == (0, "To continue:", f"segue resume {sound.paused[:8]} --db {path}")
    assert repaired.endswith("damaged fields: status, notes. It ended with an error; send its message again.")
    assert kept.startswith(f"The original database is kept in {path}.damaged-")
    assert run("recover", "t", "--db", str(path)) == (0, "Session t is not damaged; nothing was changed.\n")
    assert run("doctor", "--model", "offline", "--db", str(path))[0] == 0
    assert run("resume", sound.paused, "--db", str(path))[0] == 0


def test_where_only_rows_can_be_repaired_the_command_says_so(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(path, "UPDATE tasks SET status = 'odd'", "UPDATE checkpoints SET checkpoint = x'00'")
    code, output = run("recover", "s", "--db", str(path))
    assert (code, output.count(": damaged fields: status. It ended with an error")) == (1, 2)
    assert "continue in a new session" in output.splitlines()[2]
    assert "To continue" not in output


def test_the_service_lists_what_is_damaged_beside_what_is_not(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(path, "UPDATE tasks SET result = x'00', message = CAST(x'ff41' AS TEXT) WHERE thread_id = 't'")
    with Served(path) as served, served.client() as client:
        sessions = client.get("/api/sessions").json()["items"]
        assert {row["session_id"]: row["status"] for row in sessions} == {"t": "error", "s": "done"}
        assert [row["session_id"] for row in client.get("/api/sessions/s/tasks").json()["items"]] == ["s", "s"]
        first = client.get("/api/agents/travel/tasks", params={"limit": 1}).json()
        (shown,) = first["items"]
        assert (shown["status"], shown["message"], shown["result"]) == ("error", "", None)
        assert "segue recover t repairs it" in shown["error"]
        rest = client.get("/api/agents/travel/tasks", params={"before": first["next"]}).json()["items"]
        assert [row["session_id"] for row in rest] == ["s", "s"]
        refused = client.get(f"/api/tasks/{shown['task_id']}")
        assert (refused.status_code, "administrator to recover this one" in refused.json()["error"]["message"]) == (
            409,
            True,
        )


def run(*arguments: str) -> tuple[int, str]:
    """A command's exit code and everything that it writes."""
    outcome = CliRunner().invoke(command_line, [*arguments])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), repr(outcome.exception)
    return outcome.exit_code, outcome.output


async def test_damage_is_no_sign_that_a_lease_is_lost(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    async with await open_database(str(path)) as database:
        fence = await Lease(database).acquire("s", "here:1:x")
        write_at(path, 0, noise(path.stat().st_size))
        with pytest.raises(StorageError):
            Renewal(database).renew({"s": fence}, 15)


# Whatever bytes change: what was said comes back as it was, or its beginning does, or a sentence says that it cannot.

flips = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=flips)
def test_flipped_bytes_never_give_another_history(sound: Sound, tmp_path: Path, flips: list[tuple[float, int]]) -> None:
    path = sound.copy(tmp_path)
    whole = bytearray(path.read_bytes())
    for place, mask in flips:
        whole[int(place * len(whole))] ^= mask
    path.write_bytes(whole)
    for file in tmp_path.glob("segue.db-*"):
        file.unlink()
    asyncio.run(_look_around(sound, path))


async def _look_around(sound: Sound, path: Path) -> None:
    """Read all there is; each part is right, or an error of ours."""
    with suppress(SegueError):
        async with segue.open(path) as app:
            with suppress(SegueError):
                found = await app.history("s")
                assert found == sound.history[: len(found)]
            for thread_id in ("s", "t"):
                with suppress(SegueError):
                    for task in await app.tasks.list(session_id=thread_id):
                        await app.trace(task.task_id)
            with suppress(SegueError):
                await app.threads()
