"""The codec: rows to records, records to rows and to their public JSON form."""

import json
from typing import Any

import pytest

from segue.core.errors import DamagedRow, DatabaseUnavailable
from segue.core.events import Paused, to_dict
from segue.core.records import Call, StoredEvent, Task, from_row, to_row

TASK: dict[str, Any] = {
    **{
        "task_id": "t",
        "thread_id": "s",
        "agent_id": "a",
        "user_id": "u",
        "mode": "react",
        "model": "",
        "status": "done",
    },
    **{"message": "hello", "error": None, "result": {"answer": "hi"}, "created_at": 1.0, "updated_at": 2.0},
    **{"wanted": None, "notes": ["more"], "answer": None, "rating": 5, "copy_of": None, "language": "zh"},
    "agents_file": None,
    "agent_digest": None,
    "attachments": [{"digest": "a" * 64, "name": "a.png", "media_type": "image/png", "size": 3, "tokens": 1000}],
    "client_tools": [{"type": "function", "function": {"name": "show"}}],
}
CALL: dict[str, Any] = {
    **{"thread_id": "s", "task_id": "t", "scope": "r", "idx": 0, "name": "add", "arguments": {"n": 1}, "state": "done"},
    **{"outcome": {"success": 1}, "fence": 1, "started_at": 1.0, "finished_at": 2.0, "orphaned": 0},
}
EVENT: dict[str, Any] = {
    **{"task_id": "t", "seq": 1, "thread_id": "s", "source": None, "ordinal": 0},
    "event": to_dict(Paused(task_id="t", reason="asked", timestamp=1.0)),
}


@pytest.mark.parametrize(("kind", "values"), [(Task, TASK), (Call, CALL), (StoredEvent, EVENT)])
def test_a_record_comes_back_from_its_row(kind: type[Any], values: dict[str, Any]) -> None:
    assert from_row(kind, to_row(kind, values)) == kind(**values)


def test_the_public_forms() -> None:
    assert from_row(Task, to_row(Task, TASK)).json() == TASK
    shown = ["name", "arguments", "outcome", "state", "started_at", "finished_at", "scope", "idx"]
    assert [*from_row(Call, to_row(Call, CALL)).json()] == shown
    assert to_dict(from_row(StoredEvent, to_row(StoredEvent, EVENT)).numbered()) == {**EVENT["event"], "seq": 1}


@pytest.mark.parametrize(
    ("kind", "values", "column", "stored", "fault"),
    [
        (Task, TASK, "task_id", "", "should have at least 1 character"),
        (Task, TASK, "message", b"\xff", "should be a valid string"),
        (Task, TASK, "status", "dome", "should be 'pending'"),
        (Task, TASK, "result", "{", "is not valid JSON"),
        (Task, TASK, "result", "[]", "should be a valid dictionary"),
        (Task, TASK, "notes", "[1]", "should be a valid string"),
        (Task, TASK, "attachments", '[{"name": "a"}]', "Field required"),
        (Task, TASK, "answer", "{\"a\": 1}", "should be an answer"),
        (Task, TASK, "rating", 6, "should be 1, 2, 3, 4 or 5"),
        (Task, TASK, "wanted", "stop", "should be 'pause' or 'cancel'"),
        (Task, TASK, "updated_at", 1e12, "should be less than"),
        (Call, CALL, "idx", -1, "should be greater than or equal to 0"),
        (Call, CALL, "outcome", None, "is missing"),
        (Call, CALL, "orphaned", 2, "should be 0 or 1"),
        (StoredEvent, EVENT, "event", "{}", "should be an event"),
        (StoredEvent, EVENT, "event", json.dumps(EVENT["event"] | {"timestamp": -1}), "its timestamp should be"),
        (StoredEvent, EVENT, "event", json.dumps(EVENT["event"] | {"data": {"reason": 1}}), "its reason should be"),
    ],
)  # fmt: skip
def test_a_damaged_column_is_named(
    kind: type[Any], values: dict[str, Any], column: str, stored: Any, fault: str
) -> None:
    with pytest.raises((DamagedRow, DatabaseUnavailable), match=f"{column} .*{fault}"):
        from_row(kind, to_row(kind, values) | {column: stored})
