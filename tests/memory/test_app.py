"""Memory files of an app: where they are, whose they are, and what deleting a session leaves of them."""

from pathlib import Path

import pytest

import segue
from segue.app import App
from segue.core.errors import DatabaseUnavailable, InvalidMemory, UnknownMemory
from segue.memory.folder import MemoryFolder, root_of

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
