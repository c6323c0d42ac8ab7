"""The connections of an open database: one that writes, others that read."""

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

from segue.core.errors import AppClosed, DatabaseTooNew, DatabaseUnavailable, InvalidMessage, OtherProcess
from segue.core.sync import run_blocking

from .ports import Connection, Failed, NotRepeatable, Session

T = TypeVar("T")
C_co = TypeVar("C_co", bound=Connection, covariant=True)

Ended = tuple[asyncio.Future[Any], Callable[[], None]]
"""A future, and what resolves it."""

GROUP = 64
"""Transactions that are committed together at most: a heartbeat waits for one group."""

DEFERRAL = 0.005
"""Seconds that a deferred transaction waits for the one that follows it."""

INLINE = 16
"""Groups that the event loop commits itself before the writer's thread has one, which can also shorten SQLite's log."""

SLOW, THREADED = 0.02, 5.0
"""Where recent commits took so many seconds on average, the writer's thread has those of the next seconds."""

HOLD = 0.5
"""Seconds that writes wait at most for a renewal of leases that wants to begin."""

READERS = 4
"""Reads that may be under way at once."""

NONE: Mapping[Any, Any] = MappingProxyType({})


class _Readers(Generic[C_co]):
    """Connections that only read, each on a thread of its own."""

    def __init__(self, open_reading: Callable[[], Session[C_co]]) -> None:
        self._open_reading = open_reading
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="segue-reader")
        self._local = threading.local()
        self._opened: list[Session[C_co]] = []

    def submit(self, work: Callable[[C_co], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._threads, self.run, work)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for session in self._opened:
            session.close()

    def run(self, work: Callable[[C_co], T]) -> T:
        """Carry out `work` on the connection of this thread."""
        session: Session[C_co] | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._open_reading()
            self._opened.append(session)
        return session.read(work)


@dataclass(frozen=True)
class _Part:
    """`work` may be run again where the group that it was in was rolled back."""

    work: Callable[[Any], Any]
    failed: Failed | None
    future: "asyncio.Future[Any]"


@dataclass(frozen=True, eq=False)
class _Transaction:
    """Parts that are stored together or not at all.

    `sequence` is how many transactions that are not deferred were submitted before it:

        submit(a)  submit(b, deferred)  submit(c)  submit(d, deferred, joined=b)
        sequence:  0   1                    1          2: c came between, so b is not joined
    """

    parts: Sequence[_Part]
    synced: bool
    brief: bool
    sequence: int
    together: bool
    first: Callable[[Any], Any] | None

    def run(self, connection: Any) -> list[Any]:
        if not self.together:
            return self._run(connection)
        with connection.together():
            return self._run(connection)

    def _run(self, connection: Any) -> list[Any]:
        if self.first is not None:
            self.first(connection)
        return [part.work(connection) for part in self.parts]


class Connections(Generic[C_co]):
    """The connections of an open database, as `ports.Database` describes them.

    One connection writes, on a thread of its own, transactions in the order in which they were submitted; others read.
    So no read keeps a write from beginning, and a lock that a write waits for is another process's. `open_reading`
    gives a connection that only reads, `open_renewing` one that renews leases and waits for locks for so many seconds
    at most. `url` is shown in messages; `errors` are the driver's. With `inline`, brief work runs on the event
    loop that opened it if nothing else writes: for a local file that takes less time than waking a thread.
    """

    def __init__(
        self,
        url: str,
        writing: Session[C_co],
        open_reading: Callable[[], Session[C_co]],
        open_renewing: Callable[[float], Session[C_co]],
        errors: type[Exception],
        inline: bool = False,
    ) -> None:
        self.url = url
        self.errors = errors
        self._home = asyncio.get_running_loop() if inline else None
        self._turn = False
        self._inline_groups = 0
        self._inline_seconds = 0.0
        self._threaded_until = 0.0
        self.open_renewing = open_renewing
        self._session = writing
        self._readers = _Readers(open_reading)
        self._waiting: deque[_Transaction] = deque()
        self._deferred: dict[asyncio.Future[Any], _Transaction] = {}
        self._not_deferred = 0
        self._timers: set[asyncio.AbstractEventLoop] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="segue-writer")
        self._lock = threading.Lock()
        self._unhindered = threading.Event()
        self._unhindered.set()
        self._closed = False
        self._process = os.getpid()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self._unhindered.clear()
        try:
            yield
        finally:
            self._unhindered.set()

    async def read(self, work: Callable[[C_co], T], *, brief: bool = False) -> T:
        self.check_usable()
        await self.settle()
        with _texts_encoded():
            if brief and asyncio.get_running_loop() is self._home:
                return self._readers.run(work)
            return await self._readers.submit(work)

    def submit(
        self,
        work: Callable[[C_co], T],
        *,
        synced: bool = False,
        brief: bool = False,
        failed: Failed | None = None,
        deferred: bool = False,
        joined: Mapping["asyncio.Future[Any]", Callable[[C_co], Any]] = NONE,
        together: bool = False,
        first: Callable[[C_co], Any] | None = None,
    ) -> "asyncio.Future[T]":
        self.check_usable()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        parts = [*self._take_back_unstarted(joined), _Part(work, failed, future)]
        transaction = _Transaction(parts, synced, brief or deferred, self._not_deferred, together, first)
        self._waiting.append(transaction)
        if deferred:
            self._deferred[future] = transaction
            future.add_done_callback(self._deferred.pop)
            if loop not in self._timers:
                self._timers.add(loop)
                loop.call_later(DEFERRAL, self._end_deferral, loop)
        else:
            self._not_deferred += 1
            self._begin_drain(loop)
        return future

    def _take_back_unstarted(self, joined: Mapping["asyncio.Future[Any]", Callable[[C_co], Any]]) -> Iterator[_Part]:
        """The deferred transactions of these futures that have not begun, taken back, each with its new work.

        None passes one that was not deferred: what that one stores may build on it.
        """
        for future, work in joined.items():
            deferred = self._deferred.get(future)
            if deferred is None or deferred.sequence != self._not_deferred:
                continue
            with contextlib.suppress(ValueError):  # the writer's thread has it already
                self._waiting.remove(deferred)
                yield from (replace(part, work=work) for part in deferred.parts)

    async def write(self, work: Callable[[C_co], T], *, synced: bool = False, brief: bool = False) -> T:
        with _texts_encoded():
            future = self.submit(work, synced=synced, brief=brief)
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                future.add_done_callback(asyncio.Future.exception)  # retrieved, as nobody waits for it
                raise

    def announce(self) -> None:
        """Send the notifications that are waiting to other processes."""
        with contextlib.suppress(RuntimeError):  # it is closed
            self._thread.submit(self._session.announce)

    async def close(self) -> None:
        if self._closed:
            return
        self.check_usable()
        self._closed = True
        await run_blocking(self._close)

    def _close(self) -> None:
        """Carry out what is left where the writer's thread, whose turn it was, has ended."""
        self._thread.shutdown()
        self._drain()
        self._session.close()
        self._readers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def check_usable(self) -> None:
        if self._closed:
            raise AppClosed
        if self._process != os.getpid():
            raise OtherProcess(self.url)

    async def settle(self) -> None:
        """Wait until the transactions that were deferred have ended."""
        if self._deferred:
            self._begin_drain(asyncio.get_running_loop())
            await asyncio.wait([*self._deferred])

    def _end_deferral(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timers.discard(loop)
        if self._waiting and not self._closed:
            self._begin_drain(loop)

    def _begin_drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Carry out what waits: on the loop, with all that is submitted in this turn, or on the writer's thread."""
        if loop is not self._home or time.monotonic() < self._threaded_until:
            self._thread.submit(self._drain)
        elif not self._turn:
            self._turn = True
            loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn = False
        if self._closed or not self._waiting:
            return
        drained = False
        if self._lock.acquire(blocking=False):
            try:
                drained = self._drain_inline()
            finally:
                self._lock.release()
        if not drained:
            self._thread.submit(self._drain)

    def _drain_inline(self) -> bool:
        """Carry out what waits if it is brief and nobody else writes; what fails is left to the writer's thread."""
        self._inline_groups = (self._inline_groups + 1) % INLINE
        brief = len(self._waiting) <= GROUP and all(each.brief and not each.synced for each in tuple(self._waiting))
        if not brief or not self._inline_groups or not self._unhindered.is_set():
            return False
        group: list[_Transaction] = []
        begun = time.monotonic()
        try:
            self._session.begin(synced=False, waiting=False)
            group = self._taken(GROUP)
            results = self._session.commit([each.run for each in group])
        except BaseException as error:
            self._waiting.extendleft(reversed(group))
            if isinstance(error, Exception):
                return False
            self._thread.submit(self._drain)
            raise
        self._inline_seconds += (time.monotonic() - begun - self._inline_seconds) / INLINE
        if self._inline_seconds > SLOW:
            self._inline_seconds, self._threaded_until = 0.0, begun + THREADED
        _end(_committed(group, results), self._home)
        return True

    def _drain(self) -> None:
        """Carry out what waits now: what comes meanwhile is deferred, or has a call of its own."""
        left = len(self._waiting)
        while left > 0:
            with self._lock:
                group = self._taken(min(GROUP, left))
                if not group:
                    return
                left -= len(group)
                ended = self._write(group)
            _end(ended)  # who is woken finds nobody writing
            self._session.announce()

    def _taken(self, most: int) -> list[_Transaction]:
        """So many of the transactions that wait, or fewer where some became parts of others meanwhile."""
        group: list[_Transaction] = []
        with contextlib.suppress(IndexError):
            while len(group) < most:
                group.append(self._waiting.popleft())
        return group

    def _write(self, group: Sequence[_Transaction]) -> list[Ended]:
        """Carry out a group as one transaction; where one of it fails, each by itself."""
        self._unhindered.wait(HOLD)
        try:
            self._session.begin(synced=any(each.synced for each in group))
        except BaseException as error:  # noqa: BLE001 - who waits for it gets it
            return _failed(group, error)
        try:
            return _committed(group, self._session.commit([each.run for each in group]))
        except NotRepeatable as failure:
            return _failed(group, failure.error)
        except BaseException as error:  # noqa: BLE001 - who waits for it gets it
            if len(group) == 1:
                return _failed(group, error)
            return [ended for each in group for ended in self._write([each])]


def _committed(group: Iterable[_Transaction], results: Iterable[Iterable[Any]]) -> list[Ended]:
    return [
        (part.future, partial(part.future.set_result, result))
        for each, own in zip(group, results, strict=True)
        for part, result in zip(each.parts, own, strict=True)
    ]


def _failed(group: Iterable[_Transaction], error: BaseException) -> list[Ended]:
    parts = [part for each in group for part in each.parts]
    for part in parts:
        if part.failed is not None:
            part.failed(error)
    return [(part.future, partial(part.future.set_exception, error)) for part in parts]


def _end(ended: Iterable[Ended], here: asyncio.AbstractEventLoop | None = None) -> None:
    """Resolve futures, those of the loop that runs `here` at once, and waking each other loop once.

    Where a loop is closed nobody waits any more.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[Ended]] = {}
    for future, resolve in ended:
        by_loop.setdefault(future.get_loop(), []).append((future, resolve))
    for loop, own in by_loop.items():
        if loop is here:
            _resolve(own)
            continue
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(ended: Iterable[Ended]) -> None:
    for future, resolve in ended:
        if not future.done():
            resolve()


@contextlib.contextmanager
def _texts_encoded() -> Iterator[None]:
    """Refuse texts that no database keeps, whichever door they came through."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidMessage(
            "A name or a text has half a character (a lone surrogate), which cannot be stored: write it anew."
        ) from error


def check_schema_version(path: str, found: int, first: int, newest: int) -> None:
    """Make sure that this Segue reads a database's schema; version 0 is one without a schema."""
    if found > newest:
        raise DatabaseTooNew(path, found, newest)
    if 0 < found < first:
        raise DatabaseUnavailable(
            "Schema version {found} of {path} was never published: export its sessions with the Segue that wrote it.",
            path=path,
            found=found,
        )
