"""Events as frozen dataclasses: one type each, one union, one dict form.

Durable events are kept in the event log and numbered per task from 1 (`seq`); deltas are only streamed, with `seq` 0.
"""

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Literal, get_args

from .json import Public

# The fields of every event, and the events that are only streamed.


@dataclass(frozen=True, kw_only=True)
class BaseEvent(Public):
    """The ids that every event carries. `timestamp` is Unix time in seconds.

    `parent_id` is the round of a flow whose branch the event happened in, if there is one.
    """

    task_id: str
    trace_id: str = ""
    step_id: str = ""
    iteration: int = 0
    parent_id: str = ""
    seq: int = 0
    timestamp: float = field(default_factory=time.time)
    durable: ClassVar[bool] = True

    @property
    def data(self) -> dict[str, Any]:
        """What is particular to this type of event: every field that is no id."""
        return {name: getattr(self, name) for name in _data_names(type(self))}  # type: ignore[arg-type]  # of instances

    def json(self) -> dict[str, Any]:
        """The public form: the ids at the top, the rest under `data`."""
        names = ("type", "task_id", "trace_id", "step_id", "iteration", "seq", "timestamp")
        parent = {"parent_id": self.parent_id} if self.parent_id else {}
        return {**{name: getattr(self, name) for name in names}, **parent, "data": self.data}


_IDS = frozenset({"type", "task_id", "trace_id", "step_id", "iteration", "parent_id", "seq", "timestamp"})


@cache
def _data_names(kind: type[BaseEvent]) -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(kind) if each.name not in _IDS)


# Deltas: streamed while they are written, never stored one by one.


@dataclass(frozen=True, kw_only=True)
class Thinking(BaseEvent):
    """A piece of a thought. `attempt` counts the attempts of the model call."""

    type: Literal["thinking"] = "thinking"
    content: str
    attempt: int = 1
    durable: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Phase(BaseEvent):
    """A complete banner: a phase begins. It has the type of a thought, with `phase`.

    `call`: it is about a tool call, which a `tool_call` or `tool_result` describes in full.
    """

    type: Literal["thinking"] = "thinking"
    content: str
    attempt: int = 1
    phase: Literal[True] = True
    call: bool = False
    durable: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Token(BaseEvent):
    """A piece of the answer."""

    type: Literal["token"] = "token"
    content: str
    attempt: int = 1
    durable: ClassVar[bool] = False


class RestartReason(StrEnum):
    """Why a model call starts again, where that is not what its endpoint said."""

    AFTER_WAIT = "after the wait"
    """The endpoint asked for patience; `Waiting` said why."""
    UNREADABLE = "the reply cannot be read"
    REASONING = "what was written so far was reasoning"
    CONTINUED = "the graph went on"
    """A graph of one's own wrote a text that is not its answer."""
    TAKEN_OVER = "another process took over the task"


@dataclass(frozen=True, kw_only=True)
class AttemptRestarted(BaseEvent):
    """The model call starts again: discard what was streamed of it. `reason` may be a `RestartReason`."""

    type: Literal["attempt_restarted"] = "attempt_restarted"
    attempt: int
    reason: str
    durable: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Waiting(BaseEvent):
    """Nothing happens for a while: the endpoint asked to wait, or a person is asked."""

    type: Literal["waiting"] = "waiting"
    reason: str
    seconds: float | None = None
    durable: ClassVar[bool] = False


# Events as frozen dataclasses: one type each, one union, one dict form.

# A task and its modes.


@dataclass(frozen=True, kw_only=True)
class TaskStarted(BaseEvent):
    """A message was accepted.

    `effects` are the tools of its agent and mode that were not marked read-only, `agent_mode` is the mode that its
    agent has where the message names none.
    """

    type: Literal["task_started"] = "task_started"
    message: str
    agent_id: str
    model: str
    effects: list[str] | None = None
    agent_mode: str | None = None


class ModeReason(StrEnum):
    """Why a mode carries a task."""

    ASKED_FOR = "asked for"
    PICKED = "picked"
    """By the rules."""
    PICKED_BY_MODEL = "picked by the model"


