"""Calls that fail again and again: refused first, then the task ends."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.prompts.catalogue import phrase

from .approval import by_person
from .prompt_budget import as_json, truncate

Outcome = Mapping[str, Any]
"""A call as a state keeps it: {name, arguments, result}."""
Rounds = Sequence[Sequence[Outcome]]
"""The outcomes of each round that made calls, oldest first."""

MOST_FAILURES = 2
"""How often in a row the same call may fail before it is refused."""
MOST_FAILED_ROUNDS = 5
"""Rounds in a row that make the same failing call; then the task ends."""
SHOWN_CHARS = 300


def refused_repeat(call: PendingCall, rounds: Rounds, task_id: str) -> CallResult | None:
    """The result of a call that failed too often to run again; one that a person approved may fail as they like."""
    if by_person(call, task_id) or failures_in_a_row(call, rounds) < MOST_FAILURES:
        return None
    why = (
        f"This call of {call['name']} failed {MOST_FAILURES} times in a row with the same arguments and is "
        "refused: change the arguments, use another tool, or answer with what there is."
    )
    return CallResult(status=CallStatus.REFUSED, error=why)


def failures_in_a_row(call: PendingCall, rounds: Rounds) -> int:
    """How many of the latest calls were this one and failed."""
    count = 0
    for outcomes in reversed(rounds):
        for outcome in reversed(outcomes):
            same = outcome["name"] == call["name"] and outcome["arguments"] == call["arguments"]
            if not same or _result(outcome).success:
                return count
            count += 1
    return count


def endless_failure(rounds: Rounds, known: Collection[str], language: str) -> str:
    """Why a task ends whose latest rounds all made the same failing call; empty if it goes on.

    Calls of a tool that is not `known` are the same whatever their arguments.
    """
    latest = rounds[-MOST_FAILED_ROUNDS:]
    if len(latest) < MOST_FAILED_ROUNDS:
        return ""
    same = [_made(outcomes, known) for outcomes in latest]
    if any(each != same[0] for each in same) or not all(map(_failed, latest)):
        return ""
    ran = [outcome for outcomes in latest for outcome in _failed(outcomes)]
    last = next((o for o in reversed(ran) if _result(o).status is not CallStatus.REFUSED), ran[-1])
    call = f"{last['name']} {truncate(as_json(last['arguments']), SHOWN_CHARS)}"
    error = truncate(_result(last).error.rstrip(" .。"), SHOWN_CHARS)
    return phrase("spent_failures", language, n=MOST_FAILED_ROUNDS, call=call, error=error)


def _made(outcomes: Sequence[Outcome], known: Collection[str]) -> list[tuple[str, Any]]:
    return [(o["name"], o["arguments"] if o["name"] in known else None) for o in outcomes]


def _failed(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The failed calls of a round; none where a person decided about one."""
    failed = [outcome for outcome in outcomes if not _result(outcome).success]
    decided = any("approved" in o or _result(o).status is CallStatus.REJECTED for o in failed)
    return [] if decided else failed


def _result(outcome: Outcome) -> CallResult:
    return CallResult.of(outcome["result"])
