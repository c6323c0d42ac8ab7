"""A task's events as AG-UI's."""

import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
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

from ...core.events import (
    AttemptRestarted,
    Event,
    Fallback,
    PlanUpdate,
    RecursionStart,
    StepUpdate,
    Thinking,
    Token,
    ToolCall,
    ToolResult,
)
from ...core.question import CLIENT_CALLS
from ...core.records import Json, Task
from ...prompts.elicitation import answer_schema, question_text, stop_notice
from ...prompts.language import Language
from ...prompts.phrases import is_banner
from ...runtime.projection import Projection, call_id
from ..service import Service
from ..sse.stream import events_of, unbroken
from ..sse.truncation import readable
from ..tenants import Tenant
from ..views import outcome, plan_view
from .bodies import RunInput
from .runs import PAUSED


class Translation:
    """One run's events, with what is open between them: a message, a thought, a round."""

    def __init__(self, run: RunInput, row: Task) -> None:
        self._run = run
        self._row = row
        self._language: Language = row.language or "en"
        self._text, self._text_id, self._thought_id, self._round = "", "", "", ""
        self._count = 0
        self._announced: set[str] = set()
        self._client_tools = {spec["function"]["name"] for spec in row.client_tools}
        self._task = Projection()

    def start(self, before: Iterable[Event]) -> Iterator[BaseEvent]:
        """The events that begin the run: with the state, and the plan where the task made one in an earlier run."""
        yield RunStartedEvent(thread_id=self._run.thread_id, run_id=self._run.run_id)
        for event in before:
            self._task.fold(event)
        if self._task.plan or self._run.own_state:
            yield self._state()

    def _state(self) -> BaseEvent:
        plan = {"plan": plan_view(self._task)} if self._task.plan else {}
        return StateSnapshotEvent(snapshot={**self._run.own_state, **plan})

    def of(self, event: Event) -> Iterator[BaseEvent]:
        """An event as AG-UI's."""
        self._task.fold(event)
        match event:
            case Token():
                yield from self._add_text(event.content)
            case Thinking() if not is_banner(event.content):
                yield from self._add_thought(event.content)
            case AttemptRestarted() | Fallback():
                # What was streamed cannot be taken back: what follows is a new message.
                yield from self._end_text()
                self._text = ""
            case RecursionStart():
                yield from self._begin_round(f"round {event.iteration}")
            case ToolCall() | ToolResult() if event.name in self._client_tools:
                pass  # the client is sent the call when the run ends with it, and knows its result
            case ToolCall():
                yield from self._begin_call(event)
            case ToolResult():
                yield from self._end_call(event)
            case PlanUpdate() | StepUpdate() if self._task.plan:
                yield self._state()

    def finish(self, result: Json) -> Iterator[BaseEvent]:
        """The events that end the run."""
        if result["status"] == "done" or result["answer"]:
            yield from self._complete_text(str(result["answer"]))
        yield from self._end_text()
        yield from self._end_thought()
        for call in self._client_calls(result):
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

    def _client_calls(self, result: Json) -> Sequence[Json]:
        """The calls that the client is to carry out, where the task waits with some."""
        return (result.get("question") or {}).get(CLIENT_CALLS, ()) if result["status"] == "waiting" else ()

    def _outcome(self, result: Json) -> Any:
        if result["status"] == "done" or self._client_calls(result):
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

    def _add_text(self, content: str) -> Iterator[BaseEvent]:
        if not content:
            return
        yield from self._end_thought()
        if not self._text_id:
            self._text_id, self._text = self._new_id("answer"), ""
            yield TextMessageStartEvent(message_id=self._text_id, role="assistant")
        self._text += content
        yield TextMessageContentEvent(message_id=self._text_id, delta=content)

    def _complete_text(self, answer: str) -> Iterator[BaseEvent]:
        """The rest of the answer; a whole message where what was streamed is not its beginning."""
        if answer == self._text:
            return
        if self._text_id and answer.startswith(self._text):
            answer = answer[len(self._text) :]
        else:
            yield from self._end_text()
        yield from self._add_text(answer)

    def _end_text(self) -> Iterator[BaseEvent]:
        if self._text_id:
            yield TextMessageEndEvent(message_id=self._text_id)
        self._text_id = ""

    def _add_thought(self, content: str) -> Iterator[BaseEvent]:
        if not content:
            return
        yield from self._end_text()
        if not self._thought_id:
            self._thought_id = self._new_id("thought")
            yield ReasoningStartEvent(message_id=self._thought_id)
            yield ReasoningMessageStartEvent(message_id=self._thought_id)
        yield ReasoningMessageContentEvent(message_id=self._thought_id, delta=content)

    def _end_thought(self) -> Iterator[BaseEvent]:
        if self._thought_id:
            yield ReasoningMessageEndEvent(message_id=self._thought_id)
            yield ReasoningEndEvent(message_id=self._thought_id)
        self._thought_id = ""

    def _begin_round(self, name: str) -> Iterator[BaseEvent]:
        yield from self._end_thought()
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
        yield from self._end_text()
        yield from self._end_thought()
        if (named := _call_id(event)) in self._announced:
            return
        self._announced.add(named)
        yield from self._send_call(named, event.name, event.arguments)

    def _send_call(self, named: str, name: str, arguments: Json) -> Iterator[BaseEvent]:
        yield ToolCallStartEvent(tool_call_id=named, tool_call_name=name)
        yield ToolCallArgsEvent(tool_call_id=named, delta=readable(arguments))
        yield ToolCallEndEvent(tool_call_id=named)

    def _end_call(self, event: ToolResult) -> Iterator[BaseEvent]:
        yield from self._begin_call(event)
        named, content = _call_id(event), readable(event.result)
        yield ToolCallResultEvent(message_id=f"{named}-result", tool_call_id=named, content=content, role="tool")


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
