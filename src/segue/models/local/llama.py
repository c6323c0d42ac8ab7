"""llama.cpp in this process."""

import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from ...core.errors import ConfigurationError

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
        max_tokens: int,
        temperature: float,
        on_text: Callable[[str], bool],
    ) -> Completion:
        """Write the reply; `on_text` gets each piece and returns whether to stop.

        Raises:
            ValueError, RuntimeError: it cannot, with the reason.
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
        max_tokens: int,
        temperature: float,
        on_text: Callable[[str], bool],
    ) -> Completion:
        form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(schema)}} if schema else None
        request = {
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            "temperature": temperature,
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
    """The engine of a GGUF file, shared by all models that name it.

    Raises:
        ConfigurationError: there is no such file, or it is not a GGUF file.
    """
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
