"""The words of messages and answers: an index that names the tasks in which they may be, and what finds them there.

It is not trusted: what it names is compared with the stored text, so that damage can hide a hit, but make none.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from segue.core.records import Hit, Json, Role, readable

from .ports import Connection, Database, Row

_CJK = r"\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
MOST_CHARACTERS = 100_000
"""Characters of a message or an answer whose words are in the index."""
_LONGEST = 32
"""Characters of a word that count."""
_END = "\U0010ffff"
"""Sorts after every character of a word."""
_CHUNK = 200
"""Words of one statement."""
_MOST_CONDITIONS = 32
"""Words of a query that are looked up; the others are compared with what was found."""
_LONGEST_PAGE = 512
"""Tasks that are compared with a query at once."""
_AROUND = (40, 120)
"""Characters of a snippet before what was found, and from there on."""

_ADD = "INSERT INTO search_terms (term, position) VALUES {} ON CONFLICT DO NOTHING"
_REMOVE = "DELETE FROM search_terms WHERE position = ? AND term IN ({})"
_REMOVE_ALL = "DELETE FROM search_terms WHERE position = ?"
_OF_THREAD = "SELECT position, mode, message, notes, result FROM tasks WHERE thread_id = ?"
_INDEXED = """
    SELECT term, position FROM search_terms WHERE (term, position) > (?, ?) ORDER BY term, position LIMIT 5000
"""
_TASKS = """
    SELECT position, task_id, thread_id, mode, message, notes, result FROM tasks WHERE position > ?
    ORDER BY position LIMIT 200
