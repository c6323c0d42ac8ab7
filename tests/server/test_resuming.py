"""Tasks that were cut off go on by themselves: at the start, and when a lease of another process runs out."""

import asyncio
import re
import sqlite3
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.checkpoints.sqlite.database import SqliteBackend
from segue.runtime.worker import exceeds_takeovers
from segue.server import ServerSettings
from segue.server import lifespan as resuming
from segue.testing.rehearsal import converse
from tests.polling import wait_until
from tests.rehearsal.test_interruptions import KILLED
from tests.runtime.polling_workers import PollingWorkers

from .serving import Held, Served, chat, ending, follow
from .test_streams import from_last


def interrupted(database: Path, agent_id: str = "a", requested: str | None = None, status: str = "running") -> str:
    """A task whose process is gone, as it is in the database; returns its id."""
    task_id, now = str(uuid.uuid4()), time.time()
    values = (task_id, f"s-{task_id}", agent_id, "default", "react", "", status, "hello", now, now, requested)
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO tasks (task_id, thread_id, agent_id, user_id, mode, model, status, message, created_at,"
            " updated_at, requested, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'api')",
            values,
        )
    connection.close()
    return task_id


def status(client: Any, task_id: str) -> str:
    return str(client.get(f"/api/tasks/{task_id}").json()["task"]["status"])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database that a service made."""
    with Served(tmp_path / "segue.db"):
        pass
    return tmp_path / "segue.db"


def test_what_was_cut_off_goes_on_at_the_start_a_few_at_a_time(database: Path, held: Held) -> None:
    ids = [interrupted(database) for _ in range(resuming.AT_ONCE + 3)]
    lost, requested = interrupted(database, "an-agent-that-is-gone"), interrupted(database, requested="pause")
    ids.append(interrupted(database, status="paused"))  # as a task is left that a storage error stopped
    with Served(database, agents=[held.agent("a", from_last)]) as served, served.client() as client:
        for task_id in ids[::-1]:
            assert ending([form for _, form in follow(client, task_id)])["status"] == "done", "a stream waits for it"
        wait_until(lambda: not served.service.resuming)
        assert [status(client, task_id) for task_id in (lost, requested)] == ["running", "running"]


def test_what_is_cut_off_later_goes_on_then(database: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "TAKEOVER_SECONDS", 0.02)
    with Served(database, agents=[held.agent("a", from_last)]) as served, served.client() as client:
        task_id = interrupted(database)
        wait_until(lambda: status(client, task_id) == "done")


def test_what_was_left_to_workers_that_are_gone_goes_on_here(
    database: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteBackend, "workers", PollingWorkers(database))
    task_id = interrupted(database, status="pending")
    agents = [held.agent("a", from_last)]
    with Served(database, agents=agents) as served, served.client() as client:
        assert not served.service.resuming, "after one look, a worker may be about to start anew"
        assert status(client, task_id) == "pending"
    monkeypatch.setattr(resuming, "TAKEOVER_SECONDS", 0.02)
    with Served(database, agents=agents) as served, served.client() as client:
        wait_until(lambda: status(client, task_id) == "done")


def test_a_fork_that_nobody_resumed_does_not_go_on_by_itself(database: Path, held: Held) -> None:
    agents = [held.agent("a", from_last)]
    with Served(database, agents=agents) as served, served.client() as client:
        assert chat(client, "please note", agent_id="a", session_id="s")[-1]["result"]["status"] == "done"
        page = client.get("/api/sessions/s/snapshots", params={"limit": 500}).json()["items"]
        before = next(each for each in page if each["nodes"] == ["INIT"] and not each["inside"])
        asked = {"checkpoint_id": before["checkpoint_id"], "session_id": "twin"}
        assert client.post("/api/sessions/s/fork", json=asked).status_code == 201
        portable = served.do(served.service.app.sessions.export("twin"))
        served.do(served.service.app.sessions.import_(portable, session_id="third"))
    assert held.effects == ["one"]
    with Served(database, agents=agents) as served, served.client() as client:
        assert not served.service.resuming
        for session in ("twin", "third"):
            (task,) = client.get(f"/api/sessions/{session}/tasks").json()["items"]
            assert task["status"] == "paused"
        assert held.effects == ["one"]


async def closed_after_the_first_call(database: Path) -> None:
    """Leave a conversation with an agent unfinished."""
    async with segue.open(database) as app:
        called = asyncio.Event()
        talk = asyncio.create_task(
            converse(app, KILLED, conversation_id="talk", on_utterance=lambda u: called.set() if u.is_action else None)
        )
        await called.wait()
        await app.drain(60)
        await talk
    async with segue.open(database) as app:
        assert [row.session_id for row in await app.resumable()] == ["talk"]


def test_a_conversation_goes_on_and_its_bots_session_with_it(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    asyncio.run(closed_after_the_first_call(database))
    allowed = ServerSettings(participants=("tests.rehearsal.effects",))
    with Served(database, allowed) as served, served.client() as client:
        (task,) = client.get("/api/sessions/talk/tasks").json()["items"]
        assert ending([form for _, form in follow(client, task["task_id"])])["status"] == "done"
        talk = client.get(f"/api/tasks/{task['task_id']}").json()["task"]["result"]["answer"]
        turns = client.get("/api/sessions/talk.bot/tasks").json()["items"]
    effects = (tmp_path / "effects").read_text().splitlines()
    assert re.findall(r"(?m)^\[\w+\]", talk) == ["[USER]", "[BOT]", "[SYSTEM]", "[BOT]"] * 2
    assert (len(effects), [turn["status"] for turn in turns]) == (2, ["done", "done"])


def test_a_service_that_is_told_not_to_resumes_nothing(database: Path, held: Held) -> None:
    task_id = interrupted(database)
    settings = ServerSettings(resume=False)
    with Served(database, settings, agents=[held.agent("a", from_last)]) as served, served.client() as client:
        assert ending([form for _, form in follow(client, task_id)])["status"] == "running"
        assert client.post(f"/api/tasks/{task_id}/resume").status_code == 202
        assert ending([form for _, form in follow(client, task_id)])["status"] == "done"


@pytest.mark.parametrize(
    ("told", "hopeless"),
    [
        ("resumed resumed", False),
        ("resumed state_changed resumed paused resumed", True),
        ("resumed resumed thought resumed", False),
        ("thought resumed resumed resumed", True),
        ("resumed resumed resumed thought", False),
        ("", False),
    ],
)
def test_a_task_that_comes_to_nothing_again_and_again_is_left_alone(told: str, hopeless: bool) -> None:
    assert exceeds_takeovers(told.split()) is hopeless
