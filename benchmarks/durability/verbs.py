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

    return asyncio.run(outcome(peer, FAULTS[place]))


def turns(adapter: ModuleType, work: Work, marks: list[int]) -> dict[int, int]:
    """The bytes that are stored after these turns of one session."""
    found = {}
    for turn in range(1, max(marks) + 1):
        work.message = f"Say: ok {turn}"
        ended = call(adapter.run, work)
        if ended.answer != f"ok {turn}":
            raise RuntimeError(f"turn {turn} ended with {ended}")
        if turn in marks:
            found[turn] = stored(work.folder)
    return found


def stored(folder: Path) -> int:
    """The bytes of the files of a folder; of a SQLite database, those of its pages."""
    total = 0
    for file in folder.rglob("*"):
        if not file.is_file() or file.name.endswith(("-wal", "-shm", "-journal", "log.txt")):
            continue
        with file.open("rb") as opened:
            is_database = opened.read(15) == b"SQLite format 3"
        if is_database:
            with contextlib.closing(sqlite3.connect(file)) as connection:
                pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
                total += int(connection.execute(pages).fetchone()[0])
        else:
            total += file.stat().st_size
    return total
