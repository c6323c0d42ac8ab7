"""The way of one chat message with one tool call through the files, and the work that it takes."""

import asyncio
import sqlite3
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from pydantic import SecretStr

import segue
from tests.loopback import Call, LoopbackServer, Text, ToolCalls
from tests.source import FOLDERS, ROOT


class Way(NamedTuple):
    """The files that were entered, and what was done on the way.

    `moves` is how often a call was in another file than the one before it in its thread, `calls` the calls of Python
    functions, those of libraries included, `bytes` what the database's rows hold of it.
    """

    files: frozenset[str]
    moves: int
    calls: int
    checkpoints: int
    bytes: int


class _Recorder:
    """Notes the file of each function of the source that is called; a profile function of threads."""

    def __init__(self) -> None:
        self._source = tuple(f"{ROOT / folder}/" for folder in FOLDERS)
        self.start_anew()

    def start_anew(self) -> None:
        self._last: dict[int, str] = {}
        self.files: set[str] = set()
        self.moves = self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        self.calls += 1
        file = frame.f_code.co_filename
        if not file.startswith(self._source):
            return
        thread = threading.get_ident()
        if self._last.get(thread) not in (None, file):
            self.moves += 1
        self._last[thread] = file
        self.files.add(file.removeprefix(f"{ROOT}/"))


@segue.tool(read_only=True)
def look_up(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} is on its way."


async def _chat_twice(base_url: str, database: Path) -> Way:
    """Send two messages, and record the second, for which nothing is left to import."""
    agent = segue.Agent(
        agent_id="shop",
        model="openai:scripted",
        base_url=base_url,
        api_key=SecretStr("unused"),
        tools=(look_up,),
        mode="react",
        protocol="native",
    )
    recorder = _Recorder()
    threading.setprofile(recorder)  # of threads that start from now on, so before the app opens its database
    sys.setprofile(recorder)
    try:
        async with segue.open(database, agents=[agent]) as app:
            await _chat(app, "first")
            before = _stored(database)
            recorder.start_anew()
            await _chat(app, "second")
            counted = (frozenset(recorder.files), recorder.moves, recorder.calls)
            checkpoints, size = _stored(database)
            return Way(*counted, checkpoints - before[0], size - before[1])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _stored(database: Path) -> tuple[int, int]:
    """The checkpoints of a database, and the bytes of what its rows hold."""
    with closing(sqlite3.connect(database)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    values = [value for rows in tables.values() for row in rows for value in row if value is not None]
    return len(tables["checkpoints"]), sum(
        len(value if isinstance(value, bytes) else str(value).encode()) for value in values
    )


async def _chat(app: segue.App, session: str) -> None:
    events = [event async for event in app.chat("Where is order 17?", agent="shop", session_id=session)]
    if not any(event.type == "task_complete" and event.data["status"] == "done" for event in events):
        raise RuntimeError("The chat that is measured failed.")


def follow_chat() -> Way:
    """Follow one message that needs one call of a tool, over HTTP and with a database in a file."""
    replies = [ToolCalls([Call("call_1", "look_up", '{"order_id": 17}')]), Text("It is on its way.")] * 2
    with tempfile.TemporaryDirectory() as folder, LoopbackServer(replies) as server:
        return asyncio.run(_chat_twice(server.base_url, Path(folder, "segue.db")))
