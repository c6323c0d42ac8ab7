"""Memory files of an app: where they are, whose they are, and what deleting a session leaves of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

import segue
from segue.app import App
from segue.cli import app as command_line
from segue.core.errors import DatabaseUnavailable, InvalidMemory, UnknownMemory
from segue.memory.folder import MemoryFolder, root_of
from tests.server.serving import Served

from .fakes import entry


async def asked(app: App, session_id: str, user_id: str = "default") -> str:
    """The id of a task of a session."""
    await app.ask("hello", session_id=session_id, user_id=user_id, mode="direct")
    return str((await app.tasks.list(session_id=session_id))[0].task_id)


async def test_memory_is_beside_the_database_or_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        await app.memory.of("default").append("logs.md", entry(1))
    assert (tmp_path / "segue.db.memory/default/logs.md").read_text(encoding="utf-8").startswith("## 2025-11-22")
    monkeypatch.setenv("SEGUE_MEMORY", str(tmp_path / "elsewhere"))
    async with segue.open(tmp_path / "segue.db") as app:
        assert app.memory.root == tmp_path / "elsewhere"
    async with segue.open(tmp_path / "segue.db", memory=tmp_path / "named") as app:
        assert app.memory.root == tmp_path / "named"


async def test_an_entry_waits_until_what_led_to_it_is_on_the_disk(tmp_path: Path) -> None:
    async def full() -> None:
        raise DatabaseUnavailable("The database has no room left.")

    memory = MemoryFolder(tmp_path)
    with pytest.raises(DatabaseUnavailable):
        await memory.of("ann", full).append("logs.md", entry(1))
    assert await memory.files(user_id="ann") == []


async def test_memory_of_a_database_in_memory_ends_with_the_app() -> None:
    async with segue.open(":memory:") as app:
        await app.memory.of("default").append("logs.md", entry(1))
        assert (await app.memory.show("logs.md"))["entries"][0]["task_id"] == "task-1"
        root = app.memory.root
    assert not root.exists()


def test_the_folder_of_a_database_goes_by_its_path() -> None:
    assert root_of("data/segue.db") == root_of("file:data/segue.db?cache=shared") == Path("data/segue.db.memory")
    assert [root_of(name) for name in (":memory:", "file::memory:", "file:x?mode=memory")] == [None] * 3


async def test_files_are_listed_shown_forgotten_and_cleared_for_each_user() -> None:
    async with segue.open(":memory:") as app:
        for task_id in ("task-1", "task-2"):
            await app.memory.of("alice").append("logs.md", entry(1, task_id=task_id))
        await app.memory.of("alice").append("plan.md", entry(1))
        assert await app.memory.files() == [] and await app.memory.of("default").read(["logs.md"], "x", 100) == ""
        assert [(file["name"], file["entries"]) for file in await app.memory.files(user_id="alice")] == [
            ("logs.md", 2),
            ("plan.md", 1),
        ]
        assert await app.memory.forget(task_id="task-1", user_id="alice") == 2
        shown = await app.memory.show("logs.md", user_id="alice")
        assert [each["task_id"] for each in shown["entries"]] == ["task-2"]
        assert await app.memory.forget(name="logs.md", user_id="alice") == 1
        with pytest.raises(UnknownMemory, match=r"no memory file 'logs\.md'"):
            await app.memory.show("logs.md", user_id="alice")
        with pytest.raises(InvalidMemory):
            await app.memory.forget(user_id="alice")
        await app.memory.of("alice").append("logs.md", entry(1))
        assert await app.memory.clear(user_id="alice") == 1


async def test_deleting_a_session_forgets_what_its_tasks_wrote_unless_it_is_kept(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        first, second = await asked(app, "s1", "alice"), await asked(app, "s2")
        for task_id, user_id in ((first, "alice"), (second, "default"), ("another", "alice")):
            await app.memory.of(user_id).append("s1/logs.md", entry(1, task_id=task_id))
        await app.sessions.delete("s1")
        await app.sessions.delete("s2", keep_memory=True)
        for user_id, task_id in (("alice", "another"), ("default", second)):
            shown = await app.memory.show("s1/logs.md", user_id=user_id)
            assert [each["task_id"] for each in shown["entries"]] == [task_id]
        await app.memory.forget(task_id="another", user_id="alice")
        assert [path.name for path in (app.memory.root / "alice").iterdir()] == [".lock"]


# Memory files on the command line and over HTTP.


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(command_line, ["memory", *arguments], **options)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a task that wrote to a file, as another one did, in the folder of the test."""
    monkeypatch.chdir(tmp_path)

    async def write() -> str:
        async with segue.open() as app:
            task_id: str = (await app.ask("hello", user_id="ann", mode="direct"))["task_id"]
            for each in (task_id, "gone-task"):
                await app.memory.of("ann").append("coding/logs.md", entry(1, f"By {each}.\x1b[31m", task_id=each))
            await app.memory.of("default").append("plan.md", entry(1))
            return task_id

    return asyncio.run(write())


