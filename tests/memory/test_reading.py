"""Reading memory files: within the budget, the newest entries and those that are relevant to the goal."""

import logging
import random
from pathlib import Path

import pytest

from segue.core.models import tokens
from segue.memory.files import as_markdown
from segue.memory.folder import MemoryFolder
from tests.cases import cases

from .fakes import LetterEmbeddings, entry

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
