"""`segue doctor`: what is installed, what is configured, and whether it works."""

import asyncio
import importlib.metadata
import os
import platform
import sqlite3
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from packaging.requirements import Requirement
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ...checkpoints.damage import IntegrityCheck
from ...checkpoints.schema import ReadRow
from ...checkpoints.sqlite.database import check_pages, check_rows, check_rows_beside, removing, saving
from ...checkpoints.storage import open_storage
from ...core.agents import Agent
from ...core.environment import address_without_secrets, is_server, need_extra
from ...core.errors import (
    ConfigurationError,
    DamagedSession,
    DatabaseDamaged,
    MissingExtra,
    NotADatabase,
    NothingReadable,
    SegueError,
    UnknownThread,
    listed,
)
from ...core.message import FilesReport
from ...core.records import SessionFilter
from ...core.variables import masked
from ...entry import open as open_app
from ...graphs.chat import MODES
from ...models.build import build_model, chosen_model
from ...nodes.react_prompt import CALLS, prompt_costs
from ...prompts.catalogue import Language, Texts, clauses, error_text, word
from ...registry import EXAMPLES, Registry, all_tools, services_of
from ...runtime.run import state_at
from ...runtime.runner import Runner
from ..exits import FAILED
from ..settings import FOLDERS_AGENTS, SHORT, Settings, task_command
from ..views.console import one_line
from ..views.lines import symbols_for

finding = Texts("doctor")
PACKAGES = (
    "segue",
    *("langgraph", "langchain-core", "langchain-openai", "langgraph-checkpoint-sqlite"),
    *("pydantic", "typer", "rich"),
)
INDENT = 12
"""Columns of the sign and of what was looked at."""
SECONDS = 3.0
"""How long the endpoint is tried."""
MOST_FAULTS = 100
THREADS = 20
"""How many threads are read, to see whether they can be; how many damaged ones are named."""
MOST_ROWS = 3
"""How many damaged rows of a session are named."""
MOST_TASKS = 5
"""How many tasks without a process are named."""


@dataclass(frozen=True)
class Finding:
    """One line of the report. `ok` None is a warning: worth knowing, and Segue works without it."""

    ok: bool | None
    what: str
    detail: str


@dataclass(frozen=True)
class Unreadable:
    """What is wrong with a session's newest checkpoint; `lost` says what that means where no older one can be read."""

    reason: str
    lost: str = ""


def doctor(console: Console, settings: Settings) -> int:
    """Print every finding; 0 if Segue works as it is."""
    signs, language = symbols_for(console), settings.ui_language
    failed = False
    for found in findings(settings, os.environ, language):
        failed |= found.ok is False
        sign, style = {None: ("!", "yellow"), True: (signs.ok, "green"), False: (signs.failed, "red")}[found.ok]
        detail = Text(one_line(masked(found.detail), 800))
        wraps = console.is_terminal and found.ok is not False  # a command that repairs is copied in one piece
        lines = detail.wrap(console, max(20, console.width - INDENT)) if wraps else [detail]
        what = word(found.what, language)
        text = Text.assemble((f"{sign} ", style), (what + " " * (INDENT - 2 - cell_len(what)), "bold"))
        console.print(text.append(Text("\n" + " " * INDENT).join(lines)), soft_wrap=True)
    return FAILED if failed else 0


def findings(settings: Settings, environ: Mapping[str, str], language: Language) -> Iterator[Finding]:
    """Look at one thing after the other."""
    ok = sys.version_info >= (3, 11)
    name, version = "python" if ok else "python_old", platform.python_version()
    yield Finding(ok, "python", finding(name, language, version=version, path=sys.executable))
    yield _packages(language)
    declared = importlib.metadata.metadata("segue").get_all("Provides-Extra") or ()
    yield extras(declared, importlib.metadata.requires("segue") or (), language)
    yield from _database(settings, language)
    try:
        given = settings.agents()
        agents = Registry(given or EXAMPLES)
    except SegueError as error:
        yield Finding(False, "agents", error_text(error, language))
        return
    if settings.agents_file:
        named = "SEGUE_AGENTS" if settings.agents_file == environ.get("SEGUE_AGENTS") else "--agents"
        why = "agents_of_folder" if settings.agents_file == FOLDERS_AGENTS else "agents_named"
        yield Finding(True, "agents", finding(why, language, file=settings.agents_path, named=named))
    yield from _tools(agents, {agent.agent_id for agent in given}, language)
    chosen = agents.get(settings.chosen_agent()) or next(iter(agents.values()))
    yield from _model(chosen, settings, environ, language)
    yield _prompts(chosen, language)
    yield _offline(language)


