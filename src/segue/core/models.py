"""Models as the nodes call them: the request, the pieces of a reply, and the port."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .clause import Clause

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

OFFLINE = "offline"
"""The name of the offline planner: rules, not a language model."""
Purpose = Literal["decide", "plan", "answer", "extract", "converse", "summary"]
REFUSAL = "refusal"
"""The `finish_reason` of a reply that says why there is no answer."""


def is_local(model: str) -> bool:
    """Whether a model of this name is loaded from a file."""
    return model.startswith("local:")


@dataclass(frozen=True)
class ModelRequest:
    """One call of a model.

    `schema` is the JSON schema of the reply, or None for prose. `tools` are OpenAI-format function specs, each with a
    `segue` key: {"keywords": [...], "title": str, "read_only": bool}. `native` binds the tools as function calls
    instead of asking for a schema.
    `strict`: an endpoint that can keeps to the schema. `tool_choice` is empty where the model decides, `required`, or
    the name of the tool to call. `settings` replace the model's own, by their names in chat completions.
    `nudge` is a user's message to close with, for an endpoint that refuses to continue from an assistant's. `seed` is
    sent to endpoints that take one. `files` are the contents, by digest, of the files that messages name and that are
    sent as parts.
    """

    purpose: Purpose
    messages: Sequence["BaseMessage"]
    schema: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    native: bool = False
    nudge: str = ""
    seed: int | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    strict: bool = False
    tool_choice: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def may_answer(self) -> bool:
        """Whether the reply may be the answer of the task."""
        return self.purpose == "answer" or (self.purpose == "decide" and (self.native or self.schema is not None))


@dataclass(frozen=True)
class TextDelta:
    """A piece of a reply, as it arrives."""

    text: str


@dataclass(frozen=True)
class CallDelta:
    """A function call begins to arrive: what was streamed of this reply so far was its thought."""

    name: str


@dataclass(frozen=True)
class ReasoningDelta:
    """A piece of the model's reasoning, which is no part of its reply."""

    text: str


@dataclass(frozen=True)
class Withdrawn:
    """The text so far was reasoning, which follows as such: discard what was streamed of it."""


@dataclass(frozen=True)
class Hidden:
    """Characters that arrived and are not shown, of arguments and the like."""

    chars: int = 0


@dataclass(frozen=True)
class Retry:
    """The call is made again, after `seconds`: discard what was streamed of it."""

    attempt: int
    reason: Clause | str
    seconds: float = 0.0


@dataclass(frozen=True)
class RawCall:
    """A function call as the model wrote it: `arguments` is text that may not be valid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ModelReply:
    """The whole reply.

    `usage` counts tokens as {"input", "output"}, and "cached" of the input where the endpoint says so. `cost` is in US
    dollars; None: it is not known.
    """

    text: str
    finish_reason: str = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)
    tool_calls: tuple[RawCall, ...] = ()
    cost: float | None = None


ModelPiece = TextDelta | ReasoningDelta | CallDelta | Withdrawn | Hidden | Retry | ModelReply


class Model(Protocol):
    """An agent's model, ready to call."""

    name: str
    is_language_model: bool

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`.

        Raises:
            ModelError: what went wrong, in a sentence.
        """
        ...
