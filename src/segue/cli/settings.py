"""Settings of a command: the options that the commands share."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.environment import foreign_scheme, is_server
from ..core.errors import DatabaseUnavailable
from ..prompts.language import Language, language_named, language_of
from ..prompts.terminal import sentence

if TYPE_CHECKING:
    from ..app import App
    from ..core.agents import Agent

DEFAULT_DATABASE = "segue.db"


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
    message: str = ""
    """The message as it was given, where the files' names were added to it."""
    latest: bool = False
    """Continues the session that was used last."""

    def language_for(self, text: str) -> Language:
        """The language of sentences about a text: the user's, else the locale's, else that of the text."""
        user = self.language or os.environ.get("SEGUE_LANGUAGE", "")
        locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
        return language_named(user) or language_named(locale) or language_of(text)

    def say(self, name: str, /, **slots: object) -> str:
        """A sentence of the catalogue in the terminal's language."""
        return sentence(name, self.language_for(""), **slots)

    def agents(self) -> "list[Agent]":
        """Read the agents file.

        Raises:
            ConfigurationError: naming the file, the agent and the field that is wrong.
        """
        from ..core.agents import load_agents

        if not self.agents_file:
            return []
        return load_agents(self.agents_file)

    def modes(self) -> "dict[str, Any]":
        """Read the modes of the agents file.

        Raises:
            ConfigurationError: naming the file and what is wrong.
        """
        from ..core.agents import load_modes
        from ..core.flows import load_flows

        if not self.agents_file:
            return {}
        return {**load_modes(self.agents_file), **load_flows(self.agents_file)}

    def chosen_agent(self) -> str:
        """The agent that was asked for, else the first one of the agents file, else the default one's empty name."""
        if self.agent or not self.agents_file:
            return self.agent
        return next((agent.agent_id for agent in self.agents()), "")

    @property
    def names_agents(self) -> bool:
        """Whether an agents file is named on the command line, and not by the environment alone."""
        return bool(self.agents_file) and self.agents_file != os.environ.get("SEGUE_AGENTS")

    @property
    def agents_path(self) -> str:
        """The absolute path of the agents file; empty where there is none."""
        return str(Path(self.agents_file).resolve()) if self.agents_file else ""

    @asynccontextmanager
    async def opened(self, max_running: int | None = None, *, serving: bool = False) -> "AsyncIterator[App]":
        """Open the app over the database; a process that is `serving` waits for a server that cannot be reached.

        Raises:
            SegueError: of any kind, saying what to do.
        """
        from ..entry import open as open_app

        opening = open_app(self.database, agents=self.agents(), modes=self.modes(), max_running=max_running)
        async with opening.when_reachable() if serving else opening as app:
            app.agents.agents_file = self.agents_path
            yield app

    @asynccontextmanager
    async def reopened(self) -> "AsyncIterator[App]":
        """Open the app over a database that is there already.

        Raises:
            DatabaseUnavailable: it is not.
        """
        from ..rehearsal.segue_bot import attach

        if not self.is_there and not foreign_scheme(self.database):
            raise DatabaseUnavailable(
                "There is no database {path} yet: `segue chat` creates it, or name another one with --db.",
                path=self.database,
            )
        async with self.opened() as app:
            attach(app)
            yield app

    @property
    def is_there(self) -> bool:
        """Whether the database exists."""
        return (
            is_server(self.database) or self.database.startswith(("file:", ":memory:")) or Path(self.database).exists()
        )
