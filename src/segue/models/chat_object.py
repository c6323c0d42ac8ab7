"""LangChain chat models: an object as an agent's model."""

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.errors import Clause, ModelRefused, SegueError
from ..core.json import plain_specs
from ..core.models import ModelPiece, ModelRequest
from .habits import Habits, adapted, own_names, with_own_names
from .openai.faults import AttemptFailed, Attempts, Fault, Redactor, RetryPolicy, end_fault, provider_fault
from .reply import GrowingReply, finish_reason_of
from .transcript import kept_of_messages, outgoing_messages, restored

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable


_FINISH_FIELDS = ("finish_reason", "stop_reason", "done_reason")


NOT_OF_CHATS = ("reasoning_content", "no_reasoning", "thought_signatures", "developer_role")
"""Habits about what only the chat model's own client writes."""


class ChatObject:
    """Any chat model; in the json protocol only the prompt asks for JSON.

    Its provider's refusals, and failures that pass, are treated as an endpoint's; other errors pass through. The
    reply's `finish_reason` is translated to OpenAI's; `stop` where the model gives none.
    """

    is_language_model = True

    def __init__(
        self,
        chat: "BaseChatModel",
        name: str = "",
        *,
        streaming: bool = True,
        policy: RetryPolicy | None = None,
        habits: Habits | None = None,
        given: Collection[str] | None = None,
    ) -> None:
        self.chat = chat
        self.name = name or str(getattr(chat, "model_name", "") or type(chat).__name__)
        self.endpoint = f"{type(chat).__module__}.{type(chat).__qualname__}#{self.name}"
        """Its class and name."""
        self.streaming = streaming
        self.policy = policy or RetryPolicy()
        self._attempts = Attempts(self.endpoint, self.policy, habits, given, NOT_OF_CHATS)

    def bound(self, request: ModelRequest, tools: Sequence[dict[str, Any]]) -> "Runnable[Any, Any]":
        """The chat model with what the request binds to it."""
        settings = dict(request.settings)
        if not tools:
            return self.chat.bind(**settings) if settings else self.chat
        if request.tool_choice:
            settings["tool_choice"] = "any" if request.tool_choice == "required" else request.tool_choice
        try:
            return self.chat.bind_tools([*tools], **settings)
        except NotImplementedError as error:
            raise ModelRefused(
                'The model "{name}" does not support tools: set protocol="json" on the agent.', name=self.name
            ) from error

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        return self._attempts.stream(self, request)

    def begin(self, request: ModelRequest, habits: frozenset[str]) -> "_Attempt":
        return _Attempt(self, request, habits)

    def faulty(self, fault: Fault) -> Clause:
        """The model with what is wrong, as the beginning of a sentence."""
        return Clause('The model "{name}" {reason}', name=self.name, reason=fault.reason)


class _Attempt:
    """One attempt; its messages have the form of chat completions while habits change them."""

    def __init__(self, model: ChatObject, request: ModelRequest, habits: frozenset[str]) -> None:
        self._model = model
        self._request = request
        self._names = own_names(request, habits)
        forms = [_form(message) for message in outgoing_messages(request, model.endpoint)]
        tools = plain_specs(request.tools) if request.native else []
        self._as_given = {id(form): form[_OF] for form in forms}
        self._given = forms  # which keeps their ids
        self.sent = adapted({"messages": forms, "tools": tools}, request, habits, "")

    async def pieces(self) -> AsyncGenerator[ModelPiece, None]:
        growing = GrowingReply.to(self._request)
        received: list[AIMessage] = []
        try:
            async with aclosing(self._messages()) as messages:
                async for message in messages:
                    received.append(message)
                    _add(growing, message)
                    for piece in growing.take():
                        yield piece
        except SegueError:
            raise
        except Exception as error:  # of any provider's client
            raise AttemptFailed(provider_fault(error, Redactor(()), self._model.policy.clock)) from error
        growing.finish_reason = growing.finish_reason or "stop"
        if fault := end_fault(growing.finish_reason):
            raise AttemptFailed(fault)
        reply = growing.whole()
        for piece in growing.take():
            yield piece
        kept = kept_of_messages(received, reply, self._model.endpoint)
        yield replace(with_own_names(reply, self._names), kept=kept)

    async def _messages(self) -> "AsyncGenerator[AIMessage, None]":
        runnable = self._model.bound(self._request, self.sent["tools"])
        messages = [restored(self._as_given.get(id(form)) or _message(form)) for form in self.sent["messages"]]
        if not self._model.streaming:
            yield await runnable.ainvoke(messages)
            return
        async for chunk in runnable.astream(messages):
            yield chunk


_OF = "message"
"""The message that a form was made of."""
_ROLES = {"human": "user", "ai": "assistant"}


def _form(message: "BaseMessage") -> dict[str, Any]:
    """A message in the form of chat completions."""
    form: dict[str, Any] = {"role": _ROLES.get(message.type, message.type), "content": message.content, _OF: message}
    if calls := getattr(message, "tool_calls", None):
        form["tool_calls"] = [{"id": c["id"], "function": {"name": c["name"]}} for c in calls]
    if message.type == "tool":
        form |= {"tool_call_id": getattr(message, "tool_call_id", ""), "name": message.name}
    return form


def _message(form: dict[str, Any]) -> "BaseMessage":
    """The message of a form that a habit has changed."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    made: dict[str, type[BaseMessage]] = {"user": HumanMessage, "system": SystemMessage, "assistant": AIMessage}
    given: BaseMessage | None = form.get(_OF)
    content = form.get("content") or ""
    if given is None or _ROLES.get(given.type, given.type) != form["role"]:
        return made[form["role"]](content=content)
    update: dict[str, Any] = {"content": content}
    if calls := form.get("tool_calls"):
        sent = zip(getattr(given, "tool_calls", ()), calls, strict=True)
        update["tool_calls"] = [{**old, "id": new["id"], "name": new["function"]["name"]} for old, new in sent]
    if form["role"] == "tool":
        update |= {"tool_call_id": form["tool_call_id"], "name": form.get("name")}
    changed: BaseMessage = given.model_copy(update=update)
    return changed


def _add(growing: GrowingReply, message: "AIMessage") -> None:
    """Add a message, or a chunk of one, to the reply."""
    growing.add_reasoning(_reasoning(message))
    growing.add_text(str(message.text))
    _add_calls(growing, message)
    usage = _counted(message.usage_metadata)
    growing.usage = {**growing.usage, **{name: growing.usage.get(name, 0) + count for name, count in usage.items()}}
    metadata = message.response_metadata
    reason = next((str(metadata[name]).lower() for name in _FINISH_FIELDS if metadata.get(name)), "")
    growing.finish_reason = finish_reason_of(reason) or growing.finish_reason


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


def _counted(usage: Mapping[str, Any] | None) -> dict[str, int]:
    if not usage:
        return {}
    return {name: max(0, int(usage.get(f"{name}_tokens") or 0)) for name in ("input", "output")}
