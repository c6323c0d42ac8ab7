"""What a command line asked for, and the commands that go on from it."""

import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import DatabaseUnavailable
from ..prompts.language import Language, language_named, language_of
from ..prompts.terminal import sentence

if TYPE_CHECKING:
    from ..app import App
    from ..core.agents import Agent

DEFAULT_DATABASE = "segue.db"
MOST = 200
"""Characters of a message that is said again in a command."""


@dataclass(frozen=True)
class Settings:
    """The options that the commands share; empty means the default."""

    database: str = DEFAULT_DATABASE
    agents_file: str = ""
    agent: str = ""
    mode: str = ""
    model: str = ""
    user: str = "default"
    session: str = ""
    wait: float = 0.0
    """Waits up to this many seconds if the session is busy."""
    language: str = ""
    verb: str = "chat"
    """The command that sends messages."""
    files: tuple[str, ...] = ()
    """The files that come with the message."""
    said: str = ""
    """The message as it was given, where the files' names were added to it."""

    def reads(self, text: str) -> Language:
        """The language of what the terminal says about a text: the user's, else the locale's, else that of the text."""
        user = self.language or os.environ.get("SEGUE_LANGUAGE", "")
        locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
        return language_named(user) or language_named(locale) or language_of(text)

    def say(self, name: str, /, **slots: object) -> str:
        """A sentence of the catalogue in the terminal's language."""
        return sentence(name, self.reads(""), **slots)

    def agents(self) -> "list[Agent]":
        """Read the agents file; modules that its tools name are also looked for beside it.

        Raises:
            ConfigurationError: naming the file, the agent and the field that is wrong.
        """
        from ..core.agents import load_agents

        if not self.agents_file:
            return []
        self._look_beside()
        return load_agents(self.agents_file)

    def modes(self) -> "dict[str, Any]":
        """Read the modes of the agents file.

        Raises:
            ConfigurationError: naming the file and what is wrong.
        """
        from ..core.agents import load_modes

        if not self.agents_file:
            return {}
        self._look_beside()
        return load_modes(self.agents_file)

    def _look_beside(self) -> None:
        folder = str(Path(self.agents_file).resolve().parent)
        if folder not in sys.path:
            sys.path.append(folder)

    def chosen_agent(self) -> str:
        """The agent that was asked for, else the first one of the agents file, else the default one's empty name."""
        if self.agent or not self.agents_file:
            return self.agent
        return next((agent.agent_id for agent in self.agents()), "")

    @asynccontextmanager
    async def opened(self) -> "AsyncIterator[App]":
        """Open the app over the database.

        Raises:
            SegueError: of any kind, saying what to do.
        """
        from ..app import open as open_app

        async with open_app(self.database, agents=self.agents(), modes=self.modes()) as app:
            yield app

    @asynccontextmanager
    async def reopened(self) -> "AsyncIterator[App]":
        """Open the app over a database that is there already.

        Raises:
            DatabaseUnavailable: it is not.
        """
        from ..rehearsal.segue_bot import attach

        self._check_there()
        async with self.opened() as app:
            attach(app)
            yield app

    def _check_there(self) -> None:
        if not self.database.startswith(("file:", ":memory:")) and not Path(self.database).exists():
            raise DatabaseUnavailable(
                "There is no database {path} yet: `segue chat` creates it, or name another one with --db.",
                path=self.database,
            )

    def _places(self) -> list[str]:
        return [*self._database(), *(["--agents", self.agents_file] if self.agents_file else [])]

    def _database(self) -> list[str]:
        usual = self.database == DEFAULT_DATABASE and not os.environ.get("SEGUE_DATABASE")
        return [] if usual else ["--db", self.database]

    def going_on(self, session_id: str) -> str:
        """The command that continues the thread in another process."""
        command = shlex.join(["segue", "chat", "--session", session_id, *self._places(), *self._chosen()])
        return f'{command} "…"'

    def sending(self, message: str, *options: str) -> str:
        """The command that sends a message again; one that is not fit for a line is left for the person to write."""
        message = self.said or message
        mode = ["--mode", self.mode] if self.mode and self.verb == "chat" else []
        files = [word for file in self.files for word in ("--file", file)]
        command = shlex.join(["segue", self.verb, *options, *self._places(), *self._chosen(), *mode, *files])
        fits = message.isprintable() and 0 < len(message) <= MOST and not message.startswith("-")
        return f"{command} {shlex.quote(message)}" if fits else f'{command} "…"'

    def _chosen(self) -> list[str]:
        given = {"--agent": self.agent, "--model": self.model, "--user": "" if self.user == "default" else self.user}
        given |= {"--language": "" if self.language == os.environ.get("SEGUE_LANGUAGE") else self.language}
        return [word for option, value in given.items() if value for word in (option, value)]

    def examining(self) -> str:
        """The command that looks the database over."""
        return shlex.join(["segue", "doctor", *self._database()])

    def command_on(self, verb: str, task_id: str, *options: str) -> str:
        """The command that resumes, answers, cancels or traces a task in another process."""
        places = self._database() if verb == "trace" else self._places()
        return shlex.join(["segue", verb, task_id, *options, *places])
