"""A task's events as AG-UI's."""

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from ag_ui.core import (
    PROTOCOL_VERSION,
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    Interrupt,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
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
from jsonpatch import make_patch
from pydantic import ValidationError

from ...core.errors import MemoryUnavailable
from ...core.events import BranchEnd, BranchStart, Event, ToolCall, ToolResult
from ...core.records import Json, Task
from ...prompts.protocols import answer_schema, question_text, stop_notice
from ...runtime.projection import call_id
from ...runtime.reply_stream import (
    Added,
    CallClosed,
    CallOpened,
    Closed,
    Discarded,
    Kind,
    Opened,
    Part,
    ReplyStream,
    RoundOpened,
)
from ..readers.ag_ui import PAUSED, USER, RunInput, interrupt_ids
from ..readers.client_tools import waiting_calls
from ..service import Service
from ..stream import events_of, with_error_frames
from ..tenants import Tenant
from ..truncation import readable
from ..views import outcome, plan_view


class ClientThread:
    """A client's messages, as it sent them and as the run's events add to them.

    A snapshot of them gives a new client what it lacks, and takes back what does not count any more.
    """

    def __init__(self, run: RunInput, row: Task) -> None:
        self._run, self._row = run, row
        self._before = [said.model_dump(by_alias=True, exclude_unset=True) for said in run.known]
        self._made: dict[str, Json] = {}
        self._calls = {call.id for said in run.known for call in said.tool_calls or ()}
        self.is_open = False
        """Whether a text is being written."""

    def has_call(self, named: str) -> bool:
        """Whether the client has the call of this id."""
        return named in self._calls

    def corrected(self, earlier: Sequence[Task], continues: bool) -> Iterator[BaseEvent]:
        """The messages that the client should have where it has others.

        `earlier` are the tasks of the thread before this one, which a client that knows the thread has the messages of;
        `continues` says that this one began in an earlier run.
        """
        lacking = [said for task in earlier for said in _turn(task)]
        if continues and not self._run.has_history:
            lacking.append(_asked(self._row))
        if lacking:  # clients leave a message that they have where it is, so the new one gets another id
            named = f"{self._run.prefix}{USER}" if continues else _asked(self._row)["id"]
            self._before = [*lacking, *({**said, "id": named} for said in self._before)]
        if lacking or len(self._run.known) < len(self._run.messages):
            yield from self._snapshot()

    def retracted(self, kept: int) -> Iterator[BaseEvent]:
        """The messages without those of the run's text after its first `kept` characters."""
        for named, said in [*self._made.items()]:
            if said["role"] == "assistant" and "content" in said:
                kept -= len(said["content"])
                if kept < 0:
                    del self._made[named]
        yield from self._snapshot()

    def _snapshot(self) -> Iterator[BaseEvent]:
        """All messages; nothing where the client has some that are not the protocol's."""
        try:
            yield MessagesSnapshotEvent.model_validate({"messages": [*self._before, *self._made.values()]})
        except ValidationError:
            return

    def add(self, event: BaseEvent) -> None:
        """Take in an event of the run."""
        match event:
            case TextMessageStartEvent(message_id=named):
                self.is_open = True
                self._made[named] = {"id": named, "role": "assistant", "content": ""}
            case TextMessageEndEvent():
                self.is_open = False
            case ReasoningMessageStartEvent(message_id=named):
                self._made[named] = {"id": named, "role": "reasoning", "content": ""}
            case TextMessageContentEvent(message_id=named) | ReasoningMessageContentEvent(message_id=named):
                self._made[named]["content"] += event.delta
            case ToolCallStartEvent(tool_call_id=named):
                self._calls.add(named)
                call = {"id": named, "function": {"name": event.tool_call_name, "arguments": ""}}
                self._made[named] = {"id": named, "role": "assistant", "toolCalls": [call]}
            case ToolCallArgsEvent(tool_call_id=named):
                self._made[named]["toolCalls"][0]["function"]["arguments"] += event.delta
            case ToolCallResultEvent(message_id=named):
                result = {"toolCallId": event.tool_call_id, "content": event.content}
                self._made[named] = {"id": named, "role": "tool", **result}


def _asked(task: Task) -> Json:
    return {"id": f"{task.task_id}:{USER}", "role": "user", "content": task.message}


def _turn(task: Task) -> list[Json]:
    """What was said in a task that ended."""
    answer = (task.result or {}).get("answer")
    answered = [{"id": f"{task.task_id}:answer", "role": "assistant", "content": str(answer)}] if answer else []
    return [_asked(task), *answered]


TURNS = 50
"""How many earlier turns a client is given that has none of them."""
APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "other arguments, all of them"},
        "reason": {"type": "string", "description": "why not"},
    },
    "required": ["approved"],
}
"""The schema of what a person decides about a call."""


