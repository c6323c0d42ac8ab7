"""Settings of a command: the options that the commands share."""

import os
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.environment import foreign_scheme, is_server, without_password
from ..core.errors import DatabaseUnavailable
from ..core.task import ANYBODY
from ..prompts.catalogue import Language, language_named, language_of, terminal_text
from .output import keep_output

if TYPE_CHECKING:
    from ..app import App
    from ..core.agents import Agent
    from ..core.audit import AuditSettings
    from ..core.notifications import Receiver
    from ..core.schedules import ApprovalSettings, FileSchedule
    from ..core.spend import Quotas, SpendLimits

DEFAULT_DATABASE = "segue.db"
FOLDERS_AGENTS = "./agents.toml"
"""The agents file that is used where none is named; one that is named has no ./ before it."""
IN_MEMORY = ":memory:"
"""The database that ends with its process."""


@dataclass(frozen=True)
class Settings:
    """The options that the commands share; empty means the default."""

    database: str = DEFAULT_DATABASE
    agents_file: str = ""
    agent: str = ""
    mode: str = ""
    model: str = ""
    user: str = ANYBODY
    session: str = ""
    wait: float = 0.0
    """Waits up to this many seconds if the session is busy."""
    language: str = ""
    verb: str = "chat"
    """The command that sends messages."""
    files: tuple[str, ...] = ()
    """The files that come with the message."""
    memory_files: Mapping[str, str] = field(default_factory=dict)
    """The paths of memory files by their names."""
    asks: Mapping[str, bool] = field(default_factory=dict)
    """`ask_user` and `review_plan`, where they are chosen."""
    remember: bool = True
    """Whether what the user says of themselves is used and remembered."""
    message: str = ""
    """The message as it was given, where the files' names were added to it."""
    topic: str = ""
    """The message of the task that is shown."""
    latest: bool = False
    """Continues the session that was used last."""

    def language_for(self, text: str) -> Language:
        """The language of sentences about a text: the user's, else the locale's, else that of the text."""
        user = self.language or os.environ.get("SEGUE_LANGUAGE", "")
        locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
        return language_named(user) or language_named(locale) or language_of(text)

    @property
    def ui_language(self) -> Language:
        """The language of sentences about the task that is shown, or about none."""
        return self.language_for(self.topic)

    def say(self, name: str, /, **slots: object) -> str:
        """A sentence of the catalogue in the terminal's language."""
        return terminal_text(name, self.ui_language, **slots)

    def agents(self) -> "list[Agent]":
        """Read the agents file."""
        from ..core.agents import load_agents

        if not self.agents_file:
            return []
        keep_output()
        return load_agents(self.agents_file)

    def modes(self) -> "dict[str, Any]":
        """Read the modes of the agents file."""
        from ..core.agents import load_modes
        from ..core.flows import load_flows

        if not self.agents_file:
            return {}
        return {**load_modes(self.agents_file), **load_flows(self.agents_file)}

    def audit(self) -> "AuditSettings | None":
        """Read the audit log's settings in the agents file; None where it has none, or the database is only read."""
        from ..core.audit import load_audit

        return load_audit(self.agents_file) if self.agents_file and not self._is_only_read else None

    def quotas(self) -> "Quotas | None":
        """Read the quotas of the agents file."""
        from ..core.spend import load_quotas

        return load_quotas(self.agents_file) if self.agents_file else None

    def spend(self) -> "SpendLimits | None":
        """Read the limits of the agents file."""
        from ..core.spend import load_spend

        return load_spend(self.agents_file) if self.agents_file else None

    def deadlines(self) -> "ApprovalSettings | None":
        """Read the deadlines of approvals in the agents file; None where it has none, or the database is only read."""
        from ..core.schedules import load_deadlines

        return load_deadlines(self.agents_file) if self.agents_file and not self._is_only_read else None

    def file_schedules(self) -> "list[FileSchedule]":
        """Read the schedules of the agents file."""
        from ..core.schedules import load_schedules

        return load_schedules(self.agents_file) if self.agents_file else []

    def receivers(self) -> "list[Receiver]":
        """Read the receivers of notifications in the agents file; a database that is only read tells nobody."""
        from ..core.notifications import load_receivers

        return load_receivers(self.agents_file) if self.agents_file and not self._is_only_read else []

    def chosen_agent(self) -> str:
        """The agent that was asked for, else the first one of the agents file, else the default one's empty name."""
        if self.agent or not self.agents_file:
            return self.agent
        return next((agent.agent_id for agent in self.agents()), "")

    @property
    def names_agents(self) -> bool:
        """Whether an agents file is named on the command line, and not by the environment or the folder alone."""
        return bool(self.agents_file) and self.agents_file not in (FOLDERS_AGENTS, os.environ.get("SEGUE_AGENTS"))

    @property
    def agents_path(self) -> str:
        """The absolute path of the agents file; empty where there is none."""
        return str(Path(self.agents_file).resolve()) if self.agents_file else ""

    @asynccontextmanager
    async def opened(self, max_running: int | None = None, *, serving: bool = False) -> "AsyncIterator[App]":
        """Open the app over the database; a process that is `serving` waits for a server that cannot be reached."""
        from ..entry import open as open_app

        configured: dict[str, Any] = {"agents": self.agents(), "modes": self.modes(), "spend": self.spend()}
        configured |= {"audit": self.audit(), "notify": self.receivers(), "quotas": self.quotas()}
        configured["approvals"] = self.deadlines()
        opening = open_app(self.database, max_running=max_running, **configured)
        async with opening.when_reachable() if serving else opening as app:
            app.agents.agents_file = self.agents_path
            if serving:
                await app.schedules.keep(self.file_schedules())
            else:
                app.schedules.leave_to_others()
            yield app

    @asynccontextmanager
    async def reopened(self) -> "AsyncIterator[App]":
        """Open the app over a database that is there already."""
        from ..testing.rehearsal.segue_bot import attach

        if not self.exists and not foreign_scheme(self.database):
            raise DatabaseUnavailable(
                "There is no database {path} yet: `segue chat` creates it, or name another one with --db.",
                path=self.database,
            )
        async with self.opened() as app:
            attach(app)
            yield app

    @asynccontextmanager
    async def reading(self) -> "AsyncIterator[App]":
        """Open the app over a database that is there already; a SQLite file is opened for reading only."""
        async with replace(self, database=self._read_only).reopened() as app:
            yield app

    @property
    def _read_only(self) -> str:
        if is_server(self.database) or self.database.startswith(("file:", ":memory:")) or not self.exists:
            return self.database
        return f"{Path(self.database).absolute().as_uri()}?mode=ro"

    @property
    def _is_only_read(self) -> bool:
        return self.database.startswith("file:") and self.database.endswith("mode=ro")

    @property
    def exists(self) -> bool:
        """Whether the database exists."""
        return (
            is_server(self.database) or self.database.startswith(("file:", ":memory:")) or Path(self.database).exists()
        )


