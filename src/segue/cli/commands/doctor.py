"""`segue doctor`: what is installed, what is configured, and whether it works."""

import asyncio
import importlib.metadata
import os
import platform
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.runnables import RunnableConfig
from packaging.requirements import Requirement
from rich.console import Console
from rich.text import Text

from ...app import open as open_app
from ...checkpoints.sqlite.database_check import check_pages, check_rows, removing, saving
from ...checkpoints.sqlite.integrity import ReadRow
from ...checkpoints.sqlite.repair.survey import Survey
from ...checkpoints.sqlite.storage import open_sqlite
from ...core.agents import Agent
from ...core.errors import DamagedSession, MissingExtra, NothingReadable, SegueError, UnknownThread, listed
from ...graphs.chat import MODES
from ...models.build import build_model, chosen_model
from ...registry import Registry, served_tools
from ...runtime.runner import Runner
from ...runtime.thread_state import state_at
from ...tools.builtin import BUILTIN
from ..command_lines import task_command
from ..exits import FAILED
from ..settings import Settings
from ..views.lines import signs_for
from ..views.sanitize import one_line

PACKAGES = (
    "segue",
    *("langgraph", "langchain-core", "langchain-openai", "langgraph-checkpoint-sqlite"),
    *("pydantic", "typer", "rich"),
)
SECONDS = 3.0
"""How long the endpoint is tried."""
MOST_FAULTS = 100
THREADS = 20
"""How many threads are read, to see whether they can be; how many damaged ones are named."""
MOST_ROWS = 3
"""How many damaged rows of a session are named."""


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
    signs = signs_for(console)
    failed = False
    for found in findings(settings, os.environ):
        failed |= found.ok is False
        sign, style = {None: ("!", "yellow"), True: (signs.ok, "green"), False: (signs.failed, "red")}[found.ok]
        text = Text.assemble((f"{sign} ", style), (f"{found.what:<10} ", "bold"), one_line(found.detail, 800))
        console.print(text, soft_wrap=True)
    return FAILED if failed else 0


