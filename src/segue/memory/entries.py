"""Entries of a memory file as Markdown: a heading, the task, the text, and a comment with the key."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from ..core.memory import MemoryEntry

_DAY = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
_ENTRY = re.compile(
    rf"^## (?P<at>{_DAY}) · round (?P<round>\d{{1,9}}) · (?P<branch>.*)\n\n?"
    rf"Task (?P<task>\S*)\n(?P<text>(?:(?!## {_DAY} ·).*\n)*?)<!-- entry (?P<key>\S*) -->[ \t]*$",
    re.MULTILINE,
)
_MARK = rf"(?=## {_DAY} ·|<!-- entry )"
_UNESCAPED = re.compile(rf"^(\\*){_MARK}", re.MULTILINE)
_ESCAPED = re.compile(rf"^\\(\\*){_MARK}", re.MULTILINE)
_TIME = "%Y-%m-%d %H:%M:%S UTC"


@dataclass(frozen=True)
class Block:
    """A piece of a file, from `start` to `end`: an entry, or text that a person wrote."""

    start: int
    end: int
    text: str
    entry: MemoryEntry | None = None


def heading(entry: MemoryEntry) -> str:
    """The line that an entry begins with, without its hashes."""
    branch = " ".join(_plain(entry.branch).split()) or "-"
    return f"{_shown(entry.created_at)} · round {entry.round} · {branch}"


def as_markdown(entry: MemoryEntry) -> str:
    """The entry as it stands in the file; a line of its text that looks like the file's own marks is escaped."""
    text = _UNESCAPED.sub(r"\1\\", _plain(entry.text))
    return f"## {heading(entry)}\n\nTask {_quoted(entry.task_id)}\n\n{text}\n\n{end_of(entry.key)}\n"


def end_of(key: str) -> str:
    """The line that an entry ends with."""
    return f"<!-- entry {_quoted(key)} -->"


def _quoted(text: str) -> str:
    return quote(text, safe="/:#@+,", errors="replace")


def blocks_of(text: str) -> Iterator[Block]:
    """The entries of a file, and the text between them."""
    last = 0
    for found in _ENTRY.finditer(text):
        if (at := _moment(found["at"])) is None:
            continue
        yield from _free_text(text, last, found.start())
        content = _ESCAPED.sub(r"\1", found["text"].strip("\n"))
        task_id, key = unquote(found["task"]), unquote(found["key"])
        entry = MemoryEntry(
            key=key, task_id=task_id, round=int(found["round"]), branch=found["branch"], text=content, created_at=at
        )
        last = found.end()
        yield Block(found.start(), last, content, entry)
    yield from _free_text(text, last, len(text))


def _free_text(text: str, start: int, end: int) -> Iterator[Block]:
    if content := text[start:end].strip():
        yield Block(start, end, content)


def _plain(text: str) -> str:
    """The text without what would keep a file from being read as text, or be read as a line's end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").strip("\n").rstrip()
    return lines.encode("utf-8", "replace").decode("utf-8")


def _shown(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime(_TIME)


def _moment(text: str) -> float | None:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
