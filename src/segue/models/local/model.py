"""A small language model in this process, constrained by a schema.

Such models pad text arguments with blanks, do not stop by themselves, and request calls whose result they have.
"""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ...core.agents import Agent
from ...core.decision import decode
from ...core.environment import need_extra
from ...core.errors import ModelRefused, UnreadableReply
from ...core.models import ModelPiece, ModelReply, ModelRequest, Retry
from ..reply import GrowingReply
from ..transcript import read_transcript
from .llama import Engine, Message, engine_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

MAX_TOKENS = 1024
_ROLES = {"human": "user", "ai": "assistant"}
_ARGUMENTS = ("arguments", "params")


class LocalModel:
    """A GGUF file as an agent's model, in the json protocol."""

    is_language_model = True

    def __init__(self, engine: Engine, name: str, temperature: float = 0.0, max_tokens: int = MAX_TOKENS) -> None:
        self.name = name
        self._engine = engine
        self._temperature = temperature
        self._max_tokens = max_tokens

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Complete in a thread. A reply that asks only for calls that have succeeded in this task is discarded, and the
        model is asked once more with nothing but ANSWER in the schema, so that it answers from the results.
        """
        if request.native:
            raise ModelRefused(
                'The model "{name}" takes no bound tools: set protocol="json" on the agent.', name=self.name
            )
        messages = in_template_order(request.messages)
        first = second = ModelReply("")
        async with aclosing(self._attempt(messages, request.schema)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelReply):
                    first = piece
                else:
                    yield piece
        if not _repeats(first.text, request):
            yield first
            return
        yield Retry(2, "it requested a call whose result it has")
        async with aclosing(self._attempt(messages, answer_only(request.schema))) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelReply):
                    second = piece
                else:
                    yield piece
        yield _with_usage_of(first, second)

    async def _attempt(
        self, messages: Sequence[Message], schema: Mapping[str, Any] | None
    ) -> AsyncGenerator[ModelPiece, None]:
        """Stream one completion; the engine stops at its next token once there is no listener."""
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        growing = GrowingReply()
        loop, left = asyncio.get_running_loop(), threading.Event()

        def on_text(text: str) -> bool:
            if not left.is_set():
                loop.call_soon_threadsafe(pieces.put_nowait, text)
            return left.is_set()

        run = asyncio.create_task(
            asyncio.to_thread(self._engine.complete, messages, schema, self._max_tokens, self._temperature, on_text)
        )
        run.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (text := await pieces.get()) is not None:
                growing.add_text(text)
                for piece in growing.take():
                    yield piece
            done = await run
        except (ValueError, RuntimeError) as error:
            raise ModelRefused(
                'The model "{name}" cannot answer: {reason}.', name=self.name, reason=str(error).rstrip(".")
            ) from error
        finally:
            left.set()
        reply = growing.whole()
        for piece in growing.take():
            yield piece
        text = stripped(reply.text) if schema is not None else reply.text
        yield ModelReply(text=text, finish_reason=done.finish_reason, usage=done.usage)


def in_template_order(messages: Sequence["BaseMessage"]) -> list[Message]:
    """Roles and texts, the system messages first: some chat templates refuse or ignore them elsewhere."""
    system = [{"role": "system", "content": m.text} for m in messages if m.type == "system"]
    spoken = [{"role": _ROLES.get(m.type, "user"), "content": m.text} for m in messages if m.type != "system"]
    return [*system, *spoken]


def stripped(text: str) -> str:
    """The JSON of a reply, without blanks around the strings in its arguments; invalid JSON stays as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_strip(value, inside=False), ensure_ascii=False)


def _strip(value: Any, inside: bool) -> Any:
    if isinstance(value, dict):
        return {key: _strip(item, inside or key in _ARGUMENTS) for key, item in value.items()}
    if isinstance(value, list):
        return [_strip(item, inside) for item in value]
    return value.strip() if inside and isinstance(value, str) else value


def _repeats(text: str, request: ModelRequest) -> bool:
    """Whether a decision requests only calls that have succeeded already."""
    if request.purpose != "decide" or answer_only(request.schema) is None:
        return False
    try:
        requested = decode(text).tool_calls
    except UnreadableReply:
        return False
    done = [(made.name, made.arguments) for made in read_transcript(request).made if not made.error]
    return bool(requested) and all((call.name, dict(call.arguments)) in done for call in requested)


def answer_only(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The schema of a decision with its ANSWER arm alone; None where the schema is not a decision's."""
    try:
        narrowed: dict[str, Any] = json.loads(json.dumps(schema))
        result = narrowed["properties"]["action"]["properties"]["result"]
        arms = [arm for arm in result["anyOf"] if arm["properties"]["action_type"]["const"] == "ANSWER"]
    except (TypeError, KeyError):
        return None
    result["anyOf"] = arms
    return narrowed if arms else None


def _with_usage_of(first: ModelReply, second: ModelReply) -> ModelReply:
    usage = {kind: first.usage.get(kind, 0) + second.usage.get(kind, 0) for kind in {*first.usage, *second.usage}}
    return ModelReply(text=second.text, finish_reason=second.finish_reason, usage=usage)


def local_model(agent: Agent, path: str) -> LocalModel:
    """The model in the GGUF file at `path`; its weights are loaded when it is first asked.

    Raises:
        MissingExtra: the extra `local` is not installed.
        ConfigurationError: the file does not exist or is not a GGUF file.
    """
    need_extra(f'The model "local:{path}"', "local", "xllamacpp")
    return LocalModel(engine_of(path), f"local:{path}", agent.temperature or 0.0, agent.max_tokens or MAX_TOKENS)
