"""The connection between LangChain's OpenAI client and the endpoint: its wire format and its faults."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from types import TracebackType
from typing import Annotated, Any, Self

import anyio
import openai
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError

from ...core.errors import Clause
from ...core.models import ModelPiece, ModelReply, TextDelta
from ..reply import GrowingReply, finish_reason_of, is_json
from ..transcript import KeptFields
from .faults import (
    AttemptFailed,
    Fault,
    Redactor,
    RetryPolicy,
    body_fault,
    client_errors,
    end_fault,
    fault_of,
    is_error,
    timeout_fault,
    too_long,
)

# The chat-completion format on the wire.
#
# A missing field is empty. Numbers may be text and texts numbers, a list may hold nulls, and counts and indexes that
# make no sense are passed over. A text or a call of the wrong type makes the whole document invalid.

MAX_TOKENS = 10**9
"""The largest token count that is believed."""


def _text(value: object) -> str:
    """A string; pydantic's own refuses lone surrogates, which may be half of a pair."""
    if value is not None and not isinstance(value, str):
        raise ValueError("Input should be a valid string")
    return value or ""


def _reasoning(value: object) -> str:
    """Reasoning, which has no standard form: text, or parts that hold some; anything else is passed over."""
    if isinstance(value, list):
        return "".join(_reasoning(part) for part in value)
    if isinstance(value, dict):
        return _reasoning(value.get("text"))
    return value if isinstance(value, str) else ""


def _parts(value: object) -> object:
    """A message's text as a list of parts, which is how some endpoints send it."""
    parts = value if isinstance(value, list) else [value]
    return [{"text": part} if isinstance(part, str) else part for part in parts if part is not None]


def _as_json(value: object) -> str:
    """Arguments as text; some endpoints send them as an object or a list."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _word(value: object) -> str:
    """An id or a reason; what is neither a text nor a number says nothing."""
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _place(value: object) -> int | None:
    """The number of a call or a choice."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _count(value: object) -> int:
    try:
        return int(min(max(float(value), 0), MAX_TOKENS)) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):  # "many", nan
        return 0


def _details(value: object) -> object:
    return value if isinstance(value, dict) else {}


def _object_or_none(value: object) -> object:
    return value if isinstance(value, dict) else None


def _present(value: Any) -> Any:
    """The entries of a list that are there."""
    if isinstance(value, list):
        return [each for each in value if each is not None]
    return () if value is None else value


Text = Annotated[str, PlainValidator(_text)]
Word = Annotated[str, PlainValidator(_word)]
Place = Annotated[int | None, PlainValidator(_place)]
Reasoning = Annotated[str, PlainValidator(_reasoning)]
Arguments = Annotated[str, PlainValidator(_as_json)]
Count = Annotated[int, PlainValidator(_count)]
Present = BeforeValidator(_present)


class Details(BaseModel):
    """Which of the prompt's tokens the endpoint had read before."""

    cached_tokens: Count = 0


class Usage(BaseModel):
    """Tokens, as counted by the endpoint."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: Annotated[Details, BeforeValidator(_details)] = Details()


class Function(BaseModel):
    """A function call's name and arguments, or a piece of them."""

    name: Text = ""
    arguments: Arguments = ""


class ToolCall(Function):
    """A tool call, or a piece of one; some endpoints leave the `function` around its name and arguments out."""

    model_config = ConfigDict(extra="allow")

    index: Place = None
    id: Word = ""
    function: Function | None = None

    @property
    def called(self) -> Function:
        """The function with its arguments."""
        return self.function or self


class Part(BaseModel):
    """A part of a message's content."""

    text: Text = ""
    thinking: Reasoning = ""


