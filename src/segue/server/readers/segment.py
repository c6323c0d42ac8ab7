"""The part of a task that is one response: from a message, or an answer of a person, to the next."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from ...core.events import (
    ASKING,
    ApprovalRequested,
    Event,
    NotesMoved,
    QuestionAsked,
    StateChanged,
    Steered,
)
from ...core.records import Json, Task
from ..errors import Problem, not_found
from ..service import Service
from ..tenants import Tenant

_ID = re.compile(r"resp_([^_]+)(?:_([1-9]\d{0,14}))?")
PAUSED = "paused"


@dataclass(frozen=True)
class Segment:
    """What a task did after its event number `start`, 0 for its beginning, as far as it is one response.

    It ends where a person is asked, and where a message steers the task: the answer, or the message, begins the next.
    """

    row: Task
    start: int
    about: Json
    """What the client said of its request."""
    log: Sequence[Event]
    """Every durable event of the task."""
    is_stored: bool = True
    """Whether its client can read it again."""
    temperature: float = 1.0
    """That of its agent, else OpenAI's default."""

    @property
    def task_id(self) -> str:
        return str(self.row.task_id)

    @property
    def id(self) -> str:
        return response_id(self.task_id, self.start)

    @cached_property
    def _ended(self) -> tuple[Sequence[Event], Event | None]:
        events: list[Event] = []
        late = late_messages(self.log)
        for event in self.log[self.start :]:
            if isinstance(event, Steered) and event.seq > self.start + 1 and event.seq not in late:
                return events, event
            events.append(event)
            if isinstance(event, ASKING):
                return events, event
        return events, None

    @property
    def events(self) -> Sequence[Event]:
        return self._ended[0]

    @property
    def end(self) -> Event | None:
        """The question or the message that it ended with; None where it ends with the task."""
        return self._ended[1]

    @property
    def is_last(self) -> bool:
        """Whether the task did not continue in a later response."""
        return self.end is None or (isinstance(self.end, ASKING) and not _continues(self.log, self.end.seq))

    @property
    def status(self) -> str:
        """OpenAI's status; a question ends a response, so that one that waits is completed."""
        if isinstance(self.end, Steered):
            return "incomplete"
        if not self.is_last:
            return "completed"
        match self.row.status:
            case "done" if (self.row.result or {}).get("truncated"):
                return "incomplete"
            case "done" | "waiting":
                return "completed"
            case "error":
                return "failed"
            case "cancelled":
                return "cancelled"
            case "pending":
                return "queued"
            case "paused":
                return "queued" if self.row.resumes_itself else "incomplete"
        return "in_progress"

    @property
    def incomplete_reason(self) -> str | None:
        if self.status != "incomplete":
            return None
        if self.end:
            return "steered"
        return "max_output_tokens" if self.row.status == "done" else PAUSED

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", "in_progress")

    @property
    def answer(self) -> str:
        """What the task ended with."""
        return str((self.row.result or {}).get("answer") or "") if self.end is None else ""

    @property
    def client_tools(self) -> set[str]:
        """The names of the tools that the client carries out."""
        return {spec["function"]["name"] for spec in self.row.client_tools}

    @property
    def results_of(self) -> list[Json]:
        """The calls whose results the response begins with, as far as it has them: {"id", "name", "arguments"}."""
        before = self.log[self.start - 1] if self.start else None
        return before.client_calls if isinstance(before, QuestionAsked) else []

    @property
    def asked(self) -> list[Json]:
        """The calls whose approval the response before this one requested: {"id", "index", "name", "arguments"}."""
        before = self.log[self.start - 1] if self.start else None
        if not isinstance(before, ApprovalRequested):
            return []
        named = partial(approval_id, self.task_id, before.interrupt_id)
        return [{**call, "id": named(call["index"])} for call in before.calls]


def late_messages(log: Sequence[Event]) -> set[int]:
    """The numbers of the events of messages that came too late for the task: another begins with them."""
    known = next((event.count for event in log if isinstance(event, NotesMoved)), None)
    added = [event.seq for event in log if isinstance(event, Steered)]
    return set() if known is None else {*added[known:]}


def response_id(task_id: str, start: int) -> str:
    """The id of a response: the task's, and where in it the response begins."""
    return f"resp_{task_id}_{start}" if start else f"resp_{task_id}"


def approval_id(task_id: str, interrupt_id: str, index: int) -> str:
    """The id of the request for the approval of a call."""
    return f"mcpr_{task_id}_{interrupt_id}_{index}"


async def segment_of(service: Service, row: Task, start: int) -> Segment:
    """The response that begins after an event of a task."""
    log = await service.app.tasks.events(row.task_id)
    known = await service.app.tasks.continuation(row.task_id, start)
    agent = service.app.agents.get(row.agent_id)  # it may be gone by now
    temperature = 1.0 if agent is None or agent.temperature is None else agent.temperature
    about, is_stored = (known.about, known.is_stored) if known else ({}, True)
    return Segment(row, start, about, log, is_stored, temperature)


async def last_segment(service: Service, row: Task) -> Segment:
    """The newest response of a task."""
    segment = await segment_of(service, row, 0)
    while not segment.is_last:
        assert segment.end is not None
        start = segment.end.seq - isinstance(segment.end, Steered)
        segment = await segment_of(service, row, start)
    return segment


async def own_segment(service: Service, tenant: Tenant, named: str) -> Segment:
    """A response of the tenant's; a 404 for any other."""
    if not (parts := _ID.fullmatch(named)):
        raise not_found("response", named)
    task_id, start = parts[1], int(parts[2] or 0)
    try:
        row = await service.own_task(tenant, task_id)
    except Problem:
        raise not_found("response", named) from None
    segment = await segment_of(service, row, start)
    if not _begins(segment.log, start):
        raise not_found("response", named)
    return segment


def _begins(log: Sequence[Event], start: int) -> bool:
    """Whether a response begins after that event."""
    if start == 0:
        return True
    if start > len(log):
        return False
    if isinstance(log[start - 1], ASKING):
        return _continues(log, start)
    if start == len(log):
        return False
    first = log[start]
    return isinstance(first, ASKING) or (isinstance(first, Steered) and first.seq not in late_messages(log))


def _continues(log: Sequence[Event], seq: int) -> bool:
    """Whether the task continued after the question with that number."""
    after = log[seq] if seq < len(log) else None
    return isinstance(after, StateChanged) and after.new == "running"
