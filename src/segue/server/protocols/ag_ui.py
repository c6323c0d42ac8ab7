"""A task's events as AG-UI's."""

import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder

from ...core.events import Event, ToolCall, ToolResult
from ...core.records import Json, Task
from ...prompts.language import Language
from ...prompts.protocols import answer_schema, question_text, stop_notice
from ...runtime.projection import call_id
from ...runtime.reply_stream import (
    Added,
    CallClosed,
    CallOpened,
    Closed,
    Kind,
    Opened,
    Part,
    PlanChanged,
    ReplyStream,
    RoundOpened,
)
from ..readers.ag_ui import PAUSED, RunInput
from ..readers.client_tools import waiting_calls
from ..service import Service
from ..sse.stream import events_of, unbroken
from ..sse.truncation import readable
from ..tenants import Tenant
from ..views import outcome, plan_view


class Translation:
    """One run's events, with the message and the round that are open."""

    def __init__(self, run: RunInput, row: Task) -> None:
        self._run = run
        self._row = row
        self._language: Language = row.language or "en"
        self._message_id, self._round = "", ""
        self._count = 0
        self._announced: set[str] = set()
        self._reply = ReplyStream({spec["function"]["name"] for spec in row.client_tools})

    def start(self, before: Iterable[Event]) -> Iterator[BaseEvent]:
        """The events that begin the run: with the state, and the plan where the task made one in an earlier run."""
        yield RunStartedEvent(thread_id=self._run.thread_id, run_id=self._run.run_id)
        self._reply.recall(before)
        if self._reply.task.plan or self._run.own_state:
            yield self._state()

    def _state(self) -> BaseEvent:
        task = self._reply.task
        plan = {"plan": plan_view(task)} if task.plan else {}
        return StateSnapshotEvent(snapshot={**self._run.own_state, **plan})

    def of(self, event: Event) -> Iterator[BaseEvent]:
        """An event as AG-UI's."""
        for part in self._reply.of(event):
            yield from self._of(part)

    def _of(self, part: Part) -> Iterator[BaseEvent]:
        """A part as AG-UI's events; after what is discarded, which cannot be taken back, a new message begins."""
        match part:
            case Opened(kind):
                yield from self._open(kind)
            case Added(Kind.TEXT, text):
                yield TextMessageContentEvent(message_id=self._message_id, delta=text)
            case Added(Kind.THOUGHT, text):
                yield ReasoningMessageContentEvent(message_id=self._message_id, delta=text)
            case Closed(kind):
                yield from self._close(kind)
            case RoundOpened(iteration):
                yield from self._begin_round(f"round {iteration}")
            case CallOpened(call):
                yield from self._begin_call(call)
            case CallClosed(result):
                yield self._end_call(result)
            case PlanChanged():
                yield self._state()

    def finish(self, result: Json) -> Iterator[BaseEvent]:
        """The events that end the run."""
        for part in self._reply.end(str(result["answer"])):
            yield from self._of(part)
        for call in waiting_calls(result):
            yield from self._send_call(call["id"], call["name"], call["arguments"])
        yield from self._end_round()
        if result["status"] == "error":
            yield RunErrorEvent(message=str(result.get("error") or ""), code="task_failed")
            return
        usage = result.get("usage") or {}
        yield RunFinishedEvent(
            thread_id=self._run.thread_id,
            run_id=self._run.run_id,
            outcome=self._outcome(result),
            result={name: result.get(name) for name in ("task_id", "session_id", "status", "mode")},
            usage=[TokenUsage(input_tokens=usage["input"], output_tokens=usage["output"])] if usage else None,
        )

    def _outcome(self, result: Json) -> Any:
        if result["status"] == "done" or waiting_calls(result):
            return RunFinishedSuccessOutcome()
        if result["status"] == "cancelled":
            return RunFinishedCancelledOutcome()
        if result["status"] == "waiting":
            asked = result["question"]
            interrupt = Interrupt(
                id=asked["interrupt_id"],
                reason=asked["kind"],
                message=question_text(asked, self._language),
                response_schema=answer_schema(asked),
                metadata={"calls": asked["calls"]} if asked["kind"] == "approval" else None,
            )
        else:
            message = stop_notice(result["status"], self._language)
            interrupt = Interrupt(id=f"{PAUSED}{self._row.task_id}", reason="paused", message=message)
        return RunFinishedInterruptOutcome(interrupts=[interrupt])

    # The answer, the thinking, the rounds.

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{self._run.run_id}-{kind}-{self._count}"

    def _open(self, kind: Kind) -> Iterator[BaseEvent]:
        if kind is Kind.TEXT:
            self._message_id = self._new_id("answer")
            yield TextMessageStartEvent(message_id=self._message_id, role="assistant")
        else:
            self._message_id = self._new_id("thought")
            yield ReasoningStartEvent(message_id=self._message_id)
            yield ReasoningMessageStartEvent(message_id=self._message_id)

    def _close(self, kind: Kind) -> Iterator[BaseEvent]:
        if kind is Kind.TEXT:
            yield TextMessageEndEvent(message_id=self._message_id)
        else:
            yield ReasoningMessageEndEvent(message_id=self._message_id)
            yield ReasoningEndEvent(message_id=self._message_id)

    def _begin_round(self, name: str) -> Iterator[BaseEvent]:
        yield from self._end_round()
        self._round = name
        yield StepStartedEvent(step_name=name)

    def _end_round(self) -> Iterator[BaseEvent]:
        if self._round:
            yield StepFinishedEvent(step_name=self._round)
        self._round = ""

    # Calls and the plan.

    def _begin_call(self, event: ToolCall | ToolResult) -> Iterator[BaseEvent]:
        """Announce a call once in a run; where it waited for approval, the next run announces it by the same id."""
        if (named := _call_id(event)) in self._announced:
            return
        self._announced.add(named)
        yield from self._send_call(named, event.name, event.arguments)

    def _send_call(self, named: str, name: str, arguments: Json) -> Iterator[BaseEvent]:
        yield ToolCallStartEvent(tool_call_id=named, tool_call_name=name)
        yield ToolCallArgsEvent(tool_call_id=named, delta=readable(arguments))
        yield ToolCallEndEvent(tool_call_id=named)

    def _end_call(self, event: ToolResult) -> BaseEvent:
        named, content = _call_id(event), readable(event.result)
        return ToolCallResultEvent(message_id=f"{named}-result", tool_call_id=named, content=content, role="tool")


