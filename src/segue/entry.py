"""Entry points: `segue.open()` gives an `App` over one database, `segue.ask()` asks one question."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Unpack

from .app import App
from .checkpoints.rows import SERDE
from .checkpoints.storage import back_up, open_storage, restore_files
from .core.agents import Agent
from .core.audit import AuditSettings
from .core.environment import foreign_scheme, is_server, whole_number, without_password
from .core.errors import ConfigurationError, DatabaseUnavailable, DatabaseUnreachable, InsideEventLoop
from .core.flows import FlowConfig
from .core.notifications import Receiver, Receivers
from .core.records import Result
from .core.schedules import ApprovalSettings
from .core.spend import Quotas, SpendLimits, spend_limits
from .core.timeline import Retention
from .graphs.chat import MODES
from .memory.folder import MemoryFolder, root_of
from .registry import EXAMPLES, Registry
from .runtime.audit_log import AuditLog
from .runtime.message_files import FileLimits
from .runtime.modes import kept_types, mode_graphs
from .runtime.run import MAX_QUEUED, MAX_RUNNING, Capacity
from .runtime.sessions import Copies, Progress, copy_sessions
from .runtime.start import MessageOptions
from .runtime.worker import Dispatching, dispatching
from .sync import SyncApp
from .telemetry import start_export

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from .checkpoints.storage import Backup
    from .runtime.notifications import Sender

RETRY_EVERY = 1.0
"""Seconds between two tries to open a database whose server cannot be reached."""

logger = logging.getLogger(__name__)


async def open_app(
    path: str | Path,
    agents: Iterable[Agent],
    modes: Mapping[str, Any] | None,
    max_running: int | None = None,
    max_queued: int | None = None,
    memory: str | Path | None = None,
    embeddings: "Embeddings | None" = None,
    retention: Retention | str | int | None = None,
    registry: Registry | None = None,
    dispatch: str | None = None,
    clock: Callable[[], float] = time.time,
    spend: SpendLimits | Mapping[str, Any] | None = None,
    audit: AuditSettings | bool | None = None,
    notify: Iterable[Receiver] = (),
    quotas: Quotas | None = None,
    approvals: ApprovalSettings | None = None,
) -> App:
    """As `open`, for a caller that ends with `App.close`; `registry` is one of its own."""
    if not isinstance(path, str | Path):
        raise ConfigurationError("path is {kind}: pass the path or the URL of a database.", kind=type(path).__name__)
    given = _listed(agents)
    registry = Registry(() if given else EXAMPLES) if registry is None else registry
    registry.approvals, registry.spend = approvals or ApprovalSettings(), None if spend is None else spend_limits(spend)
    registry.expect(given)
    for agent in given:
        registry.register(agent)
    own = mode_graphs(modes or {})
    SERDE.keep(kept_types(own), own)
    graphs = {**MODES, **own}
    registry.flows = {name: flow for name, flow in (modes or {}).items() if isinstance(flow, FlowConfig)}
    most = whole_number(os.environ, "SEGUE_MAX_RUNNING", MAX_RUNNING) if max_running is None else max_running
    capacity = Capacity(most, MAX_QUEUED if max_queued is None else max_queued, quotas)
    policy = None if retention is None else Retention.of(retention)
    folder = MemoryFolder(_memory_root(path, memory), embeddings)
    where, limits = dispatching(dispatch), FileLimits.of(os.environ)
    senders = _senders_of(receivers := Receivers(notify, approvals))
    storage = await open_storage(str(path), receivers, clock)
    try:
        if dispatch == Dispatching.ALWAYS and storage.workers is None:
            raise ConfigurationError(
                "SQLite has no workers: name a PostgreSQL database, or leave out dispatch='always'."
            )
        log = AuditLog(storage, audit)
        registry.habits.store = storage.habits
        app = App(storage, registry, graphs, capacity, folder, where, limits, clock, log)
        await log.open()
    except BaseException:
        await storage.close()
        raise
    for name, sender in senders.items():
        app.notifications.add(name, sender)
    if approvals and approvals.expire_after:
        app.notifications.expire(approvals)
    if policy:
        app.sessions.prune_hourly(policy)
    start_export(app, os.environ)
    return app


def _memory_root(path: str | Path, memory: str | Path | None) -> str | Path | None:
    """The folder of a database's memory files; None for a database that ends with its process."""
    return memory or os.environ.get("SEGUE_MEMORY") or root_of(str(path))


