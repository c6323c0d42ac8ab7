"""The output of a response: its items, and the events of its stream, from the events of its task.

The number of a stream's event follows from what is stored, so that a stream that begins again numbers them alike. Each
event has a number; a message's text has room for `TEXT` characters, and again as many after each time that the task
was resumed, so that the number of a piece of text says how much of it was sent.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ...core.events import (
    ApprovalGiven,
    ApprovalRequested,
    AttemptRestarted,
    Event,
    Fallback,
    ModelCalled,
    QuestionAsked,
    Resumed,
    Thinking,
    Thought,
    Token,
    ToolCall,
    ToolResult,
)
from ...core.records import Json
from ...prompts.phrases import is_banner
from ...runtime.projection import call_id
from ..openai.client_calls import tool_call_id
from ..openai.completion import RESTARTED
from ..sse.truncation import readable
from .segment import Segment, approval_id

TEXT = 1_000_000


class Output:
    """Makes the items and the stream of a response; events up to number `after` were sent before."""

    def __init__(self, segment: Segment, after: int = -1) -> None:
        self.items: list[Json] = []
        self._label = segment.row.agent_id
        self._place = f"{segment.task_id}_{segment.start}"
        self._said = segment.said
        self._asked = segment.asked
        self._client_tools = segment.client_tools
        self._after = after
        self._number = 0
        self._resumed = 0
        self._calls: dict[tuple[str, int], int] = {}
        self._thoughts: dict[str, str] = {}
        self._reasoned: set[str] = set()
        self._message = -1
        """The place of the message under way; -1 where there is none."""
        self._base = 0
        self._sent = ""
        """What the client has of the message's text, unless it was `_restarted` since."""
        self._written = 0
        """How many characters were numbered since the task was resumed last."""
        self._restarted = False
        self._was_sent = True
        """Whether the next piece may repeat what is known: what was streamed before, as one piece."""

    def of(self, event: Event) -> Iterator[Json]:
        """What an event of the task adds to the stream."""
        match event:
            case Thinking() if not is_banner(event.content):
                self._thoughts[event.trace_id] = self._thoughts.get(event.trace_id, "") + event.content
            case Token():
                yield from self._add_text(event)
            case AttemptRestarted() | Fallback():
                self._thoughts.pop(event.trace_id, None)
                self._restarted, self._sent = self._restarted or bool(self._sent), ""
            case Resumed():
                self._restarted, self._sent = self._restarted or bool(self._sent), ""
                self._resumed, self._written = self._resumed + 1, 0
            case _:
                yield from self._of_stored(event)

    def _of_stored(self, event: Event) -> Iterator[Json]:
        match event:
            case ModelCalled():
                yield from self._reason(event.trace_id, str(event.reply.get("reasoning", "")))
                if event.reply.get("streamed"):
                    self._said.append(str(event.reply["text"]))
                    yield from self._say(str(event.reply["text"]))
            case Thought():
                yield from self._reason(event.trace_id, event.text)
            case ToolCall() if not event.needs_approval:  # else it is announced once it is approved
                yield from self._begin_call(event)
            case ToolResult():
                yield from self._end_call(event)
            case ApprovalRequested():
                yield from self._ask(event)
            case ApprovalGiven():
                yield from self._begin_approved(event)
            case QuestionAsked():
                yield from self._ask_client(event) if event.client_calls else self._say(event.question)

    def lifecycle(self, kind: str, response: Json) -> Iterator[Json]:
        """An event that holds the whole response."""
        yield from self._event(f"response.{kind}", response=response)

    def fail(self, message: str) -> Iterator[Json]:
        """The event of a stream that breaks."""
        yield from self._event("error", code="server_error", message=message, param=None)

    def close(self, answer: str) -> Iterator[Json]:
        """The rest of the answer that the response ends with, and the end of calls that have no result."""
        if rest := self._without_said(answer) or (self._sent if self._message >= 0 else ""):
            yield from self._say(rest)
        for index in self._calls.values():
            yield from self._end(index, status="incomplete")

    def _event(self, kind: str, **fields: Any) -> Iterator[Json]:
        number, self._number = self._number, self._number + 1
        if number > self._after:
            yield {"type": kind, "sequence_number": number, **fields}

    def _add(self, kind: str, item: Json) -> Iterator[Json]:
        """Announce an item."""
        self.items.append({"id": f"{kind}_{self._place}_{len(self.items)}", **item})
        yield from self._of_output("output_item.added", len(self.items) - 1, item=dict(self.items[-1]))

    def _of_output(self, kind: str, index: int, **fields: Any) -> Iterator[Json]:
        yield from self._event(f"response.{kind}", output_index=index, **fields)

    def _of_item(self, kind: str, index: int, **fields: Any) -> Iterator[Json]:
        yield from self._of_output(kind, index, item_id=self.items[index]["id"], **fields)

    def _end(self, index: int, **changes: Any) -> Iterator[Json]:
        self.items[index] |= changes
        yield from self._of_output("output_item.done", index, item=dict(self.items[index]))

    # Thoughts.

    def _reason(self, trace_id: str, text: str) -> Iterator[Json]:
        """A thought, whole; each round has one."""
        if not text.strip() or (trace_id and trace_id in self._reasoned):
            return
        self._reasoned.add(trace_id)
        self._thoughts.pop(trace_id, None)
        yield from self._add("rs", {"type": "reasoning", "summary": [], "content": [], "status": "in_progress"})
        index, part = len(self.items) - 1, {"type": "reasoning_text", "text": text}
        yield from self._of_item("content_part.added", index, content_index=0, part={**part, "text": ""})
        yield from self._of_item("reasoning_text.delta", index, content_index=0, delta=text)
        yield from self._of_item("reasoning_text.done", index, content_index=0, text=text)
        yield from self._of_item("content_part.done", index, content_index=0, part=part)
        yield from self._end(index, content=[part], status="completed")

    # Messages.

    def _add_text(self, event: Token) -> Iterator[Json]:
        content = self._unsaid(event.content)
        if not content:
            return
        if self._message < 0:
            yield from self._reason(event.trace_id, self._thoughts.pop(event.trace_id, ""))
            yield from self._begin_message()
        yield from self._write(content)

    def _unsaid(self, content: str) -> str:
        """What is new in the first piece that is read, which also holds what the run streamed before calls."""
        if self._was_sent:
            self._was_sent = False
            return self._without_said(content)
        return content

    def _without_said(self, text: str) -> str:
        """The text without what was said before calls; that of a task that was resumed begins with the latest of it."""
        for first in range(len(self._said)):
            said = "\n\n".join([*self._said[first:], ""])
            if text.startswith(said):
                return text[len(said) :]
        return text

    def _begin_message(self) -> Iterator[Json]:
        yield from self._add("msg", {"type": "message", "role": "assistant", "content": [], "status": "in_progress"})
        self._message, self._sent, self._written, self._restarted = len(self.items) - 1, "", 0, False
        yield from self._of_item("content_part.added", self._message, content_index=0, part=_text(""))
        self._base = self._number

    def _write(self, content: str) -> Iterator[Json]:
        """A piece of text, without what was sent of it; text that takes another's place follows a line."""
        start = self._base + self._resumed * TEXT
        other = self._restarted or self._base < self._after < start
        self._restarted = False
        piece = content[max(0, self._after - start - self._written) :]
        self._sent, self._written = self._sent + content, self._written + len(content)
        if piece:
            self._number = start + self._written
            delta = RESTARTED + piece if other else piece
            yield from self._of_item("output_text.delta", self._message, content_index=0, delta=delta, logprobs=[])
            self._after = min(self._after, self._base)

    def _say(self, text: str) -> Iterator[Json]:
        """A message that is complete; what was streamed of it stays, where it begins with that."""
        if self._message < 0:
            yield from self._begin_message()
        index = self._message
        if not text.startswith(self._sent) and not self._sent.startswith(text):
            self._restarted, self._sent = True, ""
        if rest := text[len(self._sent) :]:
            yield from self._write(rest)
        self._number = self._base + (self._resumed + 1) * TEXT
        yield from self._of_item("output_text.done", index, content_index=0, text=text, logprobs=[])
        yield from self._of_item("content_part.done", index, content_index=0, part=_text(text))
        yield from self._end(index, content=[_text(text)], status="completed")
        self._message, self._sent, self._restarted = -1, "", False

    # Calls and approvals.

    def _begin_call(self, event: ToolCall | ToolResult) -> Iterator[Json]:
        """Announce a call once, however often it begins; one of the client ends the response."""
        if call_id(event) in self._calls or event.name in self._client_tools:
            return
        arguments = readable(event.arguments)
        call = {"type": "mcp_call", "name": event.name, "server_label": self._label, "arguments": arguments}
        asked = next((call for call in self._asked if _is_call(call, event)), None)
        if asked:
            self._asked.remove(asked)
        unknown = {"output": None, "error": None, "status": "in_progress"}
        yield from self._add("mcp", {**call, "approval_request_id": asked and asked["id"], **unknown})
        index = self._calls[call_id(event)] = len(self.items) - 1
        yield from self._of_item("mcp_call.in_progress", index)
        yield from self._of_item("mcp_call_arguments.done", index, arguments=arguments)

    def _end_call(self, event: ToolResult) -> Iterator[Json]:
        yield from self._begin_call(event)
        index = self._calls.pop(call_id(event), None)
        if index is None:  # the client knows the result
            return
        if "error" in event.result:
            yield from self._of_item("mcp_call.failed", index)
            error = {"type": "mcp_tool_execution_error", "content": [_input(str(event.result["error"]))]}
            yield from self._end(index, error=error, status="failed")
            return
        value = event.result.get("success")
        yield from self._of_item("mcp_call.completed", index)
        yield from self._end(index, output=value if isinstance(value, str) else readable(value), status="completed")

    def _ask(self, event: ApprovalRequested) -> Iterator[Json]:
        """The requests, in place of the calls, which the next response has."""
        for index in self._calls.values():
            yield from self._end(index, status="incomplete")
        for call in event.calls:
            about = {"name": call["name"], "server_label": self._label, "arguments": readable(call["arguments"])}
            named = approval_id(event.task_id, event.interrupt_id, call["index"])
            yield from self._add("mcpr", {"id": named, "type": "mcp_approval_request", **about})
            yield from self._end(len(self.items) - 1)

    def _ask_client(self, event: QuestionAsked) -> Iterator[Json]:
        """The calls that the client carries out."""
        for call in event.client_calls:
            name, arguments = call["name"], readable(call["arguments"])
            about = {"call_id": tool_call_id(event.task_id, call["id"]), "name": name, "arguments": ""}
            yield from self._add("fc", {"type": "function_call", **about, "status": "in_progress"})
            index = len(self.items) - 1
            yield from self._of_item("function_call_arguments.delta", index, delta=arguments)
            yield from self._of_item("function_call_arguments.done", index, name=name, arguments=arguments)
            yield from self._end(index, arguments=arguments, status="completed")

    def _begin_approved(self, event: ApprovalGiven) -> Iterator[Json]:
        """The calls of a round that were announced before they were approved; those of a plan's steps are after."""
        for verdict in event.verdicts if event.trace_id else ():
            call = next((call for call in self._asked if call["index"] == verdict["index"]), None)
            if call and verdict["verdict"] != "reject":
                about = {"name": call["name"], "arguments": verdict.get("arguments") or call["arguments"]}
                place = {"task_id": event.task_id, "trace_id": event.trace_id, "index": call["index"]}
                yield from self._begin_call(ToolCall(**about, **place))


def _is_call(asked: Json, event: ToolCall | ToolResult) -> bool:
    """Whether the approval of a call was asked for: one of a round has a place there, one of a plan its step."""
    place = asked["index"] == event.index if event.trace_id else asked.get("step_id", "") == event.step_id
    return place and bool(asked["name"] == event.name)


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _input(text: str) -> Json:
    return {"type": "text", "text": text}


def items_of(segment: Segment) -> Sequence[Json]:
    """The items of a response, as far as they are stored."""
    output = Output(segment)
    for event in segment.events:
        for _ in output.of(event):
            pass
    if segment.is_over:
        for _ in output.close(segment.answer):
            pass
    return output.items