def _call_id(event: ToolCall | ToolResult) -> str:
    """One id for a call in all runs: its place in the task."""
    return ":".join(map(str, (event.task_id, *call_id(event))))


def frames(service: Service, tenant: Tenant, run: RunInput, row: Task, after: int) -> AsyncGenerator[bytes, None]:
    """The frames of a run's stream."""
    translation = Translation(run, row)
    whole = _frames(service, tenant, translation, row, after)
    return unbroken(whole, tenant, row, lambda result: _encoded(translation.finish({**result, "status": "error"})))


async def _frames(
    service: Service, tenant: Tenant, translation: Translation, row: Task, after: int
) -> AsyncGenerator[bytes, None]:
    before = await service.app.tasks.events(row.task_id, limit=after) if after else []
    for frame in _encoded(translation.start(before)):
        yield frame
    async with aclosing(events_of(service, row.task_id, after, so_far=True)) as events:
        async for event in events:
            for frame in _encoded(translation.of(event)):
                yield frame
    for frame in _encoded(translation.finish(await outcome(service.app, tenant, row.task_id))):
        yield frame


def _encoded(translated: Iterator[BaseEvent]) -> Iterator[bytes]:
    encoder = EventEncoder()
    for event in translated:
        event.timestamp = int(time.time() * 1000)
        yield encoder.encode(event).encode()
