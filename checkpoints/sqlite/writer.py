"""The one connection that writes, and its thread: transactions that wait together are committed together."""

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from .errors import translated
from .file import File

T = TypeVar("T")
Failed = Callable[[BaseException], None]
Ended = tuple[asyncio.Future[Any], Callable[[], None]]
"""A future, and what resolves it."""

GROUP = 64
"""Transactions that are committed together at most: a heartbeat waits for one group."""

DEFERRAL = 0.005
"""Seconds that a deferred transaction waits for the one that follows it."""


@dataclass(frozen=True, eq=False)
class _Transaction:
    """`work` may be run again where the group that it was in was rolled back."""

    work: Callable[[sqlite3.Connection], Any]
    synced: bool
    failed: Failed | None
    future: "asyncio.Future[Any]"


class Writer:
    """Carries out transactions in the order in which they were submitted."""

    def __init__(self, path: str, file: File, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._file = file
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._synchronous = ""
        self._waiting: deque[_Transaction] = deque()
        self._deferred: set[asyncio.Future[Any]] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="segue-sqlite-writer")
        self._closed = False

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        synced: bool = False,
        failed: Failed | None = None,
        deferred: bool = False,
    ) -> "asyncio.Future[T]":
        """Begin `work`; `Database.submit` describes it."""
        if self._closed:
            raise RuntimeError(f"The database {self._path} is closed.")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_Transaction(work, synced, failed, future))
        if deferred:
            self._deferred.add(future)
            future.add_done_callback(self._deferred.discard)
            loop.call_later(DEFERRAL, self._hurry, future)
        else:
            self._thread.submit(self._drain)
        return future

    async def settle(self) -> None:
        """Wait until the transactions that were deferred have ended."""
        if self._deferred:
            self._thread.submit(self._drain)
            await asyncio.wait([*self._deferred])

    def close(self) -> None:
        """Finish what was submitted, then close the connection."""
        self._closed = True
        self._thread.submit(self._drain)
        self._thread.shutdown(wait=True)
        self._disconnect()

    def _hurry(self, future: "asyncio.Future[Any]") -> None:
        if not (future.done() or self._closed):
            self._thread.submit(self._drain)

    def _drain(self) -> None:
        while self._waiting:
            self._write([self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))])

    def _write(self, group: Sequence[_Transaction]) -> None:
        """Carry out a group as one transaction; where one of it fails, each by itself."""
        try:
            with translated(self._path):
                connection = self._begin(synced=any(each.synced for each in group))
        except BaseException as error:  # noqa: BLE001 - who waits for it gets it
            _fail(group, error)
            return
        try:
            with translated(self._path):
                results = [each.work(connection) for each in group]
                connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - who waits for it gets it
            with contextlib.suppress(sqlite3.Error):  # closing it rolls back as well
                connection.rollback()
            self._disconnect()  # the error may keep a cursor open, which would hinder later transactions
            if len(group) == 1:
                _fail(group, error)
            else:
                for each in group:
                    self._write([each])
        else:
            _end(
                (each.future, partial(each.future.set_result, result))
                for each, result in zip(group, results, strict=True)
            )

    def _begin(self, *, synced: bool) -> sqlite3.Connection:
        self._file.check()
        if self._connection is None:
            self._connection = self._connect()
        synchronous = "FULL" if synced else "NORMAL"
        if synchronous != self._synchronous:
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._synchronous = synchronous
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection, self._synchronous = self._connection, None, ""
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _fail(group: Iterable[_Transaction], error: BaseException) -> None:
    for each in group:
        if each.failed is not None:
            each.failed(error)
    _end((each.future, partial(each.future.set_exception, error)) for each in group)


def _end(ended: Iterable[Ended]) -> None:
    """Resolve futures, waking each loop once; where a loop is closed nobody waits any more."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ended]] = {}
    for future, resolve in ended:
        by_loop.setdefault(future.get_loop(), []).append((future, resolve))
    for loop, own in by_loop.items():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(ended: Iterable[Ended]) -> None:
    for future, resolve in ended:
        if not future.done():
            resolve()
