"""A user's memory files: their entries, and how they are written."""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from ..core.context import MemoryEntry
from ..core.environment import sync_folder
from ..core.errors import Clause, InvalidMemory, MemoryUnavailable, UnknownFact, UnknownMemory
from ..core.json import Public
from ..core.models import tokens as count
from ..passages import Unreadable, read_text

# Entries of a memory file as Markdown, and the names that memory files may have.

DEEPEST = 4
"""Folders and file in a name."""
LONGEST = 200
"""UTF-8 bytes of a folder or a file."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)\s*(\..*)?", re.IGNORECASE)
"""Devices of Windows, with any suffix."""
_FORBIDDEN = re.compile(r'[<>:"\\|?*]')
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_@+.-")


def parts_of(name: str) -> list[str]:
    """The folders and the file of a memory file's name, such as `logs.md` or `coding/logs.md`."""
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
    return f"{datetime.fromtimestamp(entry.created_at, UTC).strftime(_TIME)} · round {entry.round} · {branch}"


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


def _parse_time(text: str) -> float | None:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


# A user's memory files on disk: one writer at a time, and a crash leaves the old file or the new one.


@dataclass(frozen=True)
class Fact(Public):
    """What a user said of themselves, and in which task; `earlier` is what it replaces, oldest first."""

    key: str
    subject: str
    text: str
    task_id: str
    created_at: float
    earlier: "tuple[Fact, ...]" = ()


USER_FILE = "user.md"
"""The memory file of what the user said of themselves: an entry's branch is its subject, and the last of one holds."""


def facts_of(text: str) -> list[Fact]:
    """What holds of the user by their file, the last said last."""
    found: dict[str, Fact] = {}
    for entry in (block.entry for block in blocks_of(text) if block.entry):
        before = found.pop(entry.branch, None)
        earlier = (*before.earlier, replace(before, earlier=())) if before else ()
        found[entry.branch] = Fact(entry.key, entry.branch, entry.text, entry.task_id, entry.created_at, earlier)
    return [*found.values()]


class TransientMemory:
    """A `Memory` of a run that reads and leaves nothing on the disk: no file is missing."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, MemoryEntry]] = {}

    async def append(self, name: str, entry: MemoryEntry) -> None:
        self._files.setdefault(name, {}).setdefault(entry.key, entry)

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        """The newest entries that fit, oldest first."""
        entries = [entry for name in names for entry in self._files.get(name, {}).values()]
        kept = ""
        for entry in sorted(entries, key=lambda entry: entry.created_at, reverse=True):
            text = f"## Round {entry.round}: {entry.branch}\n\n{entry.text}\n\n{kept}".strip()
            if count(text) > tokens:
                break
            kept = text
        return kept

    async def missing(self, names: Sequence[str]) -> Sequence[str]:
        return ()


def _replaced(removed: Sequence[MemoryEntry], blocks: Sequence[Block]) -> Iterator[MemoryEntry]:
    """The entries that stand before others on their subject: without those they would hold again."""
    gone: set[str] = set()
    for block in reversed(blocks):
        if block.entry and block.entry in removed:
            gone.add(block.entry.branch)
        elif block.entry and block.entry.branch in gone:
            yield block.entry


_LOCK = ".lock"
_WAIT = 10.0
"""Seconds to wait for another writer."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Limits:
    """What memory files may hold."""

    entry_bytes: int = 64 * 1024
    file_bytes: int = 1024 * 1024
    files: int = 200
    """Files of one user."""


@dataclass(frozen=True)
class MemoryFile:
    """A memory file, for a list of them."""

    name: str
    bytes: int
    entries: int
    tasks: tuple[str, ...]
    """The tasks that wrote its entries, the earliest first."""
    updated_at: float
    error: str = ""
    """Why it cannot be read."""


