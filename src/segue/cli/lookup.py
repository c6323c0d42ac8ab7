"""What a command looks up in the database: the task or session that is meant, and the agents file that it remembers."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from ..core.errors import ConfigurationError, NothingStored, SegueError
from .exits import report_errors
from .settings import FOLDERS_AGENTS, Settings

if TYPE_CHECKING:
    from ..app import App
    from ..core.records import Task

T = TypeVar("T")
LATEST = ""
"""In place of a task's id or a session's name."""


def ask(settings: Settings, question: "Callable[[App], Awaitable[T]]") -> T:
    """Ask the app over an existing database; an error ends the command."""

    async def asked() -> T:
        async with settings.reopened() as app:
            return await question(app)

    with report_errors(settings):
        return asyncio.run(asked())


def named(given: str | None, last: bool, what: str = "TASK_ID") -> str:
    """The given name, or LATEST."""
    if last == bool(given):
        raise typer.BadParameter(f"give either a {what} or --last", param_hint=what)
    return given or LATEST


async def find_task(app: "App", text: str) -> str:
    """The id of the task that `text` is or begins; with LATEST, of the task that was started last."""
    if text != LATEST:
        return await app.tasks.find(text)
    task = next(iter(await app.tasks.list(limit=1)), None)
    if task is None:
        raise NothingStored
    while task.called_by:  # who looks at a called agent looks at its caller
        task = await app.task(task.called_by)
    return (await app.tasks.conversation_of(task.session_id) or task).task_id


async def find_session(app: "App", name: str) -> str:
    """The session's name; with LATEST, that of the session that was used last."""
    if name != LATEST:
        return name
    for session in await app.sessions.list(1):
        return session.session_id
    raise NothingStored


def for_task(settings: Settings, name: str) -> Settings:
    """The settings with the agents file of a task, unless one is named."""

    async def find(app: "App") -> "Task | None":
        return await app.task(await find_task(app, name))

    return _with_agents_file(settings, find)[0]


def continued(settings: Settings) -> Settings:
    """The settings of a command that sends a message, with the agents file and agent of its session."""
    if not (settings.latest or settings.session):
        return settings
    return for_session(settings, LATEST if settings.latest else settings.session)


def for_session(settings: Settings, name: str, *, required: bool = True) -> Settings:
    """The settings with the agents file and the agent of a session's newest task, unless they are named.

    A missing file is an error only where it is `required`.
    """

    async def find(app: "App") -> "Task | None":
        return await app.tasks.newest(await find_session(app, name))

    found, task = _with_agents_file(settings, find, required=required)
    if task is None or settings.agent:
        return found
    return replace(found, agent=task.agent_id) if agent_is_remembered(task) else found


def for_snapshot(settings: Settings, text: str, *, required: bool = True) -> Settings:
    """As `for_session`, of the session that a snapshot belongs to, but without its agent."""

    async def find(app: "App") -> "Task | None":
        with suppress(SegueError):  # the command itself says what is wrong
            return await app.tasks.newest((await app.rewind.find(text)).session_id)
        return None

    return _with_agents_file(settings, find, required=required)[0]


def agent_is_remembered(task: "Task") -> bool:
    """Whether the task's agent is known without an agents file being named."""
    from ..registry import EXAMPLES

    return bool(task.agents_file) or task.agent_id in [agent.agent_id for agent in EXAMPLES]


def with_file_of(settings: Settings, task: "Task") -> Settings:
    """The settings with the agents file of a task, if it has one."""
    file = task.agents_file
    if not file:
        is_example = settings.agents_file == FOLDERS_AGENTS and agent_is_remembered(task)
        return replace(settings, agents_file="") if is_example else settings
    if not Path(file).is_file():
        raise ConfigurationError(
            "The agents file {file} of task {task_id} no longer exists: name it with --agents.",
            file=file,
            task_id=task.task_id,
        )
    return replace(settings, agents_file=file)


def _with_agents_file(
    settings: Settings, find: "Callable[[App], Awaitable[Task | None]]", *, required: bool = True
) -> "tuple[Settings, Task | None]":
    """The settings, and the task unless an agents file is named."""
    if settings.names_agents or not settings.exists:
        return settings, None
    with report_errors(settings):
        task = asyncio.run(_found(settings, find))
        if task is None:
            return settings, None
        try:
            return with_file_of(settings, task), task
        except ConfigurationError:
            if required:
                raise
    return settings, None


async def _found(settings: Settings, find: "Callable[[App], Awaitable[Task | None]]") -> "Task | None":
    from ..entry import open as open_app

    async with open_app(settings.database) as app:
        return await find(app)
