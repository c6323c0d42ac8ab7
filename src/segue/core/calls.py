"""Tools and their calls: what is decided about a call, its result and questions, and the ports that carry it out."""

import json
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

from .approval import ApprovalTerms
from .decision import check_storable
from .errors import IllegalTransition, InvalidAnswer
from .provenance import Assessment, Finding, Hiding, Policy, Source, SourceKind
from .records import Call
from .reviews import read_review

# Tools as the graphs see them, and the ledger of their calls.


class Tool(Protocol):
    """A tool as the graphs see it."""

    @property
    def name(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def idempotent(self) -> bool: ...

    @property
    def needs_approval(self) -> bool: ...

    @property
    def approve(self) -> Policy: ...

    @property
    def terms(self) -> ApprovalTerms: ...

    @property
    def trusted(self) -> bool: ...

    @property
    def trusted_fields(self) -> Collection[str]: ...

    @property
    def directory(self) -> bool: ...

    @property
    def content(self) -> Collection[str]: ...

    @property
    def secret(self) -> bool: ...

    @property
    def hidden(self) -> Hiding: ...

    @property
    def source_kind(self) -> SourceKind: ...

    @property
    def foreign_text(self) -> str:
        """The name, description and schema as one text, where others write them and nobody trusts them; else empty."""
        ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def spec(self) -> Mapping[str, Any]: ...

    async def call(self, arguments: Mapping[str, Any]) -> Any: ...


DIRECTORY_SCOPE = "directory:"
"""Begins the scope of a call by which Segue itself reads a directory; no model sees it, or its result."""
RECALL = "recall"
"""The tool that rounds of ReAct offer beside an agent's own; it only reads."""


def has_effect(name: str, tool: Tool | None) -> bool:
    """Whether a call may change something; one of an unknown tool may."""
    return name != RECALL if tool is None else not tool.read_only


def is_repeatable(tool: Tool | None) -> bool:
    """Whether a call of the tool that was interrupted does no harm: it changes nothing, or may simply run again."""
    return tool is not None and (tool.read_only or tool.idempotent)


@dataclass(frozen=True)
class CallKey:
    """What identifies one tool call for ever: fixed in the state before the call runs.

    `scope` is the recursion's trace_id, or step_id#attempt; `index` the call's place in it.
    """

    task_id: str
    scope: str
    index: int


@dataclass(frozen=True)
class Claim:
    """The ledger's answer to an intent.

    `fresh`: run it. `finished`: it ran, with `outcome`. `interrupted`: it was under way when its process ended; what it
    had begun elsewhere is its `outcome`.
    `doubtful`: it never ran, but one like it, of the same task, may or may not have taken effect.
    `moved`: the interrupted call was made from another place, so its idempotency key was another one.
    """

    state: Literal["fresh", "finished", "interrupted", "doubtful"]
    outcome: Mapping[str, Any] | None = None
    moved: bool = False


class Ledger(Protocol):
    """Remembers every tool call, so that none is run twice."""

    async def read(self, key: CallKey) -> Mapping[str, Any] | None: ...

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim: ...

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None: ...

    async def keep(self, key: CallKey, job: Mapping[str, Any]) -> None:
        """Store what a call that runs began elsewhere: the claim has it as its `outcome` if the call is interrupted."""
        ...

    async def withdraw(self, key: CallKey) -> None:
        """Take a claim back: the call asks a person something, and is made again with the answer."""
        ...

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]: ...

    async def finished(self) -> Sequence[Call]: ...


# Calls: what a model asks for, what is decided about it, and its result.

UNKNOWN_OUTCOME = "unknown_outcome"
"""Marks the result, or the message, of a call that may or may not have taken effect."""


JOB = "job"
"""Where what a call waits for has what it began elsewhere: the call runs again, and fetches the result."""
WAITS = "waits"
"""Where the ledger has what the result of a call that ran waits for."""
ASKS = "asks"
"""What a tool asks a person, in the terms of a call that waits for the answer."""
ANSWERS = "answers"
"""What it was answered before, in the same terms."""
SOURCES = "sources"
"""Where the result of a trusted tool has the untrusted sources that its arguments had."""
SECRET = "secret"
"""Marks the result of a secret tool, or of a reading one that a secret value went into."""
_USED = "used"
"""Where the result of an agent has what its task used: {"usage", "tool_calls"}."""
_LABELS = (SOURCES, SECRET, _USED)
OF_AGENT = "of_agent"
"""Where a question has whose it is, if an agent asks that is a tool of the task: {"agent_id", "task_id", …}."""
HIDDEN = "hidden"
"""Marks a result that the model does not see: `True`, or `"summary"` where it sees a summary."""


