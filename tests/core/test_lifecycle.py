"""Tasks as a model writes them: everything that is wrong is said at once, and nothing is left out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core.errors import InvalidPlan
from segue.core.lifecycle import SubTask, in_order, next_tasks, read_tasks
from tests.cases import cases


def task(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "description": f"do {name}", "dependencies": list(needs), **more}


def test_every_field_is_read() -> None:
    given = task("a", "b", priority=3, type="search", timeout=2.5) | {"extra": 1}
    first, second = read_tasks({"tasks": [given, task("b")]})
    assert (first.id, first.description, first.dependencies) == ("a", "do a", ("b",))
    assert (first.priority, first.type, first.timeout, first.status) == (3, "search", 2.5, "pending")
    assert (second.priority, second.type, second.timeout) == (0, "", None)


@pytest.mark.parametrize(
    "given",
    [
        [{"description": "x"}, {"description": "y", "dependencies": ["1"]}],
        {"steps": [{"step": 1, "description": "x"}, {"step": 2, "description": "y", "depends_on": [1]}]},
        {"subtasks": [{"id": 1, "description": "x"}, {"id": "2", "description": " y ", "dependencies": [1]}]},
    ],
)
def test_other_forms_are_understood(given: Any) -> None:
    assert [(t.id, t.description, t.dependencies) for t in read_tasks(given)] == [("1", "x", ()), ("2", "y", ("1",))]


def test_sentences_are_tasks() -> None:
    assert [(t.id, t.description) for t in read_tasks(["first", "second"])] == [("1", "first"), ("2", "second")]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    given = [
        task("x", "y"),
        task("y", "x"),
        task("b"),
        task("b"),
        task("c", "nobody"),
        {"id": "d", "description": " "},
        task("e", priority="high", timeout=0),
        8,
    ]
    with pytest.raises(InvalidPlan) as refusal:
        read_tasks(given)
    for reason in (
        "step id 'b' is used more than once",
        "'nobody', which is not a step",
        "task d: description is ' ' and must be a string",
        "task e: priority is 'high' and must be a whole number",
        "task e: timeout is 0 and must be a number of seconds above 0",
        "task 8 is not an object",
        "wait for each other",
    ):
        assert reason in str(refusal.value)


@cases(
    "field, value",
    [
        ("id", True),
        ("id", ""),
        ("id", []),
        ("description", 3),
        ("description", "\ud800"),
        ("priority", 1.5),
        ("priority", True),
        ("priority", 10**30),
        ("dependencies", "a"),
        ("dependencies", [{}]),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("timeout", "soon"),
        ("type", 3),
    ],
)
def test_a_value_that_means_nothing_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidPlan):
        read_tasks([task("a") | {field: value}])


@cases("nothing", [None, [], {}, "tasks", 3, {"tasks": {}}, {"tasks": None}])
def test_no_tasks_are_refused(nothing: Any) -> None:
    with pytest.raises(InvalidPlan, match="There are no tasks"):
        read_tasks(nothing)


def tasks(*given: dict[str, Any]) -> tuple[SubTask, ...]:
    return read_tasks(list(given))


def test_what_can_begin_comes_by_priority_and_then_in_the_given_order() -> None:
    all_of_them = tasks(task("a", priority=5), task("b", priority=1), task("c", "b", priority=0), task("d", priority=1))
    assert [t.id for t in next_tasks(all_of_them)] == ["b", "d", "a"]
    assert [t.id for t in in_order(all_of_them)] == ["b", "c", "d", "a"]


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.data())))
def test_the_order_holds_every_task_once_and_behind_what_it_needs(drawn: tuple[int, st.DataObject]) -> None:
    count, data = drawn
    given = tasks(
        *(
            task(
                str(n),
                *(str(m) for m in range(n) if data.draw(st.booleans())),
                priority=data.draw(st.integers(-3, 3)),
            )
            for n in range(count)
        )
    )
    order = [t.id for t in in_order(given)]
    assert sorted(order) == sorted(t.id for t in given)
    assert all(order.index(need) < order.index(t.id) for t in given for need in t.depends_on)
