"""What a run left behind: the file of effects, the database and the exported history, read without Segue."""

import json
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segue.testing.chaos.evidence import Row, is_unknown, opened, rows

Rows = dict[str, list[str]]
"""The rows of each table, as text."""

OWN = ("state_changed", "resumed", "paused", "error")
"""Types of events by which the runner tells of stops and of going on: a disturbed run has more of them."""


@dataclass(frozen=True)
class Evidence:
    """What a run left."""

    effects: list[Row]
    tasks: list[Row]
    events: dict[str, list[Row]]
    """By task; `own` marks those of the types OWN that the runner wrote by itself."""
    calls: list[Row]
    history: dict[str, list[Row]]


def read(folder: Path, database: str = "segue.db") -> Evidence:
    """Read a run's folder: effects.jsonl, the database and history.json."""
    effects = Path(folder, "effects.jsonl")
    lines = effects.read_text(encoding="utf-8").splitlines() if effects.exists() else []
    with closing(opened(folder / database)) as db:
        tasks = rows(db, "SELECT * FROM tasks ORDER BY position")
        tasks.sort(
            key=lambda task: task["message"] if task["called_by"] else ""
        )  # those that run at once have no order
        events: dict[str, list[Row]] = {task["task_id"]: [] for task in tasks}
        for row in rows(db, "SELECT task_id, seq, source, event FROM event_log ORDER BY task_id, seq"):
            form = json.loads(row["event"])
            own = row["source"] is None and form["type"] in OWN
            events.setdefault(row["task_id"], []).append({**form, "seq": row["seq"], "own": own})
        calls = rows(db, "SELECT * FROM calls ORDER BY position")
    history = json.loads(Path(folder, "history.json").read_text(encoding="utf-8"))
    return Evidence([json.loads(line) for line in lines], tasks, events, calls, history)


def label_of(call: Row) -> str:
    return str(call["arguments"].get("label", ""))


def unknown_labels(run: Evidence) -> frozenset[str]:
    """The labels of the calls that the ledger flags."""
    return frozenset(label_of(call) for call in run.calls if is_unknown(call["outcome"]))


def counted(run: Evidence, moment: str) -> Counter[str]:
    return Counter(line["label"] for line in run.effects if line["moment"] == moment)


def contents(folder: Path) -> dict[str, list[Any]]:
    """All rows of all tables."""
    with closing(opened(folder / "segue.db")) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: sorted(map(repr, db.execute(f"SELECT * FROM {table}"))) for table in tables}


def is_leased(folder: Path, session: str) -> bool:
    """Whether an owner has the session's lease, expired or not, and did not release it."""
    with closing(opened(folder / "segue.db")) as db:
        return bool(db.execute("SELECT 1 FROM leases WHERE thread_id = ? AND owner != ''", (session,)).fetchone())


def has_unfinished(folder: Path, session: str) -> bool:
    """Whether a task of the session has not ended."""
    with closing(opened(folder / "segue.db")) as db:
        query = "SELECT 1 FROM tasks WHERE thread_id = ? AND status NOT IN ('done', 'cancelled')"
        return bool(db.execute(query, (session,)).fetchone())


def rows_of(database: Path, session: str) -> Rows:
    """A session's rows in the tables that hold it, from a copy: to open what a killed process left is to repair it."""
    found: Rows = {table: [] for table in ("tasks", "events", "calls", "checkpoints", "writes", "texts")}
    with tempfile.TemporaryDirectory() as folder:
        for file in (Path(f"{database}{suffix}") for suffix in ("", "-wal", "-journal")):
            if file.exists():
                shutil.copy(file, folder)
        with closing(sqlite3.connect(Path(folder, database.name))) as db:
            known = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in found.keys() & known:
                found[table] = sorted(map(repr, db.execute(f"SELECT * FROM {table} WHERE thread_id = ?", (session,))))
    return found


def pages(database: Path) -> int:
    """How many pages a database has; none where it is not there."""
    if not database.exists():
        return 0
    with closing(opened(database)) as db:
        return int(db.execute("PRAGMA page_count").fetchone()[0])


def changed(before: Mapping[str, list[Any]], after: Mapping[str, list[Any]]) -> list[str]:
    """The tables that are not what they were."""
    return [table for table in {**before, **after} if before.get(table) != after.get(table)]


class Plain:
    """Values of a run without what differs from run to run: ids become numbers or, as times, are left out."""

    _ID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b([0-9a-f]{8})\b|\b[0-9a-f]{12}\b")
    _LEFT_OUT = frozenset({"timestamp", "seconds", "interrupt_id", "at", "shown"})

    def __init__(self, run: Evidence) -> None:
        self._names: dict[str, str] = {}
        for number, task in enumerate(run.tasks, start=1):
            self._names[task["task_id"][:8]] = f"<task {number}>"
            traces = dict.fromkeys(e["trace_id"][:8] for e in run.events[task["task_id"]] if e["trace_id"])
            self._names |= {trace: f"<recursion {number}.{place}>" for place, trace in enumerate(traces, start=1)}

    def text(self, value: Any) -> str:
        return self._ID.sub(self._name, json.dumps(_timeless(value), sort_keys=True, ensure_ascii=False))

    def _name(self, found: re.Match[str]) -> str:
        return self._names.get(found[1] or found[2], found[0] if found[2] else "<id>")


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(inner) for name, inner in value.items() if name not in Plain._LEFT_OUT}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value