def findings(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at one thing after the other."""
    yield _python()
    yield _packages()
    declared = importlib.metadata.metadata("segue").get_all("Provides-Extra") or ()
    yield from extras(declared, importlib.metadata.requires("segue") or ())
    yield from _database(settings)
    try:
        agents = _agents(settings)
    except SegueError as error:
        yield Finding(False, "agents", str(error))
        return
    served = asyncio.run(served_tools(agents.values()))
    yield Finding(True, "agents", "; ".join(f"{name} ({_tool_names(agent, served)})" for name, agent in agents.items()))
    chosen = agents.get(settings.chosen_agent()) or next(iter(agents.values()))
    yield from _model(chosen, settings.model, environ)
    yield _offline()


def _python() -> Finding:
    ok = sys.version_info >= (3, 11)
    need = "" if ok else ": 3.11 or newer is needed"
    return Finding(ok, "python", f"{platform.python_version()} at {sys.executable}{need}")


def _packages() -> Finding:
    versions = {name: _version(name) for name in PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding(False, "packages", f"missing: {', '.join(missing)}; install them with: pip install -U segue")
    return Finding(True, "packages", ", ".join(f"{name} {version}" for name, version in versions.items()))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def extras(names: Iterable[str], requirements: Iterable[str]) -> Iterator[Finding]:
    """The optional parts that a package's metadata declares; one that only gathers others is left out."""
    optional = [needed for needed in map(Requirement, requirements) if needed.marker and not needed.marker.evaluate()]
    for extra in names:
        needed = [r.name for r in optional if r.marker and r.marker.evaluate({"extra": extra}) and r.name != "segue"]
        missing = [name for name in needed if _version(name) is None]
        if missing:
            how = f"not installed ({', '.join(missing)} missing): pip install 'segue[{extra}]'"
            yield Finding(None, f"[{extra}]", how)
        elif needed:
            yield Finding(True, f"[{extra}]", "installed")


def _database(settings: Settings) -> Iterator[Finding]:
    """Whether the database can be used, without creating it."""
    path = settings.database
    if path == ":memory:" or path.startswith("file:"):
        yield Finding(True, "database", path)
        return
    file = Path(path).absolute()
    if file.exists():
        yield from _existing_database(settings, file)
    elif file.parent.is_dir() and os.access(file.parent, os.W_OK):
        yield Finding(True, "database", f"{file} does not exist yet; the first message creates it")
    else:
        yield Finding(False, "database", f"the folder {file.parent} cannot be written: name another file with --db")


def _existing_database(settings: Settings, file: Path) -> Iterator[Finding]:
    """Open it as a chat would, then look at its pages and at every row."""
    if not os.access(file, os.W_OK):
        yield Finding(False, "database", f"{file} is read-only: make it writable, or name another file with --db")
        return
    try:
        unreadable = asyncio.run(unreadable_sessions(file, THREADS))
        version, faults = check_pages(file, most=MOST_FAULTS, timeout=SECONDS)
        rows = {} if faults else check_rows(file, timeout=SECONDS)
    except (SegueError, sqlite3.Error) as error:
        yield Finding(False, "database", _with_cure(file, str(error)))
        return
    if faults:
        count = f"{MOST_FAULTS} faults or more" if len(faults) == MOST_FAULTS else f"faults: {len(faults)}"
        found = f"{file} is damaged ({count}; the first is {faults[0]!r}): restore it from a copy."
        yield Finding(False, "database", _with_cure(file, found))
    elif rows or unreadable:
        yield from _damaged_sessions(settings, file, rows, unreadable)
    else:
        yield Finding(True, "database", f"{file}, writable, schema version {version}, no damage found")


def _damaged_sessions(
    settings: Settings, file: Path, rows: Mapping[str, list[ReadRow]], unreadable: Mapping[str, Unreadable]
) -> Iterator[Finding]:
    """What is damaged of each session, and the command that repairs it."""
    sessions = [*dict.fromkeys((*rows, *unreadable))]
    for session in sessions[:THREADS]:
        damaged = rows.get(session, [])
        what = [row.described for row in damaged[:MOST_ROWS]]
        what += [f"rows beside these: {len(damaged) - MOST_ROWS}"] if len(damaged) > MOST_ROWS else []
        what += [f"newest checkpoint ({unreadable[session].reason})"] if session in unreadable else []
        if not damaged and unreadable[session].lost:
            yield Finding(False, "database", unreadable[session].lost)
        elif session:
            cure = task_command(settings, "recover", session)
            yield Finding(False, "database", f"session '{session}' is damaged: {listed(what)}. To repair it: {cure}")
        else:
            what_is = f"{listed(what)}: its session is unknown"
            yield Finding(
                False,
                "database",
                f"{what_is}. To remove it, after making a copy: {removing(file, damaged[:MOST_ROWS])}",
            )
    if more := sessions[THREADS:]:
        yield Finding(
            False, "database", f"damaged sessions beside these: {len(more)}; repair those, then run this again"
        )


def _with_cure(file: Path, found: str) -> str:
    """Say how to save what can be saved, where a file is damaged."""
    if "damaged" not in found and "malformed" not in found:
        return found
    return (
        f"{found} Or save what can be read into a new file, with SQLite's own command line: {saving(file)}. "
        "Cancel there what had not ended, rather than resume it: which calls were made may be lost."
    )


def _agents(settings: Settings) -> dict[str, Agent]:
    registry = Registry()
    for agent in settings.agents():
        registry.register(agent)
    return {name: registry.agent(name) for name in registry.agents}


def _tool_names(agent: Agent, served: Mapping[str, str]) -> str:
    try:
        names = [*BUILTIN.resolve(agent.tools), *filter(None, [served.get(agent.agent_id)])]
        return ", ".join(names) or "no tools"
    except MissingExtra as error:
        return str(error)


def _model(agent: Agent, override: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Which model the agent has and why, whether it has a key, and whether its endpoint answers."""
    choice = chosen_model(agent, override, environ)
    name = choice if isinstance(choice, str) else type(choice).__name__
    yield Finding(True, "model", f"{name}, from {_origin(agent, override, environ)}")
    if name == "offline":
        yield Finding(
            None, "model", "no language model: set OPENAI_API_KEY (or OPENAI_BASE_URL), or --model openai:NAME"
        )
        return
    key = "the agent's api_key" if agent.api_key else "OPENAI_API_KEY" if environ.get("OPENAI_API_KEY") else ""
    yield Finding(True if key else None, "key", f"{key} is set (its value is not shown)" if key else "none is set")
    try:
        build_model(agent, override, environ)
    except SegueError as error:
        yield Finding(None, "model", str(error))
        return
    if isinstance(choice, str):
        yield _endpoint(agent, environ)


def _origin(agent: Agent, override: str, environ: Mapping[str, str]) -> str:
    if override:
        return "--model"
    if agent.model is not None:
        return f"the agent '{agent.agent_id}'"
    named = [name for name in ("SEGUE_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL") if environ.get(name)]
    return " and ".join(named[:1] if named[:1] == ["SEGUE_MODEL"] else named) or "the default (nothing is configured)"


def _endpoint(agent: Agent, environ: Mapping[str, str]) -> Finding:
    """Ask the endpoint for its list of models, with the key that a chat would use."""
    import httpx

    base = agent.base_url or environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    key = agent.api_key.get_secret_value() if agent.api_key else environ.get("OPENAI_API_KEY")
    shown = _without_secrets(base)
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        status = httpx.get(f"{base.rstrip('/')}/models", headers=headers, timeout=SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Finding(None, "endpoint", f"{shown} could not be reached in {SECONDS:g} s ({type(error).__name__})")
    if status in (401, 403):
        return Finding(None, "endpoint", f"{shown} answers, and rejects the key ({status})")
    return Finding(True, "endpoint", f"{shown} answers ({status})")


def _without_secrets(url: str) -> str:
    """The address without a password or query in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _offline() -> Finding:
    """Have the offline default answer a message, in memory."""
    try:
        result = asyncio.run(_ask_offline())
    except SegueError as error:
        return Finding(False, "offline", str(error))
    return Finding(bool(result["success"]), "offline", f"the embedded planner answers: {result['answer'][:60]}")


async def _ask_offline() -> dict[str, Any]:
    async with open_app(":memory:") as app:
        return await app.ask("hello", model="offline", mode="direct")


async def unreadable_sessions(file: Path, most: int) -> dict[str, Unreadable]:
    """List the sessions and read those that were used last, at most that many; returns the damaged ones.

    Raises:
        SegueError: nothing can be read.
    """
    reasons: dict[str, str] = {}
    async with open_app(file) as app:
        for session in [row["thread_id"] for row in await app.threads()][:most]:
            try:
                await app.history(session)
            except UnknownThread:  # nothing was stored of what was said last
                pass
            except DamagedSession as error:
                reasons[session] = error.reason
    return {session: Unreadable(reason, await _lost(file, session)) for session, reason in reasons.items()}


async def _lost(file: Path, session: str) -> str:
    """Why nobody can go back to an older state of a session; empty where that can be done."""
    storage = await open_sqlite(str(file))
    runner = Runner(storage, Registry(), MODES)

    async def readable(config: RunnableConfig) -> None:
        await state_at(runner.graph, config)

    try:
        await Survey(storage.database, storage.saver(), readable, session).damage()
    except (NothingReadable, UnknownThread) as error:
        return str(error) if isinstance(error, NothingReadable) else ""
    finally:
        await runner.close()
        await storage.close()
    return ""
