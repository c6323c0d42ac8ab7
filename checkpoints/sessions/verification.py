"""What was done to a database behind Segue's back: the chain of its audit log, and the rows that its entries sealed."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from segue.core.audit import (
    BEGUN,
    DELETED,
    RECOVERED,
    SHORT,
    AuditHead,
    AuditReport,
    Finding,
    Kind,
    Seal,
    differences,
    entry_digest,
    row_digest,
)
from segue.core.records import Json
from segue.core.task_status import ACTIVE

from ..ports import Connection, Row
from ..tables.audit import KEPT, choice_digest, kept_rows

_ENTRIES = "SELECT * FROM audit ORDER BY position"
_TASKS = "SELECT * FROM tasks ORDER BY position"
_EVENTS = "SELECT * FROM events WHERE task_id = ? ORDER BY seq"
_CALLS = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? ORDER BY position"
_CHOICES = "SELECT thread_id FROM sessions"
_STRAYS = """
    SELECT DISTINCT task_id, thread_id FROM {} AS strays WHERE NOT EXISTS (
        SELECT 1 FROM tasks WHERE (tasks.task_id, tasks.thread_id) = (strays.task_id, strays.thread_id)
    ) ORDER BY task_id
"""
NEAR = 1000
"""Places before and behind an entry where it is looked for, and entries of a gap that are named one by one."""


@dataclass
class _Sealed:
    """What the log says of a task: its last seal, and whether it has gone on since."""

    thread_id: str
    seal: Seal | None
    is_open: bool


@dataclass
class _Known:
    """What the log says, its entries read in their order."""

    kept_until: float
    """The position of the newest head that was kept elsewhere: a recovery behind it may be forged."""
    tasks: dict[str, _Sealed] = field(default_factory=dict)
    choices: dict[str, str | None] = field(default_factory=dict)
    rows: dict[str, dict[str, list[Any]]] = field(default_factory=lambda: {table: {} for table in KEPT})
    """The seals of single rows by table and key."""
    covers: set[str] = field(default_factory=set)
    """The tables whose rows all are sealed."""
    rewritten: list[Finding] = field(default_factory=list)
    """What a later entry covers although it cannot have changed."""
    complete: bool = False

    def read(self, entry: Row) -> None:
        seals, thread_id = _form(entry["seals"]), str(entry["thread_id"])
        self.complete |= entry["action"] == BEGUN
        if entry["action"] == DELETED:
            self.tasks = {name: task for name, task in self.tasks.items() if task.thread_id != thread_id}
            self.choices.pop(thread_id, None)
            for table, rows in self.rows.items():
                self.rows[table] = {key: seal for key, seal in rows.items() if seal[2] != thread_id}
        for task_id, sealed in seals["tasks"].items():
            before = self.tasks.get(task_id)
            seal = sealed or (before.seal if before else None)
            may_differ = entry["action"] == RECOVERED and entry["position"] <= self.kept_until
            if before and before.seal and sealed and not may_differ:
                self.rewritten += _rewritten(before.seal, sealed, thread_id, task_id)
            self.tasks[task_id] = _Sealed(thread_id, seal, is_open=sealed is None)
        if "choice" in seals:
            self.choices[thread_id] = seals["choice"]
        self._read_rows(seals)
        if entry["action"] == BEGUN:
            self.covers |= seals["rows"].keys()

    def _read_rows(self, seals: Json) -> None:
        for table, owner in seals["of"].items():
            self.rows[table] = {key: seal for key, seal in self.rows[table].items() if seal[1] != owner}
        for table, rows in seals["rows"].items():
            self.rows[table].update(rows)

    def leaves_open(self, task_id: str) -> bool:
        """Whether a task goes on since its last seal, or has none yet."""
        sealed = self.tasks.get(task_id)
        return sealed is None or sealed.seal is None or sealed.is_open


def _form(text: str) -> Json:
    """The seals of an entry; none where it was changed so that they cannot be read."""
    try:
        form = json.loads(text)
        tasks = {name: seal and Seal.read(seal) for name, seal in form.get("tasks", {}).items()}
        rows = {table: {**form.get("rows", {}).get(table, {})} for table in form.get("rows", {}) if table in KEPT}
        owners = {table: str(owner) for table, owner in form.get("of", {}).items() if table in KEPT}
        for table, each in rows.items():
            for seal in each.values():
                _check_kept(table, seal)
        return {**form, "tasks": tasks, "rows": rows, "of": owners}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return {"tasks": {}, "rows": {}, "of": {}}


def _check_kept(table: str, seal: Sequence[Any]) -> None:
    """Refuse a seal of a single row that is none.

    Raises:
        TypeError.
    """
    further = {"shares": 1, "spend": 2}.get(table, 0)
    if len(seal) != 3 + further or not all(isinstance(value, int | float) for value in seal[3:]):
        raise TypeError(table)


def _rewritten(before: Seal, later: Seal, thread_id: str, task_id: str) -> Iterator[Finding]:
    """What two seals of a task say otherwise of rows that cannot have changed in between."""
    for kind, table, place in before.rewritten(later):
        row = f"task {task_id}" if table == "tasks" else f"{table.removesuffix('s')} {place + 1}"
        yield Finding(kind, table, thread_id, task_id, row)


def verify(connection: Connection, anchors: Sequence[AuditHead] = ()) -> AuditReport:
    """Compare a database with its audit log, and the log with heads that were kept elsewhere."""
    with connection.state.view():
        stored = connection.fetched(_ENTRIES)
        misplaced = [entry["position"] for entry in stored if not isinstance(entry["position"], int)]
        entries = [entry for entry in stored if isinstance(entry["position"], int)]
        known = _Known(max((anchor.position for anchor in anchors), default=math.inf))
        for entry in entries:
            known.read(entry)
        rows = {row["task_id"]: row for row in connection.fetched(_TASKS)}
        found = [_entry("changed", position) for position in misplaced]
        found += [*_of_log(entries, anchors), *_of_tasks(connection, known, rows), *_of_choices(connection, known)]
        found += [*_of_kept(connection, known, time.time()), *(each for each in known.rewritten if each not in found)]
        if known.complete:
            found += _unknown(connection, known, rows)
        head = AuditHead(entries[-1]["position"], entries[-1]["digest"]) if entries else None
        return AuditReport(head, found, [name for name in rows if known.leaves_open(name)], known.complete)


def _of_log(entries: Sequence[Row], anchors: Sequence[AuditHead]) -> Iterator[Finding]:
    """What was done to the entries themselves."""
    places = {entry["position"]: entry for entry in entries}
    newest = max(places, default=0)
    last = max([newest, *(anchor.position for anchor in anchors)])
    for position, until in pairwise([0, *sorted(places), last + 1]):
        yield from _gap("truncated" if until > newest else "removed", position + 1, until)
    for position, entry in places.items():
        before = places.get(position - 1)
        if entry["digest"] != entry_digest(entry):
            yield _entry("reordered" if _is_from_elsewhere(entry, last) else "changed", position)
        elif before is not None and entry["previous"] != before["digest"] and before["digest"] == entry_digest(before):
            yield _entry("inserted", position)
    for anchor in anchors:
        named = places.get(anchor.position)
        if named is not None and named["digest"] != anchor.digest and named["digest"] == entry_digest(named):
            yield _entry("changed", anchor.position)


def _gap(kind: Kind, first: int, until: int) -> Iterator[Finding]:
    """The entries from one place to before another one, which are gone."""
    if until - first > NEAR:
        yield Finding(kind, "audit", row=f"entries {first} to {until - 1}")
    else:
        yield from (_entry(kind, position) for position in range(first, until))


def _is_from_elsewhere(entry: Row, last: int) -> bool:
    position = entry["position"]
    near = range(max(1, position - NEAR), min(last, position + NEAR) + 1)
    return any(entry_digest(entry, other) == entry["digest"] for other in near)


def _entry(kind: Kind, position: object) -> Finding:
    return Finding(kind, "audit", row=f"entry {position}")


def _of_tasks(connection: Connection, known: _Known, rows: Mapping[str, Row]) -> Iterator[Finding]:
    for task_id, sealed in known.tasks.items():
        if sealed.seal is None:
            continue
        row = rows.get(task_id)
        events = [dict(each) for each in connection.fetched(_EVENTS, (task_id,))]
        calls = [dict(each) for each in connection.fetched(_CALLS, (sealed.thread_id, task_id))]
        if row is None:
            yield Finding("removed", "tasks", sealed.thread_id, task_id, f"task {task_id}")
        if row or events or calls:
            yield from _of_task(row, events, calls, task_id, sealed, sealed.seal)


def _of_task(
    row: Row | None, events: list[Json], calls: list[Json], task_id: str, sealed: _Sealed, seal: Seal
) -> Iterator[Finding]:
    found: list[Finding] = []
    if sealed.is_open:
        events = events[: len(seal.events)]
    elif row is not None and row_digest(dict(row), ("position",))[:SHORT] != seal.task:
        found.append(Finding("changed", "tasks", sealed.thread_id, task_id, f"task {task_id}"))
    found += _of_rows("events", events, seal.events, sealed.thread_id, task_id)
    if not sealed.is_open:
        found += _of_rows("calls", calls, seal.calls, sealed.thread_id, task_id)
    if row is not None and not found and not sealed.is_open and Seal.of(dict(row), events, calls).whole != seal.whole:
        found.append(Finding("changed", "events", sealed.thread_id, task_id))
    yield from found


_WITHOUT = {"events": ("seq",), "calls": ("position",)}


def _of_rows(
    table: str, rows: Sequence[Json], sealed: Sequence[str], thread_id: str, task_id: str
) -> Iterator[Finding]:
    digests = [row_digest(row, _WITHOUT[table])[:SHORT] for row in rows]
    for kind, place in differences(sealed, digests):
        row = rows[place] if kind in ("changed", "inserted", "reordered") else None
        yield Finding(kind, table, thread_id, task_id, _named(table, row, place))


def _named(table: str, row: Mapping[str, Any] | None, place: int) -> str:
    if table == "events":
        return f"event {place + 1 if row is None else row['seq']}"
    return f"call {place + 1}" if row is None else f"call {place + 1}, {row['name']}"


def _of_choices(connection: Connection, known: _Known) -> Iterator[Finding]:
    for thread_id, digest in known.choices.items():
        found = choice_digest(connection, thread_id)
        if found != digest:
            kind: Kind = "removed" if found is None else "inserted" if digest is None else "changed"
            yield Finding(kind, "sessions", thread_id, row=f"session {thread_id}")


def _of_kept(connection: Connection, known: _Known, now: float) -> Iterator[Finding]:
    """Permissions, links, schedules and limits that are not as they were sealed."""
    for table, sealed in known.rows.items():
        found = kept_rows(connection, table)
        for key, seal in sealed.items():
            row = found.get(key)
            has_expired = table == "shares" and seal[3] <= now
            if row is None:
                if not has_expired:
                    yield _kept_finding("removed", table, key, seal)
            elif row[0] != seal[0] or (table == "spend" and _is_less(connection, key, seal)):
                yield _kept_finding("changed", table, key, row)
        if table in known.covers:
            for key in found.keys() - sealed.keys():
                if table != "spend" or _is_raised(connection, key):
                    yield _kept_finding("inserted", table, key, found[key])


def _is_less(connection: Connection, scope: str, seal: Sequence[Any]) -> bool:
    """Whether less is used of a limit than there was."""
    (row,) = connection.fetched("SELECT tokens, cost FROM spend WHERE scope = ?", (scope,))
    return bool(row["tokens"] < seal[3] or row["cost"] < seal[4])


def _is_raised(connection: Connection, scope: str) -> bool:
    """Whether a person's limit is stored, which an entry tells; what calls use is sealed once their task stops."""
    (row,) = connection.fetched("SELECT raised_tokens, raised_cost FROM spend WHERE scope = ?", (scope,))
    return (row["raised_tokens"], row["raised_cost"]) != (None, None)


def _kept_finding(kind: Kind, table: str, key: str, seal: Sequence[Any]) -> Finding:
    names = {"permissions": "permission", "shares": "link", "schedules": "schedule", "spend": "limit"}
    return Finding(kind, table, str(seal[2]), row=f"{names[table]} {key}")


def _unknown(connection: Connection, known: _Known, rows: Mapping[str, Row]) -> Iterator[Finding]:
    """Rows that no entry of the log knows, and that no process works on."""
    for task_id, row in rows.items():
        if task_id not in known.tasks and row["status"] not in ACTIVE:
            yield Finding("inserted", "tasks", row["thread_id"], task_id, f"task {task_id}")
    for table in _WITHOUT:
        for row in connection.fetched(_STRAYS.format(table)):
            task = known.tasks.get(row["task_id"])
            if task is None or (table == "calls" and task.thread_id != row["thread_id"]):
                yield Finding("inserted", table, row["thread_id"], row["task_id"])
    for row in connection.fetched(_CHOICES):
        if row["thread_id"] not in known.choices:
            yield Finding("inserted", "sessions", row["thread_id"], row=f"session {row['thread_id']}")
