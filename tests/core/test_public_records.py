"""Records of the public API: attributes, `json()`, and what is said to who reads one as a dict."""

from collections.abc import Callable
from typing import Any

import pytest

import segue
from tests.cases import cases

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
