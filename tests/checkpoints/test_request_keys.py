"""What requests' keys stand for, in both databases."""

from typing import Any

import segue
from segue.core.agents import Agent
from segue.core.records import RequestKey
from tests.fakes import ScriptedChatModel


async def test_the_newest_attempt_is_found_and_what_nobody_stores_is_deleted(address: str) -> None:
    agent = Agent(agent_id="a", model=ScriptedChatModel(lambda _: "Fine."), mode="direct", protocol="native")
    async with segue.open(address, agents=[agent]) as app:

        async def ask(key: str, session_id: str, about: Any) -> None:
            await app.ask("Hello.", session_id=session_id, idempotency_key=RequestKey(key, "", about))

        for number in (0, 2, 10):
            await ask(f"r:{number}", f"unstored{number}", {"store": False, "schema": {"store": True}})
        await ask("r:x", "stored", {"store": True, "schema": {"store": False}})
        await ask("q:1", "unstored2", {})
        newest = await app.tasks.last_request("r:")
        assert newest and (newest.key, newest.is_stored) == ("r:10", False)
        assert await app.tasks.last_request("s:") is None
        assert await app.sessions.delete_unstored(3600) == 0
        assert await app.sessions.delete_unstored(0) == 2
        assert {thread.thread_id for thread in await app.sessions.list()} == {"stored", "unstored2"}
        newest = await app.tasks.last_request("r:")
        assert newest and newest.key == "r:2"
