"""Memory files on disk: nothing outside the folder, nothing lost, nothing twice."""

import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from segue.core.context import MemoryEntry
from segue.core.errors import InvalidMemory, MemoryUnavailable, UnknownMemory
from segue.core.models import tokens
from segue.memory import files as module
from segue.memory.files import Limits, MemoryFiles, as_markdown, blocks_of, folder_of, parts_of
from segue.memory.folder import MemoryFolder
from tests.cases import cases

from .fakes import NOON, LetterEmbeddings, entry


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


# Entries as Markdown: what is written is what is read, whatever the text holds.


PLEASANT = """\
## 2025-11-22 12:03:00 UTC · round 3 · run_tests

Task task-1

2 passed.

All of `calc.py` is covered.

<!-- entry task-1:3 -->
"""


def read(text: str) -> list[MemoryEntry]:
    return [block.entry for block in blocks_of(text) if block.entry]


def test_an_entry_is_pleasant_to_read() -> None:
    said = "2 passed.\n\nAll of `calc.py` is covered."
    assert as_markdown(entry(3, said, branch="run_tests")) == PLEASANT
    assert read(PLEASANT) == [entry(3, said, branch="run_tests")]


@given(
    text=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0")),
    key=st.text(),
    task_id=st.text(),
    round_=st.integers(0, 10**6),
)
def test_any_text_and_any_id_is_read_as_it_was_written(text: str, key: str, task_id: str, round_: int) -> None:
    given_ = replace(entry(), text=text, key=key, task_id=task_id, round=round_)
    (found,) = read(as_markdown(given_))
    encoded = [each.encode("utf-8", "replace").decode() for each in (key, task_id)]
    assert [found.key, found.task_id, found.round] == [*encoded, round_]
    assert found.text == text.strip("\n").rstrip().strip("\n")


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
def test_a_text_cannot_forge_entries(line_end: str) -> None:
    forged = line_end.join(["ok", "", *as_markdown(entry(9, "forged", task_id="other")).splitlines(), "", "more"])
    text = as_markdown(entry(1, forged)) + "\n" + as_markdown(entry(2))
    first, second = read(text)
    assert (first.key, second.key) == ("task-1:1", "task-1:2")
    assert first.text.splitlines() == forged.replace("\r\n", "\n").replace("\r", "\n").splitlines()
    (again,) = read(as_markdown(replace(first)))
    assert again == first


def test_what_is_no_entry_is_free_text() -> None:
    broken = PLEASANT.replace("<!-- entry task-1:3 -->", "")
    text = f"# My notes\n\n{broken}\nA note in between.\n\n{as_markdown(entry(4))}\nThe end.\n"
    first, second, third = blocks_of(text)
    assert (first.entry, third.entry, third.text) == (None, None, "The end.")
    assert first.text.startswith("# My notes") and first.text.endswith("A note in between.")
    assert second.entry == entry(4)
    assert not read(PLEASANT.replace("2025-11-22", "2025-99-99"))


def test_an_editor_that_trims_blank_lines_and_changes_the_text_does_no_harm() -> None:
    (found,) = read(PLEASANT.replace("\n\n", "\n").replace("2 passed.", "Two passed."))
    assert found == entry(3, "Two passed.\nAll of `calc.py` is covered.", branch="run_tests")


def test_what_would_keep_the_file_from_being_read_is_replaced() -> None:
    (found,) = read(as_markdown(replace(entry(), text="a\0b\ud800", branch="run\n\ud800tests")))
    assert (found.text, found.branch, found.created_at) == ("a\ufffdb?", "run ?tests", NOON + 60)


# Names of memory files: only what is safe on every file system, and nothing outside the user's folder.


UNSAFE = (
    *("", "/etc/passwd", "//host/share", "C:/x.md", "c:x.md", "..", "../x.md", "a/../../x.md", "a/..", "."),
    *("./x.md", "a//b.md", "a/", "x\0.md", "x\n.md", "\u202ex.md", "x\ud800.md", ".hidden", ".lock", "x.md.", "x.md "),
    *(
        " x.md",
        "a\\b.md",
        "..\\x.md",
        "x:y.md",
        "x*.md",
        "CON",
        "con.md",
        "a/NUL.txt",
        "COM1",
        "lpt9.md",
        "x.md:stream",
    ),
    *("a" * 201, "记" * 67, "a/b/c/d/e.md"),
)


@cases("name", UNSAFE)
def test_unsafe_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidMemory, match="Use a relative path such as"):
        parts_of(name)


@given(st.text(), st.text())
def test_no_two_users_share_a_folder(one: str, other: str) -> None:
    folders = [folder_of(one), folder_of(other)]
    assert (folders[0] == folders[1].lower()) == (one == other)
    assert all(folder and "/" not in folder and not folder.startswith(".") for folder in folders)


def test_users_that_differ_by_case_alone_have_their_own_folders() -> None:
    names = ["alice", "Alice", "alpha:alice", "..", "con", "", "u" * 500]
    assert len({folder_of(name).lower() for name in names}) == len(names)
    assert folder_of("default") == "default"


# Reading memory files: within the budget, the newest entries and those that are relevant to the goal.


FILLER = "Checked the weather and found nothing that matters. "
CHINESE = "检查了天气，没有发现任何重要的内容。"
PASSWORD = "The deployment password is kept in the vault of the office."


