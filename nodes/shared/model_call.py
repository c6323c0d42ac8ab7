"""Calls of a model: what it writes is streamed, what it uses is counted."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from langgraph.types import interrupt

from segue.core.agents import Budget
from segue.core.errors import UnreadableReply
from segue.core.events import AttemptRestarted, ModelCalled, Thinking, Token, Waiting
from segue.core.ports import PAUSE, CallDelta, Hidden, ModelReply, ModelRequest, Retry, TextDelta
from segue.prompts.phrases import phrase

from .context import NodeContext
from .json_strings import JsonStrings

Usage = dict[str, Any]
"""{"input", "output", "calls"} so far, and "cost" where the agent has prices."""


class Listener(Protocol):
    """Receives a reply while it is written."""

    def text(self, piece: str) -> None: ...

    def call(self, name: str) -> None: ...

    def restart(self) -> None: ...


@dataclass(frozen=True)
class CompletedCall:
    """A reply, the task's usage with it, and the event of the call."""

    reply: ModelReply
    usage: Usage
    event: ModelCalled


async def ask_model(
    work: NodeContext, request: ModelRequest, listener: Listener, usage: Mapping[str, Any], ids: Mapping[str, Any]
) -> CompletedCall:
    """Make one call; `listener` gets each piece as it arrives, and waits and restarts become events.

    A reply that exceeds the agent's budget is truncated, with the finish_reason `length`. Where a pause is requested,
    no further attempt is begun: the node begins again when the task goes on.

    Raises:
        ModelError: the call failed for good.
    """
    started, received = time.monotonic(), _Received()
    try:
        async with asyncio.timeout(work.agent.budget.seconds) as limit:
            reply = await _reply(work, request, listener, ids, received)
    except TimeoutError:
        if not limit.expired():
            raise
        reply = received.truncated()
    return _counted(work, request, reply, usage, ids, time.monotonic() - started)


@dataclass
class _Received:
    """What has arrived of a reply: its text, and the number of all characters."""

    text: list[str] = field(default_factory=list)
    chars: int = 0
    reasoning: int = 0

    def exceeds(self, budget: Budget) -> bool:
        return self.chars > budget.reply_chars or self.reasoning > budget.reasoning_chars

    def truncated(self) -> ModelReply:
        return ModelReply(text="".join(self.text), finish_reason="length")


async def _reply(
    work: NodeContext, request: ModelRequest, listener: Listener, ids: Mapping[str, Any], received: _Received
) -> ModelReply:
    async with aclosing(work.model.stream(request)) as pieces:
        async for piece in pieces:
            match piece:
                case TextDelta():
                    listener.text(piece.text)
                    received.text.append(piece.text)
                    received.chars += len(piece.text)
                case Hidden():
                    received.chars += piece.chars
                    received.reasoning += piece.reasoning
                case CallDelta():
                    listener.call(piece.name)
                case Retry():
                    listener.restart()
                    received.text, received.chars, received.reasoning = [], 0, 0
                    if work.services.pausing():
                        interrupt({"kind": PAUSE})
                    _emit_retry(work, piece, ids)
                case ModelReply():
                    return piece
            if received.exceeds(work.agent.budget):
                return received.truncated()
    return ModelReply(text="", finish_reason="empty")


def _emit_retry(work: NodeContext, retry: Retry, ids: Mapping[str, Any]) -> None:
    if retry.seconds:
        work.emit(Waiting(reason=retry.reason, seconds=round(retry.seconds, 2), **ids))
    why = "after the wait" if retry.seconds else retry.reason
    work.emit(AttemptRestarted(attempt=retry.attempt, reason=why, **ids))


def _counted(
    work: NodeContext,
    request: ModelRequest,
    reply: ModelReply,
    usage: Mapping[str, Any],
    ids: Mapping[str, Any],
    seconds: float,
) -> CompletedCall:
    used = {name: reply.usage.get(name, 0) for name in ("input", "output")}
    total: Usage = {name: usage.get(name, 0) + used[name] for name in used} | {"calls": usage.get("calls", 0) + 1}
    cost = None
    if work.agent.prices is not None:
        cost = work.agent.prices.cost(used["input"], used["output"])
        total |= {"cost": usage.get("cost", 0.0) + cost, "currency": work.agent.prices.currency}
    event = ModelCalled(
        purpose=request.purpose,
        model=work.model.name,
        input=used["input"],
        output=used["output"],
        seconds=round(seconds, 3),
        cost=cost,
        **ids,
    )
    return CompletedCall(reply, total, event)


def whole_answer(reply: ModelReply, language: str) -> str:
    """The reply as an answer; one that was truncated at its length limit says so.

    Raises:
        UnreadableReply: it is empty.
    """
    if not reply.text.strip():
        raise UnreadableReply("The model's answer is empty: resume the task to ask again.")
    return reply.text + (phrase("cut", language) if reply.finish_reason == "length" else "")


class Silent:
    """Shows nothing of a reply."""

    def text(self, piece: str) -> None:
        pass

    def call(self, name: str) -> None:
        pass

    def restart(self) -> None:
        pass


class LiveText:
    """Streams a reply's text as the answer; if calls follow it was the thought, and is streamed again as that."""

    def __init__(self, work: NodeContext, ids: Mapping[str, Any]) -> None:
        self._work = work
        self._ids = ids
        self._attempt = 1
        self._text: list[str] = []
        self._calling = False

    def text(self, piece: str) -> None:
        self._text.append(piece)
        kind = Thinking if self._calling else Token
        self._work.emit(kind(content=piece, attempt=self._attempt, **self._ids))

    def call(self, name: str) -> None:
        if self._text and not self._calling:
            reason = "what was written is the thought"
            self._work.emit(AttemptRestarted(attempt=self._attempt, reason=reason, **self._ids))
            self._work.emit(Thinking(content="".join(self._text), attempt=self._attempt, **self._ids))
        self._calling = True

    def restart(self) -> None:
        self._attempt += 1
        self._text, self._calling = [], False


_THOUGHT = ("thought",)
_ACTIONS = ("action", "result"), ("action",)
_KINDS = {(*action, "action_type") for action in _ACTIONS}
_ANSWERS = {(*action, "output", "answer") for action in _ACTIONS}


class LiveEnvelope:
    """Reads a json envelope while it is written and streams its thought and its answer."""

    def __init__(self, work: NodeContext, ids: Mapping[str, Any]) -> None:
        self._work = work
        self._ids = ids
        self._attempt = 0
        self.restart()

    def restart(self) -> None:
        self._attempt += 1
        self._strings = JsonStrings()
        self._kind = ""
        self._answer: list[str] = []

    def call(self, name: str) -> None:
        pass

    def text(self, piece: str) -> None:
        thought: list[str] = []
        for path, added in self._strings.feed(piece):
            if path == _THOUGHT:
                thought.append(added)
            elif path in _KINDS:
                self._kind += added
            elif path in _ANSWERS:
                self._answer.append(added)
        self._show(Thinking, thought)
        if self._kind == "ANSWER":
            self._show(Token, self._answer)
            self._answer = []

    def _show(self, kind: type[Thinking] | type[Token], pieces: Sequence[str]) -> None:
        if content := "".join(pieces):
            self._work.emit(kind(content=content, attempt=self._attempt, **self._ids))
