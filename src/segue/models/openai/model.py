"""Models behind OpenAI-compatible endpoints, with retries and fallbacks to what an endpoint supports."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import openai
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage
from pydantic import SecretStr

from ...core.errors import Clause, ModelError, ModelRefused, ModelUnreachable, UnreadableReply
from ...core.json import plain_specs
from ...core.models import UNREADABLE, ModelPiece, ModelReply, ModelRequest, Retry
from ..chat_object import messages_with_parts
from ..reply import GrowingReply
from .faults import ATTEMPTS, MAX_RETRY_AFTER, AttemptFailed, Fault, Redactor, RetryPolicy
from .transport import Transport

_DOMAIN = re.compile(r"//[^/]*\.[a-z][a-z0-9-]+(:\d+)?(/|$)", re.IGNORECASE)
"""An address whose host has a domain name. Others have no listed price, and the list takes 10 MB."""


async def known_cost(name: str, address: str, usage: Mapping[str, int]) -> float | None:
    """What a call of the model at an endpoint's address cost, in US dollars; None where that is not known.

    `usage` counts tokens as {"input", "output", "cached"}; `cached` is a part of the input.
    """
    if "input" not in usage or "output" not in usage or not _DOMAIN.search(address):
        return None
    return await asyncio.to_thread(_cost, name, address, usage)


def _cost(name: str, address: str, usage: Mapping[str, int]) -> float | None:
    found = _model(name, address)
    if found is None:
        return None
    from genai_prices import Usage

    provider, model = found
    tokens = {
        "input_tokens": usage["input"],
        "output_tokens": usage["output"],
        "cache_read_tokens": usage.get("cached"),
    }
    try:
        price = model.calc_price(Usage(**tokens), provider, genai_request_timestamp=datetime.now(UTC))
    except ValueError:  # the endpoint counts what cannot be
        return None
    return float(price.total_price)


@cache
def _model(name: str, address: str) -> Any:
    """The provider and the model, or None."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(name, None, None, address)
    except LookupError:
        return None


if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_openai.chat_models.base import BaseChatOpenAI

CONNECT_SECONDS = 10.0


FORMATS = ("json_schema", "json_object", "prompt")
"""Ways to ask for JSON, the strictest first; one that an endpoint refuses is not tried again."""

_ABOUT_FORMATS = (
    "response_format", "response format", "json_schema", "json_object", "json mode", "schema", "structured output",
    "grammar", "guided", "outlines",
)  # fmt: skip
_ABOUT_USAGE = ("stream_options", "include_usage")
_NOT_ABOUT_THE_BODY = (0, 401, 403, 408, 409, 429)


@dataclass(frozen=True)
class Capabilities:
    """What an endpoint supports.

    `format_level` indexes `FORMATS`; `usage`: it reports usage; `user_last`: the last message has to be a user's;
    `opened`: its replies begin inside a thought.
    """

    format_level: int = 0
    usage: bool = True
    user_last: bool = False
    opened: bool = False


_found: dict[str, Capabilities] = {}


def capabilities_of(endpoint: str) -> Capabilities:
    return _found.get(endpoint, Capabilities())


def update_capabilities(endpoint: str, tried: Capabilities, request: ModelRequest, fault: Fault) -> bool:
    """Remember what a fault says about the endpoint; return whether to send the request in another form now."""
    if fault.status in _NOT_ABOUT_THE_BODY:
        return False
    known = capabilities_of(endpoint)
    if tried.usage and _mentions(fault, _ABOUT_USAGE):
        _found[endpoint] = replace(known, usage=False)
        return True
    if asks_for_format(request, tried) and _mentions(fault, _ABOUT_FORMATS):
        _found[endpoint] = replace(known, format_level=max(known.format_level, tried.format_level + 1))
        return True
    if request.nudge and not tried.user_last and not fault.retryable:
        _found[endpoint] = replace(known, user_last=True)
        return True
    return False


