"""A full-text index of passages that finds Chinese words of two characters as well as English ones."""

import re
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ..core.errors import ConfigurationError
from .markdown import Passage

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
        if not (query := " OR ".join(_terms(text))):
            return []
        found = self._connection.execute(_SEARCH, (query, most)).fetchall()
        return [row for row, score in found if score <= WORTH * found[0][1]]


def _spaced(text: str) -> str:
    """The text with every Chinese character a word of its own; what SQLite cannot store is replaced."""
    return _RUN.sub(lambda run: f" {' '.join(run[0])} ", text.encode("utf-8", "replace").decode("utf-8"))


def _terms(text: str) -> list[str]:
    """What to look for, as quoted phrases: English words, and every pair of Chinese characters that says something."""
    return list(dict.fromkeys(_phrases(text)))[:MOST_TERMS]


def _phrases(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        if not _RUN.match(word):
            if word.lower() not in _COMMON_WORDS:
                yield f'"{word.lower()}"'
        elif len(word) == 1:
            yield f'"{word}"'
        else:
            yield from (f'"{a} {b}"' for a, b in pairwise(word) if not _EMPTY & {a, b})