def _senders_of(receivers: Receivers) -> "dict[str, Sender]":
    """What sends the notifications of each receiver; without any, nothing of it is imported."""
    if not [*receivers]:
        return {}
    from .runtime.senders import sender_of

    return {receiver.name: sender_of(receiver) for receiver in receivers}


def _listed(agents: Any) -> list[Agent]:
    """The agents; a file's name, a single agent, a table or two agents of one id are refused."""
    single = not isinstance(agents, Iterable) or isinstance(agents, str | Mapping | Agent)
    listed = [] if single else list(agents)
    if single or not all(isinstance(agent, Agent) for agent in listed):
        first = agents if single else next(agent for agent in listed if not isinstance(agent, Agent))
        raise ConfigurationError(
            "agents was given {kind}: pass a list of segue.Agent objects; segue.load_agents(FILE) reads one.",
            kind=type(first).__name__,
        )
    ids = [agent.agent_id for agent in listed]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ConfigurationError("agents has more than one agent '{name}': rename one.", name=min(twice))
    return listed


async def _reached(opening: Callable[[], Coroutine[Any, Any, App]]) -> App:
    """Open an app, again and again while the database's server cannot be reached."""
    waits = False
    while True:
        try:
            app = await opening()
        except DatabaseUnreachable as error:
            if not waits:
                logger.warning("%s Retrying…", error)
            waits = True
            await asyncio.sleep(RETRY_EVERY)
        else:
            if waits:
                logger.info("The database can be used again.")
            return app


