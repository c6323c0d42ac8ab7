"""Processes that are killed while a message takes a file along: nothing is lost, and no content stays unnamed."""

import asyncio
import os
import signal
import sqlite3
import sys
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.checkpoints.tasks import Tasks
from segue.core.message import UPLOAD_SECONDS
from tests.cli.conftest import Shell, pages, shell
from tests.fakes import answer, call_tool
from tests.loopback import Hang, Json, LoopbackServer, Text
from tests.polling import wait_until

from .serving import ending, follow, start
from .test_processes import Process, effects, serve

__all__ = ["pages", "serve", "shell"]

pytestmark = pytest.mark.slow
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
DIGEST = sha256(PNG).hexdigest()
OTHER = b"another text"
EYES = """
[[agent]]
agent_id = "eyes"
model = "openai:m"
base_url = "{url}"
accepts = ["image"]
mode = "react"
tools = ["page_tools:store"]
"""


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("segue.db.files/*/*"))


def let_a_day_pass(database: Path) -> None:
    """Make every upload a day older."""
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE uploads SET created_at = created_at - ?", (UPLOAD_SECONDS + 1,))
    connection.close()


def images(request: Json) -> list[str]:
    """The images that a request to the model holds."""
    parts = [
        part for message in request["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def ask_and_die(database: str, point: str) -> None:
    """Send a message with a file and be killed: before its content has its name, or before there is its task."""
    if point == "content":
        os.replace = die
    else:
        Tasks.create = die  # type: ignore[method-assign, assignment]
    async with segue.open(database) as app:
        await app.ask("Look", files=[("a.txt", b"a text")], session_id="s")


@pytest.mark.parametrize("point", ["content", "task"])
async def test_what_is_stored_before_its_task_is_deleted_after_a_day(tmp_path: Path, point: str) -> None:
    database = tmp_path / "segue.db"
    code = f"import asyncio; from {__name__} import ask_and_die; asyncio.run(ask_and_die({str(database)!r}, {point!r}))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == -signal.SIGKILL
    (left,) = contents(tmp_path)
    async with segue.open(str(database)) as app:
        assert await app.tasks.list() == []
        await app.files.upload("other.txt", OTHER)
        assert left in contents(tmp_path), "it may be that of a process which runs"
    let_a_day_pass(database)
    async with segue.open(str(database)) as app:
        await app.files.upload("other.txt", OTHER)
    assert contents(tmp_path) == [sha256(OTHER).hexdigest()]


def test_an_upload_outlives_its_service_and_a_task_goes_on_with_its_image(
    pages: Shell, serve: Callable[..., Process]
) -> None:
    script = [Text(call_tool(("store", {}))), Hang(60), Text(answer("a dot"))]
    with LoopbackServer(script) as model:
        (pages.folder / "agents.toml").write_text(EYES.format(url=model.base_url), encoding="utf-8")
        first = serve()
        with first.client() as client:
            sent, left = [
                client.post("/api/attachments", params={"name": name}, content=content).json()
                for name, content in (("dot.png", PNG), ("left.txt", b"left behind"))
            ]
        first.stop(signal.SIGKILL)
        second = serve()
        with second.client() as client:
            asked = {"session_id": "s", "agent_id": "eyes", "attachments": [sent["upload_id"]]}
            task_id = start(client, "Look, then store it", **asked)
            wait_until(lambda: len(model.requests) == 2)
        second.stop(signal.SIGKILL)
        assert contents(pages.folder) == sorted([DIGEST, left["digest"]])
        let_a_day_pass(pages.folder / "segue.db")
        with serve().client() as client:
            assert ending([form for _, form in follow(client, task_id)])["answer"] == "a dot"
            assert effects(pages) == ["store done"]
            client.post("/api/attachments", params={"name": "other.txt"}, content=OTHER).raise_for_status()
            assert contents(pages.folder) == sorted([DIGEST, sha256(OTHER).hexdigest()])
            shown = client.get(f"/api/sessions/s/attachments/{DIGEST}")
            assert shown.content == PNG
            client.delete("/api/sessions/s").raise_for_status()
            assert contents(pages.folder) == [sha256(OTHER).hexdigest()]
        model.assert_spent()
    seen = [images(request.body) for request in model.requests]
    assert len(seen) == 3 and len({*map(tuple, seen)}) == 1 and len(seen[0]) == 1
