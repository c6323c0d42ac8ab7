"""Waits of calls for their results: the graph is interrupted until a moment, or until an event was sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from langgraph.types import interrupt

from segue.core.calls import CallResult, CallStatus, Execution, PendingCall
from segue.core.moments import written
from segue.core.question import WAIT
from segue.core.tools import Tool
from segue.prompts.catalogue import phrase


@dataclass(frozen=True)
class Arrived:
    """The executor of a call that ran: it gives the result that the call waited for."""

    value: Mapping[str, Any]

    def needs_approval(self, tool: Tool) -> bool:
        return False

    def parallel(self, tool: Tool) -> bool:
        return False

    async def execute(self, execution: Execution) -> CallResult:
        return CallResult.done(dict(self.value))


def marked_wait(call: PendingCall, result: CallResult) -> PendingCall:
    """The call, marked if it waits for its result."""
    return {**call, "wait": result.value} if result.status is CallStatus.WAITING else call


def waited(call: PendingCall, language: str) -> PendingCall:
    """A marked call with its result; the graph is interrupted until that is there."""
    terms = call["wait"]
    text = wait_sentence(terms["until"], terms["event"], language)
    value = interrupt({"kind": WAIT, "question": text, "tool": call["name"], **terms})
    return {**without_wait(call), "waited": value}


def without_wait(call: PendingCall) -> PendingCall:
    """The call as it was decided."""
    rest: PendingCall = {**call}
    rest.pop("wait", None)
    rest.pop("waited", None)
    return rest


def wait_sentence(until: float | None, event: str, language: str) -> str:
    """What a task waits for."""
    if until is None:
        return phrase("wait_for_event", language, event=event)
    moment = written(until, UTC)
    return (
        phrase("wait_for_both", language, event=event, moment=moment)
        if event
        else phrase("wait_until", language, moment=moment)
    )
