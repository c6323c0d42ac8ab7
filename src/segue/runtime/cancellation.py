"""The end of a cancelled task: what it did and wrote so far stays in its thread's history."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from ..core.agents import Budget
from ..core.records import Call, Json, Task
from ..core.tools import CallKey
from ..nodes.shared.prompt_budget import truncate_result
from ..nodes.shared.task import STEER, additions, compose_result
from ..nodes.shared.tool_messages import Settled, exchange
from ..prompts.catalogue import phrase
from .projection import Projection


async def close_turn(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    config: RunnableConfig,
    state: StateSnapshot,
    row: Task,
    calls: Sequence[Call],
    partial: str,
    result: Json,
) -> None:
    """End the turn of a task that will not go on, so that the thread can take the next message.

    `calls` are the task's in the ledger, all settled. Their exchange and `partial`, marked as interrupted, follow what
    the history has. `state` is the thread's, and belongs to the task.
    """
    values = state.values
    if values.get("result") and not state.tasks:
        return  # it had ended, or was closed before
    mark = phrase("interrupted", row.language or values.get("language") or "en")
    closing = AIMessage(f"{partial}\n\n{mark}".strip(), additional_kwargs={"interrupted": True})
    messages = values.get("messages", [])
    added = [HumanMessage(note, additional_kwargs={STEER: True}) for note in row.notes[len(additions(messages)) :]]
    update = {
        "messages": [*added, *_missing(messages, row, calls), closing],
        "result": result,
        "assignment": None,
    }
    await graph.aupdate_state(config, {**update, "task_id": row.task_id}, as_node="FINISH")


def _missing(messages: Sequence[AnyMessage], row: Task, calls: Sequence[Call]) -> list[AnyMessage]:
    """The exchanges of the calls that the history does not have yet, a recursion's or step's together."""
    known = [m.additional_kwargs.get("key") for m in messages if isinstance(m, ToolMessage)]
    rounds: dict[str, list[Settled]] = {}
    for place, call in enumerate(calls):
        key = CallKey(row.task_id, call.scope, call.idx)
        if asdict(key) not in known:
            call_id = f"{row.task_id[:8]}-{place}"
            settled = Settled(call_id, call.name, call.arguments, call.outcome or {}, key)
            rounds.setdefault(call.scope, []).append(settled)
    return [message for made in rounds.values() for message in exchange("", made)]


def cancelled_result(
    row: Task, partial: str, calls: Sequence[Call], unknown: Sequence[Json], known: Projection, budget: Budget
) -> Json:
    """The result of a task that was cancelled: what it thought, called and used until then, from its log and ledger."""
    history = [
        {
            "step": step,
            "phase": "execution",
            "action": call.name,
            "result": truncate_result(call.outcome or {}, budget.result_chars),
            "description": "",
        }
        for step, call in enumerate(calls, start=1)
    ]
    result = compose_result(
        row.mode,
        partial,
        history=history,
        reasoning="\n".join(text for text in known.thoughts if text),
        total_steps=len(history),
        usage=known.usage.as_dict(),
    )
    model = next(reversed(known.models), "")
    return {**result, "success": False, "status": "cancelled", "unknown_outcomes": [*unknown], "model": model}


def stopped(row: Task) -> Json:
    """The result of a task that was stopped before it had one."""
    return {"success": False, "answer": "", "mode": row.mode, "status": "paused"}
