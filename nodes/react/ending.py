"""What ANSWER and FINISH share: the task's history entries and its reasoning."""

from typing import Any

from ..shared.prompt_budget import cut_result
from ..shared.results import compose_result
from .state import ReactState


def history_entries(state: ReactState, result_chars: int) -> list[dict[str, Any]]:
    """One entry a tool call."""
    return [
        {
            "step": record["iteration"],
            "phase": "execution",
            "action": outcome["name"],
            "result": cut_result(outcome["result"], result_chars),
            "description": record["thought"],
        }
        for record in state["records"]
        for outcome in record["results"]
    ]


def react_result(state: ReactState, answer: str, result_chars: int, error: str = "") -> dict[str, Any]:
    """The task's result."""
    return compose_result(
        "react",
        answer,
        history=history_entries(state, result_chars),
        reasoning="\n".join(f"[{r['iteration']}] {r['thought']}" for r in state["records"] if r["thought"]),
        total_steps=state["iteration"],
        plan=state["plan"],
        usage=state["usage"],
        error=error,
    )
