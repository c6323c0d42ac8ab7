"""What the requests with keys did, in both databases."""

from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import DatabaseDamaged
from segue.core.events import ASKING
from segue.core.records import RequestKey
from tests.fakes import ScriptedChatModel
from tests.server.shop import refund, reply

from .conftest import opened

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
