"""What is done with every adapter in the same way, in its process."""

import asyncio
import contextlib
import inspect
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.durability.work import Outcome, Work


def call(function: Callable[..., Any], *given: Any) -> Any:
    """What a function of an adapter gives, whether it is a coroutine function or not."""
    result = function(*given)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def fault(adapter: ModuleType, work: Work, place: int) -> str:
    """What becomes of a task whose endpoint has a fault; empty if it ends with the whole answer."""
    from benchmarks.endpoint_faults import FAULTS, MESSAGE, outcome

    async def peer(url: str, tool: Callable[[int], str]) -> str:
        given = Work(work.folder, url, MESSAGE, process=work.process, tools=[tool])
        ended: Outcome = await asyncio.to_thread(call, adapter.run, given)
        return ended.answer

    return asyncio.run(outcome(peer, FAULTS[place], seconds=None))


def turns(adapter: ModuleType, work: Work, marks: list[int], skipped: tuple[int, int]) -> dict[int, int]:
    """The bytes that are stored after these turns of one session.

    The turns between `skipped` need not run where the adapter can store them otherwise, with `remember`.
    """
    found = {}
    for turn in range(1, max(marks) + 1):
        said, answer = turn_of(turn)
        if hasattr(adapter, "remember") and skipped[0] < turn < skipped[1]:
            if turn == skipped[0] + 1:
                call(adapter.remember, work, [turn_of(each) for each in range(turn, skipped[1])])
            continue
        work.message = said
        ended = call(adapter.run, work)
        if ended.answer != answer:
            raise RuntimeError(f"turn {turn} ended with {ended}")
        if turn in marks:
            found[turn] = stored(work.folder)
    return found


def turn_of(number: int) -> tuple[str, str]:
    """The message of a turn, and its answer."""
    return f"Say: ok {number}", f"ok {number}"


TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def _content(connection: sqlite3.Connection, table: str) -> int:
    columns = [name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
    lengths = " + ".join(f'ifnull(length(CAST("{name}" AS BLOB)), 0)' for name in columns)
    return int(connection.execute(f'SELECT ifnull(sum({lengths}), 0) FROM "{table}"').fetchone()[0])


def stored(folder: Path) -> int:
    """The bytes of the files of a folder; of a SQLite database, those of its rows, which no page's edge rounds."""
    total = 0
    for file in folder.rglob("*"):
        if not file.is_file() or file.name.endswith(("-wal", "-shm", "-journal", "log.txt")):
            continue
        with file.open("rb") as opened:
            is_database = opened.read(15) == b"SQLite format 3"
        if is_database:
            with contextlib.closing(sqlite3.connect(file)) as connection:
                total += sum(_content(connection, table) for (table,) in connection.execute(TABLES).fetchall())
        else:
            total += file.stat().st_size
    return total
