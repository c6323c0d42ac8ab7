"""A folder of Markdown as an engine's context: its rules always hold, its knowledge is searched."""

import asyncio
import logging
import threading
from os import stat_result
from pathlib import Path

from ...core.errors import ConfigurationError
from ...core.lifecycle import Context, Coordinator
from ...passages.index import PassageIndex
from ...passages.markdown import passages_of, rules_of
from ...passages.text_files import Unreadable, read_text

logger = logging.getLogger(__name__)

SUFFIXES = (".md", ".markdown", ".txt")
RULES = ("rules", "规则")
"""Files of this name, and all in a folder of it, hold rules."""
MOST_PASSAGES = 50_000
"""Passages of a folder that are searched."""

Stamp = tuple[int, int]


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
            self._take_in(name)
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

    def _take_in(self, name: str) -> None:
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