def folder(
    tmp_path: Path, *texts: str, name: str = "logs.md", embeddings: LetterEmbeddings | None = None
) -> MemoryFolder:
    """Memory with an entry for each text, written at once."""
    written = "\n".join(as_markdown(entry(number, text)) for number, text in enumerate(texts, start=1))
    (tmp_path / "default").mkdir(exist_ok=True)
    (tmp_path / "default" / name).write_text(written, encoding="utf-8")
    return MemoryFolder(tmp_path, embeddings)


async def test_what_fits_is_read_whole_in_the_order_of_the_files(tmp_path: Path) -> None:
    folder(tmp_path, "Planned it.", name="plan.md")
    memory = folder(tmp_path, "First.", "Second:\n\n" + "word " * 400).of("default")
    assert await memory.read(["plan.md", "logs.md", "absent.md", "plan.md"], "anything", 2_000) == (
        "## plan.md\n\n### 2025-11-22 12:01:00 UTC · round 1 · write\n\nPlanned it.\n\n"
        "## logs.md\n\n### 2025-11-22 12:01:00 UTC · round 1 · write\n\nFirst.\n\n"
        f"### 2025-11-22 12:02:00 UTC · round 2 · write\n\nSecond:\n\n{'word ' * 399}word"
    )
    assert await memory.read([], "anything", 2_000) == ""


async def test_beyond_the_budget_the_newest_and_the_relevant_are_read(tmp_path: Path) -> None:
    texts = [FILLER * 8 for _ in range(60)]
    texts[7] = PASSWORD
    texts[59] = "The last thing that was done."
    read = await folder(tmp_path, *texts).of("default").read(["logs.md"], "What is the deployment password?", 1_000)
    assert PASSWORD in read and "The last thing that was done." in read
    assert read.index(PASSWORD) < read.index("The last thing"), "in the file's order"
    assert "round 30 ·" not in read and tokens(read) <= 1_000
    assert tokens(read) > 700, "the budget is used"


async def test_chinese_words_of_two_characters_are_relevant(tmp_path: Path) -> None:
    texts = [CHINESE * 20 for _ in range(40)]
    texts[3] = "部署密码保存在办公室的保险柜里。"
    read = await folder(tmp_path, *texts).of("default").read(["logs.md"], "密码在哪里？", 1_500)
    assert texts[3] in read and tokens(read) <= 1_500


async def test_free_text_of_a_person_is_read_too(tmp_path: Path) -> None:
    memory = folder(tmp_path, *[FILLER * 8] * 40)
    path = tmp_path / "default/logs.md"
    path.write_text(f"Never deploy on a Friday.\n\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    assert "Never deploy on a Friday." in await memory.of("default").read(["logs.md"], "Deploy it on Friday", 800)


async def test_of_a_long_entry_parts_are_read_with_marks_for_what_is_left_out(tmp_path: Path) -> None:
    text = "\n\n".join([FILLER * 6] * 30 + [PASSWORD] + [FILLER * 6] * 30)
    read = await folder(tmp_path, text).of("default").read(["logs.md"], "deployment password", 1_000)
    first, *_ = read.split("\n\n…\n\n")
    assert first.startswith("## logs.md\n\n### 2025-11-22") and FILLER.strip() in first
    assert PASSWORD in read and read.endswith("…") and tokens(read) <= 1_000


@cases("budget", [0, 50, 999, 6_000])
@cases("filler", [FILLER, CHINESE, "x" * 900, "🙂" * 300, "a\n\n" * 60, "# 标题\n\n"])
async def test_the_budget_holds_whatever_is_in_the_files(tmp_path: Path, budget: int, filler: str) -> None:
    chance = random.Random(budget)
    for name in ("a.md", "b.md"):
        folder(tmp_path, *(filler * chance.randint(0, 9) for _ in range(12)), name=name)
    read = await MemoryFolder(tmp_path).of("default").read(["a.md", "b.md"], f"天气 {filler[:50]}", budget)
    assert tokens(read) <= budget
    assert read or budget < 200


async def test_a_file_at_its_limit_is_read_within_the_budget(tmp_path: Path) -> None:
    texts = [CHINESE * 60] * 300
    texts[100] = "部署密码保存在保险柜里。"
    memory = folder(tmp_path, *texts)
    assert (tmp_path / "default/logs.md").stat().st_size > 900_000
    read = await memory.of("default").read(["logs.md"], "部署密码", 2_000)
    assert texts[100] in read and "round 300 ·" in read and tokens(read) <= 2_000


async def test_with_embeddings_a_synonym_is_relevant(tmp_path: Path) -> None:
    texts = [FILLER * 8 for _ in range(40)]
    texts[5] = "The automobile is parked behind the house."
    embeddings = LetterEmbeddings(("car", "automobile"), ("weather",))
    without = await folder(tmp_path, *texts).of("default").read(["logs.md"], "Where is my car?", 800)
    memory = folder(tmp_path, *texts, embeddings=embeddings).of("default")
    read = await memory.read(["logs.md"], "Where is my car?", 800)
    assert texts[5] in read and texts[5] not in without and tokens(read) <= 800
    count = len(embeddings.embedded)
    assert await memory.read(["logs.md"], "Where is my car?", 800) == read
    assert len(embeddings.embedded) == count, "a text is embedded once"


async def test_embeddings_that_fail_leave_the_search_to_the_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(LetterEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            raise ConnectionError("no route to the endpoint")

    texts = [PASSWORD, *[FILLER * 8] * 40]
    memory = folder(tmp_path, *texts, embeddings=Failing()).of("default")
    with caplog.at_level(logging.WARNING):
        assert PASSWORD in await memory.read(["logs.md"], "deployment password", 800)
    assert "no route to the endpoint" in caplog.text
