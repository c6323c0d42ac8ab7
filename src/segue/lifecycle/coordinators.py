"""Coordinators: the registered agents and tools, or a folder of Markdown, as the engine's context."""

import asyncio
import logging
import threading
from os import stat_result
from pathlib import Path
from typing import Any

from ..core.errors import ConfigurationError
from ..core.lifecycle import Context, Coordinator
from ..passages import PassageIndex, Unreadable, passages_of, read_text, rules_of
from ..registry import Registry

logger = logging.getLogger(__name__)

SUFFIXES = (".md", ".markdown", ".txt")
RULES = ("rules", "规则")
"""Files of this name, and all in a folder of it, hold rules."""
MOST_PASSAGES = 50_000
"""Passages of a folder that are searched."""

Stamp = tuple[int, int]
_SLOT = "{{"


class RegistryCoordinator:
    """Rules are the lines of the agent's prompt, knowledge is what the agents say of themselves.

    Without the name of an agent the tools of all of them are given, and no rules.
    """

    def __init__(self, registry: Registry, agent: str = "") -> None:
        self._registry = registry
        self._agent = agent

    @classmethod
    def of(cls, app: Any, agent: str = "") -> "RegistryCoordinator":
        """The coordinator over what is registered in an app."""
        return cls(app.agents, agent)

    async def get_context_async(self, text: str, /) -> Context:
        """The same for every request: all of it is known beforehand.

        Raises:
            UnknownAgent: listing the ones there are.
        """
        asked = [self._registry.agent(self._agent)] if self._agent else list(self._registry.values())
        tools = {name: tool for agent in asked for name, tool in self._registry.tools_for(agent).items()}
        rules = _lines(asked[0].prompt) if self._agent else []
        known = [f"{agent.agent_id}: {agent.description}" for agent in asked if agent.description]
        return Context(rules=rules, knowledge=known, tools=[tool.spec["function"] for tool in tools.values()])


def _lines(prompt: str) -> list[str]:
    return [line.strip(" \t-*") for line in prompt.splitlines() if line.strip(" \t-*#") and _SLOT not in line]


class FolderCoordinator:
    """Rules are the items and paragraphs of the files called "rules" or in a folder of that name; the rest is searched.

    Changed files are read again before each request. `skipped` says which files could not be read, and why. `beside`
    is a coordinator whose context is added, for instance one that knows the tools.
    """

    def __init__(self, folder: str | Path, *, most: int = 6, beside: Coordinator | None = None) -> None:
        self._folder = Path(folder)
        if not self._folder.is_dir():
            raise ConfigurationError(
                "The folder {folder} does not exist: create it, or name another one.", folder=folder
            )
        self._most = most
        self._beside = beside
        self._lock = threading.Lock()
        self._index = PassageIndex()
        self._stamps: dict[str, Stamp] = {}
        self._rules: dict[str, list[str]] = {}
        self.skipped: dict[str, str] = {}

    async def get_context_async(self, text: str, /) -> Context:
        """The rules, and the passages that fit the request best."""
        rules, knowledge = await asyncio.to_thread(self._look_up, text)
        if self._beside is None:
            return Context(rules=rules, knowledge=knowledge)
        other = await self._beside.get_context_async(text)
        return Context(rules=[*rules, *other.rules], knowledge=[*knowledge, *other.knowledge], tools=list(other.tools))

    def _look_up(self, text: str) -> tuple[list[str], list[dict[str, str]]]:
        with self._lock:
            self._refresh()
            rules = [rule for name in sorted(self._rules) for rule in self._rules[name]]
            found = self._index.search(text, self._most)
        return rules, [{"title": passage.title, "text": passage.text} for passage in found]

    def _refresh(self) -> None:
        """Read what changed since the last look."""
        now = {name: (found.st_mtime_ns, found.st_size) for name, found in self._files().items()}
        for name in [name for name in self._stamps if now.get(name) != self._stamps[name]]:
            del self._stamps[name]
            self._rules.pop(name, None)
            self.skipped.pop(name, None)
            self._index.remove(name)
        for name in sorted(now.keys() - self._stamps.keys()):
            self._read(name)
            self._stamps[name] = now[name]

    def _files(self) -> dict[str, stat_result]:
        """The readable files below the folder; links that lead out of it are left alone."""
        root = self._folder.resolve()
        found = {}
        for path in self._folder.rglob("*"):
            inside = path.relative_to(self._folder)
            if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in inside.parts):
                continue
            if path.is_file() and path.resolve().is_relative_to(root):
                found[inside.as_posix()] = path.stat()
        return found

    def _read(self, name: str) -> None:
        try:
            text, whole = read_text(self._folder / name)
        except Unreadable as error:
            self._skip(name, str(error))
            return
        if _holds_rules(name):
            self._rules[name] = rules_of(text)
        else:
            room = MOST_PASSAGES - len(self._index)
            passages = passages_of(text, name)
            whole = self._index.add(name, passages, room) and whole
        if not whole:
            self._skip(name, "it is too long: only its beginning is used")

    def _skip(self, name: str, why: str) -> None:
        self.skipped[name] = why
        logger.warning("The file %s in %s is not read whole: %s.", name, self._folder, why)


def _holds_rules(name: str) -> bool:
    *folders, file = name.lower().split("/")
    return file.rsplit(".", 1)[0] in RULES or any(folder in RULES for folder in folders)
