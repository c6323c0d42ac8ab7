"""Tasks that wait for a moment or an event, continued by whichever process is there."""

import logging
from datetime import UTC, datetime

from ..checkpoints.storage import Storage
from ..core.errors import DatabaseUnavailable, QuestionClosed, SegueError, ThreadBusy
from ..core.question import WAIT
from ..core.records import Json, Task
from .control import Control
from .due import Due, PutOff
from .relay import Observer

logger = logging.getLogger(__name__)

RETRY_SECONDS = 30.0
"""Seconds until a task that could not be continued is tried again."""


class Waits(Observer):
    """Continues tasks whose wait is over. As an observer it hears of those that begin to wait here."""

    def __init__(self, storage: Storage, control: Control, due: Due) -> None:
        self._events = storage.sent_events
        self._control = control
        self._due = due
        self._put_off = PutOff()
        due.jobs["wait"] = self

    def stopped(self, task: Task) -> None:
        if task.continues_itself:
            self._due.wake()

    async def take(self, now: float, only: str = "") -> None:
        """Continue the tasks that are due, or `only` one of them, as far as their agents are here."""
        for task_id, agent_id in await self._events.due(now):
            is_meant = not only or task_id == only
            if is_meant and agent_id in self._control.registry and not self._put_off.has(task_id, now):
                await self._take(task_id, now)

    async def _take(self, task_id: str, now: float) -> None:
        try:
            question = await self._control.questions.of(task_id)
            if question["kind"] == WAIT:
                await self._end(task_id, question, now)
        except (QuestionClosed, ThreadBusy):  # another process was faster
            self._put_off.put_off(task_id, now + 1.0)
        except DatabaseUnavailable:
            raise
        except SegueError as error:
            logger.warning("Task %s does not continue: %s", task_id, error)
            self._put_off.put_off(task_id, now + RETRY_SECONDS)
        except Exception:
            logger.exception("Task %s does not continue", task_id)
            self._put_off.put_off(task_id, now + RETRY_SECONDS)

    async def _end(self, task_id: str, question: Json, now: float) -> None:
        until, name = question["until"], question["event"]
        event = await self._events.next(task_id, name) if name else None
        if event is not None:
            value: Json = {"event": name, **event.data}
        elif until is None or until > now:  # nothing came after all
            return await self._events.set_due(task_id, until)
        else:
            value = {"until": datetime.fromtimestamp(until, UTC).isoformat()}
        checked = {"interrupt_id": question["interrupt_id"], "value": value}
        await self._control.resume_with(task_id, checked, taken=event.position if event else None)
