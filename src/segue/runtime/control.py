"""What can be done with a task that there is: pause, resume, answer, steer, cancel."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from langgraph.types import StateSnapshot

from ..checkpoints.sqlite.database import Database
from ..checkpoints.sqlite.state_reading import state_at
from ..core.errors import IllegalTransition, TaskError
from ..core.events import Event, Resumed, Steered
from ..core.task_status import ACTIVE, ENDED, TaskStatus
from ..nodes.shared.approval import check_answer
from ..registry import Registry
from .cancellation import stopped
from .following import LOOK_EVERY, Follower
from .lease_holder import lives
from .queries import is_over
from .run import Row, question_of
from .runner import Runner, thread_config

CANCEL_SECONDS = 10.0
"""How long another process may take to give up a task that it runs."""


class Control(Follower):
    """The part of the app that works on tasks that were sent already."""

    def __init__(self, database: Database, registry: Registry, runner: Runner) -> None:
        super().__init__(database, runner)
        self._registry = registry

    async def resume(self, task_id: str, *, model: str = "") -> Row:
        """Go on with a task that was paused, crashed or failed; returns its result when it ends.

        `model` takes the place of the one that it began with.

        Raises:
            UnknownTask, ThreadBusy, ModelError.
            TaskError: it ended for good, waits for an answer, or a later task runs on its thread.
        """
        return await self._result(*await self._go_on(task_id, model=model))

    async def resume_and_follow(self, task_id: str, *, model: str = "") -> AsyncIterator[Event]:
        """As `resume`, but yields what happens from now on."""
        async for event in self._followed(task_id, model=model):
            yield event

    async def take_up(self, task_id: str, *, model: str = "", answer: Any = None) -> Row:
        """As `resume`, or `answer` where one is given, but returns the task's row as soon as it runs."""
        checked = None if answer is None else await self._checked(task_id, answer)
        row, _ = await self._go_on(task_id, model=model, answer=checked)
        return row

    async def answer(self, task_id: str, answer: Any) -> Row:
        """Answer the question that a task waits with, and go on; returns its result when it ends.

        `answer` is {"verdicts": [{"index", "verdict": approve | edit | reject, "arguments"?, "reason"?}]}, or "approve"
        or "reject" for all calls.

        Raises:
            UnknownTask, ThreadBusy, ModelError.
            InvalidAnswer: it does not fit the question; nothing was stored.
            TaskError: the task does not wait.
        """
        return await self._result(*await self._go_on(task_id, answer=await self._checked(task_id, answer)))

    async def answer_and_follow(self, task_id: str, answer: Any) -> AsyncIterator[Event]:
        """As `answer`, but yields what happens from now on."""
        async for event in self._followed(task_id, answer=await self._checked(task_id, answer)):
            yield event

    async def question(self, task_id: str) -> Row:
        """What a task waits with: {"interrupt_id", "kind": "approval", "calls": [{"index", "name", "arguments"}]}.

        Raises:
            UnknownTask.
            TaskError: it does not wait.
        """
        row = await self._runner.tasks.get(task_id)
        state = await state_at(self._runner.graph, thread_config(row["thread_id"]))
        asked = question_of(state.interrupts)
        if row["status"] != TaskStatus.WAITING or not asked:
            raise TaskError(f"Task «{task_id}» is {row['status']}: it waits for no answer.")
        return {**asked.value, "interrupt_id": asked.id}

    async def _checked(self, task_id: str, answer: Any) -> Row:
        question = await self.question(task_id)
        agent = self._registry.agent((await self._runner.tasks.get(task_id))["agent_id"])
        await self._registry.prepare(agent)
        verdicts = check_answer(question["calls"], self._registry.tools_for(agent), answer)
        value = {"verdicts": [verdict.model_dump(mode="json", exclude_none=True) for verdict in verdicts]}
        return {"interrupt_id": question["interrupt_id"], "value": value}

    async def _followed(self, task_id: str, **options: Any) -> AsyncIterator[Event]:
        seen = [form["seq"] for form in await self._runner.log.read(task_id)]
        await self._go_on(task_id, **options)
        async for event in self.follow(task_id, after=max(seen, default=0)):
            yield event

    async def _go_on(
        self, task_id: str, *, model: str = "", answer: Row | None = None, wait: float = 0.0
    ) -> tuple[Row, asyncio.Task[Row]]:
        """Take a task up again, with a person's answer if it waits for one."""
        known = await self._runner.tasks.get(task_id)
        await self._registry.prepare(self._registry.agent(known["agent_id"]))
        async with self._runner.leased(known["thread_id"], wait) as begin:
            row = await self._runner.tasks.get(task_id)
            await self._refuse_what_stands(row, answer)
            self._registry.model_for(self._registry.agent(row["agent_id"]), model or row["model"])
            changes = {"model": model or row["model"], "answer": answer or row["answer"], "wanted": None}
            began = row["status"] == TaskStatus.PENDING
            status = None if began else TaskStatus.RUNNING
            told = [] if began else [Resumed(task_id=task_id)]
            row = await self._runner.move(row, status, events=told, **changes)
            return row, begin(row)

    async def _refuse_what_stands(self, row: Row, answer: Row | None) -> None:
        """Raise TaskError for a task that cannot go on like this."""
        task_id, status = row["task_id"], row["status"]
        if status in ENDED:
            raise TaskError(f"Task «{task_id}» is {status}: there is nothing to resume; send a new message.")
        if answer is None and status == TaskStatus.WAITING:
            raise TaskError(
                f"Task «{task_id}» waits for a person: answer it with segue answer {task_id}, or cancel it."
            )
        if answer is not None and status != TaskStatus.WAITING:
            raise TaskError(f"Task «{task_id}» is {status}: it waits for no answer.")
        latest = await self._runner.tasks.latest_of(row["thread_id"])
        if latest and latest["task_id"] != task_id:
            raise TaskError(
                f"Session «{row['thread_id']}» went on with task «{latest['task_id']}»: send a new message."
            )

    async def _result(self, row: Row, run: "asyncio.Task[Row]") -> Row:
        try:
            result = await asyncio.shield(run)
        except asyncio.CancelledError:
            if not run.cancelled():
                raise
            result = stopped(row)
        status = (await self._runner.tasks.get(row["task_id"]))["status"]
        return {**result, "task_id": row["task_id"], "session_id": row["thread_id"], "status": status}

    async def resumable(self) -> list[Row]:
        """Every task to go on with, oldest first: paused, or `cut_off` by the end of its process."""
        rows = []
        for row in await self._runner.tasks.unfinished():
            if not lives(row["owner"]) and row["wanted"] != "cancel":
                rows.append({**row, "cut_off": row["status"] != TaskStatus.PAUSED})
        return rows

    async def find_task(self, text: str) -> str:
        """The id of the task that `text` is, or the beginning of.

        Raises:
            UnknownTask: there is none.
            TaskError: there are several, or `text` is too short to tell.
        """
        return await self._runner.tasks.find(text)

    async def pause(self, task_id: str) -> None:
        """Stop a task, of this process or another, at its next boundary; until then its status is pausing.

        Raises:
            UnknownTask.
            TaskError: it does not run.
        """
        row = await self._runner.tasks.get(task_id)
        if run := self._runner.run_of(task_id):
            return await self._runner.request_pause(run)
        if row["status"] not in ACTIVE:
            raise TaskError(f"Task «{task_id}» is {row['status']}: only a task that runs can be paused.")
        if await self._runner.leasing.held(row["thread_id"]):
            status = None if row["status"] == TaskStatus.PENDING else TaskStatus.PAUSING
            await self._move_unless_ended(row, status, wanted="pause")
        else:  # its process is gone
            async with self._runner.leased(row["thread_id"]):
                await self._move_unless_ended(row, TaskStatus.PAUSED, wanted="pause")

    async def _move_unless_ended(self, row: Row, status: TaskStatus | None, **changes: Any) -> None:
        now = await self._runner.tasks.get(row["task_id"])
        if now["wanted"] == "cancel":
            return
        try:
            await self._runner.move(row, None if now["status"] == status else status, **changes)
        except IllegalTransition:
            now = await self._runner.tasks.get(row["task_id"])
            raise TaskError(f"Task «{row['task_id']}» is {now['status']} meanwhile.") from None

    def stop_now(self, task_id: str) -> None:
        """Stop a running task without waiting for a boundary; it stays resumable."""
        if run := self._runner.run_of(task_id):
            run.stop()

    async def drain(self, seconds: float) -> None:
        """Pause what runs here, so that the next process goes on with it; after `seconds` stop it where it is."""
        await self._runner.drain(seconds)

    async def cancel(self, task_id: str) -> None:
        """Give up a task, wherever it runs or stands; its session takes the next message.

        What it did and wrote so far stays in the session's history, marked as interrupted.

        Raises:
            UnknownTask.
            TaskError: it ended already, or the process that runs it does not answer.
        """
        row = await self._runner.tasks.get(task_id)
        if is_over(row):
            raise TaskError(f"Task «{task_id}» is {row['status']}: there is nothing to cancel.")
        if (run := self._runner.run_of(task_id)) and run.task:
            run.cancel()
            await asyncio.wait([run.task])
        elif row["status"] in ACTIVE and await self._runner.leasing.held(row["thread_id"]):
            await self._runner.move(row, None, wanted="cancel")
            if not await self._until_it_stands(row, CANCEL_SECONDS):
                raise TaskError(
                    f"Task «{task_id}» still runs: its process was asked to cancel it, but does not answer."
                )
        if not is_over(await self._runner.tasks.get(task_id)):
            async with self._runner.leased(row["thread_id"]):
                row = await self._runner.tasks.get(task_id)
                if not is_over(row):
                    await self._runner.give_up(row)
        now = await self._runner.tasks.get(task_id)
        if now["status"] != TaskStatus.CANCELLED:
            raise TaskError(f"Task «{task_id}» is {now['status']} meanwhile: {now['error'] or 'it has its answer'}.")

    async def _until_it_stands(self, row: Row, seconds: float = math.inf) -> bool:
        """Wait until a task that runs elsewhere stands or its process is gone; False if it does not in `seconds`."""
        deadline = time.monotonic() + seconds
        while await self._runs_elsewhere(row["task_id"]):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_EVERY)
        return True

    async def _steer(self, row: Row, message: str) -> tuple[Row, asyncio.Task[Row]] | None:
        """Add a message to an unfinished task and go on with it; None where it only had its answer left to give.

        Raises:
            TaskError: it waits for an answer.
        """
        while row["status"] in ACTIVE:
            with suppress(TaskError):  # it may just have ended
                await self.pause(row["task_id"])
            await self._until_it_stands(row)
            row = await self._runner.tasks.get(row["task_id"])
        if row["status"] in ENDED:
            return None
        if await self._about_to_answer(row):
            await self._result(*await self._go_on(row["task_id"], wait=CANCEL_SECONDS))
            return None
        await self._refuse_what_stands(row, None)
        told = Steered(task_id=row["task_id"], message=message)
        await self._runner.add_note(row, message, told)
        return await self._go_on(row["task_id"], wait=CANCEL_SECONDS)

    async def _about_to_answer(self, row: Row) -> bool:
        """Whether the machine has decided on its answer, so that nothing can be added any more."""
        config = thread_config(row["thread_id"])
        state = await state_at(self._runner.graph, config, subgraphs=True)
        while state.tasks and isinstance(inner := state.tasks[0].state, StateSnapshot) and inner.tasks:
            state = inner
        return state.next == ("FINISH",) or (state.next == ("ANSWER",) and "decision" in state.values)
