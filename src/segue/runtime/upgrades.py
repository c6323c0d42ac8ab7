"""The question which version of its agent continues a task, and its answer."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

from ..core.errors import InvalidAnswer
from ..core.events import QuestionAsked
from ..core.question import read_answer
from ..core.records import Json, Task
from ..core.task_status import TaskStatus
from ..prompts.catalogue import phrase
from .runner import Runner

CONTINUE, PIN = "continue", "pin"


def version_question(row: Task) -> Json:
    """What a person is asked of a task with an `offered_version`."""
    versions = {"old": row.agent_version, "new": row.offered_version}
    named = "/".join([row.task_id, *map(str, versions.values())])
    return {
        "kind": "question",
        "question": phrase("which_version", row.reply_language, agent=row.agent_id, **versions),
        "choices": [CONTINUE, PIN],
        "interrupt_id": sha256(named.encode()).hexdigest()[:32],
    }


def version_answer(answer: Any) -> str:
    """What a person decided: continue or pin.

    Raises:
        InvalidAnswer: it is neither.
    """
    given = read_answer(answer)
    choice = given.text.lower()
    if given.manual_finish or choice not in (CONTINUE, PIN):
        raise InvalidAnswer("Answer continue or pin to choose the version that continues the task.")
    return choice


def decided_version(row: Task, choice: str) -> tuple[Task, Json]:
    """The task with what was decided, and the columns that change."""
    changes: Json = {"offered_version": None, "on_upgrade": PIN}
    if choice == CONTINUE:
        changes |= {"on_upgrade": None, "agent_version": row.offered_version}
    return replace(row, **changes), changes


async def ask_about_version(runner: Runner, row: Task, version: str, **changes: Any) -> Task:
    """Let a task wait until a person decides whether this version of its agent continues it."""
    question = version_question(replace(row, offered_version=version))
    about = {name: question[name] for name in ("interrupt_id", "question", "choices")}
    asked = QuestionAsked(task_id=row.task_id, **about)
    status = None if row.status == TaskStatus.WAITING else TaskStatus.WAITING
    return await runner.move(row, status, events=[asked], **{**changes, "offered_version": version})
