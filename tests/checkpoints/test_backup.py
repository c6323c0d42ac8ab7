"""Backups of a database, and write-ahead logs that lie beside another file than their own."""

# ruff: noqa: ASYNC240 - nothing else runs on the event loop meanwhile

import asyncio
import shutil
import sqlite3
import tarfile
from pathlib import Path

import pytest

import segue
from segue.core.context import MemoryEntry
from segue.core.errors import DatabaseUnavailable

_ENTRY = MemoryEntry(key="k", task_id="t", round=1, branch="b", text="An entry.", created_at=1.0)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a database may be created."""
    return tmp_path / "segue.db"


async def _filled(database: Path, sessions: int = 3) -> None:
    async with segue.open(database) as app:
        for n in range(sessions):
            await app.ask("2 + 3", session_id=f"s{n}", mode="react")


async def _count(database: Path) -> int:
    async with segue.open(database) as app:
        return len(await app.threads())


def _left_open(database: Path, folder: Path) -> Path:
    """A copy of an open database's files, as a process that was killed leaves them; its log has changes."""
    copied = folder / database.name
    folder.mkdir()
    for end in ("", "-wal", "-shm"):
        shutil.copy(f"{database}{end}", f"{copied}{end}")
    return copied


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_backup_of_a_database_in_use_is_restored_whole(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    if elsewhere:
        monkeypatch.setenv("SEGUE_MEMORY", str(tmp_path / "memory"))
    async with segue.open(database) as app:
        await app.ask("2 + 3", session_id="s1", mode="react")
        await app.memory.of("ann").append("logs.md", _ENTRY)
        made = await asyncio.to_thread(segue.backup, database, tmp_path / "segue.bak")
        await app.ask("later", session_id="s2")
    assert made.memory == 1
    restored = tmp_path / "restored.db"
    if elsewhere:
        with pytest.raises(DatabaseUnavailable, match=r"memory exists: .* set SEGUE_MEMORY to a new folder"):
            segue.restore(made.file, restored)
        monkeypatch.setenv("SEGUE_MEMORY", str(tmp_path / "other" / "memory"))
    segue.restore(made.file, restored)
    async with segue.open(restored) as app:
        assert len(await app.threads()) == 1
        assert (await app.ask("3 + 4", session_id="s1", mode="react")).status == "done"
        assert "An entry." in (await app.memory.show("logs.md", user_id="ann"))["text"]


async def test_memory_files_are_restored_into_an_empty_folder(database: Path, tmp_path: Path) -> None:
    """As into a volume of its own, which a rename does not reach."""
    folder = tmp_path / "memory"
    async with segue.open(database, memory=folder) as app:
        await app.memory.of("ann").append("logs.md", _ENTRY)
    (folder / "rules.md").write_text("Write in verse.")  # a graph without the app reads it there
    assert segue.backup(database, tmp_path / "segue.bak", memory=folder).memory == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    segue.restore(tmp_path / "segue.bak", tmp_path / "restored.db", memory=empty)
    assert sorted(file.name for file in empty.rglob("*.md")) == ["logs.md", "rules.md"]


async def test_a_backup_replaces_nothing(database: Path, tmp_path: Path) -> None:
    await _filled(database)
    backup = tmp_path / "segue.bak"
    segue.backup(database, backup)
    with pytest.raises(DatabaseUnavailable, match="exists"):
        segue.backup(database, backup)
    with pytest.raises(DatabaseUnavailable, match="exists"):
        segue.restore(backup, database)
    assert await _count(database) == 3


@pytest.mark.parametrize("harm", ["changed", "cut", "no backup", "missing"])
async def test_a_backup_that_is_not_whole_restores_nothing(database: Path, tmp_path: Path, harm: str) -> None:
    await _filled(database)
    backup = tmp_path / "segue.bak"
    segue.backup(database, backup)
    content = bytearray(backup.read_bytes())
    if harm == "changed":
        content[9_000] ^= 255
    if harm == "cut":
        del content[len(content) // 2 :]
    backup.write_bytes(b"text" if harm == "no backup" else content)
    if harm == "missing":
        backup.unlink()
    with pytest.raises(DatabaseUnavailable):
        segue.restore(backup, tmp_path / "restored.db")
    assert not [*tmp_path.glob("restored*")]


def test_a_member_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    with tarfile.open(tmp_path / "bad.bak", "w") as archive:
        archive.add(tmp_path / "x", "files/../../escaped")
    with pytest.raises(DatabaseUnavailable, match="no backup has"):
        segue.restore(tmp_path / "bad.bak", tmp_path / "segue.db")
    assert not (tmp_path / "escaped").exists()


async def test_a_killed_process_s_files_open_as_before(database: Path, tmp_path: Path) -> None:
    async with segue.open(database) as app:
        await app.ask("hello", session_id="s0")
        copied = _left_open(database, tmp_path / "killed")
    assert await _count(copied) == 1


@pytest.mark.slow
@pytest.mark.parametrize("other", ["removed", "older", "another", "newer"])
async def test_a_log_beside_another_file_is_refused_and_kept(database: Path, tmp_path: Path, other: str) -> None:
    await _filled(database, 1)
    backup = tmp_path / "older.db"
    with sqlite3.connect(database) as connection:
        connection.execute("VACUUM INTO ?", (str(backup),))
    await _filled(tmp_path / "another.db", 0)
    async with segue.open(database) as app:
        for n in range(30):
            await app.ask("2 + 3", session_id=f"more{n}", mode="react")
        left = _left_open(database, tmp_path / "killed")
    if other == "removed":
        left.unlink()
    else:
        shutil.copy({"older": backup, "another": tmp_path / "another.db", "newer": database}[other], left)
    log = Path(f"{left}-wal")
    before = log.read_bytes()
    if other == "newer":  # it has all of the log already, so that nothing is lost
        assert await _count(left) == 31
        return
    with pytest.raises(DatabaseUnavailable, match=r"-wal is the write-ahead log of another file"):
        await _count(left)
    assert log.read_bytes() == before
    for end in ("-wal", "-shm"):
        Path(f"{left}{end}").unlink(missing_ok=True)
    assert await _count(left) == {"removed": 0, "older": 1, "another": 0}[other]
