"""Backtests that the service runs, each in a folder of its own among those of its tenant."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal, Self

from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from ..backtest import Backtest
from ..backtest.conclusion import Change
from ..backtest.run import Progress
from ..core.errors import ConfigurationError
from ..core.records import Json
from ..rehearsal.text_file import replace_text
from .log_config import logger
from .runs import failure_of, unreadable
from .tenants import Tenant

FILE = "state.json"
REPORT = "backtest.json"
STOP = "stop"
"""The file that asks the process that runs a backtest to stop it."""
WITHOUT_KEYS = "without.keys"
"""The folder of a service without keys; no tenant is called so."""
TICK_SECONDS = 0.5

Make = Callable[[Progress], Awaitable[Backtest]]
Status = Literal["running", "done", "stopped", "failed", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a backtest is; `asked` is the request, and `done` and `total` count tasks.

    Of one that is done `summary` and `change` are those of its report.
    """

    created_at: str
    asked: Json
    status: Status = "running"
    done: int = 0
    total: int = 0
    error: str = ""
    summary: dict[str, int] | None = None
    change: Change | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The state of a backtest; it is interrupted if the process that ran it is gone.

        Raises:
            ConfigurationError: it cannot be read.
        """
        state = cls._stored(folder)
        if state.status == "running" and not _is_held(folder):
            state = cls._stored(folder)  # it may have ended meanwhile
            return replace(state, status="interrupted") if state.status == "running" else state
        return state

    @classmethod
    def _stored(cls, folder: Path) -> Self:
        form = _read(folder / FILE)
        try:
            return TypeAdapter(cls).validate_python(form)
        except ValidationError as error:
            place, why = error.errors()[0]["loc"], error.errors()[0]["msg"]
            raise unreadable(folder / FILE, f"{'.'.join(map(str, place))}: {why}") from error

    def write(self, folder: Path) -> None:
        """Write the state, in place of the earlier one."""
        _write(folder / FILE, asdict(self))


def _read(file: Path) -> Json:
    try:
        form = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(form, dict):
            raise TypeError("it is not an object")
        return form
    except (OSError, ValueError, TypeError) as error:
        raise unreadable(file, error) from error


def _write(file: Path, form: Json) -> None:
    """Write a file.

    Raises:
        ConfigurationError: it cannot be written; the sentence names no folder of the machine.
    """
    try:
        replace_text(file, json.dumps(form, ensure_ascii=False, indent=2) + "\n")
    except ConfigurationError as error:
        reason = error.params.get("reason", "")
        raise ConfigurationError(
            "The file {file} cannot be written: {reason}.", file=file.name, reason=reason
        ) from error


def read_report(folder: Path) -> Json:
    """The report of a backtest that is done, as `--json` prints it.

    Raises:
        ConfigurationError: it cannot be read.
    """
    return _read(folder / REPORT)


def folder_of(root: Path | None, tenant: Tenant) -> Path | None:
    """The folder of a tenant's backtests."""
    return root / (tenant.name or WITHOUT_KEYS) if root else None


def _lock(folder: Path) -> FileLock:
    return FileLock(folder / ".lock", thread_local=False)


def _is_held(folder: Path) -> bool:
    try:
        with _lock(folder).acquire(timeout=0):
            return False
    except Timeout:
        return True


def request_stop(folder: Path) -> None:
    """Ask the process that runs a backtest, whichever it is, to stop it."""
    (folder / STOP).touch()


def begin(folder: Path, asked: Json, make: Make, tenant: Tenant) -> Coroutine[Any, Any, None]:
    """Begin a backtest in a new folder; returns what makes it.

    Raises:
        FileExistsError: there is one of that name.
        ConfigurationError: its state cannot be written; there is no new folder.
    """
    folder.mkdir(parents=True)
    lock = _lock(folder)
    lock.acquire(timeout=0)
    state = State(created_at=datetime.now(UTC).isoformat(timespec="seconds"), asked=asked)
    try:
        state.write(folder)
    except ConfigurationError:
        lock.release()
        rmtree(folder, ignore_errors=True)
        raise
    return _run(folder, lock, state, make, tenant)


async def _run(folder: Path, lock: FileLock, state: State, make: Make, tenant: Tenant) -> None:
    """Make a backtest, and keep in its folder how far it is, and what came out."""
    counts = state.done, state.total

    def count(done: int, total: int) -> None:
        nonlocal counts
        counts = done, total

    work = asyncio.ensure_future(make(count))
    try:
        while not (await asyncio.wait({work}, timeout=TICK_SECONDS))[0]:
            if await asyncio.to_thread((folder / STOP).exists):
                work.cancel()
            elif (state.done, state.total) != counts:
                state = replace(state, done=counts[0], total=counts[1])
                await asyncio.to_thread(state.write, folder)
        state = replace(state, done=counts[0], total=counts[1], **await _ending(folder, work, tenant))
    except asyncio.CancelledError:
        state = replace(state, status="interrupted")
        work.cancel()
        await asyncio.wait({work})
        raise
    finally:
        work.cancel()
        try:
            state.write(folder)
        finally:
            lock.release()


async def _ending(folder: Path, work: "asyncio.Future[Backtest]", tenant: Tenant) -> dict[str, Any]:
    """The status of a backtest that has ended, and what came out, or why it failed; its report is written."""
    if work.cancelled():
        return {"status": "stopped"}
    error = work.exception()
    if error is None:
        made = shown(work.result(), tenant)
        try:
            await asyncio.to_thread(_write, folder / REPORT, made.json())
            return {"status": "done", "summary": made.summary, "change": made.beyond_baseline}
        except ConfigurationError as failure:
            error = failure
    logger.info("a backtest failed", exc_info=error)
    return {"status": "failed", "error": tenant.without_prefix(failure_of(error))}


def shown(made: Backtest, tenant: Tenant) -> Backtest:
    """A backtest with the names of its sessions as the tenant knows them."""
    tasks = []
    for task in made.tasks:
        difference = task.difference
        if difference and difference.kind == "error":
            difference = replace(difference, now=tenant.without_prefix(difference.now))
        tasks.append(replace(task, session_id=tenant.shown(task.session_id), difference=difference))
    return replace(made, tasks=tasks)
