"""What tasks ask persons."""

from ..core.errors import QuestionClosed, TaskError
from ..core.records import Json, Task
from ..core.task_status import TaskStatus
from .decisions import interrupt_of, open_part, with_refusals
from .run import question_of, state_at, thread_config
from .runner import Runner
from .upgrades import version_question


class Questions:
    """The questions that tasks wait with."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def of(self, task_id: str) -> Json:
        """What a task asks the next person.

        Raises:
            UnknownTask, TaskError.
        """
        row = await self._runner.tasks.get(task_id)
        if row.asks_for_version:
            return version_question(row)
        return with_refusals(open_part(await self.whole(row), row), row)

    async def whole(self, row: Task) -> Json:
        """What a task asks, whatever some persons decided about it already.

        Raises:
            TaskError
        """
        state = await state_at(self._runner.graph, thread_config(row.thread_id))
        asked = question_of(state.interrupts)
        if row.status != TaskStatus.WAITING or not asked:
            raise TaskError(
                "Task {task_id} is {status}: it is not waiting for an answer.", task_id=row.task_id, status=row.status
            )
        return {**asked.value, "interrupt_id": asked.id}

    async def open(self, task_id: str, interrupt_id: str, *, later: bool = False) -> Json:
        """What a task asks the next person, which must be the question of that id, where one is given.

        With `later` somebody may have decided about some of it since.

        Raises:
            UnknownTask.
            TaskError: the task waits for no answer.
            QuestionClosed: that question is not open; it says what is.
        """
        row = await self._runner.tasks.get(task_id)
        if interrupt_id and row.status != TaskStatus.WAITING:
            raise QuestionClosed(task_id, interrupt_id, status=row.status)
        asked = await self.of(task_id)
        known = (asked["interrupt_id"], interrupt_of(asked["interrupt_id"]) if later else "")
        if interrupt_id and interrupt_id not in known:
            raise QuestionClosed(task_id, interrupt_id, asked)
        return asked