# A decided call, from the decision to its result: a state machine, which the state of a graph keeps as JSON.


class CallPhase(StrEnum):
    """The phase of a decided call."""

    PROPOSED = "proposed"
    """A model or a plan decided to make it."""
    ASKED = "asked"
    """A person is asked about it. An interrupted node stores nothing, so states do not hold this one."""
    APPROVED = "approved"
    """A person approved it."""
    REJECTED = "rejected"
    """A person rejected it: it does not run."""
    WAITING = "waiting"
    """It waits for the task's client to carry it out or, since it ran, for its result."""
    RUNNING = "running"
    """It runs, with what it waited for where it did."""
    DONE = "done"
    """It has its result."""


_P = CallPhase

CALL_TRANSITIONS: Mapping[CallPhase, frozenset[CallPhase]] = {
    # Nobody has to be asked about most calls. One that must not run is done at once.
    _P.PROPOSED: frozenset({_P.ASKED, _P.WAITING, _P.RUNNING, _P.DONE}),
    # Running: it had what it waited for when it was asked about.
    _P.ASKED: frozenset({_P.APPROVED, _P.REJECTED, _P.RUNNING}),
    # Asked again: its tool has changed, or it is another task's, of which this one is a fork.
    _P.APPROVED: frozenset({_P.ASKED, _P.WAITING, _P.RUNNING, _P.DONE}),
    _P.REJECTED: frozenset({_P.DONE}),
    # Proposed, approved: the client has sent only the results of others.
    _P.WAITING: frozenset({_P.RUNNING, _P.PROPOSED, _P.APPROVED}),
    _P.RUNNING: frozenset({_P.ASKED, _P.WAITING, _P.DONE}),
    _P.DONE: frozenset(),
}


@dataclass(frozen=True)
class Proposed:
    """Nobody decided about the call yet, or nobody has to."""

    phase: ClassVar = CallPhase.PROPOSED


@dataclass(frozen=True)
class Approved:
    """A person approved the call in a task, which is written as a digest, for a version of its tool."""

    task: str
    version: str
    phase: ClassVar = CallPhase.APPROVED


@dataclass(frozen=True)
class Rejected:
    """A person rejected the call."""

    reason: str = ""
    phase: ClassVar = CallPhase.REJECTED


@dataclass(frozen=True)
class Waiting:
    """The call waits for its result, `until` a moment or for an `event`; without `terms` it waits for the client.

    Or its tool `asks` a person something, and runs again with all `answers`.
    """

    decision: Proposed | Approved
    terms: Mapping[str, Any] | None = None
    phase: ClassVar = CallPhase.WAITING


@dataclass(frozen=True)
class Running:
    """The call runs: with the result that it waited for, or that its client sent, by the id of the client's call.

    `answers` are those that its tool asked persons for.
    """

    decision: Proposed | Approved
    arrived: Mapping[str, Any] | None = None
    sent: Mapping[str, str | None] | None = None
    answers: Sequence[Any] | None = None
    phase: ClassVar = CallPhase.RUNNING


@dataclass(frozen=True)
class Asked:
    """A person is asked about the call, which was in this state `before`."""

    before: Proposed | Approved | Running
    phase: ClassVar = CallPhase.ASKED


@dataclass(frozen=True)
class Done:
    """The call has its result, in the form that the model sees; by its `ref` later calls take it."""

    decision: Proposed | Approved | Rejected
    result: Mapping[str, Any]
    ref: str
    phase: ClassVar = CallPhase.DONE


CallState = Proposed | Asked | Approved | Rejected | Waiting | Running | Done
_STATES: Mapping[str, type[Any]] = {each.phase: each for each in (Proposed, Approved, Rejected, Waiting, Running)}
"""Those that are read from the state of a graph."""


