"""The way of one chat message with one tool call through the files."""

import asyncio
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from pydantic import SecretStr

import segue
from tests.loopback import Call, LoopbackServer, Text, ToolCalls
from tests.source import FOLDERS, ROOT


class Way(NamedTuple):
    """The files that were entered, and how often a call was in another file than the one before it in its thread."""

    files: frozenset[str]
    moves: int


class _Recorder:
    """Notes the file of each function of the source that is called; a profile function of threads."""

    def __init__(self) -> None:
        self._source = tuple(f"{ROOT / folder}/" for folder in FOLDERS)
        self._last: dict[int, str] = {}
        self.files: set[str] = set()
        self.moves = 0

    def start_anew(self) -> None:
        self._last, self.files, self.moves = {}, set(), 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(self._source):
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
            recorder.start_anew()
            await _chat(app, "second")
            return Way(frozenset(recorder.files), recorder.moves)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def _chat(app: segue.App, session: str) -> None:
    events = [event async for event in app.chat("Where is order 17?", agent="shop", session_id=session)]
    if not any(event.type == "task_complete" and event.data["status"] == "done" for event in events):
        raise RuntimeError("The chat that is measured failed.")


def follow_chat() -> Way:
    """Follow one message that needs one call of a tool, over HTTP and with a database in a file."""
    replies = [ToolCalls([Call("call_1", "look_up", '{"order_id": 17}')]), Text("It is on its way.")] * 2
    with tempfile.TemporaryDirectory() as folder, LoopbackServer(replies) as server:
        return asyncio.run(_chat_twice(server.base_url, Path(folder, "segue.db")))
