"""What to do where a session does not accept a message, or a task waits, as commands ready to be run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.approval import ApprovalTerms
from ..core.calls import REVIEW_PLAN, WAIT
from ..core.errors import TaskUnfinished, ThreadBusy
from ..core.reviews import DECISIONS, RESPOND, list_decisions
from ..core.spend import SPEND
from ..core.task import ACTIVE, TaskStatus
from .exits import sentence_of
from .lookup import agent_is_remembered
from .settings import MOST, Settings, continue_command, places, send_command, task_command
from .verdicts import Call

if TYPE_CHECKING:
    from ..app import App
    from ..core.records import Task


WAIT_SECONDS = "60"


def continue_hint(settings: Settings, task: "Task") -> tuple[str, str]:
    """A heading, and the command that continues a task's session with its agent in another process."""
    if agent_is_remembered(task):
        settings = replace(settings, agents_file="", agent="")
    else:
        settings = replace(settings, agent=task.agent_id)
    command = continue_command(replace(settings, user=task.user_id), task.session_id)
    return settings.say("continue_session"), command


def answer_hints(settings: Settings, task_id: str, question: Mapping[str, Any]) -> list[str]:
    """How to answer the question that a task waits with."""
    if question["kind"] == WAIT:
        running = " ".join(["segue schedules --run", *places(settings)])
        event = [task_command(settings, "event", task_id, question["event"])] if question["event"] else []
        return [settings.say("continues_itself", command=running), *event]
    if question["kind"] == "approval":
        return _verdict_hints(settings, task_id, question["calls"])
    ending = _choice(settings.say("end_task"), task_command(settings, "answer", task_id, "--finish"))
    if question["kind"] == SPEND:
        higher = task_command(settings, "answer", task_id, (question.get("spend") or question)["suggestion"])
        return [
            *_choice(settings.say("raise_limit"), higher),
            *_choice(settings.say("cancel_it"), _cancel(settings, task_id)),
        ]
    return [
        *_choice(settings.say("answer_here"), task_command(settings, "answer", task_id)),
        *_choice(settings.say("answer_by_text"), task_command(settings, "answer", task_id, "ANSWER")),
        *(ending if question["kind"] == "question" else []),
    ]


def _verdict_hints(settings: Settings, task_id: str, calls: Sequence[Call]) -> list[str]:
    """How to decide on calls."""
    first = calls[0]["index"]
    edited = f"{first}={json.dumps(calls[0]['arguments'], ensure_ascii=False)}"
    is_short = len(edited) <= MOST and edited.isprintable()
    shown = edited if is_short else f"{first}={{}}"
    options = {
        "approve": ("--approve", "all"),
        "edit": ("--edit", shown),
        "reject": ("--reject", "REASON"),
        RESPOND: ("--respond", "RESULT"),
    }
    if calls[0]["name"] == REVIEW_PLAN and not is_short:
        del options["edit"]  # a plan without steps is refused
    commands: list[str] = []
    for decision, option in options.items():
        if all(decision in list_decisions(call) for call in calls):
            commands.append(task_command(settings, "answer", task_id, *option))
    if commands and not any(DECISIONS in call or ApprovalTerms.of(call).each_call for call in calls):
        commands.insert(1, task_command(settings, "answer", task_id, "--always", "session"))
    return [
        *_choice(settings.say("decide_here"), task_command(settings, "answer", task_id)),
        *(_choice(settings.say("decide_by_options"), *commands) if commands else ()),
    ]


async def alternatives(app: "App", settings: Settings, refused: TaskUnfinished | ThreadBusy, message: str) -> list[str]:
    """What to do instead of sending the message to a session that does not take it."""
    task = await app.tasks.newest(settings.session)
    if task and isinstance(refused, TaskUnfinished):
        return _unfinished(settings, task, message)
    here = ("--session", settings.session)
    choices = [
        *_choice(settings.say("wait_for_it"), send_command(settings, message, *here, "--wait", WAIT_SECONDS)),
        *_choice(settings.say("other_session"), send_command(settings, message)),
    ]
    if task:
        steering = send_command(settings, message, *here, "--steer")
        choices += _choice(settings.say("pause_running"), task_command(settings, "pause", task.task_id))
        choices += _choice(settings.say("add_to_running"), steering)
    return choices


async def busy_hints(app: "App", settings: Settings, task_id: str, refused: ThreadBusy) -> list[str]:
    """Why a task cannot be resumed while its session is busy, and what to do instead."""
    thread_id = (await app.task(task_id)).session_id
    (latest,) = await app.tasks.list(session_id=thread_id, limit=1)
    pausing = task_command(settings, "pause", latest.task_id)
    if latest.status not in ACTIVE:
        return [sentence_of(refused, settings)]
    if latest.task_id != task_id:
        return [sentence_of(refused, settings), *_choice(settings.say("pause_running"), pausing)]
    watching = _choice(settings.say("see_progress"), task_command(settings, "trace", task_id))
    if latest.status == TaskStatus.PAUSING:
        return [settings.say("pausing_elsewhere", task_id=task_id), *watching]
    runs = settings.say("runs_elsewhere", task_id=task_id)
    return [runs, *watching, *_choice(settings.say("pause_and_resume"), pausing)]


async def unfinished_hint(app: "App", settings: Settings, session_id: str) -> list[str]:
    """How to see what a session's unfinished task did: a turn is in the history once it has ended."""
    task = await app.tasks.newest(session_id)
    if task is None or task.is_over:
        return []
    return _choice(settings.say("unfinished_hidden"), task_command(settings, "trace", task.task_id))


def _cancel(settings: Settings, task_id: str) -> str:
    return task_command(settings, "cancel", task_id)


def _unfinished(settings: Settings, task: "Task", message: str) -> list[str]:
    cancel = _choice(settings.say("cancel_it"), _cancel(settings, task.task_id))
    if task.status == TaskStatus.WAITING:
        return [*_choice(settings.say("answer_it"), task_command(settings, "answer", task.task_id)), *cancel]
    steer = send_command(settings, message, "--session", task.session_id, "--steer")
    return [
        *_choice(settings.say("resume_it"), task_command(settings, "resume", task.task_id)),
        *cancel,
        *_choice(settings.say("add_and_resume"), steer),
    ]


def _choice(what: str, *commands: str) -> list[str]:
    return [what, *(f"  {command}" for command in commands)]
