"""The codec: rows to records, records to rows and to their public JSON form."""

import json
from typing import Any

import pytest

from segue.core.errors import DamagedRow, DatabaseUnavailable
from segue.core.events import Paused, ToolResult
from segue.core.records import Call, StoredEvent, Task, call_checksum, from_row, read, to_row
from tests.cases import cases

TASK: dict[str, Any] = {
    **{
        "task_id": "t",
        "session_id": "s",
        "agent_id": "a",
        "user_id": "u",
        "mode": "react",
        "model": "",
        "status": "done",
    },
    **{"message": "hello", "error": None, "result": {"answer": "hi"}, "created_at": 1.0, "updated_at": 2.0},
    **{"requested": None, "notes": ["more"], "answer": None, "rating": 5, "copy_of": None, "language": "zh"},
    "agents_file": None,
    "agent_version": None,
    "origin": "python",
    "bot_session": None,
    "on_upgrade": None,
    "offered_version": None,
    "due": None,
    "awaited": None,
    "asked_by": ["python"],
    "decisions": {"interrupt_id": "i", "given": []},
    "attachments": [{"digest": "a" * 64, "name": "a.png", "media_type": "image/png", "size": 3, "tokens": 1000}],
    "client_tools": [{"type": "function", "function": {"name": "show"}}],
    "reply_options": {"tool_choice": "show"},
}
CALL: dict[str, Any] = {
    **{
        "session_id": "s",
        "task_id": "t",
        "scope": "r",
        "idx": 0,
        "name": "add",
        "arguments": {"n": 1},
        "state": "done",
    },
    **{"outcome": {"success": 1}, "fence": 1, "started_at": 1.0, "finished_at": 2.0, "orphaned": 0},
}
EVENT: dict[str, Any] = {
    **{"task_id": "t", "seq": 1, "session_id": "s", "source": None, "ordinal": 0},
    "event": Paused(task_id="t", reason="asked", timestamp=1.0).json(),
}


def row_of(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """The row of a record, with its checksum where it has one."""
    row = to_row(kind, values)
    return row | {"checksum": call_checksum(row)} if kind is Call else row


@pytest.mark.parametrize(("kind", "values"), [(Task, TASK), (Call, CALL), (StoredEvent, EVENT)])
def test_a_record_comes_back_from_its_row(kind: type[Any], values: dict[str, Any]) -> None:
    assert from_row(kind, row_of(kind, values)) == kind(**values)


def test_the_public_forms() -> None:
    assert from_row(Task, to_row(Task, TASK)).json() == TASK
    shown = ["name", "arguments", "outcome", "state", "started_at", "finished_at", "scope", "idx"]
    assert [*from_row(Call, row_of(Call, CALL)).json()] == shown
    assert from_row(StoredEvent, to_row(StoredEvent, EVENT)).numbered().json() == {**EVENT["event"], "seq": 1}


@cases(
    "kind, values, column, stored, fault",
    [
        (Task, TASK, "task_id", "", "should have at least 1 character"),
        (Task, TASK, "message", b"\xff", "should be a valid string"),
        (Task, TASK, "status", "dome", "should be 'pending'"),
        (Task, TASK, "result", "{", "is not valid JSON"),
        (Task, TASK, "result", "[]", "should be a valid dictionary"),
        (Task, TASK, "notes", "[1]", "should be a valid string"),
        (Task, TASK, "attachments", '[{"name": "a"}]', "Field required"),
        (Task, TASK, "answer", '{"a": 1}', "should be an answer"),
        (Task, TASK, "rating", 6, "should be 1, 2, 3, 4 or 5"),
        (Task, TASK, "requested", "halt", "should be 'pause', 'stop' or 'cancel'"),
        (Task, TASK, "updated_at", 1e12, "should be less than"),
        (Call, CALL, "idx", -1, "should be greater than or equal to 0"),
        (Call, CALL, "outcome", None, "is missing"),
        (Call, CALL, "orphaned", 2, "should be 0 or 1"),
        (StoredEvent, EVENT, "event", "{}", "should be an event"),
        (StoredEvent, EVENT, "event", json.dumps(EVENT["event"] | {"timestamp": -1}), "its timestamp should be"),
        (StoredEvent, EVENT, "event", json.dumps(EVENT["event"] | {"data": {"reason": 1}}), "its reason should be"),
    ],
)
def test_a_damaged_column_is_named(
    kind: type[Any], values: dict[str, Any], column: str, stored: Any, fault: str
) -> None:
    with pytest.raises((DamagedRow, DatabaseUnavailable), match=f"{column} .*{fault}"):
        from_row(kind, row_of(kind, values) | {column: stored})


ODD: list[Any] = [
    *(None, "", "x", b"x", b"\xff", 0, 1, -1, 2**64, 1.5, -1.0, 1e12, float("nan"), True),
    *("null", "[]", "{}", "[1]", '["x"]', '{"a": 1}', "{", "NaN", '"x"', "1", "[" * 100_000, '{"a": 1, "a": 2}'),
    *('{"interrupt_id": "i", "value": 1}', '[{"name": "a"}]', '["\\ud800"]'),
]
OTHER = {Task: ("rating", 9), Call: ("orphaned", 9), StoredEvent: ("ordinal", -1)}
"""A damaged column of each: then every other column is looked at by itself."""


@pytest.mark.parametrize(("kind", "values"), [(Task, TASK), (Call, CALL), (StoredEvent, EVENT)])
def test_a_row_reads_the_same_at_once_and_column_by_column(kind: type[Any], values: dict[str, Any]) -> None:
    name, damage = OTHER[kind]
    for column in values.keys() - {name}:
        for odd in ODD:
            row = row_of(kind, values) | {column: odd}
            assert _read(kind, row, name) == _read(kind, row | {name: damage}, name), (column, odd)


def _read(kind: type[Any], row: dict[str, Any], without: str) -> str:
    return repr(
        [{key: each[key] for key in sorted(each) if key not in (without, "checksum")} for each in read(kind, row)]
    )


TOLD = ToolResult(task_id="t", index=0, name="add", arguments={}, result={"success": 1}, timestamp=1.0).json()


@cases(
    "form",
    [
        TOLD,
        {**TOLD, "parent_id": "p"},
        {**TOLD, "data": {key: value for key, value in TOLD["data"].items() if key != "seconds"}},
        {**TOLD, "data": {key: value for key, value in TOLD["data"].items() if key != "name"}},
        {**TOLD, "data": {**TOLD["data"], "of_a_later_version": 1}},
        {**TOLD, "data": [*TOLD["data"]]},
        {key: value for key, value in TOLD.items() if key != "trace_id"},
        *({**TOLD, key: odd} for key in TOLD for odd in (None, "", "x", -1, 1e12, [], {})),
        *({**TOLD, "data": {**TOLD["data"], key: odd}} for key in TOLD["data"] for odd in (None, "", 1, -1.5, [], {})),
    ],
)
def test_an_event_reads_the_same_at_once_and_field_by_field(form: dict[str, Any]) -> None:
    looked_at = form  # what is named twice is looked at field by field
    if isinstance(form["data"], dict):
        looked_at = {**form, "data": {**form["data"], "of_both": 1}, "of_both": 1}
    (_, faults), (_, by_field) = (
        read(StoredEvent, EVENT | {"thread_id": "s", "event": each}, stored=False) for each in (form, looked_at)
    )
    assert faults == by_field