def update_opened(endpoint: str, opened: bool | None) -> None:
    """Remember whether replies begin inside a thought, where a reply shows it."""
    if opened is not None:
        _found[endpoint] = replace(capabilities_of(endpoint), opened=opened)


def messages_for(request: ModelRequest, capabilities: Capabilities) -> "list[BaseMessage]":
    """The request's messages, closed by a user's where the endpoint requires it."""
    closing = [HumanMessage(request.nudge)] if capabilities.user_last and request.nudge else []
    return [*map(_for_langchain, messages_with_parts(request)), *closing]


def _for_langchain(message: "BaseMessage") -> "BaseMessage":
    """A mere text of the assistant under its role: LangChain looks at each character of an `AIMessage`."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, str):
        return message
    if message.tool_calls or message.invalid_tool_calls or message.additional_kwargs or message.name:
        return message
    return ChatMessage(content=message.content, role="assistant")


def _mentions(fault: Fault, words: tuple[str, ...]) -> bool:
    return any(word in fault.text for word in words)


def asks_for_format(request: ModelRequest, capabilities: Capabilities) -> bool:
    return request.schema is not None and FORMATS[capabilities.format_level] != "prompt"


def response_format(request: ModelRequest, capabilities: Capabilities) -> Mapping[str, Any]:
    """The part of the request's body that asks for JSON; empty where the prompt alone does."""
    if not asks_for_format(request, capabilities):
        return {}
    if FORMATS[capabilities.format_level] == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema = {"name": request.purpose, "schema": request.schema, "strict": request.strict}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def tool_choice(request: ModelRequest) -> Mapping[str, Any]:
    """The part of the request's body that requires a call; empty where the model decides."""
    if request.tool_choice in ("", "required"):
        return {"tool_choice": request.tool_choice} if request.tool_choice else {}
    return {"tool_choice": {"type": "function", "function": {"name": request.tool_choice}}}


