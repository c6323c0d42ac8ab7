"""Sessions to damage, and damage to their rows as a disk or a stray program does it: with nothing but sqlite3."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

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

    async def do(self, label: str) -> str:
        """Do something that must not be done twice."""
        self.effects.append(label)
        return f"did {label}"

    @asynccontextmanager
    async def opened(self, path: str | Path) -> AsyncIterator[App]:
        agent = Agent(agent_id="a", model=ScriptedChatModel(decide), mode="react", tools=[self.do])
        async with segue.open(path, agents=[agent]) as app:
            yield app

    async def finish(self, path: Path) -> str:
        async with self.opened(path) as app:
            return str((await app.ask("do it", session_id="s", agent="a"))["task_id"])

    async def pause(self, path: Path) -> str:
        """Leave a task that is paused after its second call."""
        async with self.opened(path) as app:
            row = await app.start("do it", session_id="s", agent="a")
            async for event in app.follow(row["task_id"]):
                if event.type == "tool_result" and len(self.effects) == 2 and event.data["result"] != {}:
                    await asyncio.gather(app.pause(row["task_id"]), return_exceptions=True)
            assert (self.effects, (await app.tasks())[0]["status"]) == (["one", "two"], "paused")
            return str(row["task_id"])


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def garble(path: Path, kind: str, value: bytes) -> None:
    """Change a byte in the middle of what is stored in a row, in the file itself."""
    whole = path.read_bytes()
    start = whole.find(kind.encode() + value)
    assert start > 0, "it does not lie in one piece"
    at = start + len(kind) + len(value) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