class Opening(AbstractAsyncContextManager[App]):
    """An app to be opened: `async with` closes it, too; after `app = await …` it is closed by `await app.close()`."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, App]]) -> None:
        self._opening = opening
        self._app: App | None = None

    def __await__(self) -> Generator[Any, None, App]:
        return self._opening().__await__()

    def when_reachable(self) -> "Opening":
        """The same, but it waits for a server that cannot be reached: for processes that serve."""
        return Opening(partial(_reached, self._opening))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            how = "use `async with segue.open(…) as app`, or `app = await segue.open(…)`"
            raise AttributeError(f"The app is not open, and has no {name}: {how}.")

    async def __aenter__(self) -> App:
        self._app = await self._opening()
        return self._app

    async def __aexit__(self, *_: object) -> None:
        if self._app:
            await self._app.close()


def open(
    path: str | Path = "segue.db",
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    max_running: int | None = None,
    max_queued: int | None = None,
    memory: str | Path | None = None,
    embeddings: "Embeddings | None" = None,
    retention: Retention | str | int | None = None,
    dispatch: str | None = None,
    clock: Callable[[], float] = time.time,
    spend: SpendLimits | Mapping[str, Any] | None = None,
    audit: AuditSettings | bool | None = None,
    notify: Iterable[Receiver] = (),
    quotas: Quotas | None = None,
    approvals: ApprovalSettings | None = None,
) -> Opening:
    """Open the database at `path` and give the app over it.

    It is a SQLite file, ":memory:" for one that is not kept, or the URL of a PostgreSQL database with the extra
    `postgres`: "postgresql://USER@HOST/NAME".

    `async with segue.open() as app:` closes it at the end; in a notebook `app = await segue.open()` and, at the end,
    `await app.close()`.

    `agents` are those that there are, the default one first; without any they are the examples, `travel` and `data`.
    `modes` are graphs by name beside the built-in ones. At most
    `max_running` tasks (SEGUE_MAX_RUNNING, or 32) run at once in this process, and `max_queued` (256) more wait for
    them. `memory` is the folder of memory files (SEGUE_MEMORY, or one beside the database); with `embeddings`, those
    of any LangChain class, they are searched by meaning as well. `retention`, such as "30d" or 100, prunes older
    snapshots every hour, as `App.prune` does; without it all are kept. `dispatch` (SEGUE_DISPATCH) says who runs the
    tasks: with "auto" a worker if one is there that has the agent, else this process; with "always" a worker, even if
    they have to wait for one; with "never" this process. By `clock`, in Unix seconds, tasks are dated, days of spending
    begin, and schedules, waits, reminders and deliveries are due; calls, events and snapshots keep this machine's time.
    `spend` limits what model calls may use, such as {"per_task": 0.5, "per_day": 20} in US dollars: see `SpendLimits`.
    With `audit` the database has an audit log from now on, whoever opens it; `segue.AuditSettings(anchor="file")` also
    writes its head to a file every hour and at the end.
    `notify` are the receivers that are told when a task waits, ends, fails, reaches a limit or is taken over.
    `quotas` say how many tasks of a user and of a tenant may run and wait in this process.
    `approvals` says who approves calls, when receivers are reminded of an approval that waits, and when it expires.

    Raises:
        DatabaseUnavailable, DatabaseTooNew, ConfigurationError: saying what to do.
    """
    more: dict[str, Any] = {"dispatch": dispatch, "clock": clock, "spend": spend, "audit": audit, "notify": notify}
    more |= {"quotas": quotas, "approvals": approvals}
    return Opening(
        lambda: open_app(path, agents, modes, max_running, max_queued, memory, embeddings, retention, **more)
    )


P = ParamSpec("P")


def _synchronous(opening: Callable[P, Opening]) -> Callable[P, SyncApp]:
    def open_sync(*args: P.args, **options: P.kwargs) -> SyncApp:
        """Open the database and give the app for synchronous code; options and errors as in `open`.

        `with segue.open_sync("segue.db") as app:` closes it at the end; elsewhere call `app.close()`. It also works in
        a notebook, and its verbs may be called from any thread.
        """
        return SyncApp(opening(*args, **options))

    return open_sync


open_sync = _synchronous(open)


def ask(message: str, *, db: str | Path = ":memory:", **options: Unpack[MessageOptions]) -> Result:
    """Ask one question and wait for the result; options as in `App.start`."""

    async def once() -> Result:
        async with open(db) as app:
            return await app.ask(message, **options)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise InsideEventLoop
    return asyncio.run(once())


async def copy(
    source: str | Path,
    target: str | Path,
    session_ids: Iterable[str] = (),
    *,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Copies:
    """Copy sessions, by default all, from one database to another with all their ids, and return which.

    Everything that is stored of a session comes along: its history, events, calls, snapshots, permissions, title and
    ratings. A task that has not ended is resumed there, and calls that ended are not made again. A session that is
    there already, just as it is, is left as it is, so that an interrupted copy is repeated; one whose task runs, that
    is damaged, or that is another one there, is not copied: `refused` says why.

    Raises:
        DatabaseUnavailable, DatabaseTooNew: saying what to do.
    """
    _check_copy(source, target)
    async with AsyncExitStack() as opened:
        old = await open_storage(str(source))
        opened.push_async_callback(old.close)
        new = await open_storage(str(target))
        opened.push_async_callback(new.close)
        return await copy_sessions(old, new, session_ids, on_progress)


def _check_copy(source: str | Path, target: str | Path) -> None:
    """Refuse what opening the databases would not: it creates a file that is not there."""
    files = [None if is_server(str(name)) else Path(name).absolute() for name in (source, target)]
    if str(source) == str(target) or files[0] == files[1] is not None:
        raise DatabaseUnavailable("A database cannot be copied to itself: name another one.")
    if files[0] is not None and not files[0].is_file():
        raise DatabaseUnavailable("There is no database {path} to copy from: name one that exists.", path=source)


def backup(database: str | Path, file: str | Path, *, memory: str | Path | None = None) -> "Backup":
    """Write a SQLite database, which may be in use, into one file, with the files of its messages and memory files.

    `memory` is the folder of the memory files, as in `open`. The file is written whole or not at all, and verified by
    checksum.

    Raises:
        ConfigurationError: the database is not a SQLite file.
        DatabaseUnavailable: there is no such database, the file exists or cannot be written.
    """
    name, folder = _sqlite_places(database, memory)
    return back_up(name, file, folder)


def restore(file: str | Path, database: str | Path, *, memory: str | Path | None = None) -> "Backup":
    """Write a backup's database, with its files, where none is yet; it is verified by checksum first.

    `memory` is the folder for the memory files, as in `open`.

    Raises:
        ConfigurationError: the database is not a SQLite file.
        DatabaseUnavailable: something is there already, or the file is no backup or was changed.
    """
    name, folder = _sqlite_places(database, memory)
    return restore_files(file, name, folder)


def _sqlite_places(database: str | Path, memory: str | Path | None) -> tuple[str, Path]:
    """The name of a SQLite database, and the folder of its memory files."""
    name, folder = str(database), _memory_root(database, memory)
    if is_server(name) or foreign_scheme(name) or folder is None or name == ":memory:":
        raise ConfigurationError(
            "{path} is no SQLite file: back up a PostgreSQL database with pg_dump.", path=without_password(name)
        )
    return name, Path(folder)
