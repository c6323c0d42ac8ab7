"""Call a model: stream what it writes, count what it uses."""

import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from langgraph.types import interrupt
from pydantic_core import from_json

from segue.core.errors import UnreadableReply
from segue.core.events import AttemptRestarted, ModelCalled, Thinking, Token, Waiting
from segue.core.ports import PAUSE, CallDelta, ModelReply, ModelRequest, Retry, TextDelta
from segue.prompts.phrases import phrase

from .context import Bench

Usage = dict[str, Any]
"""{"input", "output", "calls"} so far, and "cost" where the agent has prices."""


class Listener(Protocol):
    """What becomes of a reply while it is written."""

    def text(self, piece: str) -> None: ...

    def call(self, name: str) -> None: ...

    def restart(self) -> None: ...


@dataclass(frozen=True)
class Asked:
    """A reply, the task's usage with it, and the event of the call."""

    reply: ModelReply
    usage: Usage
    event: ModelCalled


async def ask_model(
    work: Bench, request: ModelRequest, listener: Listener, usage: Mapping[str, Any], ids: Mapping[str, Any]
) -> Asked:
    """Make one call; `listener` gets each piece as it arrives, and waits and restarts become events.

    A reply that outgrows the agent's budget is left there, and counts as cut. Where a pause is wanted, no further
    attempt is begun: the node begins again when the task goes on.

    Raises:
        ModelError: the call failed for good.
    """
    started, budget = time.monotonic(), work.agent.budget
    reply, text = ModelReply(text="", finish_reason="empty"), ""
    async with aclosing(work.model.stream(request)) as pieces:
        async for piece in pieces:
            match piece:
                case TextDelta():
                    listener.text(piece.text)
                    text += piece.text
                case CallDelta():
                    listener.call(piece.name)
                case Retry():
                    listener.restart()
                    text = ""
                    if work.services.pausing():
                        interrupt({"kind": PAUSE})
                    _tell_retry(work, piece, ids)
                case ModelReply():
                    reply = piece
            if len(text) > budget.reply_chars or time.monotonic() - started > budget.seconds:
                reply = ModelReply(text=text, finish_reason="length")
                break
    return _counted(work, request, reply, usage, ids, time.monotonic() - started)


def _tell_retry(work: Bench, retry: Retry, ids: Mapping[str, Any]) -> None:
    if retry.seconds:
        work.emit(Waiting(reason=retry.reason, seconds=round(retry.seconds, 2), **ids))
    why = "after the wait" if retry.seconds else retry.reason
    work.emit(AttemptRestarted(attempt=retry.attempt, reason=why, **ids))


def _counted(
    work: Bench,
    request: ModelRequest,
    reply: ModelReply,
    usage: Mapping[str, Any],
    ids: Mapping[str, Any],
    seconds: float,
) -> Asked:
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
    return Asked(reply, total, event)


def whole_answer(reply: ModelReply, language: str) -> str:
    """The reply as an answer; one that was cut at its length limit says so.

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
    """Streams a reply's text as the answer; if calls follow it was the thought, and is told again as that."""

    def __init__(self, work: Bench, ids: Mapping[str, Any]) -> None:
        self._work = work
        self._ids = ids
        self._attempt = 1
        self._said = ""
        self._calling = False

    def text(self, piece: str) -> None:
        self._said += piece
        kind = Thinking if self._calling else Token
        self._work.emit(kind(content=piece, attempt=self._attempt, **self._ids))

    def call(self, name: str) -> None:
        if self._said and not self._calling:
            reason = "what was written is the thought"
            self._work.emit(AttemptRestarted(attempt=self._attempt, reason=reason, **self._ids))
            self._work.emit(Thinking(content=self._said, attempt=self._attempt, **self._ids))
        self._calling = True

    def restart(self) -> None:
        self._attempt += 1
        self._said, self._calling = "", False


class LiveEnvelope:
    """Reads a json envelope while it is written and streams its thought and its answer."""

    def __init__(self, work: Bench, ids: Mapping[str, Any]) -> None:
        self._work = work
        self._ids = ids
        self._attempt = 0
        self.restart()

    def restart(self) -> None:
        self._attempt += 1
        self._text = ""
        self._shown = {Thinking: 0, Token: 0}

    def call(self, name: str) -> None:
        pass

    def text(self, piece: str) -> None:
        self._text += piece
        start = self._text.find("{")
        if start < 0:
            return
        try:
            envelope = from_json(self._text[start:], allow_partial="trailing-strings")
        except ValueError:
            return
        if isinstance(envelope, dict):
            self._show(Thinking, envelope.get("thought"))
            self._show(Token, _answer_of(envelope))

    def _show(self, kind: type[Thinking] | type[Token], text: object) -> None:
        if not isinstance(text, str) or len(text) <= self._shown[kind]:
            return
        content = text[self._shown[kind] :]
        self._shown[kind] = len(text)
        self._work.emit(kind(content=content, attempt=self._attempt, **self._ids))


def _answer_of(envelope: Mapping[str, Any]) -> object:
    action = envelope.get("action")
    if not isinstance(action, dict):
        return None
    result = action.get("result")
    inner = result if isinstance(result, dict) else action
    output = inner.get("output") if inner.get("action_type") == "ANSWER" else None
    return output.get("answer") if isinstance(output, dict) else None
