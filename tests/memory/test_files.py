"""Memory files on disk: nothing outside the folder, nothing lost, nothing twice."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest
from filelock import FileLock

from segue.core.context import MemoryEntry
from segue.core.errors import InvalidMemory, MemoryUnavailable, UnknownMemory
from segue.memory import files as module
from segue.memory.files import Limits, MemoryFiles, as_markdown, blocks_of

from .fakes import entry


@pytest.fixture
def files(tmp_path: Path) -> MemoryFiles:
    return MemoryFiles(tmp_path / "default", Limits(entry_bytes=2_000, file_bytes=10_000, files=3))


def entries(files: MemoryFiles, name: str = "logs.md") -> list[MemoryEntry]:
    return [block.entry for block in blocks_of(files.read(name) or "") if block.entry]


def test_entries_are_appended_and_one_key_is_written_once(files: MemoryFiles, tmp_path: Path) -> None:
    files.append("coding/logs.md", entry(1))
    files.append("coding/logs.md", entry(2))
    before = (tmp_path / "default/coding/logs.md").read_bytes()
    files.append("coding/logs.md", entry(1, "something else"))
    assert (tmp_path / "default/coding/logs.md").read_bytes() == before
    assert entries(files, "coding/logs.md") == [entry(1), entry(2)]
    assert files.read("other.md") is None


def test_a_file_that_was_edited_by_hand_keeps_every_word(files: MemoryFiles, tmp_path: Path) -> None:
    files.append("logs.md", entry(1))
    path = tmp_path / "default/logs.md"
    path.write_text(f"# Mine\n\n{path.read_text(encoding='utf-8')}\nMy note.", encoding="utf-8")
    path.chmod(0o600)
    files.append("logs.md", entry(2))
    blocks = list(blocks_of(files.read("logs.md") or ""))
    assert [block.entry or block.text for block in blocks] == ["# Mine", entry(1), "My note.", entry(2)]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_a_file_in_another_encoding_is_read_and_continued(files: MemoryFiles, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "default").mkdir()
    (tmp_path / "default/logs.md").write_bytes("客户的投诉很多，需要处理。\r\n".encode(encoding))
    files.append("logs.md", entry(1, "已处理"))
    assert [block.text for block in blocks_of(files.read("logs.md") or "")] == ["客户的投诉很多，需要处理。", "已处理"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="there are no symbolic links here")
@pytest.mark.parametrize("link", ["logs.md", "sub", "."])
def test_links_are_not_followed(files: MemoryFiles, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    secret = outside / ("logs.md" if link != "sub" else "sub/logs.md")
    secret.write_text("secret", encoding="utf-8")
    if link == ".":
        (tmp_path / "default").symlink_to(outside)
    else:
        (tmp_path / "default").mkdir()
        (tmp_path / "default" / link).symlink_to(outside / link)
    name = "sub/logs.md" if link == "sub" else "logs.md"
    for use in (lambda: files.append(name, entry()), lambda: files.read(name), lambda: files.remove(name)):
        with pytest.raises(InvalidMemory, match="is a link"):
            use()
    assert secret.read_text(encoding="utf-8") == "secret"
    assert files.all() == [] or link == "."


def test_what_is_no_regular_file_is_refused_and_does_not_block(files: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / "default/folder.md").mkdir(parents=True)
    os.mkfifo(tmp_path / "default/fifo.md")
    for name in ("folder.md", "fifo.md"):
        with pytest.raises(InvalidMemory, match="not a regular file"):
            files.read(name)
    assert files.all() == []


def test_limits_are_told_in_a_sentence_and_change_nothing(files: MemoryFiles) -> None:
    with pytest.raises(InvalidMemory, match=r"too long for the memory file logs\.md .limit: 2000 bytes"):
        files.append("logs.md", entry(1, "记" * 700))
    with pytest.raises(InvalidMemory, match=r"logs\.md is full .limit: 10000 bytes"):
        for number in range(100):
            files.append("logs.md", entry(number, "x" * 900))
    assert 5 < len(entries(files)) < 12
    for name in ("b.md", "c.md"):
        files.append(name, entry())
    with pytest.raises(InvalidMemory, match=r"d\.md cannot be created .limit: 3 files"):
        files.append("d.md", entry())
    assert [file.name for file in files.all()] == ["b.md", "c.md", "logs.md"]


def test_a_file_that_cannot_be_read_says_why_and_stops_no_list(files: MemoryFiles, tmp_path: Path) -> None:
    files.append("logs.md", entry(1))
    (tmp_path / "default/picture.md").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "default/huge.md").write_bytes(b"x" * 10_001)
    with pytest.raises(MemoryUnavailable, match=r"picture\.md cannot be used: it is not text"):
        files.append("picture.md", entry(1))
    assert {file.name: bool(file.error) for file in files.all()} == {
        "huge.md": True,
        "logs.md": False,
        "picture.md": True,
    }
    assert files.remove_entries(lambda _: True) == 1
    assert files.clear() == 2 and files.all() == []


def test_a_task_is_forgotten_and_free_text_and_other_tasks_stay(files: MemoryFiles, tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        files.append(name, entry(1))
    files.append("a.md", entry(1, task_id="task-2"))
    path = tmp_path / "default/a.md"
    path.write_text(f"{path.read_text(encoding='utf-8')}\nMy note.\n", encoding="utf-8")
    assert [(file.name, file.entries, file.tasks) for file in files.all()] == [
        ("a.md", 2, ("task-1", "task-2")),
        ("b.md", 1, ("task-1",)),
    ]
    assert files.remove_entries(lambda each: each.task_id == "task-1") == 2
    assert path.read_text(encoding="utf-8") == f"{as_markdown(entry(1, task_id='task-2'))}\nMy note.\n"
    assert not (tmp_path / "default/b.md").exists()
    with pytest.raises(UnknownMemory):
        files.remove("b.md")


def test_writers_in_threads_lose_and_repeat_nothing(tmp_path: Path) -> None:
    def write(task: int) -> None:
        own = MemoryFiles(tmp_path / "default")
        for number in (1, 2, 2, 3):
            own.append("logs.md", entry(number, task_id=f"task-{task}"))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    keys = [each.key for each in entries(MemoryFiles(tmp_path / "default"))]
    assert sorted(keys) == sorted(f"task-{task}:{number}" for task in range(6) for number in (1, 2, 3))


def test_a_file_that_another_writer_holds_says_so(
    files: MemoryFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT", 0.01)
    files.append("logs.md", entry(1))
    with FileLock(tmp_path / "default/.lock"), pytest.raises(MemoryUnavailable, match="is busy"):
        files.append("logs.md", entry(2))
    assert entries(files) == [entry(1)]


WRITER = """
    import os, signal, sys
    from pathlib import Path
    from segue.memory.files import Limits, MemoryFiles
    from tests.memory.fakes import entry

    files = MemoryFiles(Path(sys.argv[1]))
    task, crash = sys.argv[2], sys.argv[3]
    if crash:
        real = getattr(os, crash)
        setattr(os, crash, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
    for number in range(1, 6):
        files.append("logs.md", entry(number, task_id=task))
"""


def written(folder: Path, tasks: list[str], crash: str = "") -> Iterator[int]:
    """The return codes of one process a task, all at once."""
    program = [sys.executable, "-c", dedent(WRITER), str(folder)]
    processes = [subprocess.Popen([*program, task, crash], cwd=Path(__file__).parents[2]) for task in tasks]
    return iter([process.wait() for process in processes])


@pytest.mark.slow
def test_writers_in_processes_lose_and_repeat_nothing(tmp_path: Path) -> None:
    tasks = ["a", "b", "a"]
    assert list(written(tmp_path, tasks)) == [0] * 3
    keys = [each.key for each in entries(MemoryFiles(tmp_path))]
    assert sorted(keys) == sorted(f"{task}:{number}" for task in "ab" for number in range(1, 6))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_a_crash_in_the_middle_of_a_write_leaves_the_old_file(tmp_path: Path, at: str) -> None:
    files = MemoryFiles(tmp_path)
    files.append("logs.md", entry(1))
    assert list(written(tmp_path, ["other"], at)) == [-signal.SIGKILL]
    assert entries(files) == [entry(1)]
    files.append("logs.md", entry(2))
    assert entries(files) == [entry(1), entry(2)]
    assert [file.name for file in files.all()] == ["logs.md"]
