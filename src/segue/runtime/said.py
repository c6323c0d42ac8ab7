"""What a person said in a session, whether it was here that they did, and what else its prompts had."""

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from ..checkpoints.tables.tasks import Tasks
from ..core.attachments import read_attachment
from ..core.context import Said
from ..core.errors import UnknownTask
from ..core.records import Task


class Prompts(Protocol):
    """What the prompts of tasks have that nobody said in their session."""

    def reads_memory(self, mode: str) -> bool:
        """Whether the tasks of a mode read memory files."""
        ...

    def descriptions(self, task: Task) -> Sequence[Said]:
        """What others wrote of the tools of a task."""
        ...


MEMORY = Said("", trusted=False, kind="memory")
"""What an earlier task read of memory files: its answer may say it."""


async def said_in(tasks: Tasks, thread_id: str, prompts: Prompts, until: float = math.inf) -> Sequence[Said]:
    """The messages of a session with their files, and what was added to them, oldest first.

    `until` is when the last task that counts was created.
    """
    rows = await tasks.list(thread_id=thread_id, limit=-1)
    counted = [row for row in reversed(rows) if row.created_at <= until]
    last = counted[-1].task_id if counted else ""
    said = [each for row in counted for each in await _said(row, tasks)]
    earlier = [row for row in counted if row.task_id != last]
    return [*said, *_memory(earlier, prompts), *_descriptions(counted, prompts)]


def _memory(rows: Iterable[Task], prompts: Prompts) -> Sequence[Said]:
    """What earlier tasks read of memory files."""
    return [MEMORY] if any(map(prompts.reads_memory, {row.ran_mode for row in rows})) else []


def _descriptions(rows: Iterable[Task], prompts: Prompts) -> Iterable[Said]:
    """What others wrote of the tools of these tasks: their answers and the history may say it."""
    return dict.fromkeys(each for row in rows for each in prompts.descriptions(row))


class SaidSoFar:
    """What was said in the session of a task that runs; what was said before it is read once."""

    def __init__(
        self,
        tasks: Tasks,
        task: Task,
        notes: Callable[[str], Awaitable[Sequence[str]]],
        prompts: Prompts,
    ) -> None:
        self._tasks = tasks
        self._task = task
        self._notes = notes
        self._prompts = prompts
        self._before: Sequence[Said] | None = None

    async def __call__(self) -> Sequence[Said]:
        if self._before is None:
            rows = await self._tasks.list(thread_id=self._task.thread_id, limit=-1)
            others = [row for row in reversed(rows) if row.task_id != self._task.task_id]
            said = [each for row in others for each in await _said(row, self._tasks)]
            described = _descriptions([*others, self._task], self._prompts)
            self._before = [*said, *_memory(others, self._prompts), *described]
        task = replace(self._task, notes=[*await self._notes(self._task.task_id)])
        return [*self._before, *await _said(task, self._tasks)]


async def _said(row: Task, tasks: Tasks) -> Sequence[Said]:
    own, files = await _is_own(row, tasks), tuple(read_attachment(form) for form in row.attachments)
    return [Said(row.message, own, files), *(Said(note, own) for note in row.notes)]


async def _is_own(row: Task, tasks: Tasks) -> bool:
    """Whether a message was sent here: a copy has its original, with the same words; that of an import has none."""
    while row.copy_of:
        try:
            original = await tasks.get(row.copy_of)
        except UnknownTask:
            return False
        if original.message != row.message or not set(row.notes) <= set(original.notes):
            return False
        row = original
    return True
