"""The connections of an open database: one that writes, others that read."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

from .ports import Connection, Failed, Session
from .writer import Writer

T = TypeVar("T")
C_co = TypeVar("C_co", bound=Connection, covariant=True)

READERS = 4
"""Reads that may be under way at once."""


class Connections(Generic[C_co]):
    """The connections of an open database, as `ports.Database` describes them.

    One connection writes; others read. So no read keeps a write from beginning, and a lock that a write waits for is
    another process's. `open_reading` gives a connection that only reads, `open_renewing` one that renews leases
    and waits for locks for so many seconds at most. `url` is shown in messages; `errors` are the driver's.
    """

    def __init__(
        self,
        url: str,
        writing: Session[C_co],
        open_reading: Callable[[], Session[C_co]],
        open_renewing: Callable[[float], Session[C_co]],
        errors: type[Exception],
    ) -> None:
        self.url = url
        self.errors = errors
        self.open_renewing = open_renewing
        self._writer = Writer(url, writing)
        self._readers = _Readers(open_reading)

    async def read(self, work: Callable[[C_co], T]) -> T:
        await self._writer.settle()
        return await self._readers.submit(work)

    def submit(
        self,
        work: Callable[[C_co], T],
        *,
        synced: bool = False,
        failed: Failed | None = None,
        deferred: bool = False,
    ) -> "asyncio.Future[T]":
        return self._writer.submit(work, synced=synced, failed=failed, deferred=deferred)

    async def write(self, work: Callable[[C_co], T], *, synced: bool = False) -> T:
        return await asyncio.shield(self.submit(work, synced=synced))

    async def close(self) -> None:
        """Finish what is under way, then close every connection."""
        await asyncio.to_thread(self._writer.close)
        await asyncio.to_thread(self._readers.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Readers(Generic[C_co]):
    """Connections that only read, each on a thread of its own."""

    def __init__(self, open_reading: Callable[[], Session[C_co]]) -> None:
        self._open_reading = open_reading
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="segue-reader")
        self._local = threading.local()
        self._opened: list[Session[C_co]] = []

    def submit(self, work: Callable[[C_co], T]) -> "asyncio.Future[T]":
        """Begin `work`."""
        return asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def close(self) -> None:
        """Finish what was submitted, then close the connections."""
        self._threads.shutdown(wait=True)
        for session in self._opened:
            session.close()

    def _run(self, work: Callable[[C_co], T]) -> T:
        session: Session[C_co] | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._open_reading()
            self._opened.append(session)
        return session.read(work)
