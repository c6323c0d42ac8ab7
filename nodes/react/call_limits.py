"""Limits of a task: calls that are refused before they run, and replies that cannot be read."""

from typing import Any

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.core.decision import ActionType, Decision, holds_object
from segue.core.models import ModelReply
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext
from ..shared.model_call import whole_answer
from ..shared.repeated_calls import refused_repeat
from .state import ReactState

MOST_SUCCESSES = 2
"""In how many rounds in a row the same call may have the same result; a further one gets it without being run."""

SAME_ROUNDS = 3
"""Rounds alike in a row after which a model that takes a schema can only answer."""


def refusal(call: PendingCall, state: ReactState, most_calls: int) -> CallResult | None:
    """The result of a call that is not run, or None.

    A rejected call frees no place in the budget for those behind it, about which no one was asked.
    """
    rejected = sum(_status(outcome) is CallStatus.REJECTED for outcome in state["outcomes"])
    if state["tool_calls"] + call["index"] - len(state["outcomes"]) + rejected >= most_calls:
        why = phrase("no_calls_left", state["language"], n=most_calls)
        return CallResult(status=CallStatus.OVER_BUDGET, error=why)
    return refused_repeat(call, rounds_of(state), state["task_id"], state["language"]) or _stored(call, state)


def rounds_of(state: ReactState) -> list[list[dict[str, Any]]]:
    """The outcomes of each round that made calls, oldest first."""
    return [record["results"] for record in state["records"] if record["results"]]


def _stored(call: PendingCall, state: ReactState) -> CallResult | None:
    """The result that a call had in each of the last rounds, with a request to answer; None where they differ."""
    rounds = rounds_of(state)[: -MOST_SUCCESSES - 1 : -1]
    made = (call["name"], call["arguments"])
    same = [
        [CallResult.of(o["result"]) for o in outcomes if (o["name"], o["arguments"]) == made] for outcomes in rounds
    ]
    if len(same) < MOST_SUCCESSES or not all(same):
        return None
    last = [results[-1] for results in same]
    if any(not result.success or result.value != last[0].value for result in last):
        return None
    request = phrase("repeated_call", state["language"], n=MOST_SUCCESSES)
    return CallResult(status=CallStatus.REPEATED, value=last[0].value, note=request)


def is_repeating(state: ReactState) -> bool:
    """Whether the last rounds made the same calls with the same results: nothing new will come of them."""
    last = [_made(record) for record in state["records"][-SAME_ROUNDS:]]
    return len(last) == SAME_ROUNDS and bool(last[0]) and all(made == last[0] for made in last)


def _made(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(o["name"], o["arguments"], o["result"] | {"repeated": ""}) for o in record["results"]]


def only_over_budget(state: ReactState) -> bool:
    """Whether the last round was spent on calls beyond the budget."""
    results = state["records"][-1]["results"] if state["records"] else []
    return bool(results) and all(_status(outcome) is CallStatus.OVER_BUDGET for outcome in results)


def limit_reached(state: ReactState, work: NodeContext) -> str:
    """Which budget of the agent is spent: iterations, tool_calls or seconds; empty while none is."""
    if state["iteration"] >= work.agent.max_iteration:
        return "iterations"
    if only_over_budget(state):
        return "tool_calls"
    return "seconds" if work.seconds_since(state["started_at"]) > work.agent.budget.seconds else ""


def _status(outcome: dict[str, Any]) -> CallStatus:
    return CallResult.of(outcome["result"]).status


MOST_UNREADABLE = 3
"""Unreadable, empty or truncated replies in a row; then the task ends."""


def unreadable_in_a_row(state: ReactState) -> int:
    """How many of the latest rounds had a reply that could not be read."""
    count = 0
    for record in reversed(state["records"]):
        if record["action_type"] != "UNREADABLE":
            break
        count += 1
    return count


def prose_answer(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision | None:
    """The last unreadable reply's text as the answer, if it is plain text."""
    if unreadable_in_a_row(state) + 1 < MOST_UNREADABLE or reply.tool_calls or not reply.text.strip():
        return None
    if work.services.reply_options.required_tool:
        return None
    if work.agent.protocol == "json" and holds_object(reply.text):
        return None
    return Decision(action_type=ActionType.ANSWER, answer=whole_answer(work, reply, state["language"]), malformed=True)