def test_files_are_listed_and_shown_for_people_and_programs(written: str) -> None:
    listed = run("list", "--user", "ann").stdout.splitlines()
    assert listed[0].split() == ["file", "entries", "tasks", "bytes", "changed"]
    assert listed[1].split()[:3] == ["coding/logs.md", "2", "2"]
    (file,) = json.loads(run("list", "--json").stdout)
    assert (file["name"], file["entries"], file["tasks"]) == ("plan.md", 1, ["task-1"])
    shown = run("show", "coding/logs.md", "--user", "ann").stdout
    assert "## 2025-11-22 12:01:00 UTC · round 1 · write" in shown and "By gone-task." in shown and "\x1b" not in shown
    (first, _) = json.loads(run("show", "coding/logs.md", "--user", "ann", "--json").stdout)["entries"]
    assert first["task_id"] == written
    assert "记忆文件" in run("show", "nope.md", env={"LANG": "zh_CN.UTF-8", "LC_ALL": ""}).stderr


def test_a_task_is_forgotten_by_the_beginning_of_its_id_and_for_its_own_user(written: str) -> None:
    assert run("forget", "--task", written[:8]).stdout == "Entries removed: 1.\n"
    (file,) = json.loads(run("list", "--user", "ann", "--json").stdout)
    assert file["tasks"] == ["gone-task"]
    assert run("forget", "--task", "gone-task", "--user", "ann", "--json").stdout == '{"entries": 1}\n'
    assert run("forget", "--file", "plan.md").stdout == "Entries removed: 1.\n"
    assert run("list").stdout == "There are no memory files.\n"
    assert (run("forget").exit_code, run("forget", "--file", "plan.md").exit_code) == (2, 1)
    assert run("forget", "--file", "../x").stderr.startswith("The memory file '../x' cannot be used: it has '..'")


def test_clearing_asks_first(written: str) -> None:
    refused = run("clear", input="n\n")
    assert refused.exit_code == 1 and "Delete all 1 memory files of the user default?" in refused.output
    assert len(json.loads(run("list", "--json").stdout)) == 1
    assert run("clear", "--yes").stdout == "Memory files deleted: 1.\n"
    assert run("clear", "--user", "ann", input="y\n").exit_code == 0
    assert run("list", "--user", "ann").stdout == "There are no memory files.\n"


def test_files_are_read_and_deleted_over_http() -> None:
    with Served() as served, served.client() as client:
        memory = served.service.app.memory
        for task_id in ("task-1", "task-2"):
            served.do(memory.of("ann").append("coding/logs.md", entry(1, task_id=task_id)))
        served.do(memory.of("default").append("plan.md", entry(1)))

        def files(**options: str) -> list[tuple[str, list[str]]]:
            items = client.get("/api/memory", params=options).json()["items"]
            return [(item["name"], item["tasks"]) for item in items]

        assert files(user_id="ann") == [("coding/logs.md", ["task-1", "task-2"])]
        found = client.get("/api/memory/coding/logs.md", params={"user_id": "ann"}).json()
        assert [each["text"] for each in found["entries"]] == ["Wrote main.py."] * 2
        one = client.delete("/api/memory/coding/logs.md", params={"user_id": "ann", "task_id": "task-1"})
        assert one.json() == {"entries": 1} and files(user_id="ann") == [("coding/logs.md", ["task-2"])]
        assert client.delete("/api/memory", params={"user_id": "ann", "task_id": "task-2"}).status_code == 204
        assert files(user_id="ann") == [] and files() == [("plan.md", ["task-1"])]
        assert client.delete("/api/memory").status_code == 204 and files() == []
        assert client.get("/api/memory/plan.md").status_code == 404
        assert client.get("/api/memory/..%2Fplan.md").json()["error"]["type"] == "InvalidMemory"


def test_deleting_a_session_over_http_may_keep_what_it_wrote() -> None:
    with Served() as served, served.client() as client:

        def delete(session_id: str, **options: str) -> httpx.Response:
            body = {"message": "hello", "session_id": session_id, "mode": "direct"}
            client.post("/api/chat", json=body).raise_for_status()
            task_id = client.get(f"/api/sessions/{session_id}/tasks").json()["items"][0]["task_id"]
            served.do(served.service.app.memory.of("default").append(f"{session_id}.md", entry(1, task_id=task_id)))
            return client.delete(f"/api/sessions/{session_id}", params=options)

        assert (delete("a").status_code, delete("b", keep_memory="true").status_code) == (204, 204)
        assert [item["name"] for item in client.get("/api/memory").json()["items"]] == ["b.md"]