class Translation:
    """One run's events, with the message and the round that are open."""

    def __init__(self, run: RunInput, row: Task) -> None:
        self._run = run
        self._row = row
        self._language = row.reply_language
        self._thread = ClientThread(run, row)
        self._message_id, self._round = "", ""
        self._count = len(run.messages)
        self._memory: Sequence[str] = ()
        self._state: Json = {}
        self._branches: dict[str, Json] = {}
        self._agents: dict[str, BranchStart] = {}
        """Agents that work for a flow, by the ids of their runs."""
        self._reply = ReplyStream({spec["function"]["name"] for spec in row.client_tools})

    def start(self, before: Sequence[Event], earlier: Sequence[Task], memory: Sequence[str]) -> Iterator[BaseEvent]:
        """The events that begin the run, with the state, and the messages where the client lacks some or has too many.

        `before` are the task's events in earlier runs, `earlier` as in `ClientThread.corrected`, `memory` the names
        of the user's memory files.
        """
        yield RunStartedEvent(thread_id=self._run.thread_id, run_id=self._run.run_id, protocol_version=PROTOCOL_VERSION)
        self._reply.recall(before)
        self._memory = memory
        self._state = self._state_of(self._status)
        yield StateSnapshotEvent(snapshot={**self._run.own_state, **self._state})
        yield from self._thread.corrected(earlier, continues=bool(before))
        for event in before:
            if isinstance(event, BranchStart) and event.kind == AGENT:
                self._agents[_branch_id(event)] = event
            elif isinstance(event, BranchEnd):
                self._agents.pop(_branch_id(event), None)
        yield from map(_subagent, self._agents.values())

    @property
    def _status(self) -> str:
        statuses = self._reply.task.statuses
        return statuses[-1].new if statuses else str(self._row.status)

    def _state_of(self, status: str) -> Json:
        task = self._reply.task
        plan = {"plan": plan_view(task)} if task.plan else {}
        about = {"task_id": self._row.task_id, "status": status, "mode": task.mode or self._row.mode}
        return {"task": about, **plan, "memory": [*self._memory]}

    def _update(self, status: str) -> Iterator[BaseEvent]:
        """What changed of the state, of which the application's part does not."""
        before, self._state = self._state, self._state_of(status)
        if before and (patch := make_patch(before, self._state).patch):
            yield StateDeltaEvent.model_validate({"delta": patch})

    def of(self, event: Event) -> Iterator[BaseEvent]:
        """An event as AG-UI's."""
        for part in self._reply.of(event):
            yield from self._sent(part)
        if event.durable:
            yield from self._update(self._status)

    def _sent(self, part: Part) -> Iterator[BaseEvent]:
        for event in self._of(part):
            self._thread.add(event)
            yield event

    def _of(self, part: Part) -> Iterator[BaseEvent]:
        """A part as AG-UI's events."""
        match part:
            case Opened(kind):
                yield from self._open(kind)
            case Added(Kind.TEXT, text):
                yield TextMessageContentEvent(message_id=self._message_id, delta=text)
            case Added(Kind.THOUGHT, text):
                yield ReasoningMessageContentEvent(message_id=self._message_id, delta=text)
            case Closed(kind):
                yield from self._close(kind)
            case Discarded():
                yield from self._retract()
            case RoundOpened(iteration):
                yield from self._begin_round(f"round {iteration}")
            case CallOpened(call):
                yield from self._begin_call(_call_id(call), call.name, call.arguments)
            case CallClosed(result):
                yield self._end_call(result)
            case BranchStart() | BranchEnd():
                yield from self._branch(part)

    def finish(self, result: Json, memory: Sequence[str] | None = None) -> Iterator[BaseEvent]:
        """The events that end the run; `memory` as in `start`, None where it is not known."""
        for part in self._reply.end(str(result["answer"])):
            yield from self._sent(part)
        pending = waiting_calls(result)
        for call in (*pending, *self._undecided(result)):
            yield from self._begin_call(call["id"], call["name"], call["arguments"])
        yield from self._end_round()
        yield from self._suspend_agents(result)
        self._memory = self._memory if memory is None else memory
        yield from self._update(result["status"])
        usage = _usage(result)
        if result["status"] == "error":
            yield RunErrorEvent(message=str(result.get("error") or ""), code="task_failed", usage=usage)
            return
        yield RunFinishedEvent(
            thread_id=self._run.thread_id,
            run_id=self._run.run_id,
            outcome=self._outcome(result, [call["id"] for call in pending]),
            result={name: result.get(name) for name in ("task_id", "session_id", "status", "mode")},
            usage=usage,
        )

    def _outcome(self, result: Json, pending: list[str]) -> RunFinishedOutcome:
        if result["status"] == "done" or pending:
            return RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None)
        if result["status"] == "cancelled":
            return RunFinishedCancelledOutcome()
        if result["status"] != "waiting":
            message = stop_notice(result["status"], self._language)
            paused = Interrupt(id=f"{PAUSED}{self._row.task_id}", reason="segue:paused", message=message)
            return RunFinishedInterruptOutcome(interrupts=[paused])
        asked = result["question"]
        ids = interrupt_ids(asked)
        if asked["kind"] == "approval":
            return RunFinishedInterruptOutcome(interrupts=[*map(self._approval, ids, asked["calls"])])
        question = Interrupt(
            id=ids[0],
            reason="input_required",
            message=question_text(asked, self._language),
            response_schema=answer_schema(asked),
        )
        return RunFinishedInterruptOutcome(interrupts=[question])

    def _undecided(self, result: Json) -> list[Json]:
        """The calls that wait for approval, by the ids of their places in the task."""
        asked = result.get("question") or {}
        calls = asked["calls"] if asked.get("kind") == "approval" else []
        return [{**call, "id": self._place_of(call)} for call in calls]

    def _place_of(self, call: Json) -> str:
        """The id of a call to approve; a plan announces its calls behind their approval, one for each step."""
        decided = reversed(self._reply.task.running.values())
        place = next((each for each in decided if (each.index, each.name) == (call["index"], call["name"])), None)
        return _call_id(place) if place else f"{self._row.task_id}:{call.get('step_id', '')}:0"

    def _approval(self, interrupt_id: str, call: Json) -> Interrupt:
        """The interrupt of a call to approve."""
        return Interrupt(
            id=interrupt_id,
            reason="tool_call",
            tool_call_id=self._place_of(call),
            message=question_text({"kind": "approval", "calls": [call]}, self._language),
            response_schema=APPROVAL,
            metadata={"call": call},
        )

    # The answer, the thinking, the rounds.

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{self._run.prefix}{kind}:{self._count}"

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

    def _retract(self) -> Iterator[BaseEvent]:
        """Take back the messages of the text that was discarded; one that is open continues as a new message."""
        is_open = self._thread.is_open
        if is_open:
            yield TextMessageEndEvent(message_id=self._message_id)
        yield from self._thread.retracted(len(self._reply.text))
        if is_open:
            yield from self._open(Kind.TEXT)

    def _begin_round(self, name: str) -> Iterator[BaseEvent]:
        yield from self._end_round()
        self._round = name
        yield StepStartedEvent(step_name=name)

    def _end_round(self) -> Iterator[BaseEvent]:
        if self._round:
            yield StepFinishedEvent(step_name=self._round)
        self._round = ""

    # Calls and the plan.

    def _begin_call(self, named: str, name: str, arguments: Json) -> Iterator[BaseEvent]:
        """Announce a call unless the client knows it: one that waited for approval was announced by an earlier run."""
        if self._thread.has_call(named):
            return
        yield ToolCallStartEvent(tool_call_id=named, tool_call_name=name)
        yield ToolCallArgsEvent(tool_call_id=named, delta=readable(arguments))
        yield ToolCallEndEvent(tool_call_id=named)

    def _end_call(self, event: ToolResult) -> BaseEvent:
        content = readable(event.result)
        return ToolCallResultEvent(message_id=self._new_id("result"), tool_call_id=_call_id(event), content=content)

    def _branch(self, event: BranchStart | BranchEnd) -> Iterator[BaseEvent]:
        """An agent that works for a flow as a subagent, a graph as an activity, which ends with its result."""
        named = _branch_id(event)
        if event.kind == AGENT:
            yield self._agent(event, named)
        elif event.kind == "built_in":
            pass
        elif isinstance(event, BranchStart):
            self._branches[named] = {"branch": event.branch, "kind": event.kind, "arguments": event.arguments}
            yield ActivitySnapshotEvent(message_id=named, activity_type="branch", content=self._branches[named])
        elif named in self._branches:
            patch = [{"op": "add", "path": "/result", "value": event.result}]
            about = {"message_id": named, "activity_type": "branch"}
            yield ActivityDeltaEvent.model_validate({**about, "patch": patch})

    def _agent(self, event: BranchStart | BranchEnd, named: str) -> BaseEvent:
        if isinstance(event, BranchStart):
            self._agents[named] = event
            return _subagent(event)
        del self._agents[named]
        if error := event.result.get("error"):
            return SubagentErrorEvent(subagent_run_id=named, message=str(error))
        return SubagentFinishedEvent(subagent_run_id=named, result=event.result.get("success"))

    def _suspend_agents(self, result: Json) -> Iterator[BaseEvent]:
        """End the agents in this run that did not end; one that waits or is paused goes on in a later run."""
        for named in self._agents:
            if result["status"] in ("waiting", "paused"):
                yield SubagentFinishedEvent(subagent_run_id=named, outcome=SubagentFinishedSuspendedOutcome())
            else:
                yield SubagentErrorEvent(subagent_run_id=named, message=stop_notice(result["status"], self._language))


