"""Deletion of a session: nothing of it is left in the database, and nothing else is touched."""

import asyncio
from pathlib import Path

import pytest

import segue
from segue import Agent, App
from segue.core.errors import ThreadBusy, UnknownThread
from tests.fakes import ScriptedChatModel, answer, call_tool

SECRET = "4929-1234-5678"


def agent(*script: str) -> Agent:
    async def note(text: str) -> str:
        """Note a text."""
        return f"noted {text}"

    return Agent(agent_id="a", model=ScriptedChatModel(list(script)), mode="react", tools=(note,))


def left_over(database: Path, *words: str) -> list[str]:
    """The words that any of the database's files holds."""
    held = b"".join(path.read_bytes() for path in database.parent.rglob("*") if path.is_file())
    return [word for word in words if word.encode() in held]


async def test_nothing_of_a_deleted_session_is_left_in_the_file(tmp_path: Path) -> None:
    database = tmp_path / "segue.db"
    script = [call_tool(("note", {"text": SECRET})), answer(f"It is {SECRET}.")]
    async with segue.open(database, agents=[agent(*script, answer("kept"), answer("new"))]) as app:
        first = await app.ask(f"note {SECRET}", session_id="secret-session", agent="a")
        await app.ask("keep me", session_id="other", agent="a")
        others = (await app.history("other"), await app.trace((await app.tasks.list(session_id="other"))[0].task_id))
        assert left_over(database, SECRET, "secret-session", first["task_id"])
        await app.sessions.delete("secret-session")
        assert not left_over(database, SECRET, "secret-session", first["task_id"])
        with pytest.raises(UnknownThread):
            await app.history("secret-session")
        with pytest.raises(UnknownThread):
            await app.sessions.delete("secret-session")
        assert others == (await app.history("other"), await app.trace(others[1].task.task_id))
        assert (await app.ask("again", session_id="secret-session", agent="a"))["answer"] == "new"
        assert [message["content"] for message in await app.history("secret-session")] == ["again", "new"]


async def test_a_busy_session_is_not_deleted() -> None:
    entered, gate = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        """Wait."""
        entered.set()
        await gate.wait()
        return "held"

    model = ScriptedChatModel([call_tool(("hold", {})), answer("done")])
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=model, mode="react", tools=(hold,))]) as app:
        asking = asyncio.create_task(app.ask("go", session_id="s", agent="a"))
        await entered.wait()
        with pytest.raises(ThreadBusy):
            await app.sessions.delete("s")
        gate.set()
        assert (await asking)["answer"] == "done"
        await app.sessions.delete("s")
        assert await app.threads() == []


async def test_a_former_owner_cannot_write_to_a_session_that_was_deleted_and_began_anew(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[agent(answer("old"), answer("new"))]) as app:
        await app.ask("go", session_id="s", agent="a")
        before = await fence_of(app)
        await app.sessions.delete("s")
        await app.ask("go", session_id="s", agent="a")
        assert await fence_of(app) > before


async def fence_of(app: App) -> int:
    query = "SELECT fence FROM leases WHERE thread_id = 's'"
    return int(await app._storage.database.read(lambda connection: connection.execute(query).fetchone()[0]))
