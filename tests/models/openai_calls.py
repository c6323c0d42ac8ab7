"""An OpenAI model on the loopback server, asked without waiting for anything."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import HumanMessage

from segue.core.agents import Agent
from segue.core.errors import ModelError
from segue.core.models import CallDelta, ModelPiece, ModelReply, ModelRequest, Retry, TextDelta
from segue.models.build import build_model
from segue.models.habits import Habits
from segue.models.openai.faults import RetryPolicy
from segue.models.openai.model import OpenAIModel
from tests.loopback import Json, LoopbackServer, Scripted

KEY = "test-key-0123456789"
NOW = 1_700_000_000.0
READ_TIMEOUT = 10.0
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}
ADD: Mapping[str, Any] = {
    "type": "function",
    "segue": {"keywords": ["plus"], "title": "Add", "read_only": True},
    "function": {
        "name": "add",
        "description": "Add numbers.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "examples": [1], "keywords": ["first"]},
                "keywords": {"type": "array", "items": {"type": "string", "examples": ["x"]}, "default": ["examples"]},
            },
            "required": ["a", "keywords"],
        },
    },
}
JSON = ModelRequest(purpose="decide", messages=[HumanMessage("hi")], schema=SCHEMA, tools=[ADD])
NATIVE = ModelRequest(purpose="decide", messages=[HumanMessage("hi")], tools=[ADD], native=True)
PROSE = ModelRequest(purpose="answer", messages=[HumanMessage("hi")])


@dataclass
class CallLog:
    """What came of a call: its pieces, how long it slept before each attempt, and the error that ended it."""

    pieces: list[ModelPiece] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    error: ModelError | None = None
    sent: list[Json] = field(default_factory=list)

    @property
    def reply(self) -> ModelReply:
        if self.error is not None:
            raise self.error
        (reply,) = [piece for piece in self.pieces if isinstance(piece, ModelReply)]
        assert self.pieces[-1] is reply
        return reply

    @property
    def retries(self) -> list[Retry]:
        return [piece for piece in self.pieces if isinstance(piece, Retry)]

    @property
    def streamed(self) -> list[str]:
        """Text as itself, the beginning of a call as `+name`."""
        return [
            piece.text if isinstance(piece, TextDelta) else f"+{piece.name}"
            for piece in self.pieces
            if isinstance(piece, TextDelta | CallDelta)
        ]


def model_at(
    server: LoopbackServer,
    streaming: bool = True,
    slept: list[float] | None = None,
    read_timeout: float = READ_TIMEOUT,
    habits: Habits | None = None,
    given: Sequence[str] | None = None,
) -> OpenAIModel:
    """The model that an agent gets, but hurried: it notes what it should sleep and is never lucky."""
    agent = Agent(agent_id="a", model="openai:m", base_url=server.base_url, api_key=KEY, streaming=streaming)  # type: ignore[arg-type]
    built = build_model(agent, "", {})
    assert isinstance(built, OpenAIModel)
    policy = hurried(slept, read_timeout)
    return OpenAIModel(built.chat, built.name, streaming=streaming, policy=policy, habits=habits, given=given)


def hurried(slept: list[float] | None = None, read_timeout: float = READ_TIMEOUT) -> RetryPolicy:
    noted = [] if slept is None else slept

    async def note(seconds: float) -> None:
        noted.append(seconds)

    return RetryPolicy(
        read_timeout=read_timeout, reply_timeout=read_timeout, sleep=note, chance=lambda: 0.0, clock=lambda: NOW
    )


async def record(model: Any, request: ModelRequest) -> CallLog:
    """Ask, and keep whatever comes of it; an error that is no ModelError is a bug and passes through."""
    log = CallLog()
    async with aclosing(model.stream(request)) as pieces:
        try:
            async for piece in pieces:
                log.pieces.append(piece)
        except ModelError as error:
            log.error = error
    return log


async def ask(
    script: Sequence[Scripted], request: ModelRequest, streaming: bool = True, make: Callable[..., Any] = model_at
) -> CallLog:
    """Ask a model on a server with that script, which has to be used up."""
    slept: list[float] = []
    async with LoopbackServer(script) as server:
        log = await record(make(server, streaming, slept), request)
        server.assert_spent()
    log.slept = slept
    log.sent = [asked.body for asked in server.requests]
    return log