def _packages(language: Language) -> Finding:
    versions = {name: _version(name) for name in PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding(False, "packages", finding("packages_missing", language, missing=" ".join(missing)))
    return Finding(True, "packages", ", ".join(f"{name} {version}" for name, version in versions.items()))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def extras(names: Iterable[str], requirements: Iterable[str], language: Language) -> Finding:
    """The optional parts that a package's metadata declares; one that only gathers others is left out."""
    optional = [needed for needed in map(Requirement, requirements) if needed.marker and not needed.marker.evaluate()]
    whole: list[str] = []
    lacking: list[str] = []
    for extra in names:
        needed = [r.name for r in optional if r.marker and r.marker.evaluate({"extra": extra}) and r.name != "segue"]
        if needed:
            (whole if all(map(_version, needed)) else lacking).append(extra)
    parts = {"extras_installed": whole, "extras_missing": lacking}
    said = (finding(name, language, extras=", ".join(found)) for name, found in parts.items() if found)
    return Finding(True, "extras", clauses(said, language))


def _database(settings: Settings, language: Language) -> Iterator[Finding]:
    """Whether the database can be used, without creating it."""
    path = settings.database
    if is_server(path):
        yield from _server(settings, language)
        return
    if path == ":memory:" or path.startswith("file:"):
        yield Finding(True, "database", path)
        return
    file = Path(path).absolute()
    if file.exists():
        yield from _existing_database(settings, file, language)
    elif file.parent.is_dir() and os.access(file.parent, os.W_OK):
        yield Finding(True, "database", finding("no_file", language, file=file))
    else:
        yield Finding(False, "database", finding("no_folder", language, folder=file.parent))


def _server(settings: Settings, language: Language) -> Iterator[Finding]:
    """What a PostgreSQL server says of the database; nothing is created."""
    try:
        need_extra("A PostgreSQL database", "postgres", "psycopg", "langgraph.checkpoint.postgres")
        from ...checkpoints.postgres.database import check_database

        found = check_database(settings.database)
    except SegueError as error:
        yield Finding(False, "database", error_text(error, language))
        return
    about = {**asdict(found), "size": f"{found.size / 1e6:,.1f}", "lacking": ", ".join(found.lacking)}
    if found.read_only:
        ok, name = False, "server_read_only"
    elif found.lacking:
        ok, name = False, "server_rights"
    elif found.schema:
        ok, name = True, "server"
    else:
        ok, name = found.can_create, "server_empty" if found.can_create else "server_no_create"
    yield Finding(ok, "database", finding(name, language, **about))
    if found.mixed:
        yield Finding(None, "workers", finding("workers_differ", language, agents=", ".join(found.mixed)))
    if ok and found.is_current:
        yield from _unfinished_tasks(settings, language)


def _existing_database(settings: Settings, file: Path, language: Language) -> Iterator[Finding]:
    """Open it as a chat would, then look at its pages and at every row."""
    if not os.access(file, os.W_OK):
        yield Finding(False, "database", finding("read_only", language, file=file))
        return
    try:
        unreadable = asyncio.run(unreadable_sessions(file, THREADS, language))
        version, faults = check_pages(file, most=MOST_FAULTS, timeout=SECONDS)
        rows = {} if faults else check_rows(file, timeout=SECONDS)
        beside = [] if faults else check_rows_beside(file, timeout=SECONDS)
    except (SegueError, sqlite3.Error) as error:
        found = error_text(error, language) if isinstance(error, SegueError) else str(error)
        damaged = isinstance(error, DatabaseDamaged) and not isinstance(error, NotADatabase)
        yield Finding(False, "database", _with_remedy(file, found, language) if damaged else found)
        return
    if faults:
        count = finding("faults_or_more" if len(faults) == MOST_FAULTS else "faults", language, n=len(faults))
        found = finding("damaged", language, file=file, count=count, first=repr(faults[0]))
        yield Finding(False, "database", _with_remedy(file, found, language))
    elif rows or unreadable or beside:
        yield from _damaged_sessions(settings, file, rows, unreadable, language)
        yield from _damaged_beside(settings, file, beside, language)
    else:
        yield Finding(True, "database", finding("no_damage", language, file=file, version=version))
        yield from _message_files(file, language)
        yield from _unfinished_tasks(settings, language)


def _unfinished_tasks(settings: Settings, language: Language) -> Iterator[Finding]:
    """The unfinished tasks that no process runs, and what continues them; and what a search would not find."""

    try:
        agents = settings.agents()
    except SegueError:  # which is reported beside the agents
        agents = []

    async def found() -> tuple[Sequence[Sequence[str]], Sequence[str]]:
        async with open_app(settings.database, agents=agents, dispatch="never") as app:
            pinned = [task.task_id for task in await app.tasks.waiting_for_version()]
            interrupted = [each.task_id for each in await app.tasks.resumable() if each.interrupted]
            waiting = [task.task_id for task in await app.tasks.waiting_for_worker()]
            unindexed = await app.sessions.unindexed()
        waiting = [task_id for task_id in waiting if task_id not in (*pinned, *interrupted)]
        return ([task_id for task_id in interrupted if task_id not in pinned], waiting, pinned), unindexed

    unfinished, unindexed = asyncio.run(found())
    if unindexed:
        yield Finding(None, "database", finding("search_index", language, n=len(unindexed)))
    for name, tasks in zip(("tasks_interrupted", "tasks_wait", "tasks_pinned"), unfinished, strict=True):
        shown = [*(task_id[:SHORT] for task_id in tasks[:MOST_TASKS]), *(["…"] if tasks[MOST_TASKS:] else [])]
        if tasks:
            commands = {"one": task_command(settings, "resume", "ID"), "all": task_command(settings, "resume", "--all")}
            yield Finding(None, "tasks", finding(name, language, n=len(tasks), tasks=", ".join(shown), **commands))


def _message_files(file: Path, language: Language) -> Iterator[Finding]:
    """Whether the contents of messages' files are there and whole; nothing where there are none."""

    async def checked() -> FilesReport:
        storage = await open_storage(str(file))
        try:
            return await storage.files.check()
        finally:
            await storage.close()

    found = asyncio.run(checked())
    about = {"place": found.place, "count": found.count, "size": found.size}
    if found.missing or found.damaged:
        lost = ", ".join([*found.missing, *found.damaged])
        yield Finding(False, "files", finding("files_lost", language, lost=lost, **about))
    elif found.count:
        yield Finding(True, "files", finding("files_whole", language, **about))


def _damaged_sessions(
    settings: Settings,
    file: Path,
    rows: Mapping[str, list[ReadRow]],
    unreadable: Mapping[str, Unreadable],
    language: Language,
) -> Iterator[Finding]:
    """What is damaged of each session, and the command that repairs it."""
    sessions = [*dict.fromkeys((*rows, *unreadable))]
    for session in sessions[:THREADS]:
        damaged = rows.get(session, [])
        what = _damage_text(damaged, unreadable.get(session), language)
        if not damaged and unreadable[session].lost:
            yield Finding(False, "database", unreadable[session].lost)
        elif session:
            cure = task_command(settings, "recover", session)
            found = finding("damaged_session", language, session=session, what=what, command=cure)
            yield Finding(False, "database", found)
        else:
            cure = removing(file, damaged[:MOST_ROWS])
            yield Finding(False, "database", finding("unknown_session", language, what=what, command=cure))
    if more := sessions[THREADS:]:
        yield Finding(False, "database", finding("sessions_beside", language, n=len(more)))


def _damaged_beside(settings: Settings, file: Path, rows: Sequence[ReadRow], language: Language) -> Iterator[Finding]:
    """The damaged rows that no recovery repairs, by table, and the command that removes them."""
    for table in dict.fromkeys(row.table for row in rows):
        damaged = [row for row in rows if row.table == table]
        what = _damage_text(damaged, None, language)
        if table == "audit":
            cure = task_command(settings, "audit", "--verify")
            yield Finding(False, "database", finding("damaged_entries", language, what=what, command=cure))
        else:
            cure = removing(file, damaged[:MOST_ROWS])
            yield Finding(False, "database", finding("damaged_rows", language, what=what, command=cure))


def _damage_text(rows: Sequence[ReadRow], checkpoint: Unreadable | None, language: Language) -> str:
    """The first of some damaged rows, and a session's newest checkpoint if that cannot be read."""
    what = [row.described for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        what.append(finding("rows_beside", language, n=len(rows) - MOST_ROWS))
    if checkpoint:
        what.append(finding("newest_checkpoint", language, reason=word(checkpoint.reason, language)))
    return listed(what)


def _with_remedy(file: Path, found: str, language: Language) -> str:
    """Say how to save what can be saved of a damaged file."""
    return finding("save", language, found=found, command=saving(file))


def _tools(agents: Mapping[str, Agent], given: Collection[str], language: Language) -> Iterator[Finding]:
    """The tools of each agent, and each agent that cannot have its own: a fault only if the user has `given` it.

    An example that lacks an extra is left out: the extras have a line of their own.
    """
    found = asyncio.run(all_tools(agents.values()))
    whole = {name: tools for name, tools in found.items() if not isinstance(tools, SegueError)}
    listed_agents = (f"{name} ({', '.join(tools) or finding('no_tools', language)})" for name, tools in whole.items())
    if whole:
        yield Finding(True, "agents", clauses(listed_agents, language))
    for name, error in found.items():
        if isinstance(error, SegueError):
            is_example = name not in given
            if not (is_example and isinstance(error, MissingExtra)):
                said = finding("unusable_agent", language, agent=name, why=error_text(error, language))
                yield Finding(None if is_example else False, "agents", said)


def _model(agent: Agent, settings: Settings, environ: Mapping[str, str], language: Language) -> Iterator[Finding]:
    """Which model the agent has and why, whether it has a key, whether its endpoint answers, and its habits."""
    override = settings.model
    choice = chosen_model(agent, override, environ)
    name = choice if isinstance(choice, str) else type(choice).__name__
    origin = _origin(agent, override, environ, language)
    yield Finding(True, "model", finding("model", language, name=name, origin=origin))
    if name == "offline":
        yield Finding(None, "model", finding("no_model", language))
        return
    of_environment = "OPENAI_API_KEY" if environ.get("OPENAI_API_KEY") else ""
    if key := finding("agents_key", language) if agent.api_key else of_environment:
        yield Finding(True, "key", finding("key_set", language, key=key))
    else:
        yield Finding(None, "key", finding("key_not_set", language))
    try:
        model = build_model(agent, override, environ)
    except SegueError as error:
        is_wrong = type(error) is ConfigurationError  # not merely a key or an extra that is missing
        yield Finding(False if is_wrong else None, "model", error_text(error, language))
        return
    if isinstance(choice, str):
        yield _endpoint(agent, environ, language)
    if model.endpoint:
        yield from _habits(agent, model.endpoint, settings, language)


def _origin(agent: Agent, override: str, environ: Mapping[str, str], language: Language) -> str:
    if override:
        return "--model"
    if agent.model is not None:
        return finding("of_agent", language, agent=agent.agent_id)
    named = [name for name in ("SEGUE_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL") if environ.get(name)]
    deciding = named[:1] if named[:1] == ["SEGUE_MODEL"] else named
    return word(" and ", language).join(deciding) or finding("default", language)


def _endpoint(agent: Agent, environ: Mapping[str, str], language: Language) -> Finding:
    """Ask the endpoint for its list of models, with the key that a chat would use."""
    import httpx

    base = agent.base_url or environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    key = agent.api_key.get_secret_value() if agent.api_key else environ.get("OPENAI_API_KEY")
    shown = address_without_secrets(base)
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        status = httpx.get(f"{base.rstrip('/')}/models", headers=headers, timeout=SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        kind = type(error).__name__
        unreachable = finding("unreachable", language, address=shown, seconds=f"{SECONDS:g}", kind=kind)
        return Finding(None, "endpoint", unreachable)
    if status in (401, 403):
        return Finding(None, "endpoint", finding("rejects_key", language, address=shown, status=status))
    return Finding(True, "endpoint", finding("answers", language, address=shown, status=status))


def _habits(agent: Agent, endpoint: str, settings: Settings, language: Language) -> Iterator[Finding]:
    """What the endpoint requires of requests, by the agent or by what was learned; nothing where that is nothing."""

    async def learned() -> Collection[str]:
        storage = await open_storage(settings.database)
        try:
            return await storage.habits.of(endpoint)
        finally:
            await storage.close()

    names: Collection[str] = agent.set_habits or ()
    if agent.set_habits is None and (is_server(settings.database) or Path(settings.database).exists()):
        with suppress(SegueError):  # which is reported as the database's
            names = asyncio.run(learned())
    if names:
        said = "habits_learned" if agent.set_habits is None else "habits_set"
        about = {"endpoint": endpoint, "names": ", ".join(names), "agent": agent.agent_id}
        yield Finding(True, "endpoint", finding(said, language, **about))


def _prompts(agent: Agent, language: Language) -> Finding:
    """What the prompts of a task of this agent cost in each protocol."""
    registry = Registry((agent,))
    try:
        asyncio.run(registry.prepare(agent))
        costs = prompt_costs(agent, services_of(registry, lambda event: None), language)
    except SegueError as error:
        return Finding(None, "prompts", error_text(error, language))
    parts = (
        finding(
            "prompt", language, name=name, chars=round(cost.chars / 1000), share=f"{cost.prefix_chars / cost.chars:.0%}"
        )
        for name, cost in costs.items()
    )
    return Finding(True, "prompts", finding("prompts", language, calls=CALLS, each=clauses(parts, language)))


def _offline(language: Language) -> Finding:
    """Have the offline default answer a message, in memory."""
    try:
        result = asyncio.run(_ask_offline(language))
    except SegueError as error:
        return Finding(False, "offline", error_text(error, language))
    return Finding(bool(result["success"]), "offline", finding("planner", language))


async def _ask_offline(language: Language) -> dict[str, Any]:
    async with open_app(":memory:") as app:
        return await app.ask("hello", model="offline", mode="direct", language=language)


async def unreadable_sessions(file: Path, most: int, language: Language) -> dict[str, Unreadable]:
    """List the sessions and read those that were used last, at most that many; returns the damaged ones."""
    reasons: dict[str, str] = {}
    async with open_app(file) as app:
        for session in [found.session_id for found in await app.sessions.list(most, SessionFilter(bots=True))]:
            try:
                await app.history(session)
            except UnknownThread:  # nothing was stored of what was said last
                pass
            except DamagedSession as error:
                reasons[session] = error.reason
    return {session: Unreadable(reason, await _lost(file, session, language)) for session, reason in reasons.items()}


async def _lost(file: Path, session: str, language: Language) -> str:
    """Why nobody can go back to an older state of a session; empty where that can be done."""
    storage = await open_storage(str(file))
    runner = Runner(storage, Registry(), MODES)

    async def readable(config: RunnableConfig) -> None:
        await state_at(runner.graph, config)

    try:
        await IntegrityCheck(storage.database, storage.saver(), readable, session).damage()
    except (NothingReadable, UnknownThread) as error:
        return error_text(error, language) if isinstance(error, NothingReadable) else ""
    finally:
        await runner.close()
        await storage.close()
    return ""
