"""A small language model in this process, constrained by a schema.

Such models pad text arguments with blanks, do not stop by themselves, and request calls whose result they have.
"""

import asyncio
import json
import os
import secrets
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from ..core.agents import Agent
from ..core.decision import decode
from ..core.environment import need_extra
from ..core.errors import Clause, ConfigurationError, ModelRefused, UnreadableReply
from ..core.models import ModelPiece, ModelReply, ModelRequest, Retry
from .reply import GrowingReply
from .transcript import read_transcript

CONTEXT_TOKENS = 8192
MAGIC = b"GGUF"

Message = Mapping[str, str]


@dataclass(frozen=True)
class Completion:
    """What the engine wrote; `finish_reason` is `length` where it was truncated."""

    text: str
    finish_reason: str = "stop"
    usage: Mapping[str, int] = field(default_factory=dict)


class Engine(Protocol):
    """Completes conversations, blocking, from any thread."""

    def complete(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
        on_text: Callable[[str], bool],
    ) -> Completion:
        """Write the reply; `on_text` gets each piece and returns whether to stop.

        `settings` are named as in chat completions.
        """
        ...


class LlamaEngine:
    """One model in memory, from its first completion until nothing holds the engine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._server: Any = None

    def complete(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
        on_text: Callable[[str], bool],
    ) -> Completion:
        form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(schema)}} if schema else None
        request = {
            "messages": [dict(message) for message in messages],
            **settings,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"response_format": form} if form else {}),
        }
        reply = _StreamedReply(on_text)
        self._loaded().handle_chat_completions(request, reply)
        return reply.completion()

    def _loaded(self) -> Any:
        with self._lock:
            if self._server is None:
                self._server = _load(self._path)
            return self._server


def _load(path: Path) -> Any:
    """Load the weights. The engine always listens on a loopback port too: a random key closes it."""
    import xllamacpp  # type: ignore[import-not-found, import-untyped, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel = CONTEXT_TOKENS, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = os.cpu_count() or 1
    params.use_jinja, params.warmup, params.prefill_assistant = True, False, False
    params.ui, params.api_keys, params.verbosity = False, [secrets.token_urlsafe(32)], 0
    return xllamacpp.Server(params)


class _StreamedReply:
    """A reply, put together from its chunks; called with each one, it returns whether to stop."""

    def __init__(self, on_text: Callable[[str], bool]) -> None:
        self._on_text = on_text
        self._text = ""
        self._reason = "stop"
        self._usage: Mapping[str, int] = {}

    def __call__(self, chunk: Mapping[str, Any]) -> bool:
        if error := chunk.get("error"):
            raise RuntimeError(str(error.get("message") or error))
        if usage := chunk.get("usage"):
            self._usage = {"input": usage["prompt_tokens"], "output": usage["completion_tokens"]}
        for choice in chunk.get("choices", ()):
            self._reason = choice.get("finish_reason") or self._reason
            if text := choice["delta"].get("content"):
                self._text += text
                return self._on_text(text)
        return False

    def completion(self) -> Completion:
        return Completion(self._text, self._reason, self._usage)


_engines: "WeakValueDictionary[Path, LlamaEngine]" = WeakValueDictionary()
"""One engine for each file; it is freed with the last model that uses it."""


def engine_of(path: str) -> LlamaEngine:
    """The engine of a GGUF file, shared by all models that name it."""
    file = Path(path).expanduser().absolute()
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(MAGIC))
    except OSError as error:
        raise ConfigurationError(
            "The model file {file} cannot be read: {reason}.", file=file, reason=error.strerror or error
        ) from error
    if magic != MAGIC:
        raise ConfigurationError(
            "The model file {file} is not a GGUF file: name the weights of a llama.cpp model.", file=file
        )
    engine = _engines.get(file)
    if engine is None:
        engine = _engines[file] = LlamaEngine(file)
    return engine


if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

MAX_TOKENS = 1024
_ROLES = {"human": "user", "ai": "assistant"}
_ARGUMENTS = ("arguments", "params")


class LocalModel:
    """A GGUF file as an agent's model, in the json protocol."""

    is_language_model = True
    endpoint = ""

    def __init__(self, engine: Engine, name: str, temperature: float = 0.0, max_tokens: int = MAX_TOKENS) -> None:
        self.name = name
        self._engine = engine
        self._temperature = temperature
        self._max_tokens = max_tokens

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Complete in a thread. A reply that asks only for calls that have succeeded in this task is discarded, and the
        model is asked again with nothing but ANSWER in the schema, so that it answers from the results.
        """
        if request.native:
            raise ModelRefused(
                'The model "{name}" does not support bound tools: set protocol="json" on the agent.', name=self.name
            )
        messages = in_template_order(request.messages)
        settings = {"max_tokens": self._max_tokens, "temperature": self._temperature, **request.settings}
        first = second = ModelReply("")
        async with aclosing(self._attempt(request, messages, request.schema, settings)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelReply):
                    first = piece
                else:
                    yield piece
        if not _repeats(first.text, request):
            yield first
            return
        yield Retry(2, Clause("it requested a call whose result it already has"))
        async with aclosing(self._attempt(request, messages, answer_only(request.schema), settings)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelReply):
                    second = piece
                else:
                    yield piece
        kinds = {*first.usage, *second.usage}
        yield replace(second, usage={kind: first.usage.get(kind, 0) + second.usage.get(kind, 0) for kind in kinds})

    async def _attempt(
        self,
        request: ModelRequest,
        messages: Sequence[Message],
        schema: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
    ) -> AsyncGenerator[ModelPiece, None]:
        """Stream one completion; the engine stops at its next token once there is no listener."""
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        growing = GrowingReply.to(request)
        loop, left = asyncio.get_running_loop(), threading.Event()

        def on_text(text: str) -> bool:
            if not left.is_set():
                loop.call_soon_threadsafe(pieces.put_nowait, text)
            return left.is_set()

        run = asyncio.create_task(asyncio.to_thread(self._engine.complete, messages, schema, settings, on_text))
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
        growing.finish_reason, growing.usage = done.finish_reason, dict(done.usage)
        reply = growing.whole()
        for piece in growing.take():
            yield piece
        yield replace(reply, text=stripped(reply.text)) if schema is not None else reply


def in_template_order(messages: Sequence["BaseMessage"]) -> list[Message]:
    """Roles and texts, the system messages first and as one: some chat templates refuse or ignore others."""
    prompts = [m.text for m in messages if m.type == "system"]
    system = [{"role": "system", "content": "\n\n".join(prompts)}] if prompts else []
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


def local_model(agent: Agent, path: str) -> LocalModel:
    """The model in the GGUF file at `path`; its weights are loaded when it is first asked."""
    need_extra(f'The model "local:{path}"', "local", "xllamacpp")
    return LocalModel(engine_of(path), f"local:{path}", agent.temperature or 0.0, agent.max_tokens or MAX_TOKENS)