class Message(BaseModel):
    """A message, or the delta of one."""

    model_config = ConfigDict(extra="allow")

    content: Annotated[tuple[Part, ...], BeforeValidator(_parts)] = ()
    refusal: Text = ""
    reasoning: Reasoning = ""
    reasoning_content: Reasoning = ""
    tool_calls: Annotated[tuple[ToolCall, ...], Present] = ()
    function_call: Function | None = None
    """A call in the form that came before `tool_calls`; some endpoints send both."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)

    @property
    def reasoning_text(self) -> str:
        """The reasoning; some endpoints send it under both names."""
        return "".join(part.thinking for part in self.content) + (self.reasoning_content or self.reasoning)

    @property
    def calls(self) -> Sequence[ToolCall]:
        if self.tool_calls or self.function_call is None:
            return self.tool_calls
        return (ToolCall(function=self.function_call),)


class Choice(BaseModel):
    """One answer; `delta` in a stream, `message` in a whole reply."""

    index: Place = None
    delta: Message | None = None
    message: Message | None = None
    finish_reason: Word = ""
    error: Any = None


class Completion(BaseModel):
    """A chat completion, or one chunk of it."""

    choices: Annotated[tuple[Choice, ...], Present] = ()
    usage: Annotated[Usage | None, BeforeValidator(_object_or_none)] = None

    @property
    def choice(self) -> Choice | None:
        """The first answer; further ones are passed over."""
        return next((choice for choice in self.choices if not choice.index), None)


def read_completion(document: bytes, redact: Redactor) -> Completion:
    """Read a body, or the data of one server-sent event."""
    text = document.decode(errors="replace")
    try:
        body = json.loads(text, strict=False)
        if is_error(body):
            raise AttemptFailed(body_fault(body, redact))
        return Completion.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        why = f"{where}: {first['msg']}"
        raise AttemptFailed(Fault(Clause("sent an invalid reply ({why})", why=why))) from None
    except (ValueError, RecursionError):
        if _SENTENCE.match(text):
            raise AttemptFailed(body_fault(text, redact)) from None
        raise AttemptFailed(Fault(Clause("sent a reply that is not valid JSON"))) from None


_SENTENCE = re.compile(r"\s*\[?[A-Za-z]+[] :,]")
"""What an endpoint writes in the place of a document where something went wrong."""

# The connection between LangChain's OpenAI client and the endpoint: no incomplete or invalid reply passes it.

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
        self._in_pieces = False
        self.is_whole = False
        """Whether the endpoint said that nothing follows, with [DONE] or as the reply is one document."""
        self.kept = KeptFields()

    @property
    def finish_reason(self) -> str:
        return self._reply.finish_reason

    def read(self, completion: Completion) -> bool:
        """Add a completion, or a chunk of one; return whether anything was in it."""
        if completion.usage is not None:
            usage = completion.usage
            self._reply.usage = {"input": usage.prompt_tokens, "output": usage.completion_tokens}
            if cached := usage.prompt_tokens_details.cached_tokens:
                self._reply.usage["cached"] = cached
        return self._choice(completion.choice) if completion.choice else False

    def _choice(self, choice: Choice) -> bool:
        self._reply.finish_reason = finish_reason_of(choice.finish_reason) or self._reply.finish_reason
        said = False
        if choice.delta is not None:
            self._begun = self._in_pieces = True
            said = self._message(choice.delta, whole=False)
        elif choice.message is not None:
            self._begun = True
            self.is_whole |= not self._in_pieces
            # Behind its pieces a message repeats them.
            said = not self._in_pieces and self._message(choice.message, whole=True)
        if choice.error:
            raise AttemptFailed(body_fault({"error": choice.error}, self._redact))
        return said

    def _message(self, message: Message, whole: bool) -> bool:
        reasoning, text = message.reasoning_text, message.text
        self._reply.add_reasoning(reasoning)
        self._reply.add_text(text)
        if message.refusal:
            self._refusal.append(message.refusal)
            self._reply.add_hidden(len(message.refusal))
        # What the endpoint may want back is kept.
        self.kept.add(message.reasoning_content, message.model_extra or {}, whole)
        for number, call in enumerate(message.calls):
            self.kept.add_call(number if whole else call.index, call.id, call.model_extra or {})
        calls = [self._call(call, whole) for call in message.calls]
        return any([*calls, text, message.refusal, reasoning])

    def _call(self, call: ToolCall, whole: bool) -> bool:
        called = call.called
        if whole:
            self._reply.add_whole_call(call.id, called.name, called.arguments)
        elif not (called.name or called.arguments or (call.id and call.function)):
            return False
        else:
            self._reply.add_call(call.index, call.id, called.name, called.arguments)
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
        """Check that the reply is complete."""
        if refusal := "".join(self._refusal):
            declined = Clause("declined to answer ({why})", why=self._redact(refusal)[:200])
            raise AttemptFailed(Fault(declined, _REPHRASE, retryable=False))
        if fault := end_fault(self.finish_reason):
            raise AttemptFailed(fault)
        if not self.finish_reason and self.is_whole and self._reply.has_content:
            self._reply.end()
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
        self,
        completions: Any,
        policy: RetryPolicy,
        redact: Redactor,
        streaming: bool,
        growing: GrowingReply,
        adapt: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._completions = completions
        self._policy = policy
        self._redact = redact
        self._streaming = streaming
        self._seconds = policy.read_timeout if streaming else policy.reply_timeout
        self._silent_until = 0.0
        """When bytes have to arrive; keep-alives and comments are some."""
        self._idle_until = 0.0
        """When something new has to arrive."""
        self._response: Any = None
        self._adapt = adapt
        self.sent: dict[str, Any] = {}
        """The body of the request."""
        self.reader = ReplyReader(redact, growing)

    @property
    def with_raw_response(self) -> Self:
        return self

    async def create(self, **payload: Any) -> "_Chunks":
        """Send the request; the answer is a stream of chunks, even if the reply comes in one piece."""
        if not self._streaming:
            payload = {name: value for name, value in payload.items() if name not in ("stream", "stream_options")}
        options = {name: payload[name] for name in _OPTIONS if name in payload}
        # The body is JSON already, and goes as `extra_body`: the client would walk through all arguments at each call.
        body = {name: value for name, value in payload.items() if name not in (*_OPTIONS, "extra_body")}
        self.sent = self._adapt({**body, **(payload.get("extra_body") or {})})
        self._extend()
        with self._named_faults():
            async with asyncio.timeout_at(self._deadline):
                options |= {"model": self.sent["model"], "messages": [], "extra_body": self.sent}
                request = self._completions.with_streaming_response.create(**options)
                self._response = await request.__aenter__()
        return _Chunks(self, self._response)

    async def close(self) -> None:
        """Close the connection."""
        if self._response is not None:
            await self._response.close()

    async def chunks(self) -> AsyncGenerator[dict[str, Any], None]:
        """Read the reply."""
        async with aclosing(self._documents()) as arrived:
            async for documents in arrived:
                for document in documents:
                    self._read(document)
                if pieces := self.reader.pending:
                    yield _chunk("".join(piece.text for piece in pieces if isinstance(piece, TextDelta)))
        self.reader.check(self._media_type)
        yield _chunk("", self.reader.reply())

    def _read(self, document: bytes) -> None:
        """Add a document to the reply; after one that adds nothing, the wait for something new goes on."""
        finished = self.reader.finish_reason
        if self.reader.read(read_completion(document, self._redact)) or self.reader.finish_reason != finished:
            self._extend(TAIL if self.reader.finish_reason else None)

    async def _documents(self) -> AsyncGenerator[list[bytes], None]:
        """The body, or the data of those of its events that arrive together."""
        async with aclosing(self._received()) as received:
            begins = await _beginning(received)
            # what the body begins with counts before its media type
            if begins.startswith((b"{", b"[")) or ("json" in self._media_type and not _FIELD.match(begins)):
                async for document in _json_documents(_resumed(begins, received), MAX_BYTES):
                    if _is_done(document):
                        self.reader.is_whole = True
                        return
                    yield [document]
                return
            if not (self._streaming or "event-stream" in self._media_type or _FIELD.match(begins)):
                return
            async for events in _events(_resumed(begins, received), MAX_BYTES):
                data: list[bytes] = []
                for name, each in events:
                    if _is_done(each):
                        self.reader.is_whole = True
                        break
                    if name == b"error":
                        raise AttemptFailed(body_fault(_error_in(each), self._redact))
                    if not _KEEP_ALIVE.fullmatch(each):
                        data.append(each)
                yield data
                if self.reader.is_whole:
                    self._extend(DRAIN)  # to the end of the body, so that the connection can be used again
                    with suppress(AttemptFailed):
                        async for _ in received:
                            pass
                    return

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
            self._silent_until = asyncio.get_running_loop().time() + self._seconds
            yield received

    def _extend(self, most: float | None = None) -> None:
        """Wait anew for something new, for `most` seconds where that is less than usual."""
        now = asyncio.get_running_loop().time()
        idle = max(self._policy.reply_timeout, self._seconds)
        self._silent_until = now + self._seconds
        self._idle_until = now + (idle if most is None else min(most, self._seconds))

    @property
    def _deadline(self) -> float:
        return min(self._silent_until, self._idle_until)

    @property
    def _waited(self) -> float:
        """How many seconds were waited for where the deadline is over."""
        if self._silent_until <= self._idle_until:
            return self._seconds
        return max(self._policy.reply_timeout, self._seconds)

    @property
    def _media_type(self) -> str:
        return str(self._response.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @contextmanager
    def _named_faults(self) -> Iterator[None]:
        """Turn what goes wrong into `AttemptFailed`; without its cause, whose text may hold the key."""
        try:
            yield
        except (TimeoutError, openai.APITimeoutError) as error:
            raise AttemptFailed(timeout_fault(self._waited, error.__cause__)) from None
        except openai.OpenAIError as error:
            raise AttemptFailed(fault_of(error, self._redact, self._policy.clock)) from None
        except UnicodeEncodeError:
            fault = Fault(
                Clause("could not take the request ({why})", why=_NOT_ASCII), "check the key", retryable=False
            )
            raise AttemptFailed(fault) from None
        except client_errors("TimeoutException") as error:
            raise AttemptFailed(timeout_fault(self._waited, error)) from None
        except client_errors("RequestError"):
            raise AttemptFailed(_BROKEN_OFF) from None
        except (OSError, anyio.EndOfStream):
            raise AttemptFailed(_BROKEN_OFF) from None


_OPTIONS = ("stream", "timeout", "extra_headers", "extra_query")
"""Arguments of the client that are no part of the body, or decide how it reads the reply."""


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


_BOM = b"\xef\xbb\xbf"
_FIELD = re.compile(rb"(?:data|event|id|retry)?:")
"""What a stream of events begins with, whatever its media type says."""
_BEGINNINGS = (_BOM, b"data:", b"event:", b"retry:", b"id:")


async def _beginning(received: AsyncGenerator[bytes, None]) -> bytes:
    """The first bytes that are not blank, without a byte order mark, and enough of them to see what they are."""
    found = b""
    async for chunk in received:
        found = (found + chunk).lstrip().removeprefix(_BOM).lstrip()
        if found and not any(mark.startswith(found) and mark != found for mark in _BEGINNINGS):
            break
    return found


async def _resumed(begins: bytes, received: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield begins
    async for chunk in received:
        yield chunk


async def _json_documents(received: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the body's lines as they arrive if the first one is a document of its own; else the whole body."""
    parts: list[bytes] = []
    size = 0
    in_lines: bool | None = None
    async for chunk in received:
        size += len(chunk)
        if size > limit:
            raise AttemptFailed(too_long(limit))
        *ends, last = chunk.split(b"\n")
        for end in ends:
            parts.append(end + b"\n")
            if in_lines is False:
                continue
            line = b"".join(parts)
            if in_lines is None and line.strip():
                in_lines = is_json(line)
            if in_lines is not False:
                parts, size = [], 0
            if in_lines and line.strip():
                yield line
        parts.append(last)
    rest = b"".join(parts)
    if rest.strip() and (not in_lines or is_json(rest) or _is_done(rest)):  # else it is cut
        yield rest


