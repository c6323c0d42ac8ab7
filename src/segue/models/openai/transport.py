"""The connection between LangChain's OpenAI client and the endpoint: no incomplete or invalid reply passes it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import anyio
import openai

from ...core.clause import Clause
from ...core.models import ModelPiece, ModelReply, TextDelta
from ..reply import GrowingReply
from .faults import (
    AttemptFailed,
    Fault,
    Redactor,
    RetryPolicy,
    body_fault,
    client_errors,
    fault_of,
    timeout_fault,
    too_long,
)
from .wire_format import Choice, Completion, Function, Message, ToolCall, read_completion

_REPHRASE = "rephrase the message, or choose another model"
_BROKEN_OFF = Fault(Clause("did not finish its reply"))
_NOT_ASCII = Clause("the key or a header is not ASCII")


class ReplyReader:
    """One attempt's reply."""

    def __init__(self, redact: Redactor, growing: GrowingReply) -> None:
        self._redact = redact
        self._reply = growing
        self._refusal: list[str] = []
        self._begun = False

    @property
    def finish_reason(self) -> str:
        return self._reply.finish_reason

    def read(self, completion: Completion) -> bool:
        """Add a completion, or a chunk of one; return whether anything was in it.

        Raises:
            AttemptFailed: it is an error object.
        """
        if completion.error:
            raise AttemptFailed(body_fault(completion.error, self._redact))
        if completion.usage is not None:
            usage = completion.usage
            self._reply.usage = {"input": usage.prompt_tokens, "output": usage.completion_tokens}
            if cached := usage.prompt_tokens_details.cached_tokens:
                self._reply.usage["cached"] = cached
        return any([self._choice(choice) for choice in completion.choices[:1]])

    def _choice(self, choice: Choice) -> bool:
        self._reply.finish_reason = choice.finish_reason or self._reply.finish_reason
        message = choice.delta or choice.message
        if message is None:
            return False
        self._begun = True
        return self._message(message, whole=choice.delta is None)

    def _message(self, message: Message, whole: bool) -> bool:
        reasoning, text = message.reasoning_text, message.text
        self._reply.add_reasoning(reasoning)
        self._reply.add_text(text)
        if message.refusal:
            self._refusal.append(message.refusal)
            self._reply.add_hidden(len(message.refusal))
        calls = [self._call(call, whole) for call in message.tool_calls]
        return any([*calls, text, message.refusal, reasoning])

    def _call(self, call: ToolCall, whole: bool) -> bool:
        function = call.function or Function()
        if whole:
            self._reply.add_whole_call(call.id, function.name, function.arguments)
        elif call.function is None or not (call.id or function.name or function.arguments):
            return False
        else:
            self._reply.add_call(call.index, call.id, function.name, function.arguments)
        return True

    @property
    def opened(self) -> bool | None:
        """Whether the endpoint's replies begin inside a thought, where this one shows it."""
        return self._reply.opened

    @property
    def pending(self) -> Sequence[ModelPiece]:
        """The pieces that were not taken yet."""
        return self._reply.pending

    def take(self) -> list[ModelPiece]:
        """The pieces since the last time."""
        return self._reply.take()

    def check(self, media_type: str) -> None:
        """Check that the reply is complete.

        Raises:
            AttemptFailed: it is not, or the model declined.
        """
        if refusal := "".join(self._refusal):
            declined = Clause("declined to answer ({why})", why=self._redact(refusal)[:200])
            raise AttemptFailed(Fault(declined, _REPHRASE, retryable=False))
        if self.finish_reason == "content_filter":
            raise AttemptFailed(Fault(Clause("stopped its reply at its content filter"), _REPHRASE, retryable=False))
        if self.finish_reason:
            return
        if self._begun:
            raise AttemptFailed(Fault(Clause("ended its reply without a finish_reason")))
        if "json" in media_type or "event-stream" in media_type or not media_type:
            raise AttemptFailed(Fault(Clause("answered without choices")))
        reason = Clause("answered with {media_type} where a reply should be", media_type=media_type)
        raise AttemptFailed(Fault(reason, "check base_url, then resume"))

    def reply(self) -> ModelReply:
        return self._reply.whole()


