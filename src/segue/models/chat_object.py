"""LangChain chat models: an object as an agent's model."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.errors import ModelError, ModelRefused, ModelUnreachable
from ..core.json import plain_specs
from ..core.models import ModelPiece, ModelRequest
from .openai.faults import is_too_long
from .reply import BROKEN, FILTERED, MALFORMED, GrowingReply, finish_reason_of
from .transcript import kept_of_messages, outgoing_messages, restored

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable


_FINISH_FIELDS = ("finish_reason", "stop_reason", "done_reason")


class ChatObject:
    """Any chat model: its errors pass through, and in the json protocol only the prompt asks for JSON.

    The reply's `finish_reason` is translated to OpenAI's; `stop` where the model gives none.
    """

    is_language_model = True
    endpoint = ""

    def __init__(self, chat: "BaseChatModel", name: str = "", *, streaming: bool = True) -> None:
        self.chat = chat
        self.name = name or str(getattr(chat, "model_name", "") or type(chat).__name__)
        self._origin = f"{type(chat).__module__}.{type(chat).__qualname__}#{self.name}"
        self._streaming = streaming

    def bound(self, request: ModelRequest) -> "Runnable[Any, Any]":
        """The chat model with what the request binds to it.

        Raises:
            ModelRefused: it takes no tools.
        """
        settings = dict(request.settings)
        if not request.native or not request.tools:
            return self.chat.bind(**settings) if settings else self.chat
        if request.tool_choice:
            settings["tool_choice"] = "any" if request.tool_choice == "required" else request.tool_choice
        try:
            return self.chat.bind_tools(plain_specs(request.tools), **settings)
        except NotImplementedError as error:
            raise ModelRefused(
                'The model "{name}" does not support tools: set protocol="json" on the agent.', name=self.name
            ) from error

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        growing = GrowingReply.to(request)
        received: list[AIMessage] = []
        try:
            async with aclosing(self._messages(request)) as messages:
                async for message in messages:
                    received.append(message)
                    _add(growing, message)
                    for piece in growing.take():
                        yield piece
        except Exception as error:  # of any provider's client; only a prompt that is too long has to be known
            if isinstance(error, ModelError) or not is_too_long(str(error).lower()):
                raise
            raise self._too_long(error) from error
        growing.finish_reason = growing.finish_reason or "stop"
        self._refuse_broken(growing.finish_reason)
        reply = growing.whole()
        for piece in growing.take():
            yield piece
        yield replace(reply, kept=kept_of_messages(received, reply, self._origin))

    def _too_long(self, error: Exception) -> ModelRefused:
        refused = ModelRefused(
            'The model "{name}" refused the prompt ({why}): lower the agent\'s budget.prompt_tokens.',
            name=self.name,
            why=" ".join(str(error).split())[:200],
        )
        refused.may_be_too_long = True
        return refused

    def _refuse_broken(self, finish_reason: str) -> None:
        """Make sure that a reply did not break off.

        Raises:
            ModelUnreachable, ModelRefused.
        """
        if finish_reason in FILTERED:
            raise ModelRefused(
                'The model "{name}" stopped its reply at its content filter: rephrase the message.', name=self.name
            )
        if finish_reason in BROKEN - MALFORMED:
            raise ModelUnreachable(
                'The model "{name}" did not finish its reply ({reason}): check the endpoint, then resume.',
                name=self.name,
                reason=finish_reason,
            )

    async def _messages(self, request: ModelRequest) -> "AsyncGenerator[AIMessage, None]":
        runnable = self.bound(request)
        messages = [restored(message) for message in outgoing_messages(request, self._origin)]
        if not self._streaming:
            yield await runnable.ainvoke(messages)
            return
        async for chunk in runnable.astream(messages):
            yield chunk


def _add(growing: GrowingReply, message: "AIMessage") -> None:
    """Add a message, or a chunk of one, to the reply."""
    growing.add_reasoning(_reasoning(message))
    growing.add_text(str(message.text))
    _add_calls(growing, message)
    usage = _counted(message.usage_metadata)
    growing.usage = {**growing.usage, **{name: growing.usage.get(name, 0) + count for name, count in usage.items()}}
    growing.finish_reason = _finish_reason(message.response_metadata) or growing.finish_reason


def _reasoning(message: "AIMessage") -> str:
    if isinstance(message.content, list):
        return "".join(
            str(block.get("reasoning") or "") for block in message.content_blocks if block["type"] == "reasoning"
        )
    return str(message.additional_kwargs.get("reasoning_content") or "")


def _as_text(arguments: object) -> str:
    """Arguments as the text that is read again; what JSON cannot hold stays a text that is no JSON."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"({error})"


def _add_calls(growing: GrowingReply, message: "AIMessage") -> None:
    """Add a message's calls; only chunks, and calls that LangChain could not parse, hold the raw text."""
    from langchain_core.messages import AIMessageChunk

    if isinstance(message, AIMessageChunk):
        for piece in message.tool_call_chunks:
            growing.add_call(piece.get("index"), piece["id"] or "", piece["name"] or "", _as_text(piece["args"]))
        return
    for call in (*message.tool_calls, *message.invalid_tool_calls):
        growing.add_whole_call(call["id"] or "", call["name"] or "", _as_text(call["args"]))


def _finish_reason(metadata: Mapping[str, Any]) -> str:
    reason = next((str(metadata[name]).lower() for name in _FINISH_FIELDS if metadata.get(name)), "")
    return finish_reason_of(reason)


def _counted(usage: Mapping[str, Any] | None) -> dict[str, int]:
    if not usage:
        return {}
    return {name: max(0, int(usage.get(f"{name}_tokens") or 0)) for name in ("input", "output")}