AGENT = "agent"
"""The kind of a branch that is an agent."""


def _branch_id(event: BranchStart | BranchEnd) -> str:
    return f"{event.task_id}:branch:{event.trace_id}"


def _subagent(event: BranchStart) -> BaseEvent:
    about = {"arguments": event.arguments}
    return SubagentStartedEvent(subagent_run_id=_branch_id(event), name=event.branch, metadata=about)


def _call_id(event: ToolCall | ToolResult) -> str:
    """One id for a call in all runs: its place in the task."""
    return ":".join(map(str, (event.task_id, *call_id(event))))


def _usage(result: Json) -> list[TokenUsage] | None:
    used = result.get("usage")
    if not used:
        return None
    return [TokenUsage(model=result.get("model"), input_tokens=used["input"], output_tokens=used["output"])]


def frames(service: Service, tenant: Tenant, run: RunInput, row: Task, after: int) -> AsyncGenerator[bytes, None]:
    """The frames of a run's stream."""
    translation = Translation(run, row)
    whole = _frames(service, tenant, translation, run, row, after)
    return with_error_frames(
        whole, tenant, row, lambda result: _encoded(translation.finish({**result, "status": "error"}))
    )


async def _frames(
    service: Service, tenant: Tenant, translation: Translation, run: RunInput, row: Task, after: int
) -> AsyncGenerator[bytes, None]:
    tasks = service.app.tasks
    before = await tasks.events(row.task_id, limit=after) if after else []
    known = run.has_history
    earlier = [] if known else await tasks.list(session_id=row.thread_id, before=row.task_id, limit=TURNS)
    for frame in _encoded(translation.start(before, earlier[::-1], await _memory_of(service, row))):
        yield frame
    async with aclosing(events_of(service, row.task_id, after, so_far=True)) as events:
        async for event in events:
            for frame in _encoded(translation.of(event)):
                yield frame
    result = await outcome(service.app, tenant, row.task_id)
    for frame in _encoded(translation.finish(result, await _memory_of(service, row))):
        yield frame


async def _memory_of(service: Service, row: Task) -> list[str]:
    """The names of the user's memory files; none where they cannot be read."""
    try:
        return [file["name"] for file in await service.app.memory.files(user_id=row.user_id)]
    except MemoryUnavailable:
        return []


def _encoded(translated: Iterator[BaseEvent]) -> Iterator[bytes]:
    encoder = EventEncoder()
    for event in translated:
        event.timestamp = int(time.time() * 1000)
        yield encoder.encode(event).encode()