@dataclass(frozen=True, kw_only=True)
class ModeSelected(BaseEvent):
    """A mode was chosen for the task; `reason` is a `ModeReason`: requested or picked."""

    type: Literal["mode_selected"] = "mode_selected"
    mode: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Fallback(BaseEvent):
    """A mode failed and another one takes over: discard the part of the answer that was streamed."""

    type: Literal["fallback"] = "fallback"
    from_mode: str
    to_mode: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class StateChanged(BaseEvent):
    """The task's status changed."""

    type: Literal["state_changed"] = "state_changed"
    old: str
    new: str


class PauseReason(StrEnum):
    """Why a task was paused, where that is not what a database or a lease said."""

    REQUESTED = "a pause was requested"
    LEASE_LOST = "another process took over the session"
    STOPPED = "stopped at once"
    NOT_BEGUN = "stopped before it began"
    CLOSED = "the app was closed"


@dataclass(frozen=True, kw_only=True)
class Paused(BaseEvent):
    """The task stopped at a boundary and can be resumed; `forked`: this is where a fork of it begins.

    `partial` is the part of its answer that was written.
    """

    type: Literal["paused"] = "paused"
    reason: str = ""
    forked: bool = False
    partial: str = ""


@dataclass(frozen=True, kw_only=True)
class Resumed(BaseEvent):
    """The task continues where it stopped; `agent_changed` if its agent has changed since it started."""

    type: Literal["resumed"] = "resumed"
    agent_changed: bool = False


@dataclass(frozen=True, kw_only=True)
class Cancelled(BaseEvent):
    """A person cancelled the task; `partial` is the part of its answer that was written."""

    type: Literal["cancelled"] = "cancelled"
    partial: str = ""


@dataclass(frozen=True, kw_only=True)
class Steered(BaseEvent):
    """A person added a message to the unfinished task."""

    type: Literal["steered"] = "steered"
    message: str
    with_results: bool = False
    """Whether it came with the results of calls that the task waited for."""


@dataclass(frozen=True, kw_only=True)
class NotesTaken(BaseEvent):
    """From here on the agent knows the messages that steer it; `count` is their number since the task started."""

    type: Literal["notes_taken"] = "notes_taken"
    count: int


@dataclass(frozen=True, kw_only=True)
class NotesMoved(BaseEvent):
    """The messages after the first `count` came too late for the answer: they began the task `next_task_id`."""

    type: Literal["notes_moved"] = "notes_moved"
    count: int
    next_task_id: str


@dataclass(frozen=True, kw_only=True)
class ApprovalRequested(BaseEvent):
    """Calls wait for a person before any of their batch runs: [{"index", "name", "arguments", …}]."""

    type: Literal["approval_requested"] = "approval_requested"
    interrupt_id: str
    calls: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ApprovalGiven(BaseEvent):
    """A person decided.

    `verdicts` are [{"index", "verdict", "arguments"?, "original"?, "reason"?, "always"?, "only"?, "flow"?, "by"}].
    `by` lists who decided: [{"by", "at", "verdict", "shown"}]; `shown` is the digest of what they saw.
    """

    type: Literal["approval_given"] = "approval_given"
    verdicts: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class PermissionGranted(BaseEvent):
    """A person allowed a tool of an agent for the rest of the task or session (`scope`).

    `tool` is its name, or a rule: `refund {"order_id": 17}`, `refund flow {"order_id": ["tool read_mail"]}`. `version`
    is the digest of the tool.
    """

    type: Literal["permission_granted"] = "permission_granted"
    agent_id: str
    tool: str
    scope: str
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class CallPermitted(BaseEvent):
    """A call that needs approval ran without a question; `scope` says why.

    `task`, `session`: its tool is always allowed there. `plan`: it is in a plan made before untrusted text was read.
    `sources`: a person's message asks for it, and its values are theirs or trusted. `rule`: the agent's rules allow it.
    `operator`: the agents file lets the conversation approve it.
    """

    type: Literal["call_permitted"] = "call_permitted"
    index: int
    name: str
    scope: str


