"""The messages of a thread as an AG-UI client has them."""

from collections.abc import Iterator, Sequence

from ag_ui.core import (
    BaseEvent,
    MessagesSnapshotEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic import ValidationError

from ...core.records import Json, Task
from ..readers.ag_ui import RunInput


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

    def corrected(self, earlier: Sequence[Task], goes_on: bool) -> Iterator[BaseEvent]:
        """The messages that the client should have where it has others.

        `earlier` are the tasks of the thread before this one, which a client that knows the thread has the messages of;
        `goes_on` says that this one began in an earlier run.
        """
        lacking = [said for task in earlier for said in _turn(task)]
        if goes_on and not self._run.has_history:
            lacking.append(_asked(self._row))
        if lacking:
            self._before = [*lacking, *({**said, "id": f"{self._run.prefix}user"} for said in self._before)]
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
    return {"id": f"{task.task_id}:user", "role": "user", "content": task.message}


def _turn(task: Task) -> list[Json]:
    """What was said in a task that ended."""
    answer = (task.result or {}).get("answer")
    answered = [{"id": f"{task.task_id}:answer", "role": "assistant", "content": str(answer)}] if answer else []
    return [_asked(task), *answered]
