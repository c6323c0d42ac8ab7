"""What a round's prompt is made of: the live state, and the tools that the model may call."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from segue.core.ports import CallKey, Tool
from segue.prompts.phrases import phrase
from segue.tools.recall import recall_tool

from ..shared.context import NodeContext
from ..shared.prompt_budget import as_json, ref_of, tokens, truncate
from .state import ReactState

LINE_CHARS = 160
MEMORY_SHARE = 8
"""One part in so many of the prompt's budget goes to lines of what no longer fits whole."""


def current_state(
    state: ReactState, work: NodeContext, memory: Sequence[str], conversation: Sequence[Any]
) -> dict[str, Any]:
    """The snapshot; `memory` has a line for each round that no longer fits whole, `conversation` the earlier turns."""
    budget = work.agent.budget
    return {
        "global": {
            "task_id": state["task_id"],
            "iteration": state["iteration"],
            "max_iteration": work.agent.max_iteration,
            "status": "running",
        },
        "current_recursion": {"trace_id": state["trace_id"]},
        "context": {
            "objective": state["objective"],
            "constraints": {"tool_calls_left": budget.tool_calls - state["tool_calls"]},
            "plan": [_step(step) for step in state["plan"]],
            "memory": _newest(memory, budget.prompt_tokens // MEMORY_SHARE),
            "conversation": list(conversation),
        },
        "last_recursion": _last(state, budget.result_chars),
    }


def _newest(lines: Sequence[str], most_tokens: int) -> list[str]:
    used = 0
    for place in range(len(lines) - 1, -1, -1):
        used += tokens(lines[place])
        if used > most_tokens:
            return list(lines[place + 1 :])
    return list(lines)


def _step(step: dict[str, Any]) -> dict[str, Any]:
    shown = ("step_id", "description", "status", "note", "action", "params")
    return {name: step[name] for name in shown if step.get(name)}


def _last(state: ReactState, result_chars: int) -> dict[str, Any]:
    if not state["records"]:
        return {"failed": False, "note": phrase("first_round", state["language"])}
    record = state["records"][-1]
    kept = {name: record[name] for name in ("trace_id", "iteration", "action_type")}
    edited = [o for o in record["results"] if "original" in o]
    if edited:
        kept["edited_by_user"] = [
            {"name": o["name"], "original_arguments": truncate(as_json(o["original"]), result_chars)} for o in edited
        ]
    if not record.get("error"):
        return {**kept, "failed": False}
    return {**kept, "failed": True, "error_log": truncate(record["error"], result_chars)}


def line_of(record: dict[str, Any]) -> str:
    """A record in one line."""
    outcome = "error" if record.get("error") else "ok"
    names = ", ".join(o["name"] for o in record.get("results", ()))
    line = f"#{record['iteration']} {record['action_type']} {names} {outcome}: {record.get('thought', '')}"
    return truncate(line, LINE_CHARS)


def tools_at_hand(state: ReactState, work: NodeContext) -> Mapping[str, Tool]:
    """What the model may call this round."""
    chars = work.agent.budget.result_chars
    if "recall" in work.tools or not any(ref_of(m) and len(m.text) > chars for m in state["messages"]):
        return work.tools

    async def look_up(ref: str) -> str | None:
        found = next((m for m in reversed(state["messages"]) if ref_of(m) == ref), None)
        return None if found is None else await _whole(found, work)

    return {**work.tools, "recall": recall_tool(look_up, chars // 2)}


async def _whole(message: AnyMessage, work: NodeContext) -> str:
    """The result as the ledger has it, or as the history kept it."""
    key = CallKey(**message.additional_kwargs["key"])
    stored: Mapping[str, Any] | None = await work.services.ledger.read(key) if work.services.ledger else None
    outcome = (stored or {}).get("outcome")
    if not outcome:
        return message.text
    value = outcome.get("error", outcome.get("success"))
    return value if isinstance(value, str) else as_json(value)
