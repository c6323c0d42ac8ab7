"""The states of a decided call: their forms in the state of a graph, and what may follow what."""

from itertools import product
from typing import Any

import pytest

from segue.checkpoints.rows import SERDE
from segue.core.calls import (
    CALL_TRANSITIONS,
    Approved,
    Asked,
    CallPhase,
    Done,
    PendingCall,
    Proposed,
    Rejected,
    Running,
    Waiting,
    move_call,
)
from segue.core.errors import IllegalTransition
from segue.core.provenance import Assessment, Source
from tests.cases import cases

PROPOSED, APPROVED = Proposed(), Approved("0123456789abcdef", "a digest")
KEPT = [
    PROPOSED,
    APPROVED,
    Rejected("too dear"),
    Waiting(PROPOSED),
    Waiting(APPROVED, {"until": 1.0, "event": ""}),
    Running(PROPOSED),
    Running(APPROVED, arrived={"paid": True}),
    Running(PROPOSED, sent={"id": None}),
]
"""The states in which a call is kept between two nodes."""
STATES: list[Any] = [*KEPT, Asked(PROPOSED), Done(APPROVED, {"success": 1}, "t.r.0")]
FOUND = Assessment({"amount": (Source("tool", "read_mail", 1),)}, "values", ("amount",))
PAY: dict[str, Any] = {"index": 0, "name": "pay", "arguments": {"amount": 2}, "scope": "r", "origin": "r/0"}


@cases("state", KEPT)
def test_a_call_is_the_same_after_it_was_stored(state: Any) -> None:
    bare = PendingCall(**PAY, state=state)
    known: dict[str, Any] = {"taken": {"amount": ["t.1#1.0"]}, "given": {"amount": {"$ref": "calls.r.result"}}}
    whole = PendingCall(**PAY, **known, call_id="c", step_id="1", hidden="summary", original={}, assessment=FOUND)
    for call in (bare, move_call(whole, state) if state.phase in CALL_TRANSITIONS[whole.state.phase] else whole):
        assert PendingCall.of(SERDE.loads_typed(SERDE.dumps_typed(call.json()))) == call


@cases("before, after", [*product(STATES, STATES)])
def test_a_call_moves_as_the_table_says(before: Any, after: Any) -> None:
    call = PendingCall(**PAY, state=before)
    if after.phase in CALL_TRANSITIONS[before.phase]:
        assert move_call(call, after).state == after
        return
    with pytest.raises(IllegalTransition):
        move_call(call, after)


def test_what_runs_was_not_rejected_and_what_is_done_stays_so() -> None:
    assert CALL_TRANSITIONS.keys() == {*CallPhase}
    assert CALL_TRANSITIONS[CallPhase.REJECTED] == {CallPhase.DONE} and not CALL_TRANSITIONS[CallPhase.DONE]


def test_a_call_that_is_done_has_its_result_and_how_it_was_decided() -> None:
    for decision, told in ((PROPOSED, {}), (APPROVED, {"approved": True}), (Rejected("no"), {"rejected": "no"})):
        done = PendingCall(**PAY, assessment=FOUND, state=Done(decision, {"success": 1}, "t.r.0"))
        made = {name: value for name, value in PAY.items() if name != "origin"}
        assert done.json() == {**made, **told, "ref": "t.r.0", "result": {"success": 1}}
