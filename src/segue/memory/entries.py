"""Entries of a memory file as Markdown, and the names that memory files may have."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from ..core.clause import Clause
from ..core.context import MemoryEntry
from ..core.errors import InvalidMemory

DEEPEST = 4
"""Folders and file in a name."""
LONGEST = 200
"""UTF-8 bytes of a folder or a file."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\s*(\..*)?", re.IGNORECASE)
"""Devices of Windows, with any suffix."""
_FORBIDDEN = re.compile(r'[<>:"\\|?*]')
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_@+.-")


def parts_of(name: str) -> list[str]:
    """The folders and the file of a memory file's name, such as `logs.md` or `coding/logs.md`.

    Raises:
        InvalidMemory: naming what is wrong with it.
    """
    parts = name.split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise _invalid(name, "it is an absolute path")
    if ".." in parts:
        raise _invalid(name, "it has '..'")
    if len(parts) > DEEPEST:
        raise _invalid(name, "it has more than 4 parts")
    for part in parts:
        if fault := _fault(part):
            raise _invalid(name, fault)
    return parts


def _fault(part: str) -> str:
    """Why a folder or a file cannot be called so; empty if it can."""
    if not part:
        return "a part of it is empty"
    if not part.isprintable() or _FORBIDDEN.search(part):
        return "it has a character that file names cannot have"
    if part.startswith((".", " ")) or part.endswith((".", " ")):
        return "a part of it begins or ends with a dot or a space"
    if _RESERVED.fullmatch(part):
        return "Windows reserves it for a device"
    return "a part of it is longer than 200 bytes" if len(part.encode()) > LONGEST else ""


def _invalid(name: str, fault: str) -> InvalidMemory:
    return InvalidMemory(
        "The memory file {name} cannot be used: {fault}. Use a relative path such as logs.md.",
        name=repr(name[:80]),
        fault=Clause(fault),
    )


def folder_of(user_id: str) -> str:
    """The folder of a user's files: no two users share one, not even where case does not count."""
    plain = "".join(f"%{byte:02x}" if chr(byte) not in _PLAIN else chr(byte) for byte in _bytes(user_id))
    if _fault(plain) or len(plain) > LONGEST:
        return "%-" + hashlib.sha256(_bytes(user_id)).hexdigest()
    return plain


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


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
        if (at := _parse_time(found["at"])) is None:
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


def _parse_time(text: str) -> float | None:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
