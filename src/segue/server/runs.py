"""Runs that requests begin: one of a kind at a time in this process, each with a folder of its name."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from ..core.errors import ConfigurationError, SegueError
from ..prompts.errors import render_over_http


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
