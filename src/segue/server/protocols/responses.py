"""The output of a response: its items, and the events of its stream, from the events of its task.

The number of a stream's event follows from what is stored, so that a stream that begins again numbers them alike. Each
event has a number; a message's text has room for `TEXT` characters, and again as many after each time that the task
was resumed, so that the number of a piece of text says how much of it was sent.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ...core.events import ApprovalGiven, ApprovalRequested, Event, QuestionAsked, Resumed, ToolCall, ToolResult
from ...core.records import Json
from ...runtime.projection import CallId, call_id
from ...runtime.reply_stream import (
    Added,
    Approved,
    CallClosed,
    CallOpened,
    Completed,
    Discarded,
    Ended,
    Kind,
    Part,
    Question,
    ReplyStream,
)
from ..readers.client_tools import tool_call_id
from ..readers.segment import Segment, approval_id
from ..truncation import readable
from .chat_completions import RESTARTED

TEXT = 1_000_000


class Output:
    """Makes the items and the stream of a response; events up to number `after` were sent before."""

    def __init__(self, segment: Segment, after: int = -1) -> None:
        self.items: list[Json] = []
        self._label = segment.row.agent_id
        self._place = f"{segment.task_id}_{segment.start}"
        self._reply = ReplyStream(segment.client_tools)
        self._reply.recall(segment.log[: segment.start])
        self._asked = segment.asked
        self._after = after
        self._number = 0
        self._resumed = 0
        self._calls: dict[CallId, int] = {}
        self._message = -1
        """The place of the message under way; -1 where there is none."""
        self._base = 0
        self._sent = ""
        """What the client has of the message's text, unless it was `_restarted` since."""
        self._written = 0
        """How many characters were numbered since the task was resumed last."""
        self._restarted = False
        self._as_json = "answer_format" in segment.row.reply_options
        """Whether the answer is JSON, which is sent once it is known to fit; texts before calls are thoughts."""

    def of(self, event: Event) -> Iterator[Json]:
        """What an event of the task adds to the stream."""
        for part in self._reply.of(event):
            yield from self._of(part)

    def _of(self, part: Part) -> Iterator[Json]:
        match part:
            case Added(Kind.TEXT, text):
                yield from self._add_text(text) if not self._as_json else ()
            case Completed(Kind.TEXT, text):
                yield from self._reason(text) if self._as_json else self._say(text)
            case Completed(Kind.THOUGHT, text):
                yield from self._reason(text)
            case Discarded():
                self._restarted, self._sent = self._restarted or bool(self._sent), ""
            case Resumed():
                self._resumed, self._written = self._resumed + 1, 0
            case Ended(text):
                if rest := text or (self._sent if self._message >= 0 else ""):
                    yield from self._say(rest)
            case _:
                yield from self._of_call(part)

    def _of_call(self, part: Part) -> Iterator[Json]:
        match part:
            case CallOpened(ToolResult() | ToolCall(needs_approval=False) as call):  # others once they are approved
                yield from self._begin_call(call)
            case CallClosed(result):
                yield from self._end_call(result)
            case Approved(given):
                yield from self._begin_approved(given)
            case Question(ApprovalRequested() as asked):
                yield from self._ask(asked)
            case Question(QuestionAsked() as asked):
                yield from self._ask_client(asked) if asked.client_calls else self._say(asked.question)

    def lifecycle(self, kind: str, response: Json) -> Iterator[Json]:
        """An event that holds the whole response."""
        yield from self._event(f"response.{kind}", response=response)

    def fail(self, message: str) -> Iterator[Json]:
        """The event of a stream that breaks."""
        yield from self._event("error", code="server_error", message=message, param=None)

    def close(self, answer: str) -> Iterator[Json]:
        """The rest of the answer that the response ends with, and the end of calls that have no result."""
        for part in self._reply.end(answer):
            yield from self._of(part)
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

    def _reason(self, text: str) -> Iterator[Json]:
        """A thought, whole."""
        yield from self._add("rs", {"type": "reasoning", "summary": [], "status": "in_progress"})
        index, part = len(self.items) - 1, {"type": "summary_text", "text": text}
        yield from self._of_item("reasoning_summary_part.added", index, summary_index=0, part={**part, "text": ""})
        yield from self._of_item("reasoning_summary_text.delta", index, summary_index=0, delta=text)
        yield from self._of_item("reasoning_summary_text.done", index, summary_index=0, text=text)
        yield from self._of_item("reasoning_summary_part.done", index, summary_index=0, part=part)
        yield from self._end(index, summary=[part], status="completed")

    # Messages.

    def _add_text(self, content: str) -> Iterator[Json]:
        if self._message < 0:
            yield from self._begin_message()
        yield from self._write(content)

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
        """Announce a call, unless it was when it was approved."""
        if call_id(event) in self._calls:
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
        index = self._calls.pop(call_id(event))
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
