"""Calls that are refused before they run: over the budget, or failing again and again."""

from typing import Any

from .state import ReactState

MOST_FAILURES = 2
"""How often in a row the same call may fail before it is refused."""


def refusal(call: dict[str, Any], state: ReactState, most_calls: int) -> str:
    """Why this call is not run; empty if it is."""
    if state["tool_calls"] + call["index"] - len(state["outcomes"]) >= most_calls:
        return f"The limit of {most_calls} tool calls is reached: answer with what there is."
    if failures_in_a_row(call, state) >= MOST_FAILURES:
        return (
            f"This call of {call['name']} failed {MOST_FAILURES} times in a row with the same arguments and is "
            "refused: change the arguments, use another tool, or answer with what there is."
        )
    return ""


def failures_in_a_row(call: dict[str, Any], state: ReactState) -> int:
    """How many of the latest calls were this one and failed."""
    count = 0
    for record in reversed(state["records"]):
        for outcome in reversed(record["results"]):
            same = outcome["name"] == call["name"] and outcome["arguments"] == call["arguments"]
            if not same or "error" not in outcome["result"]:
                return count
            count += 1
    return count