def _is_done(data: bytes) -> bool:
    return data.strip(b' "\r\n').startswith(b"[DONE]")


def _error_in(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


_KEEP_ALIVE = re.compile(
    rb'\s*(?:"?\[?(?:ping|pong|heart[-_ ]?beat|keep[-_ ]?alive|processing)\b[\].]*"?\s*)?', re.IGNORECASE
)
"""The data of an event that only says that the endpoint is alive."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
Event = tuple[bytes, bytes]
"""The name of a server-sent event, and its data."""


async def _events(received: AsyncIterator[bytes], limit: int) -> AsyncGenerator[list[Event], None]:
    """Yield the events that arrive together; ids and comments are passed over.

    There are endpoints that end an event with its line, proxies that put an error between the events as bare JSON, and
    servers that send one as `error: …`.
    """
    line: list[bytes] = []
    data: list[bytes] = []
    event, size, after_cr = b"", 0, False
    async for received_chunk in received:
        chunk = received_chunk.removeprefix(b"\n") if after_cr else received_chunk
        after_cr = chunk.endswith(b"\r")
        first, *rest = _LINE_END.split(chunk)
        line.append(first)
        together: list[Event] = []
        for after in rest:
            whole, line = b"".join(line), [after]
            name, _, value = whole.partition(b":")
            is_data, is_bare = name == b"data", whole.startswith(b"{")
            begins = is_data or is_bare or name == b"event"
            ends = not whole or (begins and len(data) == 1 and is_json(data[0]))
            if ends and any(data):
                together.append((event, b"\n".join(data)))
            if ends:
                data, event, size = [], b"", 0
            if is_data or is_bare:
                data.append(whole if is_bare else value.removeprefix(b" "))
            elif name == b"event":
                event = value.strip()
            elif name == b"error":
                together.append((name, value))
        if together:
            yield together
        size += len(chunk)
        if size > limit:
            raise AttemptFailed(too_long(limit))
    whole = b"".join(line)
    name, _, value = whole.partition(b":")
    more = [value.removeprefix(b" ")] if name == b"data" else [whole] if whole.startswith(b"{") else []
    last = b"\n".join([*data, *more])
    for each in [last] if is_json(last) else [b"\n".join(data), *more]:
        if each.startswith(b"[DONE]") or is_json(each):  # else it is cut
            yield [(event, each)]