@dataclass(frozen=True, kw_only=True)
class PendingCall:
    """A decided call, and its state on the way to its result."""

    index: int
    """Its place among those that were decided together."""
    name: str
    arguments: dict[str, Any]
    scope: str
    """With the task's id and the place, its key in the ledger: the round's id, or step_id#attempt."""
    origin: str
    """What its idempotency key is made of: one call's alone, and kept by forks."""
    call_id: str = ""
    step_id: str = ""
    taken: Mapping[str, list[str]] | None = None
    """The refs of the results of earlier steps that each argument takes a value of."""
    given: dict[str, Any] | None = None
    """The arguments as the model wrote them, where they refer to results: it does not see the values."""
    hidden: Hiding = False
    """How far its own result is hidden because a hidden one went into it."""
    dangling: str = ""
    """Why its arguments cannot be filled: it refers to a result that is not there."""
    assessment: Assessment | None = None
    """What its arguments came from, where that decides about approval."""
    original: dict[str, Any] | None = None
    """The arguments before a person's edit."""
    state: CallState = Proposed()

    @property
    def finding(self) -> Finding | None:
        """What was found of its sources; None where that is not known yet, or does not matter."""
        return self.assessment.finding if self.assessment else None

    @property
    def decision(self) -> Proposed | Approved | Rejected:
        """What was decided about it."""
        match self.state:
            case Waiting() | Running() | Done():
                return self.state.decision
            case Asked(before=before):
                return before.decision if isinstance(before, Running) else before
            case Proposed() | Approved() | Rejected():
                return self.state

    def json(self) -> dict[str, Any]:
        """The form in the states of graphs, without what has its default.

        A call that is done has its `ref` and its `result`, and how it was decided as `approved` or `rejected`.
        """
        form = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}
        if self.assessment:
            form["assessment"] = self.assessment.json()
        if not isinstance(self.state, Done):
            return {**form, "state": _state_form(self.state)}
        for name in ("state", "origin", "taken", "given", "hidden", "dangling", "assessment"):
            form.pop(name, None)
        match self.state.decision:
            case Approved():
                form["approved"] = True
            case Rejected(reason=reason):
                form["rejected"] = reason
        return {**form, "ref": self.state.ref, "result": dict(self.state.result)}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """The call, which is not done, in the form that `json` gives."""
        values = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        values["state"] = _read_state(values["state"])
        if found := values.get("assessment"):
            values["assessment"] = Assessment.of(found)
        return cls(**values)


AnyCall = TypeVar("AnyCall", bound=PendingCall)


def _state_form(state: Any) -> dict[str, Any]:
    form = {each.name: getattr(state, each.name) for each in fields(state)}
    if "decision" in form:
        form["decision"] = _state_form(form["decision"])
    return {"phase": state.phase.value, **form}


def _read_state(form: Mapping[str, Any]) -> Any:
    values = {name: value for name, value in form.items() if name != "phase"}
    if "decision" in values:
        values["decision"] = _read_state(values["decision"])
    return _STATES[form["phase"]](**values)


def is_pending_call(value: Mapping[str, Any]) -> bool:
    """Whether a value of a state has the form of a decided call, with all that each has."""
    return value.keys() >= {each.name for each in fields(PendingCall) if each.default is MISSING}


def unapproved_state(form: Any) -> Any:
    """The form of a call's state in which no person has approved the call."""
    match form:
        case {"phase": CallPhase.APPROVED}:
            return _state_form(Proposed())
        case {"decision": decision}:
            return {**form, "decision": unapproved_state(decision)}
    return form


def move_call(call: AnyCall, state: CallState) -> AnyCall:
    """The call in its next state."""
    if state.phase not in CALL_TRANSITIONS[call.state.phase]:
        raise IllegalTransition(call.state.phase, state.phase)
    return replace(call, state=state)


# The result of a call.


