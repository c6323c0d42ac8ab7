"""How the status of a plan's steps changes: by their calls, by what the model says, and at the end."""

from collections.abc import Sequence
from typing import Any

import pytest

from segue.core.decision import StepStatusUpdate
from segue.core.errors import IllegalTransition
from segue.core.lifecycle import SubTask
from segue.core.plan import Status, Step
from segue.nodes.calls import (
    answer_steps,
    begin_steps,
    claim_steps,
    end_steps,
    replan_steps,
    restart_steps,
    skip_steps,
    steps_of_calls,
)
from tests.cases import cases


def steps(*statuses: str, **fields: Any) -> tuple[Step, ...]:
    """Steps "1", "2", … with these statuses."""
    return tuple(Step(step_id=str(n), status=Status(status), **fields) for n, status in enumerate(statuses, start=1))


def claims(*statuses: str) -> list[StepStatusUpdate]:
    """What the model says of step "1", one after the other."""
    return [StepStatusUpdate(step_id="1", status=Status(status)) for status in statuses]


def statuses(plan: Sequence[Step]) -> list[str]:
    return [step.status.value for step in plan]


@pytest.mark.parametrize("said", [("done",), ("running", "done"), ("pending", "done"), ("done", "skipped")])
def test_a_failed_step_is_not_done_by_any_claims_of_one_message(said: tuple[str, ...]) -> None:
    failed = steps("error")
    assert begin_steps(failed, (), claims(*said)) == failed
    with pytest.raises(IllegalTransition, match="from 'error' to 'done'"):
        claim_steps(failed, claims(*said))


@pytest.mark.parametrize("said", ["running", "pending", "skipped"])
def test_a_failed_step_may_be_tried_again_or_skipped(said: str) -> None:
    assert statuses(begin_steps(steps("error"), (), claims(said))) == [said]
    assert statuses(claim_steps(steps("error"), claims(said))) == [said]


def test_an_impossible_claim_is_ignored_beside_calls_and_refused_alone() -> None:
    assert statuses(begin_steps(steps("skipped", "pending"), ["2"], claims("done"))) == ["skipped", "running"]
    with pytest.raises(IllegalTransition):
        claim_steps(steps("skipped"), claims("done"))


@pytest.mark.parametrize(
    ("old", "new", "merged"),
    [
        ("error", "done", "error"),
        ("error", "pending", "pending"),
        ("error", "running", "running"),
        ("error", "skipped", "skipped"),
        ("pending", "done", "done"),
        ("running", "pending", "pending"),
        ("done", "pending", "done"),
    ],
)
def test_the_statuses_of_a_new_plan_are_claims(old: str, new: str, merged: str) -> None:
    assert statuses(replan_steps(steps(old), steps(new))) == [merged]


def test_subtasks_stay_subtasks() -> None:
    tasks = [SubTask(step_id=name, priority=3) for name in "abc"]
    begun = begin_steps(tasks, ["a", "b"])
    ended = end_steps(begun, [{"step_id": "a", "name": "", "result": {"error": "gone"}}])
    left = skip_steps(restart_steps(ended), {"c": "it needs a"})
    assert [(task.status.value, task.note, task.priority) for task in left] == [
        ("error", "gone", 3), ("pending", "", 3), ("skipped", "it needs a", 3),
    ]  # fmt: skip


def test_an_answered_plan_has_the_steps_done_that_write_the_answer() -> None:
    plan = (
        Step(step_id="1", status=Status.ERROR, action="look"),
        Step(step_id="2", status=Status.RUNNING, action="look"),
        Step(step_id="3"),
        Step(step_id="4", phase="generation"),
        Step(step_id="5", phase="generation", action="send_mail"),
        Step(step_id="6", action="answer"),
    )
    assert statuses(answer_steps(plan)) == ["error", "pending", "pending", "done", "pending", "done"]


@cases(
    "said, call, works_on",
    [
        ("refund 17", ("refund", {"order": 17}), "1"),
        ("Refund the order 17.", ("refund", {"order": "17"}), "1"),
        ("Look up order 17", ("look_up_order", {"order": 17}), "1"),
        ("refund 17", ("billing", {"goal": "Refund order 17, please"}), "1"),
        ("退款订单17", ("billing", {"goal": "退款，订单17"}), "1"),
        ("Refund 17.5", ("refund", {"order": 17.5}), "1"),
        ("refund 17", ("refund", {"order": 17, "date": "2026-12-18"}), "1"),
        ("refund 17", ("refund", {"order": 18}), ""),
        ("refund 17", ("refund", {"order": 18, "amount": 17}), ""),
        ("refund 17", ("refund", {"order": 17, "amount": 18}), ""),
        ("refund 17", ("refund", {"order": 18, "date": "2026-12-17"}), ""),
        ("refund 17", ("billing", {"goal": "Refund order 18 within 17 days"}), ""),
        ("refund 17 if it is allowed", ("refund", {"order": 17}), ""),
        ("refund 17", ("billing", {"goal": "Check order 17, refund it only if it is late"}), ""),
        ("refund 17", ("ask_person", {"question": "Refund 17?"}), ""),
        ("ask for the number", ("refund", {"order": 17}), ""),
        ("...", ("refund", {"order": 17}), ""),
    ],
)
def test_a_step_without_a_tool_is_carried_out_by_the_call_that_it_describes(
    said: str, call: tuple[str, dict[str, Any]], works_on: str
) -> None:
    plan = [Step(step_id="1", description=said), Step(step_id="2", description="report")]
    assert steps_of_calls([call], plan, "") == [works_on]
    assert steps_of_calls([call], plan, "2") == ["2"], "what the model says comes first"


def test_a_step_whose_number_two_calls_have_is_carried_out_by_neither() -> None:
    plan = [Step(step_id="1", description="refund 17"), Step(step_id="2", description="report")]
    assert steps_of_calls([("refund", {"order": 17}), ("refund", {"customer": 17})], plan, "") == ["", ""]
    assert steps_of_calls([("refund", {"order": 17}), ("refund", {"order": 18})], plan, "") == ["1", ""]
