"""The connection between LangChain's OpenAI client and the endpoint: its wire format and its faults."""

import asyncio
import json
import random
import re
import sys
import time
from asyncio import sleep
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Annotated, Any, Self

import anyio
import openai
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError

from ...core.errors import Clause
from ...core.models import ModelPiece, ModelReply, TextDelta
from ..kept import KeptFields
from ..reply import GrowingReply

# Faults of OpenAI-compatible endpoints: whether and when to retry, and what the operator can do.

ATTEMPTS = 3
"""How often a call is made, the first time included; no other layer retries."""

MAX_RETRY_AFTER = 60.0
"""The longest Retry-After in seconds that is waited for; with a longer one the task ends, to be resumed."""

FIRST_DELAY = 1.0
"""Seconds before the second attempt; they double with each further one, less a random part of up to half."""

REPLY_SECONDS = 300.0
"""Seconds that a reply may take which is not streamed."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, in seconds, and where time and chance come from.

    `read_timeout` bounds the wait for each piece of a stream, `reply_timeout` that for a reply that is not streamed.
    """

    read_timeout: float = 60.0
    reply_timeout: float = REPLY_SECONDS
    sleep: Callable[[float], Awaitable[object]] = sleep
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time

    def delay(self, attempt: int, retry_after: float | None) -> float:
        """Seconds to wait before an attempt (2 is the first that waits): its Retry-After, else backoff."""
        if retry_after is not None:
            return retry_after
        return float(FIRST_DELAY * 2 ** (attempt - 2)) * (1 - self.chance() / 2)

    def time_after(self, seconds: float) -> str:
        """The time of day in so many seconds."""
        return datetime.fromtimestamp(self.clock() + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_REASON_CHARS = 200
_QUOTA = "insufficient_quota"


@dataclass(frozen=True)
class Fault:
    """Why an attempt failed.

    `reason` continues "The model x at y"; `advice` says what to do. `text` is the endpoint's error in lower case,
    `retry_after` its Retry-After in seconds.
    """

    reason: Clause
    advice: str = "check the endpoint, then resume"
    retryable: bool = True
    status: int = 0
    text: str = ""
    retry_after: float | None = None


class AttemptFailed(Exception):
    """An attempt failed; carries the fault through LangChain."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault.reason))
        self.fault = fault


class Redactor:
    """Replaces keys in what an endpoint sends."""

    def __init__(self, keys: Iterable[str]) -> None:
        known = [re.escape(key) for key in keys if len(key) > 5]
        self._secret = re.compile("|".join([*known, r"(?i:bearer\s+)\S+", r"\bsk-[\w*.-]{6,}"]))

    def __call__(self, text: str) -> str:
        return self._secret.sub("***", text)


def client_errors(*names: str) -> tuple[type[Exception], ...]:
    """The exceptions of these names: OpenAI's client is built on one of two httpx, and takes clients of the other."""
    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(getattr(client, name) for client in clients for name in names)


def fault_of(error: "openai.OpenAIError", redact: Redactor, clock: Callable[[], float]) -> Fault:
    """Return the fault behind an error of the client."""
    import openai  # it takes most of a second, and only a fault needs it

    if isinstance(error, openai.APIStatusError):
        wait = retry_after(error.response.headers, clock)
        return status_fault(error.status_code, error.body or error.message, redact, wait)
    if isinstance(error, openai.APIConnectionError):
        return _connection_fault(error, redact)
    if isinstance(error, openai.APIError):
        return body_fault(error.body or error.message, redact)
    why = _words(str(error), redact)
    return Fault(
        Clause("could not take the request ({why})", why=why), "check the key and the settings", retryable=False
    )


def _connection_fault(error: "openai.APIConnectionError", redact: Redactor) -> Fault:
    cause = error.__cause__
    why = _words(str(cause or error) or type(cause).__name__, redact)
    if isinstance(cause, client_errors("UnsupportedProtocol", "InvalidURL", "LocalProtocolError")):
        return Fault(
            Clause("could not take the request ({why})", why=why),
            "check base_url and the key, then resume",
            retryable=False,
        )
    if isinstance(cause, Exception) and not isinstance(cause, client_errors("ConnectError", "ConnectTimeout")):
        return Fault(Clause("closed the connection ({why})", why=why))
    return Fault(Clause("could not be reached ({why})", why=why), "check the address and the network, then resume")


def timeout_fault(seconds: float, cause: BaseException | None) -> Fault:
    """Return the fault of a timeout."""
    if isinstance(cause, client_errors("ConnectTimeout")):
        return Fault(Clause("could not be reached in time"), "check the address and the network, then resume")
    advice = "check the endpoint, then resume; a slow one needs a larger read_timeout on the agent"
    return Fault(Clause("sent nothing new for {seconds} s", seconds=f"{seconds:g}"), advice)


def too_long(limit: int) -> Fault:
    return Fault(Clause("sent a reply of more than {limit} bytes", limit=f"{limit:,}"))


def body_fault(body: object, redact: Redactor) -> Fault:
    """Return the fault of an error object in the place of a reply; its `code` may be an HTTP status."""
    code = str(body.get("code") or "") if isinstance(body, Mapping) else ""
    if code in ("429", _QUOTA) or re.fullmatch("4[0-9][0-9]", code):
        return status_fault(429 if code == _QUOTA else int(code), body, redact)
    return Fault(Clause("did not finish its reply ({why})", why=_words(body, redact)), text=_all(body))


def status_fault(status: int, body: object, redact: Redactor, wait: float | None = None) -> Fault:
    """Return the fault of an HTTP error."""
    why, text = _words(body, redact), _all(body)
    if status in (401, 403):
        reason, advice = Clause("rejected the key ({why})", why=why), "check OPENAI_API_KEY or the agent's api_key"
        return Fault(reason, advice, False, status=status, text=text)
    if status == 404:
        reason = Clause("was not found ({why})", why=why)
        return Fault(reason, "check the model's name and base_url", False, status=status, text=text)
    if status == 429 and _QUOTA in text:
        reason = Clause("has no credit left ({why})", why=why)
        return Fault(reason, "top up the account or use another key", False, status=status)
    if status in (408, 409, 429) or status >= 500:
        reason = Clause("answered {status} ({why})", status=status, why=why)
        return Fault(reason, "wait a moment, then resume", status=status, text=text, retry_after=wait)
    refused = Clause("refused the request ({why})", why=why)
    if "context" in text and any(word in text for word in ("length", "window", "maximum")):
        return Fault(refused, "lower the agent's budget.prompt_tokens", False, status=status)
    return Fault(refused, "change what it names, then resume", False, status=status, text=text)


def retry_after(headers: Mapping[str, str], clock: Callable[[], float]) -> float | None:
    """Read the Retry-After in seconds; None where there is none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(float(headers.get(name, "")) / unit, 0.0)
        except ValueError:
            continue
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(aware.timestamp() - clock(), 0.0)


def _words(body: object, redact: Redactor) -> str:
    """An error body's message, in a line."""
    text = " ".join(redact(_message(body)).split())
    if re.match(r"<(!doctype|html)", text, re.IGNORECASE):
        return "a web page"
    return text[:_REASON_CHARS].rstrip(". ") or "no reason given"


def _message(body: object) -> str:
    while isinstance(body, Mapping):
        inner = next((body[key] for key in ("message", "detail", "error") if body.get(key)), None)
        if inner is None:
            break
        body = inner
    return body if isinstance(body, str) else _dumped(body)


def _all(body: object) -> str:
    return (body if isinstance(body, str) else _dumped(body)).lower()


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# The chat-completion format on the wire.
#
# A missing field is empty; a field of the wrong type makes the whole document invalid.

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
    if value is None or isinstance(value, str):
        return [{"text": value}]
    return value


def _as_json(value: object) -> str:
    """Arguments as text; some endpoints send them as an object."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _text(value)


def _count(value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, int | float):
        raise ValueError("Input should be a number")
    return int(min(max(value, 0), MAX_TOKENS))


def _details(value: object) -> object:
    return value if isinstance(value, dict) else {}


def _or_empty(value: Any) -> Any:
    return () if value is None else value


Text = Annotated[str, PlainValidator(_text)]
Reasoning = Annotated[str, PlainValidator(_reasoning)]
Arguments = Annotated[str, PlainValidator(_as_json)]
Count = Annotated[int, PlainValidator(_count)]
OrEmpty = BeforeValidator(_or_empty)


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


class ToolCall(BaseModel):
    """A tool call, or a piece of one."""

    model_config = ConfigDict(extra="allow")

    index: int | None = None
    id: Text = ""
    function: Function | None = None


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
    tool_calls: Annotated[tuple[ToolCall, ...], OrEmpty] = ()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)

    @property
    def reasoning_text(self) -> str:
        """The reasoning; some endpoints send it under both names."""
        return "".join(part.thinking for part in self.content) + (self.reasoning_content or self.reasoning)


class Choice(BaseModel):
    """One answer; `delta` in a stream, `message` in a whole reply."""

    delta: Message | None = None
    message: Message | None = None
    finish_reason: Text = ""


class Completion(BaseModel):
    """A chat completion, or one chunk of it."""

    error: Any = None
    choices: Annotated[tuple[Choice, ...], OrEmpty] = ()
    usage: Usage | None = None


def read_completion(document: bytes) -> Completion:
    """Read a body, or the data of one server-sent event.

    Raises:
        AttemptFailed: it is not valid JSON, or not a chat completion.
    """
    try:
        return Completion.model_validate(json.loads(document))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        why = f"{where}: {first['msg']}"
        raise AttemptFailed(Fault(Clause("sent an invalid reply ({why})", why=why))) from None
    except (ValueError, RecursionError):
        raise AttemptFailed(Fault(Clause("sent a reply that is not valid JSON"))) from None


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
        self.kept = KeptFields()

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
        self._keep(message, whole)
        calls = [self._call(call, whole) for call in message.tool_calls]
        return any([*calls, text, message.refusal, reasoning])

    def _keep(self, message: Message, whole: bool) -> None:
        """Keep what the endpoint may want back."""
        self.kept.add(message.reasoning_content, message.model_extra or {}, whole)
        for number, call in enumerate(message.tool_calls):
            self.kept.add_call(number if whole else call.index, call.id, call.model_extra or {})

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
        self._deadline = 0.0
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
        options, body = _as_body(payload)
        self.sent = self._adapt(body)
        self._extend(self._seconds)
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


_OPTIONS = ("stream", "timeout", "extra_headers", "extra_query")
"""Arguments of the client that are no part of the body, or decide how it reads the reply."""


def _as_body(payload: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The client's options of a request, and its body.

    The body is JSON already, and goes as `extra_body`: the client would walk through all arguments at each call.
    """
    options = {name: payload[name] for name in _OPTIONS if name in payload}
    body = {name: value for name, value in payload.items() if name not in (*_OPTIONS, "extra_body")}
    return options, {**body, **(payload.get("extra_body") or {})}


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
