"""Pause, cancel, recover: what each came to, as lines."""

from typing import TYPE_CHECKING

from ..command_lines import continue_command, task_command
from ..dialog.hints import continue_hint
from ..exits import FAILED
from ..latest import find_task
from ..settings import Settings
from ..views.sanitize import printable
from ..views.tables import when

if TYPE_CHECKING:
    from ...app import App


async def paused(app: "App", settings: Settings, text: str) -> list[str]:
    """Ask a task to pause, and say how to go on with it."""
    task_id = await find_task(app, text)
    await app.pause(task_id)
    status = (await app.tasks.get(task_id)).status
    name = {"paused": "task_paused", "done": "task_ended"}.get(status, "task_pausing")
    resume = [] if status == "done" else [task_command(settings, "resume", task_id)]
    return [settings.say(name, task_id=task_id), *resume]


async def cancelled(app: "App", settings: Settings, text: str) -> list[str]:
    """Cancel a task, and say what stays of it."""
    task_id = await find_task(app, text)
    await app.cancel(task_id)
    task = await app.tasks.get(task_id)
    unknown = (task.result or {}).get("unknown_outcomes") or []
    names = ", ".join(printable(call["name"]) for call in unknown)
    warning = [settings.say("check_calls", names=names)] if names else []
    return [settings.say("session_accepts_next", task_id=task_id, session=task.thread_id), *warning]


async def recovered(app: "App", settings: Settings, session: str) -> tuple[list[str], int]:
    """Repair a session and take it back to the newest snapshot that can be read.

    Returns what was done, how to go on, and the exit code: it failed where no snapshot can be read.
    """
    back = await app.sessions.recover(session, settings.language_for(""))
    if not back.dropped and not back.repaired:
        return [settings.say("nothing_damaged", session=session)], 0
    dropped = [
        settings.say("went_back", session=session, at=when(back.created_at), checkpoint=back.checkpoint_id),
        settings.say("dropped", n=back.dropped),
    ]
    kept = [settings.say("copy_kept", copy=back.copy)] if back.copy else []
    lines = [
        *(dropped if back.dropped else []),
        *(printable(sentence) for sentence in back.repaired),
        *kept,
        *(await _next_command(app, settings, session) if back.readable else []),
    ]
    return lines, 0 if back.readable else FAILED


async def _next_command(app: "App", settings: Settings, session: str) -> list[str]:
    task = await app.tasks.newest(session)
    if task is None:
        return [settings.say("to_continue"), continue_command(settings, session)]
    if task.is_over:
        return [*continue_hint(settings, task)]
    verb = "answer" if task.status == "waiting" else "resume"
    return [settings.say("to_continue"), task_command(settings, verb, task.task_id)]
