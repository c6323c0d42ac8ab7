"""Memory files under one root, a folder for each user."""

import asyncio
import logging
import re
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from math import sqrt
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from ..core.context import MemoryEntry
from ..core.errors import Clause, InvalidMemory, UnknownMemory
from ..core.models import tokens
from ..core.records import Json
from ..core.task import ANYBODY
from ..passages import Passage, PassageIndex
from .files import USER_FILE, Fact, MemoryFiles, as_markdown, blocks_of, facts_of, folder_of, heading
from .statements import Statement

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

logger = logging.getLogger(__name__)

LEAST_CHARS, MOST_CHARS = 100, 1_000
"""Characters of a piece, by the budget."""
NEWEST = 0.5
"""The share of the budget that the newest entries have before what is relevant."""
_GAP = "…"


@dataclass(frozen=True)
class Piece:
    """A part of an entry or of free text, as long as it is chosen or left out whole."""

    place: int
    """Its place among all pieces."""
    file: str
    heading: str
    """That of its entry; empty for free text."""
    branch: str
    block: int
    first: bool
    last: bool
    text: str
    created_at: float
    """Of its entry; 0 for free text."""


def pieces_of(texts: Iterable[tuple[str, str]], budget: int) -> list[Piece]:
    """The pieces of files, given as names and texts."""
    most = min(max(budget // 8, LEAST_CHARS), MOST_CHARS)
    blocks = [(name, block) for name, text in texts for block in blocks_of(text)]
    found: list[Piece] = []
    for number, (name, block) in enumerate(blocks):
        cut, entry = list(_cut(block.text, most)), block.entry
        title, branch, at = (heading(entry), entry.branch, entry.created_at) if entry else ("", "", 0.0)
        for index, text in enumerate(cut):
            ends = (index == 0, index == len(cut) - 1)
            found.append(Piece(len(found), name, title, branch, number, *ends, text, at))
    return found


def _cut(text: str, most: int) -> Iterator[str]:
    """The text in parts of at most so many characters, at its paragraphs where they are short enough."""
    part = ""
    for paragraph in re.split(r"(?<=\n\n)(?!\n)", text):
        if part and len(part) + len(paragraph) > most:
            yield part
            part = ""
        part += paragraph
        whole = max(0, (len(part) - 1) // most * most)
        for start in range(0, whole, most):
            yield part[start : start + most]
        part = part[whole:]
    yield part


def newest_first(pieces: Sequence[Piece]) -> list[Piece]:
    """Entries by their time, the newest first, each from its beginning; then free text from the last block on."""
    return sorted(pieces, key=lambda piece: (-piece.created_at, -piece.block, piece.place))


MOST_FOUND = 64
"""Pieces that either way finds."""
MOST_EMBEDDED = 512
"""Pieces that are compared by their meaning, the newest."""
MOST_KEPT = 4 * MOST_EMBEDDED
_RANK = 60
"""How little the first ranks stand out when both ways are put together."""

Vector = Sequence[float]


class Relevance:
    """Ranks pieces. Vectors are kept for the next time."""

    def __init__(self, embeddings: "Embeddings | None" = None) -> None:
        self._embeddings = embeddings
        self._vectors: dict[str, Vector] = {}

    async def ranked(self, pieces: Sequence[Piece], goal: str) -> list[Piece]:
        """The pieces that are relevant to the goal, the most relevant first."""
        by_words = await asyncio.to_thread(_by_words, pieces, goal)
        if self._embeddings is None:
            return by_words
        return _fused(by_words, await self._by_meaning(self._embeddings, pieces, goal))

    async def _by_meaning(self, embeddings: "Embeddings", pieces: Sequence[Piece], goal: str) -> list[Piece]:
        recent = newest_first(pieces)[:MOST_EMBEDDED]
        try:
            goal_vector = await embeddings.aembed_query(goal)
            vectors = await self._embedded(embeddings, [piece.text for piece in recent])
        except Exception as error:  # noqa: BLE001 - embeddings are anybody's code: without them the words decide
            logger.warning("The embeddings failed, memory files are searched by words alone: %s", error)
            return []
        closeness = await asyncio.to_thread(_closeness, goal_vector, vectors)
        order = sorted(range(len(recent)), key=lambda index: -closeness[index])
        return [recent[index] for index in order[:MOST_FOUND]]

    async def _embedded(self, embeddings: "Embeddings", texts: Sequence[str]) -> list[Vector]:
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            found = await embeddings.aembed_documents(new)
            self._vectors.update(zip(new, found, strict=True))
        vectors = [self._vectors[text] for text in texts]
        for text in list(self._vectors)[:-MOST_KEPT]:
            del self._vectors[text]
        return vectors


def _by_words(pieces: Sequence[Piece], goal: str) -> list[Piece]:
    index = PassageIndex()
    index.add("", (Passage(piece.branch, piece.text) for piece in pieces), len(pieces))
    return [pieces[place] for place in index.places("", goal, MOST_FOUND)]


def _closeness(goal: Vector, vectors: Sequence[Vector]) -> list[float]:
    return [sum(map(mul, goal, vector)) / (_length(goal) * _length(vector) or 1.0) for vector in vectors]


def _length(vector: Vector) -> float:
    return sqrt(sum(map(mul, vector, vector)))


def _fused(*rankings: Sequence[Piece]) -> list[Piece]:
    """Reciprocal rank fusion: what several rankings have near their beginning comes first."""
    scores: dict[int, float] = defaultdict(float)
    found: dict[int, Piece] = {}
    for ranking in rankings:
        for rank, piece in enumerate(ranking):
            scores[piece.place] += 1 / (_RANK + rank)
            found[piece.place] = piece
    return [found[place] for place in sorted(scores, key=lambda place: -scores[place])]


class Excerpt:
    """The pieces that were chosen so far; what they cost errs high."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._chosen: dict[int, Piece] = {}
        self._spent = 0

    def add(self, pieces: Iterable[Piece], share: float = 1.0) -> bool:
        """Choose pieces in their order while they fit into the share; False if one did not."""
        for piece in pieces:
            if piece.place in self._chosen:
                continue
            if self._spent + self._cost(piece) > self._budget * share:
                return False
            self._spent += self._cost(piece)
            self._chosen[piece.place] = piece
        return True

    def _cost(self, piece: Piece) -> int:
        """Tokens of the piece, with the headings that it brings and a gap on either side."""
        open_files = {chosen.file for chosen in self._chosen.values()}
        open_blocks = {chosen.block for chosen in self._chosen.values()}
        cost = tokens(f"{_GAP}\n\n{piece.text}\n\n{_GAP}\n\n\n\n")
        cost += tokens(_file_heading(piece.file)) if piece.file not in open_files else 0
        return cost + (tokens(_entry_heading(piece)) if piece.block not in open_blocks else 0)

    def render(self) -> str:
        """The chosen pieces as Markdown, in the order of the files."""
        chosen = [self._chosen[place] for place in sorted(self._chosen)]
        return "".join(
            _file_heading(file) + "".join(_block(list(block)) for _, block in groupby(group, lambda piece: piece.block))
            for file, group in groupby(chosen, lambda piece: piece.file)
        ).rstrip()


def _file_heading(file: str) -> str:
    return f"## {file}\n\n"


def _entry_heading(piece: Piece) -> str:
    return f"### {piece.heading}\n\n" if piece.heading else ""


def _block(pieces: Sequence[Piece]) -> str:
    """The chosen pieces of one block, with marks where something is left out."""
    text = "" if pieces[0].first else f"{_GAP}\n\n"
    for before, piece in zip([None, *pieces], pieces, strict=False):
        if before and piece.place != before.place + 1:
            text = f"{text.rstrip()}\n\n{_GAP}\n\n"
        text += piece.text
    end = "" if pieces[-1].last else f"{_GAP}\n\n"
    return f"{_entry_heading(pieces[0])}{text.rstrip()}\n\n{end}"


def whole(pieces: Sequence[Piece], budget: int) -> str | None:
    """All pieces as Markdown; None if they do not fit."""
    excerpt = Excerpt(budget)
    return excerpt.render() if excerpt.add(pieces) else None


def chosen(pieces: Sequence[Piece], relevant: Sequence[Piece], budget: int) -> str:
    """The newest entries, then what is relevant, then what else is new, as Markdown."""
    excerpt, newest = Excerpt(budget), newest_first(pieces)
    excerpt.add(newest, NEWEST)
    excerpt.add(relevant)
    excerpt.add(newest)
    return excerpt.render()


if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


MOST_EDITED = 500
"""Characters of a fact that a person edits."""


async def _nothing() -> None: ...


class UserMemory:
    """A user's memory files, as the graphs see them: a `Memory`."""

    def __init__(self, folder: "MemoryFolder", user_id: str, before_write: Callable[[], Awaitable[None]]) -> None:
        self._folder = folder
        self._user_id = user_id
        self._before_write = before_write

    async def append(self, name: str, entry: MemoryEntry) -> None:
        if name == USER_FILE:
            raise InvalidMemory(
                "The memory file {name} cannot be used: {fault}. Use a relative path such as logs.md.",
                name=repr(name),
                fault=Clause("it holds what the user said of themselves"),
            )
        await self._before_write()
        await asyncio.to_thread(self._folder.files_of(self._user_id).append, name, entry)

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        return await _excerpt(self._folder.files_of(self._user_id), names, {}, goal, tokens, self._folder.relevance)

    async def missing(self, names: Sequence[str]) -> Sequence[str]:
        return await asyncio.to_thread(_missing, self._folder.files_of(self._user_id), names)


class LocalMemory:
    """The memory of graphs that run without the app: a `Memory` over the files that a person made below one folder.

    What is written to another file is kept in this process.
    """

    def __init__(self, root: Path) -> None:
        self._files = MemoryFiles(root)
        self._kept: dict[str, dict[str, MemoryEntry]] = defaultdict(dict)
        self._relevance = Relevance()

    async def append(self, name: str, entry: MemoryEntry) -> None:
        if await self.missing([name]):
            self._kept[name].setdefault(entry.key, entry)
        else:
            await asyncio.to_thread(self._files.append, name, entry)

    async def read(self, names: Sequence[str], goal: str, tokens: int) -> str:
        kept = {name: "\n".join(map(as_markdown, self._kept[name].values())) for name in names if name in self._kept}
        return await _excerpt(self._files, names, kept, goal, tokens, self._relevance)

    async def missing(self, names: Sequence[str]) -> Sequence[str]:
        return await asyncio.to_thread(_missing, self._files, names)


def _missing(files: MemoryFiles, names: Sequence[str]) -> list[str]:
    return [name for name in names if files.read(name) is None]


async def _excerpt(
    files: MemoryFiles, names: Sequence[str], kept: Mapping[str, str], goal: str, tokens: int, relevance: Relevance
) -> str:
    """What is new and relevant in the files; `kept` are those that are not on the disk."""

    def read() -> list[Piece]:
        return pieces_of([(name, files.read(name) or kept.get(name, "")) for name in dict.fromkeys(names)], tokens)

    pieces = await asyncio.to_thread(read)
    if (markdown := whole(pieces, tokens)) is not None:
        return markdown
    return chosen(pieces, await relevance.ranked(pieces, goal), tokens)


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

    async def files(self, *, user_id: str = ANYBODY) -> list[Json]:
        """A user's files: {"name", "bytes", "entries", "tasks", "updated_at", "error"}, by name.

        Raises:
            MemoryUnavailable.
        """
        return [asdict(file) for file in await asyncio.to_thread(self.files_of(user_id).all)]

    async def show(self, name: str, *, user_id: str = ANYBODY) -> Json:
        """A file: {"name", "text", "entries": [{"key", "task_id", "round", "branch", "text", "created_at"}]}.

        Raises:
            UnknownMemory, MemoryUnavailable.
        """
        text = await asyncio.to_thread(self.files_of(user_id).read, name)
        if text is None:
            raise UnknownMemory(name)
        return {"name": name, "text": text, "entries": [asdict(b.entry) for b in blocks_of(text) if b.entry]}

    async def forget(self, *, task_id: str = "", name: str = "", user_id: str = ANYBODY) -> int:
        """Delete what a task wrote, or a file, or what the task wrote to the file; returns how many entries it was.

        What a person wrote beside a task's entries stays.

        Raises:
            UnknownMemory, MemoryUnavailable.
            InvalidMemory: neither a task nor a file is named.
        """
        if not (task_id or name):
            raise InvalidMemory("Name a task or a memory file to forget.")
        return await self.forget_tasks([task_id] if task_id else [], name=name, user_id=user_id)

    async def facts(self, *, user_id: str = ANYBODY) -> list[Fact]:
        """What holds of what a user said of themselves, the last said last.

        Raises:
            MemoryUnavailable.
        """
        files = self.files_of(user_id)
        if not files.has_facts():
            return []
        text = await asyncio.to_thread(files.read, USER_FILE)
        return facts_of(text or "")

    async def remember(self, statements: Iterable[Statement], task_id: str, at: float, *, user_id: str) -> None:
        """Add what a user said in a task's message; what is known in the same words already is left out.

        Raises:
            InvalidMemory, MemoryUnavailable.
        """
        known = {fact.subject: fact.text.casefold() for fact in await self.facts(user_id=user_id)}
        for place, said in enumerate(statements, 1):
            if known.get(said.subject) == said.text.casefold():
                continue
            key, subject = f"{task_id}-{place}", said.subject
            entry = MemoryEntry(key=key, task_id=task_id, round=0, branch=subject, text=said.text, created_at=at)
            await asyncio.to_thread(self.files_of(user_id).append, USER_FILE, entry)

    async def edit_fact(self, key: str, text: str, *, user_id: str = ANYBODY) -> None:
        """Replace the words of what a user said of themselves.

        Raises:
            UnknownFact, MemoryUnavailable.
            InvalidMemory: the text is empty, or too long.
        """
        words = " ".join(text.split())
        if not 0 < len(words) <= MOST_EDITED:
            raise InvalidMemory("A fact has 1 to {most} characters: shorten it, or delete it.", most=MOST_EDITED)
        await asyncio.to_thread(self.files_of(user_id).edit_fact, key, words)

    async def forget_fact(self, key: str, *, user_id: str = ANYBODY) -> int:
        """Delete what a user said of themselves, with what it replaced; returns how many entries it was.

        Raises:
            UnknownFact, MemoryUnavailable.
        """
        return await asyncio.to_thread(self.files_of(user_id).remove_fact, key)

    async def forget_tasks(self, task_ids: Collection[str], *, name: str = "", user_id: str = ANYBODY) -> int:
        """As `forget`, for several tasks; for none the whole file."""
        files = self.files_of(user_id)
        if not task_ids:
            return await asyncio.to_thread(files.remove, name)
        return await asyncio.to_thread(files.remove_entries, lambda entry: entry.task_id in task_ids, name)

    async def clear(self, *, user_id: str = ANYBODY) -> int:
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
