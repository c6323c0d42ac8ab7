"""Sessions to damage, and damage to their rows as a disk or a stray program does it: with nothing but sqlite3."""

import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from pydantic import PrivateAttr

import segue
from segue.app import App
from segue.core.agents import Agent
from tests.fakes import ScriptedChatModel, answer, call_tool

NULL = "NULL"
BLOB = "x'00ff'"
NO_TEXT = "CAST(x'ff41' AS TEXT)"
CUT_OFF = "'{\"answer\": '"
ANOTHER = "'[7]'"
"""What a column is damaged to."""


def damage(path: Path, *statements: str) -> None:
    """Carry out statements on a file, whose tables take NULL in every column."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name IN ('tasks', 'calls')"
        )
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, f"nothing was damaged by {statement}"


def copied(path: Path, folder: Path) -> Path:
    """A copy of a database in a folder of its own."""
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(path, folder / "segue.db"))


def stored(path: Path, *tables: str) -> list[list[Any]]:
    """Everything that tables hold, also what is no text."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4").fetchall() for table in tables]


LABELS = ("one", "two", "three")
ANSWER = "All of it: one, two, three."
OUTER = "SELECT type, checkpoint FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id DESC"
INNER = "SELECT type, checkpoint FROM checkpoints WHERE checkpoint_ns != '' ORDER BY checkpoint_id DESC"


def decide(messages: Sequence[BaseMessage]) -> str:
    """Do what has no result yet, then answer."""
    seen = " ".join(str(message.content) for message in messages)
    left = [label for label in LABELS if f"did {label}" not in seen]
    return call_tool(("do", {"label": left[0]})) if left else answer(ANSWER)


@dataclass
class Work:
    """An agent whose tool's effects are counted."""

    effects: list[str] = field(default_factory=list)
    pausing: App | None = None
    """The app that pauses the task while the model decides on the third call."""

    async def do(self, label: str) -> str:
        """Do something that must not be done twice."""
        self.effects.append(label)
        return f"did {label}"

    @asynccontextmanager
    async def opened(self, path: str | Path) -> AsyncIterator[App]:
        agent = Agent(agent_id="a", model=_Watched(self), mode="react", tools=[self.do])
        async with segue.open(path, agents=[agent]) as app:
            yield app

    async def finish(self, path: Path) -> str:
        async with self.opened(path) as app:
            return str((await app.ask("do it", session_id="s", agent="a"))["task_id"])

    async def pause(self, path: Path) -> str:
        """Leave a task that is paused after its second call."""
        async with self.opened(path) as app:
            self.pausing = app
            task_id = str((await app.ask("do it", session_id="s", agent="a"))["task_id"])
            assert (self.effects, (await app.tasks.list())[0].status) == (["one", "two"], "paused")
            return task_id

    async def deciding(self) -> None:
        """The model is asked."""
        if self.pausing and len(self.effects) == 2:
            await self.pausing.pause((await self.pausing.tasks.list())[0].task_id)


class _Watched(ScriptedChatModel):
    """Decides as the script does, and tells before."""

    _work: Work = PrivateAttr()

    def __init__(self, work: Work) -> None:
        super().__init__(decide)
        self._work = work

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        await self._work.deciding()
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def garble(path: Path, kind: str, value: bytes) -> None:
    """Change bytes in the middle of what is stored in a row, in the file itself.

    One byte is not enough: what is compressed may then name another copy of the same text, and be whole.
    """
    whole = path.read_bytes()
    start = whole.find(kind.encode() + value)
    assert start > 0, "it does not lie in one piece"
    at = start + len(kind) + len(value) // 2
    end = min(at + 8, start + len(kind) + len(value))
    path.write_bytes(whole[:at] + bytes(byte ^ 0x20 for byte in whole[at:end]) + whole[end:])
