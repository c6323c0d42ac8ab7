"""Services and ledger of a nested part of a task, a subtask or a branch, whose answer is not the task's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from segue.core.calls import CallResult
from segue.core.context import Said, Services
from segue.core.events import Event, Thinking, Token
from segue.core.prompt_size import SentPrompts
from segue.core.records import Call
from segue.core.tools import CallKey, Claim, Ledger, Tool, is_repeatable
from segue.tools.calls.run import unknown_outcome

OF_THE_WHOLE = frozenset({"answer", "plan_update", "step_update"})
"""Events that a part does not tell: they would be taken for the whole task's."""


def nested_services(
    whole: Services, ledger: Ledger | None, *, step_id: str = "", parent_id: str = "", read: Sequence[str] = ()
) -> Services:
    """The services of the whole for one part: its streamed answer is sent as a thought.

    Its events name the subtask (`step_id`) or the round (`parent_id`) that the part belongs to: an error ends the part
    and not the task. What is added to the task reaches a branch through its controller. What the part is to do may come
    from the texts that were `read`, which anybody may have written.
    """
    named = {"step_id": step_id, "parent_id": parent_id}
    ids: dict[str, Any] = {name: value for name, value in named.items() if value}

    def emit(event: Event) -> None:
        whole.emit(replace(_as_thought(event), **ids))

    async def notes(task_id: str) -> Sequence[str]:
        return () if parent_id else await whole.notes(task_id)

    async def said() -> Sequence[Said] | None:
        known = await whole.said()
        return None if known is None else [*known, *(Said(text, False, kind="memory") for text in read)]

    def announced(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**event, **ids, "data": _of_part(event)} for event in events if event["type"] not in OF_THE_WHOLE]

    return replace(
        whole,
        ledger=ledger,
        emit=emit,
        notes=notes,
        said=said,
        announced=announced,
        prompts=SentPrompts(),
        reply_options=whole.reply_options.for_part,
    )


def _as_thought(event: Event) -> Event:
    if not isinstance(event, Token):
        return event
    return Thinking(
        task_id=event.task_id,
        trace_id=event.trace_id,
        iteration=event.iteration,
        content=event.content,
        attempt=event.attempt,
    )


def _of_part(event: Mapping[str, Any]) -> dict[str, Any]:
    return {**event["data"], "final": False} if event["type"] == "error" else event["data"]


class NestedLedger:
    """The whole task's ledger, with the calls of a part that are under way."""

    def __init__(self, whole: Ledger) -> None:
        self._whole = whole
        self._under_way: dict[CallKey, str] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        return await self._whole.read(key)

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        claim = await self._whole.claim(key, name, arguments, synced=synced)
        if claim.state != "finished":
            self._under_way[key] = name
        return claim

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        await self._whole.settle(key, outcome, synced=synced)
        self._under_way.pop(key, None)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._whole.unknown(task_id)

    async def finished(self) -> Sequence[Call]:
        return await self._whole.finished()

    async def cancel(self, tools: Mapping[str, Tool], why: str, language: str) -> None:
        """Settle the calls that were interrupted: of one that changes something, nobody knows whether it did."""
        for key, name in list(self._under_way.items()):
            repeatable = is_repeatable(tools.get(name))
            unknown = unknown_outcome("call_stopped_unknown", language, tool=name, why=why.rstrip(".。"))
            result = CallResult.failed(why) if repeatable else unknown
            await self.settle(key, result.json())
