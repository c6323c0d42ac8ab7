"""Events: every type in the union, in and out of its dict form."""

import dataclasses
import inspect
import json
import types
import typing
from functools import cache
from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.core import events
from segue.core.events import (
    TYPES,
    BaseEvent,
    Delta,
    Durable,
    Event,
    Phase,
    TaskComplete,
    Token,
    ToolResult,
    from_dict,
)
from tests.cases import cases

IDS = {"type", "task_id", "trace_id", "step_id", "iteration", "seq", "timestamp"}
OPTIONAL = {"parent_id"}
"""An id that only events of a flow's branch have."""
PRESCRIBED = {
    "recursion_start", "observe", "thought", "action", "tool_call", "tool_result", "plan_update", "answer", "error",
    "task_complete",
}  # fmt: skip
ALSO_STREAMED = {
    "thinking", "token", "step_update", "state_changed", "fallback", "attempt_restarted", "waiting", "paused",
    "resumed", "cancelled",
}  # fmt: skip

every_type = cases("kind", [*TYPES.values(), Phase])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=3)


def strategy_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values that a field may hold."""
    origin, args = typing.get_origin(annotation), get_args(annotation)
    if origin is dict:
        return json_objects
    if origin is list:
        return st.lists(strategy_of(args[0]), max_size=3)
    if origin is types.UnionType:
        return st.one_of(*(strategy_of(arg) for arg in args))
    plain = {str: st.text(), int: st.integers(), float: st.floats(allow_nan=False, allow_infinity=False)}
    return (plain | {bool: st.booleans(), type(None): st.none(), Literal[True]: st.just(True)})[annotation]


@cache
def instances(kind: type[Event]) -> st.SearchStrategy[Event]:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name != "type"]
    return st.builds(kind, **{name: strategy_of(hints[name]) for name in names})


@every_type
@settings(max_examples=5)
@given(data=st.data())
def test_every_type_survives_its_dict_form_with_the_ids_at_the_top(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(instances(kind))
    form = event.json()
    assert from_dict(form) == event
    assert from_dict(json.loads(json.dumps(form))) == event
    own = {field.name for field in dataclasses.fields(kind)} - IDS - OPTIONAL
    assert set(form) - OPTIONAL == IDS | {"data"}
    assert form.get("parent_id", "") == event.parent_id
    assert form["type"] == kind.type == event.type
    assert form["data"] == event.data == {name: getattr(event, name) for name in own}


def test_the_union_lists_every_event_of_the_module() -> None:
    defined = {
        member for _, member in inspect.getmembers(events, inspect.isclass)
        if issubclass(member, BaseEvent) and member is not BaseEvent
    }  # fmt: skip
    assert {*TYPES.values(), Phase} == defined == set(get_args(Event))
    assert len(TYPES) + 1 == len(defined), "two events share a type"
    assert set(TYPES) >= PRESCRIBED | ALSO_STREAMED


@every_type
def test_deltas_are_not_durable_and_the_rest_are(kind: type[Event]) -> None:
    assert kind.durable is (kind in get_args(Durable))
    assert kind.durable is not (kind in get_args(Delta))


@every_type
def test_an_event_is_frozen_named_and_described(kind: type[Event]) -> None:
    assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__ + "(")
    hints = typing.get_type_hints(kind)
    assert get_args(hints["type"]) == (kind.type,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Token(task_id="t", content="x"), "content", "y")  # noqa: B010
    with pytest.raises(TypeError):
        kind("t")  # type: ignore[call-arg]


def test_a_field_that_a_later_version_added_is_left_out() -> None:
    form = Token(task_id="t", content="x", timestamp=1.0).json()
    form |= {"priority": "high", "data": form["data"] | {"colour": "red"}}
    assert from_dict(form) == Token(task_id="t", content="x", timestamp=1.0)


def test_a_field_that_an_earlier_version_lacked_has_its_default() -> None:
    form = ToolResult(task_id="t", index=0, name="add", arguments={}, result={"success": 3}, seconds=2.0).json()
    del form["data"]["seconds"], form["step_id"]
    event = from_dict(form)
    assert isinstance(event, ToolResult)
    assert (event.seconds, event.step_id) == (0.0, "")


def test_a_type_that_is_unknown_is_named() -> None:
    with pytest.raises(KeyError, match="task_paused"):
        from_dict({"type": "task_paused", "task_id": "t", "data": {}})


def test_what_a_dict_form_holds_is_not_taken_for_an_id() -> None:
    """A tool may return anything, fields that are called like ids too."""
    event = TaskComplete(
        task_id="t", status="done", result={"task_id": "other", "type": "token", "seq": 9}, timestamp=1.0
    )
    assert event.json()["task_id"] == "t"
    assert from_dict(event.json()) == event


def test_the_time_is_unix_seconds() -> None:
    import time

    before = time.time()
    assert before <= Token(task_id="t", content="x").timestamp <= time.time()
