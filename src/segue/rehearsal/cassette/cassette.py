"""A recorded session: its messages, what the model replied to which request, and the results of its tools."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from ...core.records import Json

VERSION: Final = 1
"""The version of the format."""


def canonical(arguments: Mapping[str, Any]) -> str:
    """One text per value, whatever the order of its keys."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


class Record(BaseModel):
    """A part of a cassette."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FunctionCall(Record):
    """A function call as the model wrote it."""

    id: str
    name: str
    arguments: str


class Reply(Record):
    """What the model replied; `error` is how it refused.

    `streamed` says that text which calls follow was shown as the answer before they arrived.
    """

    reasoning: str = ""
    text: str = ""
    tool_calls: tuple[FunctionCall, ...] = ()
    finish_reason: str = ""
    streamed: bool = False
    error: str = ""


class ModelCall(Record):
    """A call of the model: the request with its digest, and the reply with its tokens.

    `at` is seconds of work since the task began. `request` is empty where the agent has changed since.
    """

    purpose: str
    model: str
    at: float
    digest: str
    request: str = ""
    reply: Reply
    input: int = 0
    output: int = 0


class ToolCall(Record):
    """A tool call with its outcome, {"success": value} or {"error": text}; None if the task was cancelled before."""

    name: str
    arguments: Json
    at: float
    outcome: Json | None = None

    @property
    def text(self) -> str:
        """The call on one line."""
        return f"{self.name}({canonical(self.arguments)})"


class TakenNotes(Record):
    """The first `count` notes reached the agent after so many model and tool calls."""

    count: int
    model_calls: int
    tool_calls: int


class Answer(Record):
    """A person's answer, and what they were asked: a question, or the calls to approve."""

    asked: str
    value: Json


def asked_of(question: Json) -> str:
    """What a person is asked, as a text: the question, or one line for each call."""
    calls = (ToolCall(name=call["name"], arguments=call["arguments"], at=0.0) for call in question.get("calls", ()))
    return str(question.get("question") or "\n".join(call.text for call in calls))


class Turn(Record):
    """A message and its task.

    `model` is one that took the place of the agent's own. `failure` is the error that ended a task without a result,
    `partial` what a cancelled one had streamed of its answer.
    """

    message: str
    task_id: str
    agent: str
    mode: str
    model: str = ""
    language: Literal["zh", "en", ""] = ""
    user: str = "default"
    created_at: float
    trace_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    taken_notes: tuple[TakenNotes, ...] = ()
    answers: tuple[Answer, ...] = ()
    permitted: tuple[str, ...] = ()
    """Tools that ran without a question, because a person had allowed them."""
    model_calls: tuple[ModelCall, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    status: Literal["done", "error", "cancelled"]
    answer: str = ""
    error: str = ""
    failure: str = ""
    partial: str = ""


class ServedTool(Record):
    """A tool of an MCP server as it was described: its specification in OpenAI's format, and its marks."""

    spec: Json
    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool = False


class Cassette(Record):
    """A session. `messages` is its history in OpenAI's format, `served` the tools of each agent's MCP servers."""

    version: Literal[1] = VERSION
    session: str
    served: dict[str, tuple[ServedTool, ...]] = {}
    turns: tuple[Turn, ...]
    messages: tuple[dict[str, Any], ...]