MOST = 200
"""Characters of a message that a command line repeats."""
SHORT = 8
"""Characters of a task's id in a command line."""
_OF_TASK = ("resume", "answer", "pause", "cancel", "trace", "event")


def continue_command(settings: Settings, session_id: str) -> str:
    """Continue a session; the message is left for the person to write."""
    command = shlex.join(["segue", "chat", "--session", session_id, *places(settings), *_chosen(settings)])
    return f'{command} "…"'


def send_command(settings: Settings, message: str, *options: str) -> str:
    """Send a message again; one that does not fit a command line is left for the person to write."""
    message = settings.message or message
    mode = ["--mode", settings.mode] if settings.mode and settings.verb == "chat" else []
    files = [word for file in settings.files for word in ("--file", file)]
    files += [word for name, path in settings.memory_files.items() for word in ("--memory-file", f"{name}={path}")]
    asks = [f"--{'' if chosen else 'no-'}{name.replace('_', '-')}" for name, chosen in settings.asks.items()]
    asks += [] if settings.remember else ["--no-remember"]
    words = ["segue", settings.verb, *options, *places(settings), *_chosen(settings), *mode, *files, *asks]
    fits = message.isprintable() and 0 < len(message) <= MOST and not message.startswith("-")
    return f"{shlex.join(words)} {shlex.quote(message)}" if fits else f'{shlex.join(words)} "…"'


def task_command(settings: Settings, verb: str, name: str, *options: str) -> str:
    """Resume, answer, pause, cancel or trace a task, which remembers its agents file, or recover a session."""
    shown = name[:SHORT] if verb in _OF_TASK else name
    return shlex.join(["segue", verb, shown, *options, *_database(settings)])


def simulate_command(settings: Settings, session_id: str, log: str) -> str:
    """Continue a conversation, and its log."""
    logged = ["--log", log] if log else []
    return shlex.join(["segue", "simulate", "--session", session_id, *logged, *places(settings)])


def replay_command(settings: Settings, file: Path) -> str:
    """Replay a cassette with the agents file of its session."""
    agents, here = Path(settings.agents_file), Path.cwd()
    shown = agents.relative_to(here) if agents.is_relative_to(here) else agents
    return shlex.join(["segue", "replay", str(file), *(["--agents", str(shown)] if settings.names_agents else [])])


def doctor_command(settings: Settings) -> str:
    """Check the database."""
    return shlex.join(["segue", "doctor", *_database(settings)])


def places(settings: Settings) -> list[str]:
    """The options that name the database, without its password, and the agents file."""
    file = "" if settings.agents_file == FOLDERS_AGENTS else settings.agents_file
    return [*_database(settings), *(["--agents", file] if file else [])]


def _database(settings: Settings) -> list[str]:
    default = settings.database == DEFAULT_DATABASE and not os.environ.get("SEGUE_DATABASE")
    known = is_server(settings.database) and settings.database == os.environ.get("SEGUE_DATABASE")
    return [] if default or known else ["--db", without_password(settings.database)]


def _chosen(settings: Settings) -> list[str]:
    given = {
        "--agent": settings.agent,
        "--model": settings.model,
        "--user": "" if settings.user == ANYBODY else settings.user,
        "--language": "" if settings.language == os.environ.get("SEGUE_LANGUAGE") else settings.language,
    }
    return [word for option, value in given.items() if value for word in (option, value)]
