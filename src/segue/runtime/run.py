"""One task that runs in this process, and the ways to stop it."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot

from ..core.attachments import naming
from ..core.events import AttemptRestarted, Event, Fallback, Token
from ..core.question import PAUSE
from ..core.records import Json, Task
from ..nodes.shared.task import GraphInput
from .capacity import Place
from .reply_stream import ReplyText

REQUESTED = "a pause was requested"
LEASE_LOST = "another process took over the session"


@dataclass
class Run:
    """A task's row, the fence that it writes under, and what was streamed of its answer so far.

    It is `stoppable` while the graph runs: its final status is then stored without interruption.
    """

    row: Task
    fence: int
    place: Place
    control: RunControl = field(default_factory=RunControl)
    task: "asyncio.Task[Json] | None" = None
    stoppable: bool = False
    cancelled: bool = False
    abandoned: bool = False
    """Its lease is left to expire: the database failed the task."""
    reply: ReplyText = field(default_factory=ReplyText)
    stored: int = 0
    """The number of its last stored event, as far as this process stored any."""
    streamed: dict[tuple[str, str], int] = field(default_factory=dict)
    """Characters that were streamed, by the type of the event and by the model call."""

    @property
    def partial(self) -> str:
        """What was streamed of the answer and not discarded."""
        return self.reply.whole

    @property
    def reason(self) -> str:
        """Why it was stopped."""
        return self.control.drain_reason or ""

    def pause(self, reason: str) -> None:
        """Stop at the next boundary, or in the queue; the first reason counts, unless the lease is lost.

        From any thread.
        """
        if not self.reason or reason == LEASE_LOST:
            self.control.request_drain(reason)
        with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
            self.place.get_loop().call_soon_threadsafe(self._leave_queue)

    def _leave_queue(self) -> None:
        if not self.place.done():
            self.place.set_result(False)

    def stop(self) -> None:
        """Stop where it is: the step under way runs again on resume, its finished tool calls do not."""
        if self.stoppable and self.task is not None:
            self.task.cancel()
        else:
            self.pause("stopped before it began")

    def cancel(self) -> None:
        """Stop where it is and for good; once is enough, a second time would interrupt the storing of its result."""
        if not self.cancelled:
            self.cancelled = True
            self.stop()

    def note(self, event: Event) -> None:
        """Keep what is streamed of the answer, without what another attempt or mode discards."""
        if isinstance(event, Token):
            self.reply.add(event.content, event.trace_id)
        elif isinstance(event, AttemptRestarted | Fallback):
            self.reply.discard(event)


def retrieve_error(run: asyncio.Task[Json]) -> None:
    """What a run raised was stored with its task, so that asyncio does not warn about it."""
    if not run.cancelled():
        run.exception()


def is_of_task(state: StateSnapshot, task_id: str) -> bool:
    """Whether the thread's newest checkpoint belongs to this task."""
    values = state.values or {}
    return task_id in (values.get("task_id"), (values.get("assignment") or {}).get("task_id"))


Given = GraphInput | Command[Any] | None
"""What the graph of a task is invoked with; None to go on."""


def message_of(row: Task) -> Given:
    """The message that a task begins with."""
    message = HumanMessage(row.message, additional_kwargs=naming(row.attachments))
    return {"messages": [message], "assignment": {"task_id": row.task_id}}


def continued(state: StateSnapshot, row: Task) -> Given:
    """The message, if the graph does not have it yet, a person's answer, or None."""
    if not is_of_task(state, row.task_id):
        return message_of(row)
    answer = row.answer
    if answer and any(question.id == answer["interrupt_id"] for question in state.interrupts):
        return Command(resume={answer["interrupt_id"]: answer["value"]})
    return None


def question_of(interrupts: Iterable[Interrupt]) -> Interrupt | None:
    """What a person is asked, if a graph that stopped asks anything."""
    return next((asked for asked in interrupts if asked.value != {"kind": PAUSE}), None)
