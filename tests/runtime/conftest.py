"""An app over a file, a second opening of it as another process has it, and a tool that can be held up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.core.events import Event
from tests.fakes import ScriptedChatModel


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "segue.db"


@pytest.fixture
async def app(database: Path) -> AsyncIterator[App]:
    async with segue.open(database) as opened:
        yield opened


@pytest.fixture
async def other(database: Path, app: App) -> AsyncIterator[App]:
    """Another opening of the same database, as another process has it."""
    async with segue.open(database) as opened:
        yield opened


class Counter:
    """A tool whose effects can be counted, and that can be held up by its gate: `entered` is set then."""

    def __init__(self, *, held: bool = False) -> None:
        self.effects: list[int] = []
        self.entered, self.took_effect = asyncio.Event(), asyncio.Event()
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()

    async def add(self, number: int) -> int:
        """Add a number to the list."""
        if not self.gate.is_set():
            self.entered.set()
        await self.gate.wait()
        self.effects.append(number)
        self.took_effect.set()
        return len(self.effects)


def agent_of(script: list[Any], **fields: Any) -> Agent:
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "mode": "react", **fields})


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]