@dataclass(frozen=True, kw_only=True)
class AgentCalled(BaseEvent):
    """The call of a tool that is an agent began the task `called_task_id` of that agent, in a session of its own.

    `index` is the call's place in its round, as in `tool_call`; with `background` its result arrives later.
    """

    type: Literal["agent_called"] = "agent_called"
    index: int
    name: str
    agent_id: str
    called_task_id: str
    background: bool = False


@dataclass(frozen=True, kw_only=True)
class Recovered(BaseEvent):
    """The newest checkpoints could not be read: the thread was restored to an older one."""

    type: Literal["recovered"] = "recovered"
    checkpoint_id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class TaskComplete(BaseEvent):
    """The task ended; `status` is done or error, `result` the chat graph's result."""

    type: Literal["task_complete"] = "task_complete"
    status: str
    result: dict[str, Any]


# One recursion.


@dataclass(frozen=True, kw_only=True)
class RecursionStart(BaseEvent):
    """A round of the ReAct machine begins."""

    type: Literal["recursion_start"] = "recursion_start"
    max_iteration: int


@dataclass(frozen=True, kw_only=True)
class Observe(BaseEvent):
    """What the model saw in the last result."""

    type: Literal["observe"] = "observe"
    text: str


@dataclass(frozen=True, kw_only=True)
class Thought(BaseEvent):
    """The whole thought."""

    type: Literal["thought"] = "thought"
    text: str


@dataclass(frozen=True, kw_only=True)
class Action(BaseEvent):
    """What the model decided to do."""

    type: Literal["action"] = "action"
    action_type: str
    output: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolCall(BaseEvent):
    """A tool is about to run; `index` is the call's place in its recursion or step.

    `needs_approval`: a person may have to approve a call of its batch first.
    """

    type: Literal["tool_call"] = "tool_call"
    index: int
    name: str
    arguments: dict[str, Any]
    needs_approval: bool = False


@dataclass(frozen=True, kw_only=True)
class ToolResult(BaseEvent):
    """A tool call ended: `result` is {"success": value} or {"error": text}, truncated; the ledger has all of it.

    `scope` and `index` are the call's key in the ledger. A call that did not run is not in the ledger.
    """

    type: Literal["tool_result"] = "tool_result"
    scope: str = ""
    index: int
    name: str
    arguments: dict[str, Any]
    result: dict[str, Any]
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ModelCalled(BaseEvent):
    """A model call ended: tokens as counted by the endpoint (0 if it does not count), cost None if it is unknown.

    `request` is the digest of the request. `reply` is the model's reply: {"text", "finish_reason", "tool_calls",
    "reasoning", "streamed"}, without empty fields; or {"error"} of a refused call. `prompt_chars` is the length of the
    prompt; its first `prefix_chars` characters are those of the task's previous prompt.
    """

    type: Literal["model_called"] = "model_called"
    purpose: str
    model: str
    input: int
    output: int
    seconds: float
    cost: float | None = None
    request: str = ""
    reply: dict[str, Any] = field(default_factory=dict)
    prompt_chars: int = 0
    prefix_chars: int = 0

    @property
    def is_refused(self) -> bool:
        """Whether there is an error in place of the reply."""
        return "error" in self.reply


@dataclass(frozen=True, kw_only=True)
class PlanUpdate(BaseEvent):
    """The plan was written or rewritten; `steps` are dicts of `Step`."""

    type: Literal["plan_update"] = "plan_update"
    goal: str
    steps: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class StepUpdate(BaseEvent):
    """A step of the plan changed its status."""

    type: Literal["step_update"] = "step_update"
    status: str
    description: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundStart(BaseEvent):
    """A round of a controller–executor flow begins; `iteration` is its number. A `max_round` of 0 is no limit."""

    type: Literal["round_start"] = "round_start"
    flow: str
    max_round: int


@dataclass(frozen=True, kw_only=True)
class BranchStart(BaseEvent):
    """The controller chose a branch; a tool's branch is also a `tool_call`."""

    type: Literal["branch_start"] = "branch_start"
    branch: str
    kind: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class BranchEnd(BaseEvent):
    """A branch ended: `result` is {"success": value} or {"error": text}, truncated; `summary` goes to the logs."""

    type: Literal["branch_end"] = "branch_end"
    branch: str
    kind: str
    result: dict[str, Any]
    summary: str


