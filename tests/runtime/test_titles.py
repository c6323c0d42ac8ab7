"""Titles of sessions: the first message, shortened; on request a model's, once; and a person's before all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.outputs import ChatGenerationChunk
from rich.cells import cell_len
from typer.testing import CliRunner

import segue
from segue import Agent
from segue.cli import app as command_line
from segue.core.errors import TaskError, UnknownThread
from segue.core.task import TITLE_COLUMNS, title_of
from tests.fakes import ScriptedChatModel
from tests.server.serving import Served

LONG = "Please find me a quiet hotel in the old town of Rome for three nights in the last week of May"
LONG_ZH = "请帮我在罗马老城区找一家安静的酒店，五月最后一周入住三晚，预算每晚一百欧元左右，最好含早餐"


def test_a_message_is_shortened_at_a_word_or_a_character_by_its_width() -> None:
    assert title_of("Hello\n there ") == "Hello there"
    assert title_of(LONG) == "Please find me a quiet hotel in the old town of Rome for…"
    assert title_of(LONG_ZH) == "请帮我在罗马老城区找一家安静的酒店，五月最后一周入住三晚，预…"
    assert all(cell_len(title_of(text)) <= TITLE_COLUMNS + 1 for text in (LONG, LONG_ZH, "x" * 200, "한" * 99))


async def test_a_session_has_the_shortened_first_message_and_its_fork_too() -> None:
    async with segue.open(":memory:") as app:
        await app.ask(LONG, session_id="s", mode="direct")
        await app.ask("hello", session_id="s", mode="direct")
        assert (await app.sessions.get("s")).title == title_of(LONG)
        snapshot = (await app.sessions.snapshots("s", 1))[0]
        await app.rewind.fork("s", snapshot.checkpoint_id, "t")
        assert (await app.sessions.get("t")).title == f"↳ {title_of(LONG)}"
        await app.sessions.rename("s", LONG)
        assert (await app.sessions.make_title("s")) == (await app.sessions.get("s")).title == title_of(LONG)
        assert (await app.sessions.make_title("t")) == f"↳ {title_of(LONG)}"


async def test_a_model_writes_a_title_once_and_it_is_counted() -> None:
    with ScriptedChatModel(["Fine.", '"Hotel in Rome."\nIt is a title.']) as chat:
        async with segue.open(":memory:", agents=[Agent(agent_id="guide", model=chat)]) as app:
            with pytest.raises(UnknownThread):
                await app.sessions.make_title("s")
            task = await app.ask(LONG, session_id="s", mode="direct", agent="guide")
            assert [await app.sessions.make_title("s") for _ in range(2)] == ["Hotel in Rome"] * 2
            stored = (await app.task(task["task_id"])).result
            assert stored and stored["usage"]["calls"] == 2
            await app.sessions.rename("s", "Mine")
            assert await app.sessions.make_title("s") == "Mine"


async def test_a_title_and_what_a_model_remembers_are_both_counted_when_they_end_together(tmp_path: Path) -> None:
    asked: list[int] = []
    both = asyncio.Event()

    class Together(ScriptedChatModel):
        async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
            asked.append(1)
            if len(asked) == 3:
                both.set()
            if len(asked) > 1:
                await both.wait()
            async for piece in super()._astream(*args, **options):
                yield piece

    chat = Together(["Fine.", '{"facts": []}', '{"facts": []}'])
    agents = [Agent(agent_id="guide", model=chat, remember="model")]
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        task = await app.ask("My name is Ann.", session_id="s", mode="direct", agent="guide", user_id="ann")
        await app.sessions.make_title("s")
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        stored = (await app.task(task["task_id"])).result
    assert stored and stored["usage"]["calls"] == 3


async def test_a_name_that_a_person_gives_meanwhile_wins() -> None:
    async with segue.open(":memory:") as app:
        chat = ScriptedChatModel(["Fine.", "Hotel in Rome"])
        app.register(Agent(agent_id="guide", model=chat))
        await app.ask(LONG, session_id="s", mode="direct", agent="guide")
        await app.sessions.rename("s", "Mine")
        from segue.core.records import SessionChanges

        await app.sessions.change("s", SessionChanges(title="Hotel in Rome", is_made=True))
        assert (await app.sessions.get("s")).title == "Mine"


async def test_a_title_needs_an_answer() -> None:
    async with segue.open(
        ":memory:", agents=[Agent(agent_id="guide", model=ScriptedChatModel([ValueError("no")]))]
    ) as app:
        with pytest.raises(ValueError, match="no"):
            await app.ask(LONG, session_id="s", mode="direct", agent="guide")
        with pytest.raises(TaskError, match="has no answer yet"):
            await app.sessions.make_title("s")


def test_titles_over_http_and_in_the_terminal(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    with Served() as served, served.client() as client:
        client.post("/api/chat", json={"message": LONG, "session_id": "s", "mode": "direct"})
        assert client.post("/api/sessions/s/title").json() == {"title": title_of(LONG)}
        assert client.get("/api/sessions/s").json()["title"] == title_of(LONG)
        assert client.post("/api/sessions/none/title").status_code == 404
    monkeypatch.chdir(str(tmp_path))

    def run(*arguments: str) -> str:
        return CliRunner().invoke(command_line, arguments).output

    run("chat", LONG, "--session", "s", "--mode", "direct")
    assert run("title", "s") == run("title", "s", "--make") == f"{title_of(LONG)}\n"
    assert run("title", "s", "Rome") == run("title", "s", "--make") == "Rome\n"
    assert "Rome" in run("sessions")
    assert run("title", "s", "") == f"{title_of(LONG)}\n"
