"""An app in memory, and a conversation with an agent whose endpoint is scripted."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import segue
from segue import Agent
from segue.app import App
from segue.core.events import Event
from segue.models.openai import model
from tests.loopback import LoopbackServer, Request, Scripted


@dataclass(frozen=True)
class Talk:
    """What a task's stream said, and what the endpoint was sent."""

    events: Sequence[Event]
    requests: Sequence[Request]

    def text(self, kind: str) -> str:
        """The text of all `thinking` or `token` events, as a client puts it together."""
        return "".join(event.data["content"] for event in self.events if event.type == kind)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event.data for event in self.events if event.type == kind]

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.of_type("task_complete")[-1]["result"]
        return found


Chat = Callable[..., Awaitable[Talk]]


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setattr(model, "_found", {})
    async with segue.open(":memory:") as opened:
        yield opened


@pytest.fixture
def chat(app: App) -> Chat:
    """`await chat(script, message, **fields of the agent)`; the script has to be used up."""

    async def held(script: Sequence[Scripted], message: str = "go", **fields: Any) -> Talk:
        async with LoopbackServer(script) as server:
            app.register(Agent(agent_id="a", model="openai:x", base_url=server.base_url, api_key="k", **fields))
            events = [event async for event in app.chat(message, agent="a")]
            server.assert_spent()
        return Talk(events, server.requests)

    return held
