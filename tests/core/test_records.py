"""Records: rows of the database, the public JSON form, attributes, and renderings of what the state holds."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import segue
from segue.core import models
from segue.core.errors import DamagedRow, DatabaseUnavailable
from segue.core.events import Paused, ToolResult
from segue.core.models import Renderings
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
    "called_by": None,
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


# Records of the public API: attributes, `json()`, and what is said to who reads one as a dict.

READS = {
    "index": lambda record, name: record[name],
    "get": lambda record, name: record.get(name),
    "get with a default": lambda record, name: record.get(name, ""),
}


@cases("read", READS)
async def test_a_record_read_as_a_dict_names_the_attribute(read: str) -> None:
    async with segue.open(":memory:") as app:
        await app.ask("hello", session_id="s", agent="travel", mode="direct")
        (task,) = await app.tasks.list()
        (thread, *_), trace = await app.sessions.list(), await app.trace(task.task_id)
        records: dict[str, tuple[Any, str]] = {
            "status": (task, "status"),
            "model": (task, "used_model"),
            "calls": (trace, "calls"),
            "session_id": (task, "session_id"),
            "id": ((await app.rewind.timeline("s"))[0], "short_id"),
            "checkpoint_id": ((await app.sessions.snapshots("s"))[0], "checkpoint_id"),
            "type": (trace.events[0], "type"),
            "active": (await app.start("hello", agent="travel", every="0 9 * * *"), "is_active"),
            "default_mode": (await app.preferences("default"), "default_mode"),
            "tasks": (await app.tasks.usage(), "tasks"),
        }
        for name, (record, attribute) in records.items():
            with pytest.raises(AttributeError, match=rf"is not a dict: read \.{attribute}, or call \.json\(\)"):
                READS[read](record, name)
            assert getattr(record, attribute) == record.json()[name]
            with pytest.raises(AttributeError, match=r"has no 'nothing': read one of [a-z_]+"):
                READS[read](record, "nothing")
        assert READS[read](thread, "turns") == thread.turns == thread.json()["turns"] == 1
        for name in ("json", "thread_id", "nothing"):
            with pytest.raises(AttributeError, match="A Thread is not a dict"):
                READS[read](thread, name)


@cases("listed", [lambda record: "status" in record, dict, list])
async def test_a_record_has_no_keys(listed: Callable[[Any], Any]) -> None:
    async with segue.open(":memory:") as app:
        await app.ask("hello", agent="travel", mode="direct")
        for record in (*await app.tasks.list(), *await app.threads()):
            with pytest.raises(AttributeError, match=r"is not a dict: read an attribute such as \.\w+_id, or call"):
                listed(record)


# Renderings of what the state holds.


class Counted:
    """Renders, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, record: dict[str, int], most: int) -> str:
        self.times += 1
        return str(record)[:most]


def test_each_record_is_rendered_once_for_the_same_arguments() -> None:
    known, render = Renderings(), Counted()
    records = [{"n": n} for n in range(3)]
    for _ in range(2):
        assert known.each(render, records, 20) == ["{'n': 0}", "{'n': 1}", "{'n': 2}"]
    assert render.times == 3
    assert known.each(render, records[:1], 2) == ["{'"]


def test_a_record_in_the_place_of_one_that_is_gone_is_not_taken_for_it() -> None:
    known, render = Renderings(), Counted()
    for n in range(1000):
        assert known.each(render, [{"n": n}], 20) == [f"{{'n': {n}}}"]


def test_beyond_the_limit_all_are_rendered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "MOST_CHARS", 5 * 208)
    known, render = Renderings(), Counted()
    records = [{"n": n} for n in range(9)]
    for _ in range(2):
        assert known.each(render, records, 20) == [str(record) for record in records]
    assert render.times > 9
