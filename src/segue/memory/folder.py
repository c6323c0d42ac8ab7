"""Memory files under one root, a folder for each user."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from ..core.errors import InvalidMemory, UnknownMemory
from ..core.memory import MemoryEntry
from ..core.records import Json
from .entries import blocks_of, folder_of
from .excerpt import Piece, Relevance, chosen, pieces_of, whole
from .files import MemoryFiles

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


async def _nothing() -> None: ...


class UserMemory:
    """A user's memory files, as the graphs see them: a `Memory`."""

    def __init__(self, folder: "MemoryFolder", user_id: str, before_write: Callable[[], Awaitable[None]]) -> None:
        self._folder = folder
        self._user_id = user_id
        self._before_write = before_write

    async def append(self, name: str, entry: MemoryEntry) -> None:
        await self._before_write()
        await asyncio.to_thread(self._folder.files_of(self._user_id).append, name, entry)

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        pieces = await asyncio.to_thread(self._pieces, names, tokens)
        if (markdown := whole(pieces, tokens)) is not None:
            return markdown
        return chosen(pieces, await self._folder.relevance.ranked(pieces, goal), tokens)

    def _pieces(self, names: Sequence[str], tokens: int) -> list[Piece]:
        files = self._folder.files_of(self._user_id)
        return pieces_of([(name, files.read(name) or "") for name in dict.fromkeys(names)], tokens)


class MemoryFolder:
    """The memory files of all users; without a root they are in a temporary folder, which `close` deletes."""

    def __init__(self, root: str | Path | None = None, embeddings: "Embeddings | None" = None) -> None:
        self._root = Path(root) if root else None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.relevance = Relevance(embeddings)

    @property
    def root(self) -> Path:
        """The folder of the users' folders."""
        if self._root is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="segue-memory-")
            self._root = Path(self._temporary.name)
        return self._root

    def of(self, user_id: str, before_write: Callable[[], Awaitable[None]] = _nothing) -> UserMemory:
        """The files that a user's tasks read and write.

        `before_write` puts on the disk what leads to an entry: a file must not remember what a power cut made undone.
        """
        return UserMemory(self, user_id, before_write)

    async def files(self, *, user_id: str = "default") -> list[Json]:
        """A user's files: {"name", "bytes", "entries", "tasks", "updated_at", "error"}, by name.

        Raises:
            MemoryUnavailable.
        """
        return [asdict(file) for file in await asyncio.to_thread(self.files_of(user_id).all)]

    async def show(self, name: str, *, user_id: str = "default") -> Json:
        """A file: {"name", "text", "entries": [{"key", "task_id", "round", "branch", "text", "created_at"}]}.

        Raises:
            UnknownMemory, MemoryUnavailable.
        """
        text = await asyncio.to_thread(self.files_of(user_id).read, name)
        if text is None:
            raise UnknownMemory(name)
        return {"name": name, "text": text, "entries": [asdict(b.entry) for b in blocks_of(text) if b.entry]}

    async def forget(self, *, task_id: str = "", name: str = "", user_id: str = "default") -> int:
        """Delete what a task wrote, or a file, or what the task wrote to the file; returns how many entries it was.

        What a person wrote beside a task's entries stays.

        Raises:
            UnknownMemory, MemoryUnavailable.
            InvalidMemory: neither a task nor a file is named.
        """
        if not (task_id or name):
            raise InvalidMemory("Name a task or a memory file to forget.")
        return await self.forget_tasks([task_id] if task_id else [], name=name, user_id=user_id)

    async def forget_tasks(self, task_ids: Collection[str], *, name: str = "", user_id: str = "default") -> int:
        """As `forget`, for several tasks; for none the whole file."""
        files = self.files_of(user_id)
        if not task_ids:
            return await asyncio.to_thread(files.remove, name)
        return await asyncio.to_thread(files.remove_entries, lambda entry: entry.task_id in task_ids, name)

    async def clear(self, *, user_id: str = "default") -> int:
        """Delete all of a user's files; returns how many there were.

        Raises:
            MemoryUnavailable.
        """
        return await asyncio.to_thread(self.files_of(user_id).clear)

    def close(self) -> None:
        """Delete the files if they are temporary."""
        if self._temporary:
            self._temporary.cleanup()

    def files_of(self, user_id: str) -> MemoryFiles:
        """A user's files, for callers that may block."""
        return MemoryFiles(self.root / folder_of(user_id))


def root_of(database: str) -> Path | None:
    """Where the memory files of a database are by default: beside it. None for one that ends with its process."""
    if database.startswith("file:"):
        url = urlsplit(database)
        database = "" if parse_qs(url.query).get("mode") == ["memory"] else unquote(url.path)
    elif "://" in database:
        return Path("segue.memory")
    return Path(f"{database}.memory") if database not in ("", ":memory:") else None
