"""Calls that fail again and again: refused first, then the task ends."""

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.prompts.catalogue import task_text

from .context import as_json, truncate
from .permission import by_person

Outcome = Mapping[str, Any]
"""A call as a state keeps it: {name, arguments, result}."""
Rounds = Sequence[Sequence[Outcome]]
"""The outcomes of each round that made calls, oldest first."""

MOST_FAILURES = 2
"""How often in a row the same call may fail before it is refused."""
MOST_FAILED_ROUNDS = 3
"""How often rounds make the same failing call, with none between them that succeeds; then the task ends."""
UNREADABLE = "UNREADABLE"
"""Stands for a reply that could not be read among the calls of the rounds."""
SHOWN_CHARS = 300


def refused_repeat(call: PendingCall, rounds: Rounds, task_id: str, language: str) -> CallResult | None:
    """The result of a call that failed too often to run again; one that a person approved may fail as they like."""
    if by_person(call, task_id) or failures_in_a_row(call, rounds) < MOST_FAILURES:
        return None
    why = task_text("call_refused", language, tool=call.name, n=MOST_FAILURES)
    return CallResult(status=CallStatus.REFUSED, error=why)


def failures_in_a_row(call: PendingCall, rounds: Rounds) -> int:
    """How many of the latest calls were this one and failed."""
    count = 0
    for outcomes in reversed(rounds):
        for outcome in reversed(outcomes):
            same = outcome["name"] == call.name and outcome["arguments"] == call.arguments
            if not same or _result(outcome).success:
                return count
            count += 1
    return count


def repeated_failure(rounds: Rounds, known: Collection[str], language: str) -> str:
    """Why a task ends whose latest rounds only failed, some of them in the same way; empty if it continues.

    Calls of a tool that is not `known` are the same whatever their arguments.
    """
    alike: dict[str, list[Sequence[Outcome]]] = {}
    for outcomes in takewhile(_is_failed, reversed(rounds)):
        same = alike.setdefault(_made(outcomes, known), [])
        same.append(outcomes)
        if len(same) == MOST_FAILED_ROUNDS:
            return _why(same, language)
    return ""


def failed_round(name: str, arguments: Mapping[str, Any], error: str) -> Sequence[Outcome]:
    """A round without calls that failed, in the form of one."""
    return [{"name": name, "arguments": arguments, "result": {"error": error}}]


def _why(latest: Rounds, language: str) -> str:
    """The sentence; `latest` are the failed rounds, newest first."""
    failures = [o for outcomes in latest for o in reversed(outcomes) if not _result(o).success]
    last = next((o for o in failures if _result(o).status is not CallStatus.REFUSED), failures[0])
    call = f"{last['name']} {truncate(as_json(last['arguments']), SHOWN_CHARS)}"
    error = truncate(_result(last).error.rstrip(" .。"), SHOWN_CHARS)
    if last["name"] == UNREADABLE:
        return task_text("spent_unreadable", language, n=len(latest), error=error)
    return task_text("spent_failures", language, n=len(latest), call=call, error=error)


def _made(outcomes: Sequence[Outcome], known: Collection[str]) -> str:
    return as_json([(o["name"], o["arguments"] if o["name"] in known else None) for o in outcomes])


def _is_failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether a call of the round failed, nothing new came of the others, and no person decided about one."""
    results = [_result(outcome) for outcome in outcomes]
    if any("approved" in o for o in outcomes) or any(r.status is CallStatus.REJECTED for r in results):
        return False
    return not all(result.success for result in results) and all(r.status is not CallStatus.DONE for r in results)


def _result(outcome: Outcome) -> CallResult:
    return CallResult.of(outcome["result"])
