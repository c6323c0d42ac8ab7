"""The result of a task, the same for every mode."""

from collections.abc import Mapping, Sequence
from typing import Any


def compose_result(
    mode: str,
    answer: str,
    *,
    history: Sequence[Mapping[str, Any]] = (),
    reasoning: str = "",
    total_steps: int = 0,
    plan: Sequence[Mapping[str, Any]] = (),
    usage: Mapping[str, Any] | None = None,
    error: str = "",
) -> dict[str, Any]:
    """`{success, answer, mode, reasoning{text, total_steps, tools_used}, history, plan?, usage, error?}`.

    A history entry is {step, phase, action, result, description}; `tools_used` keeps the order of first use.
    """
    used = dict.fromkeys(entry["action"] for entry in history if entry.get("result") is not None)
    result: dict[str, Any] = {
        "success": not error,
        "answer": answer,
        "mode": mode,
        "reasoning": {
            "text": f"<thinking>\n{reasoning}\n</thinking>",
            "total_steps": total_steps,
            "tools_used": list(used),
        },
        "history": [dict(entry) for entry in history],
        "usage": dict(usage or {}),
    }
    if plan:
        result["plan"] = [dict(step) for step in plan]
    if error:
        result["error"] = error
    return result
