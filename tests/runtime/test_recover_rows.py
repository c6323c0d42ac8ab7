"""Damaged rows, as a person at the command line and a program meet them."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segue
from segue.app import App
from segue.cli import app as command_line
from segue.core.errors import DamagedRow
from tests.checkpoints.damage import copied, damage


async def paused(app: App, session_id: str) -> str:
    """A task that is paused after its first tool."""
    row = await app.start("帮我规划一个北京3日游", session_id=session_id, mode="react", model="offline")
    asked = False
    async for event in app.follow(row["task_id"]):
        if event.type == "tool_result" and not asked:
            asked = True
            await app.pause(row["task_id"])
    return str(row["task_id"])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Session s has two tasks, the newest paused; session t has a paused one."""
    path = tmp_path_factory.mktemp("sound") / "segue.db"

    async def written() -> None:
        async with segue.open(path) as app:
            await app.ask("1 + 1", session_id="s", mode="react", model="offline")
            await paused(app, "s")
            await paused(app, "t")

    asyncio.run(written())
    return path


def run(path: Path, *arguments: str) -> tuple[int, str]:
    """A command's exit code and everything that it writes."""
    outcome = CliRunner().invoke(command_line, [*arguments, "--db", str(path)])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), repr(outcome.exception)
    return outcome.exit_code, outcome.output


def test_recover_says_what_it_did_and_how_to_go_on(sound: Path, tmp_path: Path) -> None:
    path = copied(sound, tmp_path)
    damage(path, "UPDATE tasks SET notes = '{', answer = '{' WHERE thread_id = 's' AND status = 'paused'")
    code, output = run(path, "recover", "s")
    repaired, kept, go_on, command = output.splitlines()
    assert (code, go_on) == (0, "To continue:")
    assert repaired.endswith("': damaged: notes, answer; they are empty now.")
    assert kept.startswith(f"The database as it was is kept in {path}.damaged-")
    assert command.startswith("segue resume ")
    assert run(path, "recover", "s") == (0, "Nothing of session s is damaged; nothing was changed.\n")


def test_recover_says_so_where_only_the_rows_can_be_saved(sound: Path, tmp_path: Path) -> None:
    path = copied(sound, tmp_path)
    damage(path, "UPDATE tasks SET status = 'odd'", "UPDATE checkpoints SET checkpoint = x'00'")
    code, output = run(path, "recover", "s")
    assert (code, output.count(": damaged: status; it ended with an error")) == (1, 2)
    assert "continue in a new session" in output.splitlines()[2]
    assert "To continue" not in output
    assert run(path, "tasks")[0] == 0


def test_resuming_all_goes_on_with_the_others(sound: Path, tmp_path: Path) -> None:
    path = copied(sound, tmp_path)
    damage(path, "UPDATE tasks SET notes = '{' WHERE thread_id = 's' AND status = 'paused'")
    code, output = run(path, "resume", "--all")
    assert (code, "2 tasks: 1 done, 1 failed." in output, "segue recover s repairs it" in output) == (1, True, True)


async def test_a_damaged_session_is_not_forked_and_its_user_keeps_the_preferences(sound: Path, tmp_path: Path) -> None:
    path = copied(sound, tmp_path)
    async with segue.open(path) as app:
        (before,) = (await app.preferences("default"))["mode_history"]
        place = (await app.snapshots("s"))[0]["checkpoint_id"]
        for value in ("x'00'", "'{'"):
            damage(path, f"UPDATE tasks SET result = {value} WHERE thread_id = 't'")
            assert (await app.preferences("default"))["mode_history"] == [before]
        await app.ask("2 + 2", session_id="u", mode="react", model="offline")
        for column, value in (("rating", "'odd'"), ("message", "CAST(x'ff41' AS TEXT)")):
            damage(path, f"UPDATE tasks SET {column} = {value} WHERE thread_id = 'u'")
            assert (await app.preferences("default"))["mode_history"] == [before]
        damage(path, "UPDATE events SET event = '{' WHERE thread_id = 's' AND seq = 1")
        with pytest.raises(DamagedRow, match="segue recover s repairs it"):
            await app.fork("s", place, session_id="new")
        assert {row["thread_id"] for row in await app.threads()} == {"s", "t", "u"}


async def test_a_damaged_call_stops_its_task_until_it_is_repaired(sound: Path, tmp_path: Path) -> None:
    path = copied(sound, tmp_path)
    for column, value in (("outcome", "'{'"), ("state", "'odd'"), ("arguments", "x'00'"), ("outcome", "x'00'")):
        damage(path, f"UPDATE calls SET {column} = {value} WHERE thread_id = 's'")
        async with segue.open(path) as app:
            task = (await app.tasks(session_id="s"))[0]["task_id"]
            with pytest.raises(DamagedRow, match="segue recover s repairs it"):
                await app.cancel(task)
            assert (await app.recover("s"))["repaired"]
            assert [call["state"] for call in (await app.trace(task))["calls"]] == ["done"] * 4
