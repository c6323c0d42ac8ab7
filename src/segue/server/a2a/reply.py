"""A task as A2A's: its state, its history, and the events of its stream."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from a2a.helpers import new_data_part
from a2a.types import (
    Artifact,
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.types import Task as A2ATask
from google.protobuf.timestamp_pb2 import Timestamp

from ...core.decision import read_object
from ...core.errors import UnreadableReply
from ...core.events import (
    ApprovalGiven,
    ApprovalRequested,
    Event,
    QuestionAnswered,
    QuestionAsked,
    Steered,
    TaskStarted,
)
from ...core.records import Json, Task
from ...core.task import TaskStatus as RowStatus
from ...prompts.catalogue import Language
from ...prompts.protocols import progress, question_text, reply_notice, stop_notice, with_choices
from ...runtime.reply import Added, CallOpened, Kind, ReplyStream, TextDropped
from ...runtime.reply import Part as ReplyPart
from ..tenants import Tenant

ANSWER = "answer"
"""The id of the artifact that is the answer."""
Update = TaskStatusUpdateEvent | TaskArtifactUpdateEvent


def _as_state(status: RowStatus) -> TaskState:
    match status:
        case RowStatus.PENDING:
            return TaskState.TASK_STATE_SUBMITTED
        case RowStatus.RUNNING | RowStatus.PAUSING:
            return TaskState.TASK_STATE_WORKING
        case RowStatus.WAITING | RowStatus.PAUSED:
            return TaskState.TASK_STATE_INPUT_REQUIRED
        case RowStatus.DONE:
            return TaskState.TASK_STATE_COMPLETED
        case RowStatus.ERROR:
            return TaskState.TASK_STATE_FAILED
        case RowStatus.CANCELLED:
            return TaskState.TASK_STATE_CANCELED


def statuses_of(state: TaskState) -> list[RowStatus] | None:
    """The statuses of tasks in a state; None where any state is meant."""
    if state == TaskState.TASK_STATE_UNSPECIFIED:
        return None
    return [status for status in RowStatus if _as_state(status) == state]


class Description:
    """What is said of one task."""

    def __init__(self, tenant: Tenant, row: Task) -> None:
        self._row = row
        self._language = row.reply_language
        self.as_data = "answer_format" in row.reply_options
        """Whether the answer is an object, and so a data part."""
        self._ids: dict[str, Any] = {"task_id": row.task_id, "context_id": tenant.shown(row.session_id)}

    def task(self, result: Json, events: Iterable[Event]) -> A2ATask:
        """The whole task, from its `outcome` and its log."""
        answer = str(result["answer"])
        return A2ATask(
            id=self._row.task_id,
            context_id=self._ids["context_id"],
            status=self.status(result),
            artifacts=[self._artifact(answer)] if answer else [],
            history=[message for event in events for message in self._said(event)],
        )

    def status(self, result: Json) -> TaskStatus:
        """The state, with what a person is asked or why it failed."""
        status = str(result["status"])
        if status == RowStatus.PAUSED and self._row.requested is None:
            status = RowStatus.RUNNING  # the service stops, and continues it when it starts again
        message = None
        if status == RowStatus.WAITING:
            asked = result["question"]
            message = self._message(asked["interrupt_id"], reply_notice(asked, self._language))
            message.metadata.update({"interrupt_id": asked["interrupt_id"]})
        elif status == RowStatus.ERROR:
            message = self._message("error", str(result.get("error") or ""))
        elif status in (RowStatus.PAUSED, RowStatus.CANCELLED):
            message = self._message(status, stop_notice(status, self._language))
        return self._status(_as_state(RowStatus(status)), message)

    def working(self, event: Event, text: str) -> TaskStatusUpdateEvent:
        """What is being done."""
        status = self._status(TaskState.TASK_STATE_WORKING, self._message(str(event.seq), text), event.timestamp)
        return TaskStatusUpdateEvent(**self._ids, status=status)

    def update(self, status: TaskStatus) -> TaskStatusUpdateEvent:
        return TaskStatusUpdateEvent(**self._ids, status=status)

    def text(self, text: str, *, append: bool) -> TaskArtifactUpdateEvent:
        """A piece of the answer, or in place of all that was sent of it."""
        return TaskArtifactUpdateEvent(**self._ids, artifact=self._artifact(text), append=append)

    def _artifact(self, text: str) -> Artifact:
        part = Part(text=text, media_type="text/plain")
        if self.as_data:
            with suppress(UnreadableReply):
                part = new_data_part(read_object(text), media_type="application/json")
        return Artifact(artifact_id=ANSWER, name=ANSWER, parts=[part])

    def _status(self, state: TaskState, message: Message | None, moment: float = 0.0) -> TaskStatus:
        timestamp = Timestamp()
        timestamp.FromNanoseconds(int((moment or self._row.updated_at) * 1e9))
        return TaskStatus(state=state, message=message, timestamp=timestamp)

    def _message(self, name: str, text: str, role: Role = Role.ROLE_AGENT) -> Message:
        named = f"{self._row.task_id}-{name}"
        return Message(**self._ids, message_id=named, role=role, parts=[Part(text=text, media_type="text/plain")])

    def _said(self, event: Event) -> Iterator[Message]:
        """What an event says in the task's history."""
        match event:
            case TaskStarted() | Steered():
                yield self._message(str(event.seq), event.message, Role.ROLE_USER)
            case QuestionAsked():
                yield self._message(event.interrupt_id, with_choices(event.question, event.choices))
            case ApprovalRequested():
                asked = {"kind": "approval", "calls": event.calls}
                yield self._message(event.interrupt_id, question_text(asked, self._language))
            case QuestionAnswered():
                yield self._message(str(event.seq), event.answer, Role.ROLE_USER)
            case ApprovalGiven():
                yield self._message(str(event.seq), _verdicts(event), Role.ROLE_USER)


def _verdicts(event: ApprovalGiven) -> str:
    kept = [{name: verdict[name] for name in ("verdict", "reason") if verdict.get(name)} for verdict in event.verdicts]
    return json.dumps(kept, ensure_ascii=False)


class Translation:
    """A task's events, from its first, as the updates of a client that knows those until number `after`."""

    def __init__(self, description: Description, language: Language, after: int) -> None:
        self._description = description
        self._language = language
        self._after = after
        self._reply = ReplyStream()
        self._has_text = False
        """Whether the client has what was written before of the answer."""

    def of(self, event: Event) -> Iterator[Update]:
        known = 0 < event.seq <= self._after
        for part in self._reply.of(event):
            if not known:
                yield from self._of(part)

    def _of(self, part: ReplyPart) -> Iterator[Update]:
        match part:
            case Added(Kind.TEXT) if self._description.as_data:
                pass  # it is sent once it is whole
            case Added(Kind.TEXT, text):
                yield self._description.text(text if self._has_text else self._reply.text, append=self._has_text)
                self._has_text = True
            case TextDropped():
                self._has_text = False
            case CallOpened(call):
                yield self._description.working(call, progress("call", self._language, name=call.name))

    def finish(self, result: Json) -> Iterator[Update]:
        """The rest of the answer, and the state that the task stopped in."""
        for part in self._reply.end(str(result["answer"])):
            yield from self._of(part)
        if self._description.as_data and (answer := str(result["answer"])):
            yield self._description.text(answer, append=False)
        yield self._description.update(self._description.status(result))


def as_dict(config: Any) -> Json:
    """A message of the protocol as JSON."""
    from google.protobuf.json_format import MessageToDict

    form: Json = MessageToDict(config)
    return form