class CallStatus(StrEnum):
    """The outcome of a call."""

    DONE = "done"
    FAILED = "failed"
    REJECTED = "rejected"
    """A person rejected it, so it did not run."""
    OVER_BUDGET = "over_budget"
    """The budget is spent, so it did not run."""
    REFUSED = "refused"
    """It failed repeatedly with these arguments, so it did not run again."""
    REPEATED = "repeated"
    """It had the same result repeatedly, so it has that result without another run."""
    UNKNOWN = "unknown"
    """It may or may not have taken effect."""
    WAITING = "waiting"
    """It ran, and its result comes later: at a moment or with an event."""
    ASKING = "asking"
    """Its tool asks a person something, and runs again with the answer."""
    LEFT_OPEN = "left_open"
    """Its task was cancelled while it was under way; `unknown` if it may have taken effect."""


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """The result of a call: its `value`, or an `error` that says why there is none.

    `note` is what the model is told besides. `unknown`: the call may or may not have taken effect. `sources` are the
    untrusted ones that a trusted tool's value carries; None where the value is the tool's, which is not trusted.
    `secret`: its values go into no call of another tool without a question. `hidden`: the model does not see it.
    `used`: what the task of an agent used that is the tool, {"usage", "tool_calls"}.
    """

    status: CallStatus
    value: Any = None
    error: str = ""
    stack: str = ""
    note: str = ""
    unknown: bool = False
    sources: tuple[Source, ...] | None = None
    secret: bool = False
    hidden: Hiding = False
    used: Mapping[str, Any] | None = None

    @classmethod
    def done(cls, value: Any) -> Self:
        return cls(status=CallStatus.DONE, value=value)

    @classmethod
    def failed(cls, error: str, stack: str = "") -> Self:
        return cls(status=CallStatus.FAILED, error=error, stack=stack)

    @classmethod
    def outcome_unknown(cls, error: str, status: CallStatus = CallStatus.UNKNOWN) -> Self:
        return cls(status=status, error=f"{UNKNOWN_OUTCOME}: {error}", unknown=True)

    @classmethod
    def waiting(cls, until: float | None, event: str, job: Mapping[str, Any] | None = None) -> Self:
        """The result comes at a moment, in Unix seconds, with an event of that name, or once a job has ended."""
        return cls(status=CallStatus.WAITING, value={"until": until, "event": event, **({JOB: job} if job else {})})

    @property
    def job(self) -> Mapping[str, Any] | None:
        """What the call began elsewhere that has not ended yet."""
        return self.value.get(JOB) if self.status is CallStatus.WAITING else None

    @classmethod
    def asking(cls, question: Any) -> Self:
        """The call asks something: of a tool here, the value that it called LangGraph's `interrupt` with."""
        return cls(status=CallStatus.ASKING, value=question)

    def with_labels(self, **labels: Any) -> Self:
        """The result with its `sources`, whether it is `secret`, and what was `used` for it."""
        return replace(self, **labels)

    @property
    def success(self) -> bool:
        return self.status in (CallStatus.DONE, CallStatus.REPEATED)

    @property
    def is_paused(self) -> bool:
        """Whether the agent that is the tool stopped for a pause, and goes on when the task does."""
        return self.status is CallStatus.ASKING and self.value == {"kind": PAUSE}

    @property
    def has_error(self) -> bool:
        """Whether it ended without a value, for whatever reason: `error` says which."""
        return not self.success and self.status not in (CallStatus.WAITING, CallStatus.ASKING)

    @property
    def content(self) -> Any:
        """The value, or the error."""
        return self.value if self.success or self.status is CallStatus.WAITING else self.error

    @property
    def ran(self) -> bool:
        """Whether the call was carried out, whatever came of it."""
        return self.status not in (CallStatus.REJECTED, CallStatus.OVER_BUDGET, CallStatus.REFUSED)

    @property
    def outcome(self) -> Literal["success", "error", "unknown"]:
        """What is reported of the call; `unknown`: it may or may not have taken effect."""
        return "unknown" if self.unknown else "success" if self.success else "error"

    @property
    def calls_inside(self) -> int:
        """How many calls the agent that is the tool made: they count in the budget with this one."""
        return int((self.used or {}).get("tool_calls", 0))

    def json(self) -> dict[str, Any]:
        """The form in events, states and the ledger: {"success": value} or {"error": text}, with marks."""
        if self.status is CallStatus.WAITING:
            return {WAITS: self.value}
        form: dict[str, Any] = {"success" if self.success else "error": self.content}
        if self.stack:
            form["stack"] = self.stack
        match self.status:
            case CallStatus.REPEATED:
                form["repeated"] = self.note
            case CallStatus.OVER_BUDGET | CallStatus.REFUSED:
                form["over_budget"] = self.status is CallStatus.OVER_BUDGET
            case CallStatus.REJECTED | CallStatus.LEFT_OPEN:
                form[self.status] = True
        if self.sources is not None:
            form[SOURCES] = [source.json() for source in self.sources]
        if self.secret:
            form[SECRET] = True
        if self.hidden:
            form[HIDDEN] = self.hidden
        if self.used:
            form[_USED] = dict(self.used)
        return {**form, UNKNOWN_OUTCOME: True} if self.unknown else form

    @staticmethod
    def without_labels(stored: Mapping[str, Any]) -> dict[str, Any]:
        """The form that `json` gives, without what only the ledger and the log have: see `with_labels`."""
        return {name: value for name, value in stored.items() if name not in _LABELS}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """The result in the form that `json` gives."""
        return cls(
            status=_status(stored),
            value=stored.get(WAITS, stored.get("success")),
            error=str(stored.get("error", "")),
            stack=str(stored.get("stack", "")),
            note=str(stored.get("repeated", "")),
            unknown=bool(stored.get(UNKNOWN_OUTCOME)),
            sources=tuple(map(Source.of, stored[SOURCES])) if SOURCES in stored else None,
            secret=bool(stored.get(SECRET)),
            hidden="summary" if stored.get(HIDDEN) == "summary" else bool(stored.get(HIDDEN)),
            used=stored.get(_USED),
        )


