"""Runs that requests begin, batches and backtests: one of a kind at a time in this process."""

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

from ..core.errors import ConfigurationError, SegueError
from ..core.records import Json
from ..prompts.catalogue import render_over_http
from ..testing.backtest import Backtest
from ..testing.backtest.run import Change, Progress
from ..testing.rehearsal.simulate import replace_text
from .run import logger
from .tenants import Tenant


class Runs:
    """The runs of a kind: rehearsals or backtests. A folder with the file that begins one is one."""

    def __init__(self, kind: str, file: str) -> None:
        self._kind = kind
        self._file = file
        self._tasks: dict[Path, asyncio.Task[Any]] = {}
        self._begins = asyncio.Lock()

    def folders(self, root: Path | None) -> list[Path]:
        """The folders of the runs in a folder."""
        return (
            [folder for folder in root.iterdir() if (folder / self._file).is_file()] if root and root.is_dir() else []
        )

    def find(self, root: Path | None, name: str) -> Path | None:
        """The folder of the run of that name; it is looked for among those that are there."""
        return next((folder for folder in self.folders(root) if folder.name == name), None)

    @property
    def running(self) -> Path | None:
        """The folder of the run that is under way in this process."""
        return next((folder for folder, task in self._tasks.items() if not task.done()), None)

    async def begin(self, folder: Path, prepare: Callable[[], Coroutine[Any, Any, Any]]) -> Path | None:
        """Run what `prepare`, in a thread, gives for a folder; returns the folder of the run that is in its way."""
        async with self._begins:
            if running := self.running:
                return running
            self._tasks[folder] = asyncio.create_task(
                await asyncio.to_thread(prepare), name=f"{self._kind} {folder.name}"
            )
        return None

    async def cancel(self, folder: Path) -> None:
        """Cancel a run of this process, and wait until it has ended."""
        if task := self._tasks.get(folder):
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Cancel them all."""
        for folder in [*self._tasks]:
            await self.cancel(folder)

    def result(self, folder: Path) -> Any:
        """What the run of this process gave; None if it gave nothing, or is under way."""
        task = self._tasks.get(folder)
        return None if task is None or not task.done() or task.cancelled() or task.exception() else task.result()

    def error(self, folder: Path) -> str:
        """Why the run of this process failed; empty if it did not."""
        task = self._tasks.get(folder)
        failure = None if task is None or not task.done() or task.cancelled() else task.exception()
        return failure_of(failure) if failure else ""


def failure_of(error: BaseException) -> str:
    """An error in a sentence that names nothing of the machine."""
    return render_over_http(error, "en") if isinstance(error, SegueError) else type(error).__name__


def unreadable(file: Path, reason: object) -> ConfigurationError:
    """A file of a run that cannot be read; the sentence names no folder of the machine."""
    return ConfigurationError("The file {file} cannot be read: {error}.", file=file.name, error=reason)


# Backtests that the service runs, each in a folder of its own among those of its tenant.

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
        """The state of a backtest; it is interrupted if the process that ran it is gone."""
        state = cls.read_stored(folder)
        if state.status == "running" and not _is_held(folder):
            state = cls.read_stored(folder)  # it may have ended meanwhile
            return replace(state, status="interrupted") if state.status == "running" else state
        return state

    @classmethod
    def read_stored(cls, folder: Path) -> Self:
        """The state as it is stored."""
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
        form = json.loads(file.read_text(encoding="utf-8-sig"))
        if not isinstance(form, dict):
            raise TypeError("it is not an object")
        return form
    except (OSError, ValueError, TypeError) as error:
        raise unreadable(file, error) from error


def _write(file: Path, form: Json) -> None:
    """Write a file; an error names no folder of the machine."""
    try:
        replace_text(file, json.dumps(form, ensure_ascii=False, indent=2) + "\n")
    except ConfigurationError as error:
        reason = error.params.get("reason", "")
        raise ConfigurationError(
            "The file {file} cannot be written: {reason}.", file=file.name, reason=reason
        ) from error


def read_report(folder: Path) -> Json:
    """The report of a backtest that is done, as `--json` prints it."""
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
    """Begin a backtest in a new folder, or again where its process ended meanwhile; returns what makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = _lock(folder)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(folder) from None
    state = State(created_at=datetime.now(UTC).isoformat(timespec="seconds"), asked=asked)
    is_new = False
    try:
        # at most what a process leaves that is killed before it has stored the state
        is_new = all(file.name.startswith(".") for file in folder.iterdir())
        if not is_new and not _was_interrupted(folder, asked):
            raise FileExistsError(folder)
        (folder / STOP).unlink(missing_ok=True)
        state.write(folder)
    except (OSError, ConfigurationError):
        lock.release()
        if is_new:
            rmtree(folder, ignore_errors=True)
        raise
    return _run(folder, lock, state, make, tenant)


def _was_interrupted(folder: Path, asked: Json) -> bool:
    """Whether a folder, which nobody else has, holds the backtest that is asked for, and that did not end."""
    try:
        state = State.read_stored(folder)
    except ConfigurationError:
        return False
    return state.asked == asked and state.status in ("running", "interrupted")


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


def by_age(view: Json) -> list[str]:
    """The place of a run in a list, the oldest first."""
    return [str(view["created_at"]), view["name"]]