@dataclass(frozen=True, kw_only=True)
class FlowEnd(BaseEvent):
    """A flow ended: `status` is finished or unfinished."""

    type: Literal["flow_end"] = "flow_end"
    flow: str
    status: str
    summary: str


@dataclass(frozen=True, kw_only=True)
class QuestionAsked(BaseEvent):
    """The task waits for an answer, or for the results of `client_calls` {id, name, arguments} from its client.

    `choices` are suggested answers; others are accepted, too.
    """

    type: Literal["question_asked"] = "question_asked"
    interrupt_id: str
    question: str
    client_calls: list[dict[str, Any]] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class WaitStarted(BaseEvent):
    """The task waits until a time, for an event of that name, or for the first of both; no person is asked."""

    type: Literal["wait_started"] = "wait_started"
    interrupt_id: str
    until: float | None = None
    name: str = ""


ASKING = (ApprovalRequested, QuestionAsked)
"""What a task waits for a person after."""


@dataclass(frozen=True, kw_only=True)
class QuestionAnswered(BaseEvent):
    """A person answered."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Lifecycle(BaseEvent):
    """Progress of the lifecycle engine: `event_type` is an `EngineEventType`, `details` its data."""

    type: Literal["lifecycle"] = "lifecycle"
    event_type: str
    details: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer(BaseEvent):
    """The whole answer."""

    type: Literal["answer"] = "answer"
    answer: str


@dataclass(frozen=True, kw_only=True)
class ErrorRaised(BaseEvent):
    """Something failed; `final` if the task ended with it, `internal` if that is no error that Segue knows."""

    type: Literal["error"] = "error"
    message: str
    final: bool = False
    internal: bool = False


# A conversation.


@dataclass(frozen=True, kw_only=True)
class Uttered(BaseEvent):
    """A participant of a conversation spoke, called or answered a call: `utterance` is an `Utterance` as JSON."""

    type: Literal["utterance"] = "utterance"
    utterance: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ConversationEnd(BaseEvent):
    """A conversation ended: `reason` is an `EndReason`, `usage` is by role, `took` in seconds."""

    type: Literal["conversation_end"] = "conversation_end"
    reason: str
    turns: int
    usage: dict[str, Any]
    took: float


Delta = Thinking | Phase | Token | AttemptRestarted | Waiting
TaskEvent = (
    TaskStarted
    | ModeSelected
    | Fallback
    | StateChanged
    | Paused
    | Resumed
    | Cancelled
    | Steered
    | ApprovalRequested
    | QuestionAsked
    | WaitStarted
    | Recovered
    | TaskComplete
)
RoundEvent = (
    RecursionStart
    | Observe
    | Thought
    | Action
    | ToolCall
    | ToolResult
    | ModelCalled
    | PlanUpdate
    | StepUpdate
    | NotesTaken
    | NotesMoved
    | ApprovalGiven
    | PermissionGranted
    | CallPermitted
    | AgentCalled
    | RoundStart
    | BranchStart
    | BranchEnd
    | FlowEnd
    | QuestionAnswered
    | Lifecycle
    | Uttered
    | ConversationEnd
    | Answer
    | ErrorRaised
)
Durable = TaskEvent | RoundEvent
Event = Delta | Durable

TYPES: Mapping[str, type[Event]] = {kind.type: kind for kind in get_args(Delta | Durable) if kind is not Phase}


def from_dict(form: Mapping[str, Any]) -> Event:
    """The event that `json` gave; a field that a later version added is left out."""
    kind: type = Phase if form["type"] == Phase.type and form["data"].get("phase") else TYPES[form["type"]]
    known = _fields_of(kind)
    values = {**form, **form["data"]}
    event: Event = kind(**{name: value for name, value in values.items() if name in known})
    return event


@cache
def _fields_of(kind: type) -> frozenset[str]:
    return frozenset(f.name for f in dataclasses.fields(kind))