TAIL = 5.0
"""Seconds that a stream is waited for once it said how it finished: all that is left is the usage."""

DRAIN = 0.1
"""Seconds that the end of the body is waited for after the last event."""

MAX_BYTES = 16 * 2**20
"""The longest body, or event of a stream, that is read."""


class Transport:
    """One attempt's completions client, in the place of ChatOpenAI's `async_client`.

    It raises `AttemptFailed` for every fault, before LangChain could take it for a reply or for an error of its own.
    """

    def __init__(
        self, completions: Any, policy: RetryPolicy, redact: Redactor, streaming: bool, growing: GrowingReply
    ) -> None:
        self._completions = completions
        self._policy = policy
        self._redact = redact
        self._streaming = streaming
        self._seconds = policy.read_timeout if streaming else policy.reply_timeout
        self._deadline = 0.0
        self._response: Any = None
        self.reader = ReplyReader(redact, growing)

    @property
    def with_raw_response(self) -> Self:
        return self

    async def create(self, **payload: Any) -> "_Chunks":
        """Send the request; the answer is a stream of chunks, even if the reply comes in one piece."""
        if not self._streaming:
            payload = {name: value for name, value in payload.items() if name not in ("stream", "stream_options")}
        self._extend(self._seconds)
        with self._named_faults():
            async with asyncio.timeout_at(self._deadline):
                request = self._completions.with_streaming_response.create(**_as_body(payload))
                self._response = await request.__aenter__()
        return _Chunks(self, self._response)

    async def close(self) -> None:
        """Close the connection."""
        if self._response is not None:
            await self._response.close()

    async def chunks(self) -> AsyncGenerator[dict[str, Any], None]:
        """Read the reply.

        Raises:
            AttemptFailed: it is invalid or incomplete.
        """
        async with aclosing(self._documents()) as arrived:
            async for documents in arrived:
                for document in documents:
                    self._read(document)
                if pieces := self.reader.pending:
                    yield _chunk("".join(piece.text for piece in pieces if isinstance(piece, TextDelta)))
        self.reader.check(self._media_type)
        yield _chunk("", self.reader.reply())

    def _read(self, document: bytes) -> None:
        """Add a document to the reply; one that adds nothing leaves the deadline where it is."""
        finished = self.reader.finish_reason
        if self.reader.read(read_completion(document)) or self.reader.finish_reason != finished:
            self._extend(min(self._seconds, TAIL) if self.reader.finish_reason else self._seconds)

    async def _documents(self) -> AsyncGenerator[list[bytes], None]:
        """The body, or the data of those of its events that arrive together."""
        async with aclosing(self._received()) as received:
            begins = await _beginning(received)
            if "json" in self._media_type or begins.startswith(b"{"):
                yield [await _joined(_resumed(begins, received))]
            elif self._streaming or "event-stream" in self._media_type:
                async for data in _event_data(_resumed(begins, received), MAX_BYTES):
                    ended = next((place for place, each in enumerate(data) if each.startswith(b"[DONE]")), None)
                    yield data[:ended]
                    if ended is not None:
                        await self._drain(received)
                        return

    async def _drain(self, received: AsyncGenerator[bytes, None]) -> None:
        """Read the end of the body, so that the connection can be used again."""
        self._extend(DRAIN)
        with suppress(AttemptFailed):
            async for _ in received:
                pass

    async def _received(self) -> AsyncGenerator[bytes, None]:
        """The body's bytes; a stream that said how it finished may break off."""
        body = self._response.iter_bytes()
        while True:
            try:
                with self._named_faults():
                    async with asyncio.timeout_at(self._deadline):
                        received = await anext(body, None)
            except AttemptFailed:
                if not self.reader.finish_reason:
                    raise
                return
            if received is None:
                return
            yield received

    def _extend(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds

    @property
    def _media_type(self) -> str:
        return str(self._response.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @contextmanager
    def _named_faults(self) -> Iterator[None]:
        """Turn what goes wrong into `AttemptFailed`; without its cause, whose text may hold the key."""
        try:
            yield
        except (TimeoutError, openai.APITimeoutError) as error:
            raise AttemptFailed(timeout_fault(self._seconds, error.__cause__)) from None
        except openai.OpenAIError as error:
            raise AttemptFailed(fault_of(error, self._redact, self._policy.clock)) from None
        except UnicodeEncodeError:
            fault = Fault(
                Clause("could not take the request ({why})", why=_NOT_ASCII), "check the key", retryable=False
            )
            raise AttemptFailed(fault) from None
        except client_errors("TimeoutException") as error:
            raise AttemptFailed(timeout_fault(self._seconds, error)) from None
        except client_errors("RequestError"):
            raise AttemptFailed(_BROKEN_OFF) from None
        except (OSError, anyio.EndOfStream):
            raise AttemptFailed(_BROKEN_OFF) from None


def _as_body(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a request whose messages and tools are part of `extra_body`.

    They are JSON already; as arguments, the client would walk through all of them at each call.
    """
    body = {name: payload[name] for name in ("messages", "tools") if name in payload}
    rest = {name: value for name, value in payload.items() if name not in body}
    return {**rest, "messages": [], "extra_body": {**body, **(payload.get("extra_body") or {})}}


class _Chunks:
    """A response as LangChain takes it: its headers, and chunks that hold text and nothing else.

    Function calls are kept from LangChain, whose parser for partial JSON takes time that grows with their square.
    """

    def __init__(self, transport: Transport, response: Any) -> None:
        self.headers = response.headers
        self.http_response = response.http_response
        self._transport = transport

    def parse(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    def __aiter__(self) -> AsyncGenerator[dict[str, Any], None]:
        return self._transport.chunks()


def _chunk(text: str, reply: ModelReply | None = None) -> dict[str, Any]:
    """A chunk as LangChain reads it; the last one holds what is known of the whole reply."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}}
    if reply is None:
        return {"choices": [choice]}
    sent, received = reply.usage.get("input", 0), reply.usage.get("output", 0)
    usage = {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received}
    return {"choices": [choice | {"finish_reason": reply.finish_reason}], "usage": usage if reply.usage else None}


async def _beginning(received: AsyncGenerator[bytes, None]) -> bytes:
    """The first bytes that are not blank: some endpoints answer with JSON under another media type."""
    async for chunk in received:
        if found := chunk.lstrip():
            return found
    return b""


async def _resumed(begins: bytes, received: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield begins
    async for chunk in received:
        yield chunk


async def _joined(received: AsyncGenerator[bytes, None]) -> bytes:
    body: list[bytes] = []
    size = 0
    async for chunk in received:
        size += len(chunk)
        if size > MAX_BYTES:
            raise AttemptFailed(too_long(MAX_BYTES))
        body.append(chunk)
    return b"".join(body)


async def _event_data(received: AsyncIterator[bytes], limit: int) -> AsyncGenerator[list[bytes], None]:
    """Yield the data of the events that arrive together; names, ids and comments are passed over.

    Raises:
        AttemptFailed: an event is longer than `limit` bytes.
    """
    line: list[bytes] = []
    data: list[bytes] = []
    size = 0
    async for chunk in received:
        first, *rest = chunk.replace(b"\r", b"").split(b"\n")
        line.append(first)
        together: list[bytes] = []
        for after in rest:
            whole, line = b"".join(line), [after]
            name, _, value = whole.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not whole:
                if data:
                    together.append(b"\n".join(data))
                data, size = [], 0
        if together:
            yield together
        size += len(chunk)
        if size > limit:
            raise AttemptFailed(too_long(limit))
