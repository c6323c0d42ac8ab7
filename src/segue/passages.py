"""Text files as passages: decoding, Markdown, and a full-text index for Chinese and English."""

import codecs
import re
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from .core.errors import ConfigurationError

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of one file that are read."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GUESSES = ("utf-8", "gb18030", "cp1252")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Characters that no text holds."""


class Unreadable(Exception):
    """A file holds no text that can be read; the message says why."""


def read_text(path: Path) -> tuple[str, bool]:
    """The text of a file, and whether it is all of it."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be opened ({error.strerror or error})") from error
    whole = len(data) <= MOST_BYTES
    text = _decoded(data[:MOST_BYTES], whole)
    return text.replace("\r\n", "\n").replace("\r", "\n"), whole


def text_of(data: bytes) -> str:
    """The text of a file's whole content."""
    encodings = [name for mark, name in _MARKS if data.startswith(mark)] or _GUESSES
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            if not _CONTROL.search(text):
                return text.replace("\r\n", "\n").replace("\r", "\n")
    raise Unreadable("it is not text")


def _decoded(data: bytes, whole: bool) -> str:
    """The text: by its mark, else by the first encoding that fits; a cut file may end within a character."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\0" in data:
        raise Unreadable("it is not text")
    for guess in (encoding,) if encoding else _GUESSES:
        try:
            return codecs.getincrementaldecoder(guess)().decode(data, final=whole)
        except UnicodeDecodeError:
            continue
    return data.decode(encoding or "latin-1", "replace")


PASSAGE_CHARS = 1_000
_HASHES = re.compile(r"#{1,6}\s+")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d+[.)、．]|[（(]?[一二三四五六七八九十]+[）)、.])\s*(?=\S)")
_FENCE = re.compile(r"```|~~~")


@dataclass(frozen=True)
class Passage:
    """A piece of a file: `title` is its heading path."""

    title: str
    text: str


def rules_of(text: str) -> list[str]:
    """Each item of a list and each paragraph; headings only say where they are."""
    rules: list[list[str]] = []
    continued = False
    for line in text.splitlines():
        stripped = line.strip()
        item = _ITEM.match(line)
        if not stripped or _heading(stripped) is not None:
            continued = False
        elif item or not continued:
            rules.append([line[item.end() :].strip() if item else stripped])
            continued = True
        else:
            rules[-1].append(stripped)
    return [" ".join(lines) for lines in rules]


def passages_of(text: str, name: str) -> Iterator[Passage]:
    """The paragraphs below each heading, put together and cut to about a thousand characters."""
    heading, kept = "", ""
    fenced = False
    for block in _blocks(text):
        found = None if fenced else _heading(block)
        if _FENCE.match(block.lstrip()):
            fenced = len(_FENCE.findall(block)) % 2 == 1
        if found is not None or len(kept) + len(block) > PASSAGE_CHARS:
            yield from _cut(kept, name, heading)
            kept = ""
        if found is not None:
            heading = found
        else:
            kept = f"{kept}\n\n{block}".strip()
    yield from _cut(kept, name, heading)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs; a heading is one of its own."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line.strip() or _heading(line) is not None:
            if block:
                yield "\n".join(block)
            block = []
            if line.strip():
                yield line.strip()
        else:
            block.append(line.rstrip())


def _heading(text: str) -> str | None:
    """The words of a heading, without the hashes around them; None where the text is not one."""
    hashes = _HASHES.match(text)
    if hashes is None:
        return None
    words = text[hashes.end() :].removesuffix("\n").rstrip("#").rstrip()
    return None if "\n" in words else words


def _cut(text: str, name: str, heading: str) -> Iterator[Passage]:
    title = f"{name} › {heading}" if heading else name
    for start in range(0, len(text), PASSAGE_CHARS):
        yield Passage(title, text[start : start + PASSAGE_CHARS])


_CJK = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(f"[{_CJK}]+")
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_EMPTY = frozenset("的了着过吗呢吧啊和与及或是在有我你您他她它们这那请帮把被给对就都也还要会能可以")
_COMMON = """
a an and are as at be by can do for from give have help how i in is it me my of on or please show tell that the this to
us was we what when where which who will with you your
"""
_COMMON_WORDS = frozenset(_COMMON.split())
MOST_TERMS = 64
"""Words of a request that are looked for."""
WORTH = 0.3
"""A passage is found if it fits at least this well, where the best one counts 1."""
_TABLE = """
    CREATE VIRTUAL TABLE passages USING fts5(
        spaced, title UNINDEXED, text UNINDEXED, tokenize = "unicode61 remove_diacritics 2"
    )
"""
_SEARCH = "SELECT rowid, bm25(passages) FROM passages WHERE passages MATCH ? ORDER BY bm25(passages) LIMIT ?"
_SHOW = "SELECT title, text FROM passages WHERE rowid = ?"


class PassageIndex:
    """Passages by the file that they come from, in memory. Its owner sees to it that one thread uses it at a time."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._connection.close)
        self._rows: dict[str, range] = {}
        self._next = 1
        try:
            self._connection.execute(_TABLE)
        except sqlite3.OperationalError as error:
            raise ConfigurationError(
                "This Python's SQLite has no full-text search ({error}): use one that was built with FTS5.", error=error
            ) from error

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows.values())

    def add(self, name: str, passages: Iterable[Passage], most: int) -> bool:
        """Take in a file's passages, at most so many; False if there were more."""
        first, whole = self._next, True
        self._connection.execute("BEGIN")
        for passage in passages:
            if self._next - first >= most:
                whole = False
                break
            row = (self._next, _spaced(f"{passage.title}\n{passage.text}"), passage.title, passage.text)
            self._connection.execute("INSERT INTO passages (rowid, spaced, title, text) VALUES (?, ?, ?, ?)", row)
            self._next += 1
        self._connection.execute("COMMIT")
        self._rows[name] = range(first, self._next)
        return whole

    def remove(self, name: str) -> None:
        """Forget a file's passages."""
        rows = self._rows.pop(name, range(0))
        self._connection.executemany("DELETE FROM passages WHERE rowid = ?", ((row,) for row in rows))

    def search(self, text: str, most: int) -> list[Passage]:
        """The passages that fit the text best, the best first."""
        return [Passage(*self._connection.execute(_SHOW, (row,)).fetchone()) for row in self._found(text, most)]

    def places(self, name: str, text: str, most: int) -> list[int]:
        """As `search`, but the places of the passages among those of one file."""
        rows = self._rows[name]
        return [row - rows.start for row in self._found(text, most) if row in rows]

    def _found(self, text: str, most: int) -> list[int]:
        phrases = list(dict.fromkeys(_phrases(text)))[:MOST_TERMS]
        if not phrases:
            return []
        query = " OR ".join(phrases)
        found = self._connection.execute(_SEARCH, (query, most)).fetchall()
        return [row for row, score in found if score <= WORTH * found[0][1]]


def _spaced(text: str) -> str:
    """The text with every Chinese character a word of its own; what SQLite cannot store is replaced."""
    return _RUN.sub(lambda run: f" {' '.join(run[0])} ", text.encode("utf-8", "replace").decode("utf-8"))


def _phrases(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        if not _RUN.match(word):
            if word.lower() not in _COMMON_WORDS:
                yield f'"{word.lower()}"'
        elif len(word) == 1:
            yield f'"{word}"'
        else:
            yield from (f'"{a} {b}"' for a, b in pairwise(word) if not _EMPTY & {a, b})