def _status(stored: Mapping[str, Any]) -> CallStatus:
    if WAITS in stored:
        return CallStatus.WAITING
    if "repeated" in stored:
        return CallStatus.REPEATED
    if "over_budget" in stored:
        return CallStatus.OVER_BUDGET if stored["over_budget"] else CallStatus.REFUSED
    for status in (CallStatus.REJECTED, CallStatus.LEFT_OPEN):
        if status in stored:
            return status
    if stored.get(UNKNOWN_OUTCOME):
        return CallStatus.UNKNOWN
    return CallStatus.FAILED if "error" in stored else CallStatus.DONE


FRESH = Claim("fresh")
"""The claim of a call that was never made before."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A claimed call, as an executor gets it.

    `tool` is None where `tools`, those of the call's graph, have none of that name. `timeout` is in seconds.
    `approved`: a person wants it to run. `cleared`: by its sources nobody has to be asked. `sources` are the untrusted
    ones that its result carries, None where its tool is not trusted. `secret`, `hidden`: its result is. `undone` is
    what the call returned that this one takes back, `answers` are those to what its tool asks. `job` is what the call
    began elsewhere, which `keep` stores. `language` is the task's, for what its result says; by `clock` a wait ends.
    `cancelled` says whether the task is being cancelled.
    """

    key: CallKey
    name: str
    arguments: Mapping[str, Any]
    tools: Mapping[str, Tool]
    timeout: float
    claim: Claim = FRESH
    approved: bool = False
    cleared: bool = False
    sources: tuple[Source, ...] | None = None
    secret: bool = False
    hidden: Hiding = False
    idempotency_key: str = ""
    session_id: str = ""
    step_id: str = ""
    trace_id: str = ""
    user_id: str = ""
    undone: Any = None
    answers: Sequence[Any] = ()
    job: Mapping[str, Any] | None = None
    keep: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None
    language: str = "en"
    clock: Callable[[], float] = time.time
    cancelled: Callable[[], bool] = lambda: False

    @property
    def tool(self) -> Tool | None:
        return self.tools.get(self.name)


class Executor(Protocol):
    """What carries calls out: the tools here, or the API of a rehearsal.

    One executor carries out every call of a task, also those of its nested graphs. Where the same call was interrupted
    before, `execute` decides by the claim whether it may run again.
    """

    def needs_approval(self, tool: Tool) -> bool:
        """Whether a person has to approve the calls of this tool."""
        ...

    def parallel(self, tool: Tool) -> bool:
        """Whether calls of this tool may run beside others."""
        ...

    async def execute(self, execution: Execution) -> CallResult: ...


# A person's answers to a flow's question, and the kinds of interrupt.

