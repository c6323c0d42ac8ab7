"""A reply while it is written: what a task's events add to it, and what they take back."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import singledispatchmethod

from ..core.events import (
    Answer,
    ApprovalGiven,
    ApprovalRequested,
    AttemptRestarted,
    BranchEnd,
    BranchStart,
    CallPermitted,
    Cancelled,
    ErrorRaised,
    Event,
    Fallback,
    Lifecycle,
    ModelCalled,
    ModeSelected,
    Phase,
    PlanUpdate,
    QuestionAsked,
    Recovered,
    RecursionStart,
    Resumed,
    Steered,
    StepUpdate,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
    Waiting,
)
from .projection import CallId, Projection, call_id

BREAK = "\n\n"
"""Stands in an answer between a text before calls and what follows it."""


class Kind(StrEnum):
    """What a model writes."""

    TEXT = "text"
    THOUGHT = "thought"


@dataclass(frozen=True)
class Opened:
    """A text or a thought begins."""

    kind: Kind


@dataclass(frozen=True)
class Added:
    """A piece of what is open."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Closed:
    """Something else comes between; what is written next opens again."""

    kind: Kind


@dataclass(frozen=True)
class Completed:
    """A thought, or a text before calls, is whole; it comes once, streamed or not. All of a text was added by then."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Discarded:
    """What was added of the text does not count any more: that of another attempt or mode takes its place."""


@dataclass(frozen=True)
class RoundOpened:
    """A round of the task begins."""

    iteration: int


@dataclass(frozen=True)
class CallOpened:
    """A call was decided; it is under way unless it `needs_approval`. A result alone opens its call too."""

    call: ToolCall | ToolResult


@dataclass(frozen=True)
class CallClosed:
    """A call has its result."""

    result: ToolResult


@dataclass(frozen=True)
class PlanChanged:
    """The plan changed, or one step of it; `task` has it."""

    task: Projection
    step_id: str = ""
    """The step that changed; empty for a new plan."""


@dataclass(frozen=True)
class Question:
    """The task waits for a person, or for its client."""

    asked: ApprovalRequested | QuestionAsked


@dataclass(frozen=True)
class Approved:
    """A person decided on calls."""

    given: ApprovalGiven


@dataclass(frozen=True)
class Answered:
    """The answer is whole. `text` leaves out what earlier replies of the task had of it."""

    text: str
    whole: str


Notice = (
    ModeSelected
    | Fallback
    | AttemptRestarted
    | Waiting
    | Steered
    | Recovered
    | Cancelled
    | ErrorRaised
    | CallPermitted
    | BranchStart
    | BranchEnd
    | Lifecycle
)
"""Events that are parts as they are: what else a person is shown of the task."""


@dataclass(frozen=True)
class Ended:
    """The reply is over. `text` is the answer without the texts before calls, which were completed."""

    text: str


Part = (
    Opened
    | Added
    | Closed
    | Completed
    | Discarded
    | RoundOpened
    | CallOpened
    | CallClosed
    | PlanChanged
    | Question
    | Approved
    | Phase
    | Resumed
    | Answered
    | Notice
    | Ended
)


@dataclass
class ReplyText:
    """The text of a reply without what was discarded, from its tokens."""

    whole: str = ""
    _kept: int = 0
    """How much of it model calls before the present one wrote."""
    _trace_id: str = ""

    @property
    def pending(self) -> str:
        """What the present call wrote."""
        return self.whole[self._kept :]

    def add(self, content: str, trace_id: str) -> None:
        self.begin(trace_id)
        self.whole += content

    def begin(self, trace_id: str) -> None:
        """Note whose text follows: what other calls wrote stays, whatever becomes of it."""
        if self._trace_id not in ("", trace_id):
            self.keep()
        self._trace_id = trace_id

    def keep(self) -> None:
        """What there is stays, whatever becomes of what follows."""
        self._kept = len(self.whole)

    def note(self, event: Event) -> None:
        """Take in what an event adds, or takes back."""
        if isinstance(event, Token):
            self.add(event.content, event.trace_id)
        elif isinstance(event, AttemptRestarted | Fallback):
            self.discard(event)

    def discard(self, event: Event) -> bool:
        """Drop what the event takes back; whether there was any. A fallback takes back all."""
        if isinstance(event, Fallback):
            self._kept = 0
        elif isinstance(event, AttemptRestarted) and self._trace_id not in ("", event.trace_id):
            return False
        return self.drop()

    def drop(self) -> bool:
        """Drop what the present call wrote; whether there was any."""
        dropped, self.whole = bool(self.pending), self.whole[: self._kept]
        return dropped


class ReplyStream:
    """Folds a task's events, live or stored, into the parts of its reply.

    Calls of `client_tools` are left out: the client makes them.
    """

    def __init__(self, client_tools: Collection[str] = ()) -> None:
        self.task = Projection()
        self._text = ReplyText()
        self._said_before: list[str] = []
        self._said: list[str] = []
        """The texts before calls, those of earlier replies included: the answer begins with them."""
        self._client_tools = client_tools
        self._open: Kind | None = None
        self._writing = False
        """Whether there is text that was not completed."""
        self._first = True
        """Whether no token came yet: the first may be what was streamed before, with what is known of it."""
        self._thoughts: dict[str, str] = {}
        self._completed: dict[str, str] = {}
        """The thoughts that were completed, by round: a model's reasoning may come before its thought."""
        self._calls: set[CallId] = set()

    @property
    def text(self) -> str:
        """The text so far, without what was discarded."""
        return self._text.whole

    def own(self, answer: str) -> str:
        """The task's answer without what earlier replies had of it."""
        return _without(self._said_before, answer)

    def recall(self, events: Iterable[Event]) -> None:
        """Take in what earlier replies of the task had."""
        for event in events:
            self.task.fold(event)
            if isinstance(event, ModelCalled) and _is_said(event):
                self._said_before.append(str(event.reply["text"]))
        self._said = [*self._said_before]

    def of(self, event: Event) -> Iterator[Part]:
        """What an event adds to the reply."""
        self.task.fold(event)
        yield from self._of(event)

    def end(self, answer: str) -> Iterator[Part]:
        """The rest of the answer that the task ends with; where it is another one than was written, all of it."""
        text, own = self._text.whole, self.own(answer)
        if own and not own.startswith(text):
            yield from self._close()
            self._text, text = ReplyText(), ""
            yield Discarded()
        yield from self._add(Kind.TEXT, own[len(text) :])
        yield from self._close()
        yield Ended(_without(self._said, answer))

    @singledispatchmethod
    def _of(self, event: Event) -> Iterator[Part]:
        return iter(())

    # Texts and thoughts.

    @_of.register
    def _(self, event: Thinking) -> Iterator[Part]:
        self._thoughts[event.trace_id] = self._thoughts.get(event.trace_id, "") + event.content
        if self._open is Kind.THOUGHT or event.content.strip():  # a line break after the answer is no thought
            yield from self._add(Kind.THOUGHT, event.content)

    @_of.register
    def _(self, event: Phase | Notice) -> Iterator[Part]:
        yield event

    @_of.register
    def _(self, event: Token) -> Iterator[Part]:
        content = _without(self._said, event.content) if self._first else event.content
        self._first = False
        if content and not self._writing:
            yield from self._complete_thought(event.trace_id, self._thoughts.get(event.trace_id, ""))
        yield from self._add(Kind.TEXT, content, event.trace_id)

    def _add(self, kind: Kind, text: str, trace_id: str = "") -> Iterator[Part]:
        if not text:
            return
        if self._open is not kind:
            yield from self._close()
            self._open = kind
            yield Opened(kind)
        if kind is Kind.TEXT:
            self._writing = True
            self._text.add(text, trace_id)
        yield Added(kind, text)

    def _close(self) -> Iterator[Part]:
        if self._open:
            yield Closed(self._open)
        self._open = None

    @_of.register
    def _(self, event: ModelCalled) -> Iterator[Part]:
        yield from self._complete_thought(event.trace_id, str(event.reply.get("reasoning", "")))
        if _is_said(event):
            yield from self._complete_text(str(event.reply["text"]), event.trace_id)

    @_of.register
    def _(self, event: Thought) -> Iterator[Part]:
        yield from self._complete_thought(event.trace_id, event.text)

    def _complete_thought(self, trace_id: str, text: str) -> Iterator[Part]:
        """A thought, whole, unless a completed one of the round contains it."""
        completed = self._completed.get(trace_id, "")
        if not text.strip() or text.strip() in completed:
            return
        if trace_id:
            self._completed[trace_id] = f"{completed}\n{text}"
        self._thoughts.pop(trace_id, None)
        yield Completed(Kind.THOUGHT, text)

    def _complete_text(self, said: str, trace_id: str) -> Iterator[Part]:
        """A text before calls, with what was not streamed of it, and of the break after it."""
        whole = said + BREAK
        self._text.begin(trace_id)
        if not whole.startswith(self._text.pending) and self._text.drop():
            yield Discarded()
        yield from self._add(Kind.TEXT, whole[len(self._text.pending) :], trace_id)
        self._text.keep()
        self._said.append(said)
        self._writing = False
        yield Completed(Kind.TEXT, said)

    @_of.register
    def _(self, event: AttemptRestarted | Fallback | Resumed) -> Iterator[Part]:
        self._thoughts.pop(event.trace_id, None)
        discarded = self._text.discard(event)
        if self._open is Kind.TEXT and (discarded or not isinstance(event, Resumed)):
            yield from self._close()
        if discarded:
            yield Discarded()
        yield event

    @_of.register
    def _(self, event: Answer) -> Iterator[Part]:
        yield Answered(self.own(event.answer), event.answer)

    # Rounds, calls, the plan, questions.

    @_of.register
    def _(self, event: RecursionStart) -> Iterator[Part]:
        if self._open is Kind.THOUGHT:
            yield from self._close()
        yield RoundOpened(event.iteration)

    @_of.register
    def _(self, event: ToolCall | ToolResult) -> Iterator[Part]:
        if event.name in self._client_tools:
            return
        yield from self._close()
        if call_id(event) not in self._calls:
            self._calls.add(call_id(event))
            yield CallOpened(event)
        if isinstance(event, ToolResult):
            self._calls.discard(call_id(event))
            yield CallClosed(event)

    @_of.register
    def _(self, event: PlanUpdate | StepUpdate) -> Iterator[Part]:
        if self.task.plan:
            yield PlanChanged(self.task, event.step_id if isinstance(event, StepUpdate) else "")

    @_of.register
    def _(self, event: ApprovalRequested | QuestionAsked) -> Iterator[Part]:
        self._writing = False
        yield Question(event)

    @_of.register
    def _(self, event: ApprovalGiven) -> Iterator[Part]:
        yield Approved(event)


def _without(said: Sequence[str], text: str) -> str:
    """The text without what was said before calls; that of a task that was resumed begins with the latest of it."""
    for first in range(len(said)):
        beginning = BREAK.join([*said[first:], ""])
        if text.startswith(beginning):
            return text[len(beginning) :]
    return text


def _is_said(event: ModelCalled) -> bool:
    """Whether the call streamed a text before calls as the answer; what a part of the task writes is a thought."""
    return bool(event.reply.get("streamed")) and not (event.step_id or event.parent_id)
