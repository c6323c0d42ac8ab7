"""The agents file that a task was started with, and the agent that a session was used with."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ConfigurationError, SegueError
from .exits import report_errors
from .latest import LATEST, find_session, find_task
from .settings import Settings

if TYPE_CHECKING:
    from ..app import App
    from ..core.records import Task

Find = Callable[["App"], Awaitable["Task | None"]]
"""Finds the task whose agents file is meant; None where there is none."""


def for_task(settings: Settings, name: str) -> Settings:
    """The settings with the agents file of a task, unless one is named."""

    async def find(app: "App") -> "Task | None":
        return await app.tasks.get(await find_task(app, name))

    return _with_file(settings, find)[0]


def continued(settings: Settings) -> Settings:
    """The settings of a command that sends a message, with what its session remembers."""
    if not (settings.latest or settings.session):
        return settings
    return for_session(settings, LATEST if settings.latest else settings.session)


def for_session(settings: Settings, name: str, *, needed: bool = True) -> Settings:
    """The settings with the agents file and the agent of a session's newest task, unless they are named.

    Where the file is gone and not `needed`, the command does without.
    """

    async def find(app: "App") -> "Task | None":
        return await _newest(app, await find_session(app, name))

    found, task = _with_file(settings, find, needed=needed)
    if task is None or settings.agent:
        return found
    return replace(found, agent=task.agent_id) if agent_is_remembered(task) else found


def agent_is_remembered(task: "Task") -> bool:
    """Whether the task's agent is known without an agents file being named."""
    from ..registry import EXAMPLES

    return bool(task.agents_file) or task.agent_id in [agent.agent_id for agent in EXAMPLES]


def for_snapshot(settings: Settings, text: str, *, needed: bool = True) -> Settings:
    """As `for_session`, of the session that a snapshot belongs to, but without its agent."""

    async def find(app: "App") -> "Task | None":
        with suppress(SegueError):  # the command itself says what is wrong
            return await _newest(app, (await app.rewind.find(text)).thread_id)
        return None

    return _with_file(settings, find, needed=needed)[0]


async def _newest(app: "App", session: str) -> "Task | None":
    return await app.tasks.newest(session)


def _with_file(settings: Settings, find: Find, *, needed: bool = True) -> "tuple[Settings, Task | None]":
    """The settings, and the task unless an agents file is named."""
    if settings.names_agents or not settings.is_there:
        return settings, None
    with report_errors(settings):
        task = asyncio.run(_found(settings, find))
        if task is None:
            return settings, None
        try:
            return with_file_of(settings, task), task
        except ConfigurationError:
            if needed:
                raise
    return settings, None


def with_file_of(settings: Settings, task: "Task") -> Settings:
    """The settings with the agents file that a task remembers, if it does.

    Raises:
        ConfigurationError: it is not there any more.
    """
    file = task.agents_file
    if not file:
        return settings
    if not Path(file).is_file():
        raise ConfigurationError(
            "The agents file {file} of task {task_id} is not there any more: name it with --agents.",
            file=file,
            task_id=task.task_id,
        )
    return replace(settings, agents_file=file)


async def _found(settings: Settings, find: Find) -> "Task | None":
    from ..entry import open as open_app

    async with open_app(settings.database) as app:
        return await find(app)
