"""The session that was used last and the task that was started last."""

from typing import TYPE_CHECKING

import typer

from ..core.errors import NothingStored

if TYPE_CHECKING:
    from ..app import App

LATEST = ""
"""In place of a task's id or a session's name."""


def named(given: str | None, last: bool, what: str = "TASK_ID") -> str:
    """What a command is about: what was given, or LATEST.

    Raises:
        typer.BadParameter: neither or both were given.
    """
    if last == bool(given):
        raise typer.BadParameter(f"give either a {what} or --last", param_hint=what)
    return given or LATEST


async def find_task(app: "App", text: str) -> str:
    """The id of the task that `text` is, or the beginning of; of the one that was started last.

    Raises:
        UnknownTask, NothingStored.
    """
    if text != LATEST:
        return await app.find_task(text)
    for task in await app.tasks.list(limit=1):
        return task.task_id
    raise NothingStored


async def find_session(app: "App", name: str) -> str:
    """The name of the session, or of the one that was used last.

    Raises:
        NothingStored.
    """
    if name != LATEST:
        return name
    for session in await app.sessions.list(1):
        return session.thread_id
    raise NothingStored