"""
_FIRST = -(2**63)
"""Sorts before every position of a task."""
_HAS = "position IN (SELECT position FROM search_terms WHERE term = :{0})"
_BEGINS = "position IN (SELECT position FROM search_terms WHERE term >= :{0} AND term < :{0}_end)"
# What a bot was told and answered belongs to its conversation, what a called agent was to its caller's session. A copy
# in a fork is found where the original is gone.
_FIND = """
    SELECT tasks.*, coalesce(talk, tasks.thread_id) AS shown_in, coalesce(
        (SELECT title FROM titles WHERE titles.thread_id = coalesce(talk, tasks.thread_id)),
        (SELECT message FROM tasks AS first WHERE first.thread_id = coalesce(talk, tasks.thread_id)
            ORDER BY position LIMIT 1)
    ) AS title
    FROM (
        SELECT *, coalesce(
            (SELECT talk.thread_id FROM tasks AS talk WHERE talk.bot_session = tasks.thread_id
                ORDER BY talk.position DESC LIMIT 1),
            (SELECT caller.thread_id FROM tasks AS caller WHERE caller.task_id = tasks.called_by)
        ) AS talk
        FROM tasks WHERE {terms}
    ) AS tasks
    WHERE (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
        AND (:thread_id = '' OR coalesce(talk, thread_id) = :thread_id)
        AND (:thread_id <> '' OR NOT EXISTS (SELECT 1 FROM tasks AS original WHERE original.task_id = tasks.copy_of))
        AND (:before = '' OR position < (SELECT position FROM tasks AS last WHERE last.task_id = :before))
    ORDER BY position DESC LIMIT :limit
"""


def terms_of(text: str) -> set[str]:
    """The words of a text, in lower case; of Chinese, Japanese and Korean every two characters, and the last one."""
    found: set[str] = set()
    for token in _TOKEN.findall(text[:MOST_CHARACTERS].lower()):
        if _IS_CJK.match(token):
            found |= {first + second for first, second in pairwise(token)} | {token[-1]}
        else:
            found.add(token[:_LONGEST])
    return found


def _conditions(part: str) -> Iterator[tuple[str, str]]:
    """What the index has of every text that a part of a query is in: its words, the last one as a beginning."""
    tokens = _TOKEN.findall(part.lower())
    for place, token in enumerate(tokens, 1):
        if _IS_CJK.match(token) and len(token) > 1:
            yield from ((_HAS, first + second) for first, second in pairwise(token))
        else:
            is_whole = place < len(tokens) and not _IS_CJK.match(token)
            yield _HAS if is_whole else _BEGINS, token[:_LONGEST]


def _said(row: Row) -> Iterator[tuple[Role, str]]:
    """The texts of a task; those that cannot be read are left out. The message of a conversation configures it."""
    if row["mode"] != "conversation":
        yield "user", row["message"] if isinstance(row["message"], str) else ""
    yield from (("user", note) for note in _decoded(row["notes"], list) if isinstance(note, str))
    answer = _decoded(row["result"], dict).get("answer")
    yield "assistant", answer if isinstance(answer, str) else ""


def _decoded(text: Any, kind: type) -> Any:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, kind) else kind()


def _terms(row: Row) -> set[str]:
    return set[str]().union(*(terms_of(text) for _, text in _said(row)))


def index_task(connection: Connection, row: Row, before: Row | None = None) -> None:
    """Index a task that was stored; `before` is its row as it was indexed."""
    if before is not None and all(row[name] == before[name] for name in ("message", "notes", "result")):
        return
    known = _terms(before) if before is not None else set()
    terms, position = _terms(row), row["position"]
    _remove(connection, position, known - terms)
    for chunk in _chunks(terms - known):
        values = [value for term in chunk for value in (term, position)]
        connection.execute(_ADD.format(", ".join(["(?, ?)"] * len(chunk))), values)


def index_again(connection: Connection, row: Row) -> None:
    """Index a task whose row was not what had been indexed; this reads the whole index."""
    connection.execute(_REMOVE_ALL, (row["position"],))
    index_task(connection, row)


def remove_thread(connection: Connection, thread_id: str) -> None:
    """Remove the words of a thread's tasks, before their rows are deleted."""
    for row in connection.fetched(_OF_THREAD, (thread_id,)):
        _remove(connection, row["position"], _terms(row))


def _remove(connection: Connection, position: int, terms: Iterable[str]) -> None:
    for chunk in _chunks(terms):
        connection.execute(_REMOVE.format(", ".join("?" * len(chunk))), [position, *chunk])


def _chunks(terms: Iterable[str]) -> Iterator[list[str]]:
    every = sorted(terms)
    return (every[start : start + _CHUNK] for start in range(0, len(every), _CHUNK))


class Search:
    """Finds what was said in the sessions of a database."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def find(
        self, text: str, *, prefix: str = "", thread_id: str = "", limit: int = 20, before: str = ""
    ) -> list[Hit]:
        """Return the tasks with every part of `text` in their message or answer, newest first, one hit for each.

        They are of threads whose names begin with `prefix`, or of one; `before` is the task that the last page ended
        with. Words are found by their beginnings, Chinese by any part; upper and lower case are the same.
        """
        parts = text.split()
        every = dict.fromkeys(condition for part in parts for condition in _conditions(part))
        conditions = [*every][:_MOST_CONDITIONS]
        if not conditions:
            return []
        patterns = [re.compile(re.escape(part), re.IGNORECASE) for part in parts]
        statement = _FIND.format(terms=" AND ".join(each.format(_name(n)) for n, (each, _) in enumerate(conditions)))
        values: dict[str, Any] = {"prefix": prefix, "thread_id": thread_id, "limit": limit, "before": before}
        for n, (_, word) in enumerate(conditions):
            values |= {_name(n): word, f"{_name(n)}_end": word + _END}
        found: list[Hit] = []
        while len(found) < limit:
            rows = await self._rows(statement, values)
            found += readable(Hit, filter(None, (_hit(row, patterns) for row in rows)))
            if len(rows) < values["limit"]:
                break
            values |= {"before": rows[-1]["task_id"], "limit": max(limit, min(2 * values["limit"], _LONGEST_PAGE))}
        return found[:limit]

    async def _rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        return await self._database.read(lambda connection: connection.fetched(statement, values))

    async def differing(self) -> list[str]:
        """Return the threads whose words are not as the index has them, and "" for each task that is not there."""
        return await self._database.read(_differing)

    async def rebuild(self) -> None:
        """Make the index again from the messages and answers."""

        def work(connection: Connection) -> None:
            connection.execute("DELETE FROM search_terms")
            for row in _every_task(connection):
                index_task(connection, row)

        await self._database.write(work)


def _name(n: int) -> str:
    """The name of a statement's value, which has no digits."""
    return "word" + "".join(chr(ord("a") + int(digit)) for digit in str(n))


def _every_task(connection: Connection) -> Iterator[Row]:
    position = _FIRST
    while rows := connection.fetched(_TASKS, (position,)):
        yield from rows
        position = rows[-1]["position"]


def _differing(connection: Connection) -> list[str]:
    indexed: dict[int, int] = {}
    last: tuple[str, int] = ("", _FIRST)
    while rows := connection.fetched(_INDEXED, last):
        for term, position in rows:
            indexed[position] = indexed.get(position, 0) + _weight(term)
        last = tuple(rows[-1])
    found: dict[str, None] = {}
    for row in _every_task(connection):
        if indexed.pop(row["position"], 0) != sum(map(_weight, _terms(row))):
            found[str(row["thread_id"])] = None
    return [*found, *("" for _ in indexed)]


def _weight(term: object) -> int:
    """A number whose sum tells sets of words apart; a damaged word may be no text."""
    return int.from_bytes(blake2b(repr(term).encode(), digest_size=8).digest())


def _hit(row: Row, patterns: Sequence[re.Pattern[str]]) -> Json | None:
    """The fields of a hit, with the first text of a task in which something is, if everything is in one of them."""
    said = [*_said(row)]
    if not all(any(pattern.search(text) for _, text in said) for pattern in patterns):
        return None
    role, text, match = next((role, text, at) for role, text in said if (at := patterns[0].search(text)))
    start, end = max(0, match.start() - _AROUND[0]), match.start() + _AROUND[1]
    snippet = " ".join(text[start:end].split())
    return {
        "task_id": row["task_id"],
        "thread_id": row["shown_in"],
        "title": row["title"] if row["title"] and isinstance(row["title"], str) else row["shown_in"],
        "role": role,
        "snippet": f"{'…' if start else ''}{snippet}{'…' if end < len(text) else ''}",
        "created_at": row["created_at"],
    }