class MemoryFiles:
    """The files below one folder; every method blocks."""

    def __init__(self, folder: Path, limits: Limits = Limits()) -> None:
        self._folder = folder
        self._limits = limits

    def append(self, name: str, entry: MemoryEntry) -> None:
        """Add an entry to the end of a file; one whose key is there already changes nothing."""
        added = as_markdown(entry)
        if len(added.encode()) > self._limits.entry_bytes:
            raise InvalidMemory(
                "An entry of {size} bytes is too long for the memory file {name} (limit: {most} bytes): shorten it.",
                size=len(added.encode()),
                name=name,
                most=self._limits.entry_bytes,
            )
        with self._writing(name) as path:
            text = self._text(name, path) or ""
            if any(block.entry and block.entry.key == entry.key for block in blocks_of(text)):
                return
            if not path.exists():
                self._check_room(name)
            self._replace(name, path, f"{text.rstrip()}\n\n{added}".lstrip("\n"))

    def has_facts(self) -> bool:
        """Whether there may be any: it takes less time than to read them."""
        return (self._folder / USER_FILE).exists()

    def edit_fact(self, key: str, text: str) -> None:
        """Replace the text of a fact, which stays where it is."""
        with self._writing(USER_FILE) as path:
            before = self._text(USER_FILE, path) or ""
            block = next((b for b in blocks_of(before) if b.entry and b.entry.key == key), None)
            if block is None or block.entry is None:
                raise UnknownFact(key)
            written = as_markdown(replace(block.entry, text=text)).rstrip("\n")
            self._replace(USER_FILE, path, before[: block.start] + written + before[block.end :])

    def remove_fact(self, key: str) -> int:
        """Delete a fact and what it replaces, which would hold again; returns how many entries it was."""
        with suppress(UnknownMemory):
            if count := self._remove_entries(USER_FILE, lambda entry: entry.key == key):
                return count
        raise UnknownFact(key)

    def read(self, name: str) -> str | None:
        """The text of a file; None if there is none."""
        with _explained(name):
            return self._text(name, self._path(name))

    def all(self) -> list[MemoryFile]:
        """The files, by name."""
        return [self._described(name) for name in self._names()]

    def remove(self, name: str) -> int:
        """Delete a file; returns how many entries it had."""
        with self._writing(name) as path:
            if not path.exists():
                raise UnknownMemory(name)
            entries = self._described(name).entries
            self._unlink(path)
            return entries

    def remove_entries(self, selects: Callable[[MemoryEntry], bool], name: str = "") -> int:
        """Delete the entries that `selects` is true of, of one file or of all that can be read; free text stays.

        A file that nothing is left of is deleted. Returns how many entries there were.
        """
        names = [name] if name else [file.name for file in self.all() if not file.error]
        return sum(self._remove_entries(each, selects) for each in names)

    def clear(self) -> int:
        """Delete all files; returns how many there were."""
        names = self._names()
        for name in names:
            with suppress(UnknownMemory):
                self.remove(name)
        return len(names)

    def _remove_entries(self, name: str, selects: Callable[[MemoryEntry], bool]) -> int:
        with self._writing(name) as path:
            if (text := self._text(name, path)) is None:
                raise UnknownMemory(name)
            blocks = list(blocks_of(text))
            removed = [block.entry for block in blocks if block.entry and selects(block.entry)]
            if name == USER_FILE:
                removed = [*removed, *_replaced(removed, blocks)]
            kept = [block for block in blocks if block.entry is None or block.entry not in removed]
            if len(kept) == len(blocks):
                return 0
            if kept:
                sources = [text[block.start : block.end].strip("\n") for block in kept]
                self._replace(name, path, "\n\n".join(sources) + "\n")
            else:
                self._unlink(path)
            return len(blocks) - len(kept)

    @contextmanager
    def _writing(self, name: str) -> Iterator[Path]:
        """Hold the folder's lock, and give the file's path."""
        from filelock import FileLock, Timeout

        with _explained(name):
            self._path(name)
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._folder / _LOCK, timeout=_WAIT, poll_interval=0.01)
            try:
                lock.acquire()
            except Timeout:
                raise MemoryUnavailable(
                    "The memory file {name} is busy: another process has held it for {seconds} s. Try again.",
                    name=name,
                    seconds=round(_WAIT),
                ) from None
            try:
                yield self._path(name)  # looked at again: what was no link before may be one now
            finally:
                lock.release()

    def _path(self, name: str) -> Path:
        """The path of a file: no part of it is a link, and it is a regular file if it is there."""
        path = self._folder
        for part in ("", *parts_of(name)):
            path = path / part
            if path.is_symlink():
                raise InvalidMemory("The memory file {name} is a link, or in a folder that is one.", name=name)
        if path.exists() and not stat.S_ISREG(path.lstat().st_mode):
            raise InvalidMemory("The memory file {name} is not a regular file.", name=name)
        return path

    def _text(self, name: str, path: Path) -> str | None:
        if not path.exists():
            return None
        if path.stat().st_size > self._limits.file_bytes:
            raise self._full(name)
        try:
            return read_text(path)[0]
        except Unreadable as error:
            raise _unavailable(name, Clause(str(error))) from error

    def _full(self, name: str) -> InvalidMemory:
        return InvalidMemory(
            "The memory file {name} is full (limit: {most} bytes): use another file, or remove entries "
            "with `segue memory forget`.",
            name=name,
            most=self._limits.file_bytes,
        )

    def _check_room(self, name: str) -> None:
        if len(self._names()) >= self._limits.files:
            raise InvalidMemory(
                "The memory file {name} cannot be created (limit: {most} files): use an existing file.",
                name=name,
                most=self._limits.files,
            )

    def _replace(self, name: str, path: Path, text: str) -> None:
        data = text.encode()
        if len(data) > self._limits.file_bytes:
            raise self._full(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = _temporary_path(path)
        with os.fdopen(os.open(new, _NEW, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, new)
        os.replace(new, path)
        sync_folder(path.parent)

    def _unlink(self, path: Path) -> None:
        """Delete a file, what a crash left of a write to it, and the folders that are empty then."""
        path.unlink()
        _temporary_path(path).unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._folder or any(folder.iterdir()):
                break
            folder.rmdir()

    def _names(self) -> list[str]:
        """The names of the regular files; what begins with a dot is ours."""
        found = []
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [each for each in folders if not each.startswith(".")]
            paths = (Path(folder, file) for file in files if not file.startswith("."))
            found += [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
        return sorted(path.relative_to(self._folder).as_posix() for path in found)

    def _described(self, name: str) -> MemoryFile:
        with _explained(name):
            found = (self._folder / name).stat()
        try:
            blocks = blocks_of(self.read(name) or "")
        except MemoryUnavailable as error:
            return MemoryFile(name, found.st_size, 0, (), found.st_mtime, str(error))
        tasks = [block.entry.task_id for block in blocks if block.entry]
        return MemoryFile(name, found.st_size, len(tasks), tuple(dict.fromkeys(tasks)), found.st_mtime)


def _temporary_path(path: Path) -> Path:
    """Where the new text is written: one name is enough under the lock, and a crash leaves only one file."""
    return path.with_name(f".{path.name}.new")


def _unavailable(name: str, reason: Clause | str) -> MemoryUnavailable:
    return MemoryUnavailable("The memory file {name} cannot be used: {reason}.", name=name, reason=reason)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Tell of the system's errors in a sentence."""
    try:
        yield
    except OSError as error:
        raise _unavailable(name, error.strerror or str(error)) from error