MOST_BYTES = 32 * 1024
MOST_RESULT_BYTES = 256 * 1024
"""Of the result of a call that the task's client carried out."""
ANSWER_FORMS: Mapping[str, str] = {
    "approval": '{"verdicts": "approve" | "reject"}, or '
    '{"verdicts": [{"index": 0, "verdict": "approve" | "edit" | "reject"}]}',
    "question": '{"answer": "…"}, or {"manual_finish": true}',
    "utterance": '{"answer": "…"}',
    "interrupt": '{"answer": "…"}',
    "spend": '{"limit": 5.0}, or {"answer": "cancel"}',
}
"""How each kind of question is answered."""
ASK_USER = "ask_user"
"""The name of the question to the user: of the control tool, and of a plan's step."""
REVIEW_PLAN = "review_plan"
"""The name of the call that a person approves who reviews a plan: its arguments are {goal, steps}."""
API_CALL = "api_call"
"""The kind of interrupt that the conversation answers: an agent that is its bot calls the API."""
CLIENT_CALLS = "client_calls"
"""In a question: the calls {"id", "name", "arguments"} that the task's client carries out; the answer has results."""
FORM_SCHEMA = "form"
"""In a question: the JSON schema of the form that its answer fills in, as JSON."""
WAIT = "wait"
"""The kind of interrupt that a moment ends (`until`), or a named `event`: no person is asked."""
PAUSE = "pause"
"""The kind of interrupt that is no question: a node stops, since a pause was requested."""
INTERRUPT = "interrupt"
"""The kind of interrupt of a graph of one's own, whose value may be anything."""
BY_SEGUE = "by_segue"
"""Marks a question of one of Segue's nodes, which tells of the answer itself."""
TEXTUAL = frozenset({"question", "utterance"})
"""The kinds of question whose answer is only read, by a model: any text is one."""
KINDS = {*ANSWER_FORMS, API_CALL, WAIT}
FORM = 'a text, {"answer": "…"}, or {"manual_finish": true} to end the task'


@dataclass(frozen=True)
class PersonsAnswer:
    """The text of an answer; with `manual_finish` the person ends the flow instead."""

    text: str
    manual_finish: bool = False

    def json(self) -> dict[str, Any]:
        """The form that is stored."""
        return {"answer": self.text, "manual_finish": self.manual_finish}


def read_question(value: Any) -> dict[str, Any]:
    """The value of an interrupt as a question; one that is none of Segue's or LangChain's is answered with a text."""
    if isinstance(value, Mapping) and value.get("kind") in KINDS:
        return {name: part for name, part in value.items() if name != BY_SEGUE}
    if review := read_review(value):
        return review
    asked = value.get("question", value) if isinstance(value, Mapping) else value
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)
    return {"kind": INTERRUPT, "question": text}


def read_answer(given: object, most: int = MOST_BYTES) -> PersonsAnswer:
    """Read a text, {"answer": text} or {"manual_finish": true}."""
    if isinstance(given, PersonsAnswer):
        return given
    if isinstance(given, str):
        given = {"answer": given}
    if not isinstance(given, Mapping):
        raise InvalidAnswer("The answer does not fit the question: give {form}.", form=FORM)
    text, ends = given.get("answer", ""), bool(given.get("manual_finish"))
    if not isinstance(text, str) or not (ends or text.strip()):
        raise InvalidAnswer("The answer does not fit the question: give {form}.", form=FORM)
    try:
        check_storable(text)
    except ValueError as error:
        raise InvalidAnswer("The answer cannot be stored: {error}.", error=error) from error
    if len(text.encode()) > most:
        raise InvalidAnswer("The answer is longer than {most} bytes: shorten it.", most=most)
    return PersonsAnswer(text.strip(), ends)


def read_results(given: object, calls: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """The results of calls by their ids: {"results": {id: text}}, or an answer, which is the result of the first call.

    A call that was not carried out has None: those of `manual_finish`.
    """
    ids = [call["id"] for call in calls]
    if not isinstance(given, Mapping) or "results" not in given:
        answer = read_answer(given, MOST_RESULT_BYTES)
        return dict.fromkeys(ids) if answer.manual_finish else {ids[0]: answer.text}
    results = given["results"]
    if not isinstance(results, Mapping) or not results or not results.keys() <= set(ids):
        raise InvalidAnswer("The results do not match the waiting calls: {calls}.", calls=", ".join(ids))
    return {call_id: read_answer({"answer": text}, MOST_RESULT_BYTES).text for call_id, text in results.items()}
