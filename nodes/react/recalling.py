"""The tools of a round: the agent's own, and `recall` as soon as a result was cut."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage

from segue.core.ports import CallKey, Tool
from segue.tools.recall import recall_tool

from ..shared.context import Bench
from ..shared.prompt_budget import as_json, ref_of
from .state import ReactState


def tools_at_hand(state: ReactState, work: Bench) -> Mapping[str, Tool]:
    """What the model may call this round."""
    chars = work.agent.budget.result_chars
    if "recall" in work.tools or not any(ref_of(m) and len(m.text) > chars for m in state["messages"]):
        return work.tools

    async def look_up(ref: str) -> str | None:
        found = next((m for m in reversed(state["messages"]) if ref_of(m) == ref), None)
        return None if found is None else await _whole(found, work)

    return {**work.tools, "recall": recall_tool(look_up, chars // 2)}


async def _whole(message: AnyMessage, work: Bench) -> str:
    """The result as the ledger has it, or as the history kept it."""
    key = CallKey(**message.additional_kwargs["key"])
    stored: Mapping[str, Any] | None = await work.services.ledger.read(key) if work.services.ledger else None
    outcome = (stored or {}).get("outcome")
    if not outcome:
        return message.text
    value = outcome.get("error", outcome.get("success"))
    return value if isinstance(value, str) else as_json(value)
