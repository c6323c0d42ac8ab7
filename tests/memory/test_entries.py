"""Entries as Markdown: what is written is what is read, whatever the text holds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.context import MemoryEntry
from segue.memory.files import as_markdown, blocks_of

from .fakes import NOON, entry

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
