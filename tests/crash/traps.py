"""What a child does to itself at a chosen point: dies, stops, or asks for a pause.

A point is named 'write:137' (the 137th statement that writes, over all connections), 'tool:a:before' and 'tool:a:after'
(the effect of the call with that label), 'model:3' (the third reply, before it is given), 'memory:2' (the second entry
of a memory file, after it was written) or 'turn:1' (before the second message is sent).
"""

import itertools
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from segue.checkpoints.sqlite import database
from segue.core.context import MemoryEntry
from segue.memory.files import MemoryFiles
from segue.testing.chaos.traps import kill, stop

from . import clock, power

_WRITES = re.compile(
    r"\s*(BEGIN|COMMIT|ROLLBACK|INSERT|REPLACE|UPDATE|DELETE|CREATE|ALTER|DROP)\b"
    r"(?:\s+(?:OR\s+\w+\s+)?(?:INTO|FROM|TABLE)\b)?(?:\s+IF\s+NOT\s+EXISTS)?\s*([a-z_]*)"
)
_SYNCHRONOUS = re.compile(r"PRAGMA synchronous *= *(FULL|NORMAL|OFF)")
_OF_A_CLOCK = "segue-heartbeat"
"""Threads that write when their time has come: they would shift the count."""

_STOPPED_AT = {"stop": "BEGIN", "freeze": "COMMIT"}
"""The statement at which an owner is stopped: before it takes SQLite's lock, or while it holds it.

How many transactions are committed together differs from run to run: the point's number alone does not tell which.
"""

Connect = Callable[..., sqlite3.Connection]


class Traps:
    """Counts the points that this process reaches, and does what was ordered for them.

    `orders` maps points to kill, stop, freeze (stop inside a transaction), pause, or +600 and -600: the clock jumps by
    so many seconds. `pages` is how many more pages each database may have. With `marked` it is noted in that folder how
    much of the write-ahead log is on the disk, and the log is kept whole.
    """

    def __init__(self, orders: Mapping[str, str], pages: int | None = None, marked: Path | None = None) -> None:
        self._orders = orders
        self._marked = marked
        self._unsynced: set[int] = set()
        self._pages = pages
        self._most_pages: dict[str, int] = {}
        self._writes = itertools.count(1)
        self._connections = itertools.count(1)
        self.written: list[tuple[int, str, str]] = []
        """(connection, verb, table) of every write so far."""
        self._stop_at = ""
        self.models = 0
        self.entries = 0
        """Entries of memory files."""
        self.on_pause: Callable[[], None] = lambda: None

    def reach(self, point: str) -> None:
        """Carry out the order for this point, if there is one."""
        match self._orders.get(point):
            case "kill":
                kill()
            case "stop":
                stop()
            case "pause":
                self.on_pause()
            case "+600" | "-600" as seconds:
                clock.set_ahead(float(seconds))

    def model(self) -> None:
        """Another reply is about to be given."""
        self.models += 1
        self.reach(f"model:{self.models}")

    def install(self) -> None:
        """From now on, every connection that this process opens is watched."""
        real: Connect = sqlite3.connect

        def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection = real(*arguments, **options)
            if self._pages is not None:
                self._bound(connection, self._pages)
            number = next(self._connections)
            if self._marked is not None:
                database.LOG_PAGES = 0
            connection.set_trace_callback(lambda statement: self._note(number, statement))
            return connection

        sqlite3.connect = connect  # type: ignore[assignment]
        append = MemoryFiles.append

        def remember(files: MemoryFiles, name: str, entry: MemoryEntry) -> None:
            append(files, name, entry)
            self.entries += 1
            self.reach(f"memory:{self.entries}")

        MemoryFiles.append = remember  # type: ignore[method-assign]

    def _note(self, connection: int, statement: str) -> None:
        if pragma := _SYNCHRONOUS.match(statement):
            (self._unsynced.discard if pragma[1] == "FULL" else self._unsynced.add)(connection)
        found = _WRITES.match(statement)
        if found is None or threading.current_thread().name.startswith(_OF_A_CLOCK):
            return
        place = next(self._writes)
        self.written.append((connection, found[1], found[2]))
        if self._marked is not None and found[1] == "COMMIT" and connection not in self._unsynced:
            power.mark(self._marked)
        order = self._orders.get(f"write:{place}", "")
        if order in _STOPPED_AT:
            self._stop_at = _STOPPED_AT[order]
        else:
            self.reach(f"write:{place}")
        if self._stop_at == found[1]:
            self._stop_at = ""
            stop()

    def _bound(self, connection: sqlite3.Connection, more: int) -> None:
        """Let the file grow by `more` pages from what it has when this process first opens it."""
        file = str(connection.execute("PRAGMA database_list").fetchone()[2])
        if file not in self._most_pages:
            self._most_pages[file] = max(1, int(connection.execute("PRAGMA page_count").fetchone()[0]) + more)
        connection.execute(f"PRAGMA max_page_count = {self._most_pages[file]}")