class OpenAIModel:
    """A model behind an OpenAI-compatible chat-completions endpoint."""

    is_language_model = True

    def __init__(
        self, chat: "BaseChatOpenAI", name: str, *, streaming: bool = True, policy: RetryPolicy | None = None
    ) -> None:
        self.chat = chat
        self.name = name
        self._policy = policy or RetryPolicy()
        self._streaming = streaming and not chat.disable_streaming
        self._completions = _completions_client(
            chat, self._policy.read_timeout if self._streaming else self._policy.reply_timeout
        )
        self._address = _address(chat)
        self._redact = Redactor(_keys(chat))
        self._endpoint = f"{self._address}#{chat.model_name}"
        chat._serialized  # noqa: B018 - LangChain keeps it: else each attempt's copy would make it again

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`; a `Retry` goes before each attempt but the first.

        A reply truncated at its length limit is a reply, with the finish_reason `length`.

        Raises:
            ModelUnreachable: resuming may help. ModelRefused: something has to be changed first.
        """
        attempt = 1
        while True:
            capabilities = capabilities_of(self._endpoint)
            try:
                async with aclosing(self._attempt(request, capabilities)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except AttemptFailed as failed:
                fault = failed.fault
            # Raised out here an error has no context: what the client raised may hold the key.
            if update_capabilities(self._endpoint, capabilities, request, fault):
                continue
            if fault.about_reply:
                yield ModelReply("", UNREADABLE, unreadable=UnreadableReply("{fault}.", fault=self._faulty(fault)))
                return
            if end := self._end(request, fault, attempt):
                raise end
            attempt += 1
            seconds = self._policy.delay(attempt, fault.retry_after)
            yield Retry(attempt=attempt, reason=self._faulty(fault), seconds=seconds)
            await self._policy.sleep(seconds)

    async def _attempt(self, request: ModelRequest, capabilities: Capabilities) -> AsyncGenerator[ModelPiece, None]:
        growing = GrowingReply.to(request, capabilities.opened)
        transport = Transport(self._completions, self._policy, self._redact, self._streaming, growing)
        chunks = self._bound(request, capabilities, transport).astream(messages_for(request, capabilities))
        try:
            async for _ in chunks:
                for piece in transport.reader.take():
                    yield piece
        finally:
            await transport.close()
        for piece in transport.reader.take():
            yield piece
        update_opened(self._endpoint, transport.reader.opened)
        reply = transport.reader.reply()
        yield replace(reply, cost=await self.cost(reply.usage))

    async def cost(self, usage: Mapping[str, int]) -> float | None:
        """What tokens cost in US dollars; None where that is not known."""
        return await known_cost(self.chat.model_name, self._address, usage)

    def _bound(self, request: ModelRequest, capabilities: Capabilities, transport: Transport) -> Any:
        """A copy of the chat model for one attempt.

        The response format goes in `extra_body`: as an argument, LangChain would use the client's parser, which
        has errors of its own for a truncated reply.
        """
        copy = self.chat.model_copy(
            update={
                "async_client": transport,
                "extra_body": {**(self.chat.extra_body or {}), **response_format(request, capabilities)} or None,
                "stream_usage": capabilities.usage and self.chat.stream_usage is not False,
                "stream_chunk_timeout": None,
                "disable_streaming": False,
                "use_responses_api": False,
                "cache": False,
                **({} if request.seed is None else {"seed": request.seed}),
                **request.settings,
            }
        )
        if not request.native or not request.tools:
            return copy
        return copy.bind(tools=plain_specs(request.tools), **tool_choice(request))

    def _end(self, request: ModelRequest, fault: Fault, attempt: int) -> ModelError | None:
        """The error that the call ends with, unless there is another attempt."""
        if not fault.retryable:
            refused = ModelRefused("{fault}: {advice}.", fault=self._faulty(fault), advice=Clause(fault.advice))
            refused.may_be_too_long = fault.too_long or fault.status in (400, 413)
            return refused
        if fault.retry_after is not None and fault.retry_after > MAX_RETRY_AFTER:
            until = self._policy.time_after(fault.retry_after)
            return ModelUnreachable(
                "{fault}: it accepts no request until {until}; resume then.", fault=self._faulty(fault), until=until
            )
        if attempt >= ATTEMPTS:
            return ModelUnreachable(
                "{fault}, the last of {attempts} attempts: {advice}.",
                fault=self._faulty(fault),
                attempts=ATTEMPTS,
                advice=Clause(fault.advice),
            )
        return None

    def _faulty(self, fault: Fault) -> Clause:
        template = 'The model "{name}" at {address} {reason}'
        return Clause(template, name=self.name, address=self._address, reason=fault.reason)


def timeouts(read_timeout: float) -> openai.Timeout:
    """The client's own time limits; between two pieces of a reply the same as ours."""
    return openai.Timeout(connect=CONNECT_SECONDS, read=read_timeout, write=read_timeout, pool=CONNECT_SECONDS)


def _completions_client(chat: "BaseChatOpenAI", read_timeout: float) -> Any:
    """The chat model's completions client with our timeouts, unless it has its own, and without retries."""
    root = chat.root_async_client
    if root is None:
        return chat.async_client
    if chat.request_timeout is None:
        return root.with_options(max_retries=0, timeout=timeouts(read_timeout)).chat.completions
    return root.with_options(max_retries=0).chat.completions


def _address(chat: "BaseChatOpenAI") -> str:
    """Where the endpoint is, without what a URL may hold of a key."""
    root = chat.root_async_client
    url = str(root.base_url if root is not None else chat.openai_api_base or "")
    return re.sub(r"(?<=//)[^/@]*@", "", url.partition("?")[0]).rstrip("/")


def _keys(chat: "BaseChatOpenAI") -> list[str]:
    key = chat.openai_api_key
    keys = [key.get_secret_value()] if isinstance(key, SecretStr) else []
    if chat.root_async_client is not None:
        keys.append(str(chat.root_async_client.api_key or ""))
    return keys
