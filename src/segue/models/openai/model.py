"""Models behind OpenAI-compatible endpoints, with retries and requests in the form that an endpoint takes."""

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import openai
from langchain_core.messages import AIMessage, ChatMessage
from pydantic import SecretStr

from ...core.environment import address_without_secrets
from ...core.errors import Clause, ModelError, ModelRefused, ModelUnreachable, UnreadableReply
from ...core.json import plain_specs
from ...core.models import UNREADABLE, ModelPiece, ModelReply, ModelRequest, Retry
from ..habits import Habits, Trial, adapted, plain_names
from ..reply import GrowingReply
from ..transcript import outgoing_messages, with_kept
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


_NOT_ABOUT_THE_BODY = (0, 401, 403, 408, 409, 429)

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


@dataclass(frozen=True)
class _Call:
    """One attempt: what is sent, and the tools' own names by those that are sent instead."""

    messages: "Sequence[BaseMessage]"
    transport: Transport
    own_names: Mapping[str, str]

    def with_own_names(self, reply: ModelReply) -> ModelReply:
        if not self.own_names:
            return reply
        calls = [replace(call, name=self.own_names.get(call.name, call.name)) for call in reply.tool_calls]
        return replace(reply, tool_calls=tuple(calls))


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
    ) -> None:
        self.chat = chat
        self.name = name
        self._policy = policy or RetryPolicy()
        self._habits = habits or Habits()
        self._given = None if given is None else frozenset(given)
        """The endpoint's habits that the agent sets in place of those that are known."""
        self._streaming = streaming and not chat.disable_streaming
        self._completions = _completions_client(
            chat, self._policy.read_timeout if self._streaming else self._policy.reply_timeout
        )
        self._address = _address(chat)
        self._redact = Redactor(_keys(chat))
        self.endpoint = f"{self._address}#{chat.model_name}"
        """The address without keys, and the model's name."""
        chat._serialized  # noqa: B018 - LangChain keeps it: else each attempt's copy would make it again

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the deltas, then exactly one `ModelReply`; a `Retry` goes before each attempt but the first.

        A reply truncated at its length limit is a reply, with the finish_reason `length`.

        Raises:
            ModelUnreachable: resuming may help. ModelRefused: something has to be changed first.
        """
        attempt = 1
        trial = Trial(await self._habits.of(self.endpoint) if self._given is None else self._given)
        while True:
            call = self._begin(request, trial.active)
            transport, reader = call.transport, call.transport.reader
            begun = False
            try:
                try:
                    async for _ in self._bound(request, transport).astream([*map(_for_langchain, call.messages)]):
                        for piece in reader.take():
                            begun = True
                            yield piece
                finally:
                    await transport.close()
                for piece in reader.take():
                    begun = True
                    yield piece
                reply = await self._reply_of(call)
                if trial.active != trial.known:
                    await self._learn(trial)
                yield reply
                return
            except AttemptFailed as failed:
                fault = failed.fault
            # Raised out here an error has no context: what the client raised may hold the key.
            is_refusal = not begun and fault.status not in _NOT_ABOUT_THE_BODY
            words, refused = str(fault.reason), not fault.retryable
            if is_refusal and trial.adapt(fault.text, words, refused, transport.sent, request):
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

    async def _learn(self, trial: Trial) -> None:
        """Keep what the endpoint accepted; where the agent sets its habits, for this process only."""
        if self._given is None:
            await self._habits.learn(self.endpoint, trial.known, trial.active)
        else:
            self._given = trial.active

    def _begin(self, request: ModelRequest, habits: frozenset[str]) -> "_Call":
        messages = outgoing_messages(request, self.endpoint)
        own_names: dict[str, str] = {}
        if "plain_names" in habits and request.native:
            plain = plain_names(str(tool["function"]["name"]) for tool in request.tools)
            own_names = {sent: name for name, sent in plain.items() if sent != name}

        def adapt(body: dict[str, Any]) -> dict[str, Any]:
            return adapted(with_kept(body, messages), request, habits, self._address)

        growing = GrowingReply.to(request, _found.get(self.endpoint, False))
        transport = Transport(self._completions, self._policy, self._redact, self._streaming, growing, adapt)
        return _Call(messages, transport, own_names)

    async def _reply_of(self, call: "_Call") -> ModelReply:
        """The whole reply of an attempt; whether replies of the endpoint begin inside a thought is kept."""
        reader = call.transport.reader
        if reader.opened is not None:
            _found[self.endpoint] = reader.opened
        reply = reader.reply()
        kept = reader.kept.of(reply, self.endpoint)
        return replace(call.with_own_names(reply), cost=await self.cost(reply.usage), kept=kept)

    async def cost(self, usage: Mapping[str, int]) -> float | None:
        """What tokens cost in US dollars; None where that is not known."""
        return await known_cost(self.chat.model_name, self._address, usage)

    def _bound(self, request: ModelRequest, transport: Transport) -> Any:
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
    return address_without_secrets(url).rstrip("/")


def _keys(chat: "BaseChatOpenAI") -> list[str]:
    key = chat.openai_api_key
    keys = [key.get_secret_value()] if isinstance(key, SecretStr) else []
    if chat.root_async_client is not None:
        keys.append(str(chat.root_async_client.api_key or ""))
    return keys
