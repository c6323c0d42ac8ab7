"""Backtests that the service runs, each in a folder of its own among those of its tenant."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from filelock import FileLock, Timeout

from ..backtest import Backtest
from ..backtest.run import Progress
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


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a backtest is; `asked` is the request, and `done` and `total` count tasks."""

    created_at: str
    asked: Json
    status: Literal["running", "done", "stopped", "failed", "interrupted"] = "running"
    done: int = 0
    total: int = 0
    error: str = ""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The state of a backtest; it is interrupted if the process that ran it is gone.

        Raises:
            ConfigurationError: it cannot be read.
        """
        state = cls(**_read(folder / FILE))
        return state if state.status != "running" or _is_held(folder) else replace(state, status="interrupted")

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
    replace_text(file, json.dumps(form, ensure_ascii=False, indent=2) + "\n")


def read_report(folder: Path) -> Json | None:
    """The report of a backtest as `--json` prints it; None where it has none.

    Raises:
        ConfigurationError: it cannot be read.
    """
    return _read(folder / REPORT) if (folder / REPORT).exists() else None


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
    """
    folder.mkdir(parents=True)
    lock = _lock(folder)
    lock.acquire(timeout=0)
    state = State(created_at=datetime.now(UTC).isoformat(timespec="seconds"), asked=asked)
    state.write(folder)
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
        state = replace(state, done=counts[0], total=counts[1], **_ending(work))
        if state.status == "done":
            await asyncio.to_thread(_write, folder / REPORT, shown(work.result(), tenant).json())
    except asyncio.CancelledError:
        state = replace(state, status="interrupted")
        work.cancel()
        await asyncio.wait({work})
        raise
    finally:
        state.write(folder)
        lock.release()


def _ending(work: "asyncio.Future[Backtest]") -> dict[str, Any]:
    """The status of a backtest that has ended, and why it failed."""
    if work.cancelled():
        return {"status": "stopped"}
    if error := work.exception():
        logger.info("a backtest failed", exc_info=error)
        return {"status": "failed", "error": failure_of(error)}
    return {"status": "done"}


def shown(made: Backtest, tenant: Tenant) -> Backtest:
    """A backtest with the names of its sessions as the tenant knows them."""
    tasks = []
    for task in made.tasks:
        difference = task.difference
        if difference and difference.kind == "error":
            difference = replace(difference, now=tenant.without_prefix(difference.now))
        tasks.append(replace(task, session_id=tenant.shown(task.session_id), difference=difference))
    return replace(made, tasks=tasks)
