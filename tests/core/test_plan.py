"""The plan: its statuses, what is ready, what is wrong with it, and how a new one is merged in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.errors import IllegalTransition, InvalidPlan
from segue.core.plan import (
    FINAL,
    MAX_STEPS,
    TRANSITIONS,
    Plan,
    Status,
    Step,
    advance,
    keep_finished,
    natural_key,
    ready,
    set_status,
    validate,
)
from segue.core.plan import problems as clauses
from tests.cases import cases

IDS = ["1", "2", "3", "4", "5"]


def problems(*args: Any, **options: Any) -> list[str]:
    """What is wrong with a plan, in English."""
    return [*map(str, clauses(*args, **options))]


def step(step_id: str, *needs: str, status: Status = Status.PENDING, **fields: Any) -> Step:
    return Step(step_id=step_id, depends_on=needs, status=status, **fields)


@st.composite
def plans(draw: st.DrawFn, sound: bool = False) -> tuple[Step, ...]:
    """Steps with any dependencies among them; a sound plan depends backwards only."""
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1))
    drawn = []
    for place, step_id in enumerate(ids):
        allowed = ids[:place] if sound else IDS
        needs = draw(st.lists(st.sampled_from(allowed), unique=True, max_size=3)) if allowed else []
        drawn.append(step(step_id, *needs, status=draw(st.sampled_from(Status)), description=draw(st.text(max_size=3))))
    return tuple(drawn)


# Statuses.


@cases("old", Status)
@cases("new", Status)
def test_the_table_is_what_advance_allows(old: Status, new: Status) -> None:
    before = step("1", status=old, note="kept")
    if new == old:
        assert advance(before, new, "another note") is before
    elif new in TRANSITIONS[old]:
        note = "" if new is Status.DONE else "kept"  # what is done has no failure any more
        assert advance(before, new) == before.model_copy(update={"status": new, "note": note})
    else:
        with pytest.raises(IllegalTransition, match=f"'{old}' to '{new}'"):
            advance(before, new)
        assert before.status == old


def test_the_table_says_what_every_status_may_become() -> None:
    assert {(str(old), str(new)) for old, allowed in TRANSITIONS.items() for new in allowed} == {
        ("pending", "running"), ("pending", "done"), ("pending", "error"), ("pending", "skipped"),
        ("running", "done"), ("running", "error"), ("running", "skipped"), ("running", "pending"),
        ("error", "running"), ("error", "pending"), ("error", "skipped"),
    }  # fmt: skip


def test_the_final_statuses_are_those_without_a_way_on() -> None:
    assert {status for status, allowed in TRANSITIONS.items() if not allowed} == FINAL
    assert set(TRANSITIONS) == set(Status)


@given(st.lists(st.sampled_from(Status)))
def test_what_is_final_stays_whatever_is_tried(moves: list[Status]) -> None:
    current = step("1")
    for new in moves:
        was = current
        try:
            current = advance(current, new)
        except IllegalTransition:
            assert current is was
        if was.status in FINAL:
            assert current.status == was.status


def test_advance_notes_why() -> None:
    failed = advance(step("1", status=Status.RUNNING), Status.ERROR, "the tool was gone")
    assert failed.note == "the tool was gone"
    assert advance(failed, Status.PENDING).note == "the tool was gone"
    assert advance(failed, Status.SKIPPED, "given up").note == "given up"


def test_set_status_changes_one_step() -> None:
    steps = (step("1"), step("2", "1"), step("10"))
    changed = set_status(steps, "2", Status.RUNNING, "go")
    assert [(s.step_id, s.status.value, s.note) for s in changed] == [
        ("1", "pending", ""),
        ("2", "running", "go"),
        ("10", "pending", ""),
    ]
    assert steps[1].status == Status.PENDING
    assert set_status(steps, "7", Status.DONE) == steps


# What is ready.


def test_ready_follows_the_plans_order_and_waits() -> None:
    steps = (step("3"), step("1"), step("2", "1"), step("4", "1", "3"))
    assert [s.step_id for s in ready(steps)] == ["3", "1"]
    assert [s.step_id for s in ready(set_status(steps, "1", Status.DONE))] == ["3", "2"]
    done = set_status(set_status(steps, "1", Status.DONE), "3", Status.SKIPPED)
    assert [s.step_id for s in ready(done)] == ["2", "4"]


@given(plans())
def test_ready_never_gives_a_step_with_unmet_dependencies(steps: tuple[Step, ...]) -> None:
    final = {s.step_id for s in steps if s.status in FINAL}
    given_out = ready(steps)
    for s in given_out:
        assert s.status == Status.PENDING
        assert set(s.depends_on) <= final
    held_back = [s for s in steps if s.status == Status.PENDING and s not in given_out]
    assert all(not set(s.depends_on) <= final for s in held_back)


@given(plans(sound=True))
def test_a_sound_plan_runs_to_its_end_each_step_once(steps: tuple[Step, ...]) -> None:
    steps = tuple(s.model_copy(update={"status": Status.PENDING}) for s in steps)
    assert problems(steps) == []
    ran: list[str] = []
    while waiting := ready(steps):
        for s in waiting:
            assert set(s.depends_on) <= set(ran)
        for s in waiting:
            steps = set_status(steps, s.step_id, Status.DONE)
            ran.append(s.step_id)
    assert sorted(ran) == sorted(s.step_id for s in steps)


# What is wrong with a plan.


@cases(
    "steps, found",
    [
        ([], ["the plan has no steps"]),
        ([step("1"), step("1")], ["step id '1' is used more than once"]),
        ([step("1", "9")], ["step 1 depends on '9', which is not a step"]),
        ([step("1", "1")], ["steps 1 wait for each other"]),
        ([step("1", "2"), step("2", "1")], ["steps 1, 2 wait for each other"]),
        ([step("10", "2"), step("2", "3"), step("3", "10"), step("4")], ["steps 2, 3, 10 wait for each other"]),
        ([step("1", "2"), step("2", "1"), step("3", "2"), step("4", "3")], ["steps 1, 2 wait for each other"]),
        (
            [step("1", "2"), step("2", "1", "9")],
            ["step 2 depends on '9', which is not a step", "steps 1, 2 wait for each other"],
        ),
        ([step("1"), step("2", "1"), step("3", "1", "2")], []),
    ],
)
def test_problems_are_all_named(steps: list[Step], found: list[str]) -> None:
    assert problems(steps) == found


def test_a_plan_may_be_too_long() -> None:
    steps = [step(str(place)) for place in range(MAX_STEPS + 1)]
    assert problems(steps) == ["the plan has 51 steps; the limit is 50"]
    assert problems(steps[:-1]) == []
    assert problems(steps, max_steps=51) == []


@pytest.mark.parametrize("of", [list, tuple, iter], ids=["list", "tuple", "iterator"])
def test_unknown_tools_are_named_beside_the_known_ones(of: Any) -> None:
    steps = [
        step("1", action="add"),
        step("2", action="eval"),
        step("3", action="power"),
        step("4", action="answer"),
        step("5"),
    ]
    assert problems(steps, of(["add", "power"])) == ["step 2 names the unknown tool 'eval'; use one of: add, power"]


def test_no_tools_at_all_is_said() -> None:
    assert problems([step("1", action="eval")], []) == ["step 1 names the unknown tool 'eval'; use one of: none"]
    assert problems([step("1", action="eval")], None) == []


@cases("action, uses", [("", False), (" None ", False), ("NULL", False), ("generate", False), ("add", True)])
def test_some_actions_are_no_tool(action: str, uses: bool) -> None:
    assert step("1", action=action).uses_tool is uses


def test_validate_returns_the_plan_or_says_everything() -> None:
    good = Plan(goal="look", steps=(step("1"), step("2", "1")))
    assert validate(good, iter(["add"])) is good
    bad = Plan(steps=(step("1", "2", action="eval"), step("2", "1", "9")))
    with pytest.raises(InvalidPlan) as caught:
        validate(bad, iter(["add"]))
    assert str(caught.value) == (
        "The plan cannot run: step 1 names the unknown tool 'eval'; use one of: add; step 2 depends on '9', which is "
        "not a step; steps 1, 2 wait for each other."
    )


@given(plans())
def test_the_validator_finds_every_circle(steps: tuple[Step, ...]) -> None:
    """Checked against a walk along the dependencies of the steps that are still to run."""
    needs = {s.step_id: set(s.depends_on) for s in steps if s.status not in FINAL}

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = set(needs.get(start, ()))
        while ahead:
            here = ahead.pop()
            if here not in seen:
                seen.add(here)
                ahead |= needs.get(here, set())
        return seen

    circular = sorted(s for s in needs if s in reaches(s))
    said = [problem for problem in problems(steps) if "wait for each other" in problem]
    assert bool(said) == bool(circular)
    for step_id in circular:
        assert step_id in said[0].removesuffix(" wait for each other").removeprefix("steps ").split(", ")


def test_what_is_final_needs_nothing_any_more() -> None:
    """A new plan may leave out what a finished step once needed: no model could mend that."""
    assert problems([step("2", "1", status=Status.DONE), step("3", "2")]) == []
    assert problems([step("1", "2"), step("2", "1", status=Status.DONE)]) == []
    assert problems([step("1", action="gone", status=Status.DONE), step("2", "1")], ["add"]) == []


# Order and merging.


def test_natural_order() -> None:
    ids = ["10", "2", "1", "2.1", "2.10", "2.2", "3", "b", "a2", "a10", "", "2a"]
    assert sorted(ids, key=natural_key) == ["", "1", "2", "2.1", "2.2", "2.10", "2a", "3", "10", "a2", "a10", "b"]


@given(st.lists(st.text(max_size=5) | st.sampled_from(["²", "٣", "1²", "01"])))
def test_any_ids_can_be_sorted(ids: list[str]) -> None:
    assert sorted(sorted(ids, key=natural_key), key=natural_key) == sorted(ids, key=natural_key)


@given(plans(), plans())
def test_keep_finished_keeps_what_is_done(old: tuple[Step, ...], new: tuple[Step, ...]) -> None:
    merged = keep_finished(old, new)
    by_id = {s.step_id: s for s in merged}
    assert len(by_id) == len(merged)
    for s in old:
        if s.status == Status.DONE:
            assert by_id[s.step_id] == s
    old_done = {s.step_id for s in old if s.status == Status.DONE}
    kept = [s for s in merged if s.step_id in old_done]
    assert {s.step_id for s in kept} == old_done
    said = [s.description for s in merged]
    for s in new:
        assert s.status == Status.DONE or not s.description or s.description in said


def test_a_different_step_under_a_finished_ones_number_gets_a_number_of_its_own() -> None:
    old = (step("1", status=Status.DONE, description="look"),)
    new = (step("1", description="write"), step("2", "1", description="tell"))
    merged = keep_finished(old, new)
    assert [(s.step_id, s.description, s.depends_on) for s in merged] == [
        ("1", "look", ()),
        ("3", "write", ()),
        ("2", "tell", ("3",)),
    ]


def test_a_finished_step_that_a_new_plan_repeats_stays_as_it_is() -> None:
    old = (step("1", status=Status.DONE, description="look", note="found"),)
    assert keep_finished(old, (step("1", description="look"), step("2"))) == (old[0], step("2"))


@given(plans(sound=True), plans(sound=True))
def test_merging_two_sound_plans_gives_one_that_can_run(old: tuple[Step, ...], new: tuple[Step, ...]) -> None:
    assert problems(keep_finished(old, new)) == []


def test_keep_finished_puts_what_was_left_out_in_front() -> None:
    old = (step("1", status=Status.DONE, note="243"), step("2", status=Status.ERROR), step("3", status=Status.DONE))
    new = (step("3"), step("4"))
    merged = keep_finished(old, new)
    assert [(s.step_id, s.status.value) for s in merged] == [("1", "done"), ("3", "done"), ("4", "pending")]
    assert merged[0].note == "243"


# Fields.


def test_ids_are_text_however_they_are_written() -> None:
    made = Step.model_validate({"step_id": 2, "depends_on": [1, "x"], "owner": "extra"})
    assert (made.step_id, made.depends_on) == ("2", ("1", "x"))


@given(plans())
def test_a_plan_survives_json(steps: tuple[Step, ...]) -> None:
    plan = Plan(goal="目标", steps=steps)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
