"""Models behind OpenAI-compatible endpoints, with retries and requests in the form that an endpoint takes."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import openai
from langchain_core.messages import AIMessage, ChatMessage
from pydantic import SecretStr

from ...core.environment import address_without_secrets
from ...core.errors import Clause, ModelRefused
from ...core.json import plain_specs
from ...core.models import ModelPiece, ModelRequest
from ..habits import Habits, adapted, own_names, with_own_names
from ..reply import GrowingReply
from ..transcript import outgoing_messages, with_kept
from .faults import Attempts, Fault, Redactor, RetryPolicy
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


_homes: WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = WeakKeyDictionary()
"""The event loop that the connections of an HTTP client belong to."""

_found: dict[str, bool] = {}
"""Of endpoints with a model, whether their replies begin inside a thought, where a reply showed it."""


def _for_langchain(message: "BaseMessage") -> "BaseMessage":
    """A mere text of the assistant under its role: LangChain looks at each character of an `AIMessage`."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, str):
        return message
    if message.tool_calls or message.invalid_tool_calls or message.additional_kwargs or message.name:
        return message
    return ChatMessage(content=message.content, role="assistant")


def response_format(request: ModelRequest) -> Mapping[str, Any]:
    """The part of the request's body that asks for JSON; empty where none is asked for."""
    if request.schema is None:
        return {}
    schema = {"name": request.purpose, "schema": request.schema, "strict": request.strict}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def tool_choice(request: ModelRequest) -> Mapping[str, Any]:
    """The part of the request's body that requires a call; empty where the model decides."""
    if request.tool_choice in ("", "required"):
        return {"tool_choice": request.tool_choice} if request.tool_choice else {}
    return {"tool_choice": {"type": "function", "function": {"name": request.tool_choice}}}


class _Attempt:
    """One attempt at an endpoint."""

    def __init__(self, model: "OpenAIModel", request: ModelRequest, habits: frozenset[str]) -> None:
        self._model = model
        self._request = request
        self._names = own_names(request, habits)
        self._messages = outgoing_messages(request, model.endpoint)

        def adapt(body: dict[str, Any]) -> dict[str, Any]:
            return adapted(with_kept(body, self._messages), request, habits, model.address)

        self._transport = model.connect(request, adapt)

    @property
    def sent(self) -> dict[str, Any]:
        """The body of the request."""
        return self._transport.sent

    async def pieces(self) -> AsyncGenerator[ModelPiece, None]:
        transport, endpoint = self._transport, self._model.endpoint
        chunks = self._model.bound(self._request, transport).astream([*map(_for_langchain, self._messages)])
        try:
            async for _ in chunks:
                for piece in transport.reader.take():
                    yield piece
        finally:
            await transport.close()
        for piece in transport.reader.take():
            yield piece
        if transport.reader.opened is not None:
            _found[endpoint] = transport.reader.opened
        reply = transport.reader.reply()
        kept, cost = transport.reader.kept.of(reply, endpoint), await self._model.cost(reply.usage)
        yield replace(with_own_names(reply, self._names), cost=cost, kept=kept)


class OpenAIModel:
    """A model behind an OpenAI-compatible chat-completions endpoint."""

    is_language_model = True

    def __init__(
        self,
        chat: "BaseChatOpenAI",
        name: str,
        *,
        streaming: bool = True,
        policy: RetryPolicy | None = None,
        habits: Habits | None = None,
        given: Collection[str] | None = None,
        plain_client: bool = False,
    ) -> None:
        """`plain_client`: the chat model's HTTP client has no settings of its own."""
        self.chat = chat
        self.name = name
        self._policy = policy or RetryPolicy()
        self._streaming = streaming and not chat.disable_streaming
        self._plain_client = plain_client or chat.http_async_client is None
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        root = chat.root_async_client
        url = str(root.base_url if root is not None else chat.openai_api_base or "")
        self.address = address_without_secrets(url).rstrip("/")
        key = chat.openai_api_key
        keys = [key.get_secret_value()] if isinstance(key, SecretStr) else []
        if root is not None:
            keys.append(str(root.api_key or ""))
        self._redact = Redactor(keys)
        self.endpoint = f"{self.address}#{chat.model_name}"
        """The address without keys, and the model's name."""
        self._attempts = Attempts(self.endpoint, self._policy, habits, given)
        chat._serialized  # noqa: B018 - LangChain keeps it: else each attempt's copy would make it again

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`; a `Retry` goes before each attempt but the first.

        A reply truncated at its length limit is a reply, with the finish_reason `length`.
        """
        return self._attempts.stream(self, request)

    def _client(self) -> Any:
        """The completions client of the running event loop: another loop cannot use its connections.

        It has our timeouts, unless the chat model has its own, and no retries.
        """
        loop, root = asyncio.get_running_loop(), self.chat.root_async_client
        if root is None:
            return self.chat.async_client
        if loop not in self._clients:
            options: dict[str, Any] = {"max_retries": 0}
            if self.chat.request_timeout is None:
                seconds = self._policy.read_timeout if self._streaming else self._policy.reply_timeout
                options["timeout"] = timeouts(seconds)
            if _homes.setdefault(root._client, loop) is not loop:
                if not self._plain_client:
                    raise ModelRefused(
                        'The http_async_client of the model "{name}" was used in another event loop, which its '
                        "connections belong to: make the model in each event loop.",
                        name=self.name,
                    )
                options["http_client"] = openai.DefaultAsyncHttpxClient()
            self._clients[loop] = root.with_options(**options).chat.completions
        return self._clients[loop]

    def begin(self, request: ModelRequest, habits: frozenset[str]) -> _Attempt:
        return _Attempt(self, request, habits)

    def connect(self, request: ModelRequest, adapt: Callable[[dict[str, Any]], dict[str, Any]]) -> Transport:
        """A connection for one attempt."""
        growing = GrowingReply.to(request, _found.get(self.endpoint, False))
        return Transport(self._client(), self._policy, self._redact, self._streaming, growing, adapt)

    async def cost(self, usage: Mapping[str, int]) -> float | None:
        """What tokens cost in US dollars; None where that is not known."""
        return await known_cost(self.chat.model_name, self.address, usage)

    def bound(self, request: ModelRequest, transport: Transport) -> Any:
        """A copy of the chat model for one attempt.

        The response format goes in `extra_body`: as an argument, LangChain would use the client's parser, which
        has errors of its own for a truncated reply.
        """
        copy = self.chat.model_copy(
            update={
                "async_client": transport,
                "extra_body": {**(self.chat.extra_body or {}), **response_format(request)} or None,
                "stream_usage": self.chat.stream_usage is not False,
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

    def faulty(self, fault: Fault) -> Clause:
        """The model with what is wrong, as the beginning of a sentence."""
        template = 'The model "{name}" at {address} {reason}'
        return Clause(template, name=self.name, address=self.address, reason=fault.reason)


def timeouts(read_timeout: float) -> openai.Timeout:
    """The client's own time limits; between two pieces of a reply the same as ours."""
    return openai.Timeout(connect=CONNECT_SECONDS, read=read_timeout, write=read_timeout, pool=CONNECT_SECONDS)
