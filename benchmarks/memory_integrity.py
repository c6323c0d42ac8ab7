"""Edits of a database behind Segue's back, by `agent-memory-integrity`: which of them `segue audit --verify` reports.

    python -m benchmarks.memory_integrity

It edits rows of Segue's tables as it does those of other stores, with the audit log's head in a file elsewhere.
"""

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record
from agmi.adapters.langgraph_sqlite import LangGraphSqliteAdapter
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT

import segue

SESSION, OTHER = "agmi", "agmi-other"
CITIES = ("北京", "上海", "西安", "成都", "杭州", "北京", "上海")
EDITS = {
    "tamper": "changed",
    "truncate": "cut off at the end",
    "delete_middle": "removed",
    "reorder": "two exchanged",
    "forge": "one forged",
    "cross_replay": "copied from another session",
    "rollback_replay": "an older one put back",
    "metadata_tamper": "metadata changed",
    "snapshot_rollback": "an older copy of the whole file",
}


@dataclass(frozen=True)
class Table:
    """What of a table's rows says something, what says whose it is, and how they are ordered."""

    name: str
    content: tuple[str, ...]
    metadata: tuple[str, ...]
    order: str
    text: str
    """The column that is changed, a text or JSON."""
    new: Mapping[str, str]
    """SQL of the columns by which a forged row differs from the last one."""
    which: str = "1 = 1"
    """SQL of the rows that are edited: one for each message."""


_ORDER = "(SELECT position FROM tasks WHERE tasks.task_id = events.task_id), seq"
_LAST = 'event LIKE \'%"type":"task_complete"%\''
TABLES = (
    Table("tasks", ("message", "result"), ("user_id",), "position", "message", {"task_id": "'forged'"}),
    Table("events", ("event",), ("source",), _ORDER, "event", {"seq": "seq + 1000", "source": "NULL"}, _LAST),
    Table("calls", ("arguments", "outcome"), ("name",), "position", "outcome", {"scope": "'forged'"}),
    Table(
        "audit",
        ("moment", "action", "task_id", "details", "seals", "previous", "digest"),
        ("actor",),
        "position",
        "details",
        {"position": "position + 1"},
    ),
)


class SegueAdapter(MemoryAdapter):
    """One table of a SQLite file that Segue writes, verified by its audit log."""

    supports_replay = supports_metadata = supports_snapshot = True

    def __init__(self, table: Table) -> None:
        self.name = f"segue {table.name}"
        self._table = table

    def setup(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._elsewhere = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name, "segue.db")
        self._anchor = Path(self._elsewhere.name, "anchor")

    def teardown(self) -> None:
        self._folder.cleanup()
        self._elsewhere.cleanup()

    def seed(self, n: int) -> None:
        asyncio.run(self._ask(SESSION, n))

    def seed_other(self, n: int) -> None:
        asyncio.run(self._ask(OTHER, n, first=7))

    def append_genuine(self) -> None:
        asyncio.run(self._ask(SESSION, 1))

    async def _ask(self, session: str, n: int, first: int = 1) -> None:
        async with segue.open(self._file, audit=segue.AuditSettings(anchor=str(self._anchor))) as app:
            for number, city in enumerate(CITIES[:n], first):
                await app.ask(f"{city} {number} 天预算", session_id=session, model="offline", mode="react")

    def read_all_raw(self) -> list[Record]:
        return self._rows(SESSION)

    def read_other_raw(self) -> list[Record]:
        return self._rows(OTHER)

    def _rows(self, session: str) -> list[Record]:
        with self._opened() as file:
            table = self._table
            statement = f"SELECT * FROM {table.name} WHERE thread_id = ? AND {table.which} ORDER BY {table.order}"
            return [Record(n, dict(row)) for n, row in enumerate(file.execute(statement, (session,)))]

    def write_raw(self, record: Record) -> None:
        rows = self.read_all_raw()
        with self._opened() as file:
            if record.seq < len(rows):
                self._update(file, rows[record.seq], self._table.content, record.fields)
            else:
                values = {name: value for name, value in record.fields.items() if not self._is_number(name)}
                names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
                file.execute(f"INSERT INTO {self._table.name} ({names}) VALUES ({places})", values)

    def _is_number(self, name: str) -> bool:
        return name == "position" and self._table.name != "audit"

    def delete_raw(self, seq: int) -> None:
        row = self.read_all_raw()[seq]
        with self._opened() as file:
            file.execute(f"DELETE FROM {self._table.name} WHERE {self._where(row)}")

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        victim = self.read_all_raw()[victim_seq]
        with self._opened() as file:
            self._update(file, victim, self._table.content, donor.fields)

    def read_meta(self, seq: int) -> dict[str, Any]:
        fields = self.read_all_raw()[seq].fields
        return {name: fields[name] for name in self._table.metadata}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        row = self.read_all_raw()[seq]
        with self._opened() as file:
            self._update(file, row, self._table.metadata, dict.fromkeys(self._table.metadata, "somebody"))

    def _update(self, file: sqlite3.Connection, row: Record, names: tuple[str, ...], values: Mapping[str, Any]) -> None:
        changes = ", ".join(f"{name} = :{name}" for name in names)
        statement = f"UPDATE {self._table.name} SET {changes} WHERE {self._where(row)}"
        file.execute(statement, {name: values[name] for name in names})

    def _where(self, row: Record) -> str:
        key = ("task_id", "seq") if self._table.name == "events" else ("position",)
        return " AND ".join(f"{name} = '{row.fields[name]}'" for name in key)

    def mutate_payload(self, record: Record) -> Record:
        text = record.fields[self._table.text]
        if self._table.text == "message":
            changed = f"{text} [TAMPERED]"
        else:
            changed = json.dumps({**json.loads(text or "{}"), "tampered": True}, separators=(",", ":"))
        return Record(record.seq, {**record.fields, self._table.text: changed})

    def forge_record(self, template: Record) -> Record:
        columns = ", ".join(f"{value} AS {name}" for name, value in self._table.new.items())
        with self._opened() as file:
            found = file.execute(f"SELECT {columns} FROM {self._table.name} WHERE {self._where(template)}").fetchone()
        return self.mutate_payload(Record(template.seq + 1, {**template.fields, **dict(found)}))

    def identity_of(self, record: Record) -> str:
        return self._where(record)

    def payload_of(self, record: Record) -> str:
        return json.dumps([record.fields[name] for name in self._table.content])

    def owner_of(self, record: Record) -> str:
        return str(record.fields["thread_id"])

    def snapshot_store(self) -> str:
        return self._copy_store(self._file)

    def restore_store(self, token: object) -> None:
        self._restore_store(str(token), self._file)

    def reload(self) -> None:
        """Each verification opens the file."""

    def verify(self) -> bool:
        async def verified() -> Any:
            async with segue.open(self._file) as app:
                return await app.audit.verify(anchor=self._anchor)

        report = asyncio.run(verified())
        self.verify_detail = "; ".join(f"{each.kind} {each.table} {each.row}" for each in report.findings[:2]) or None
        return bool(report.ok)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file)) as file, file:
            file.row_factory = sqlite3.Row
            yield file


_SAID = {"safe": "found", "VULNERABLE": "accepted"}


def main() -> None:
    adapters = [LangGraphSqliteAdapter, *(lambda each=table: SegueAdapter(each) for table in TABLES)]
    print("| edit | LangGraph's `SqliteSaver` |", " | ".join(f"`{table.name}`" for table in TABLES), "|")
    print("| --- |", " | ".join(["---"] * len(adapters)), "|")
    for attack in AT_REST_ATTACKS_WITH_SNAPSHOT:
        results = [attack().run(make()) for make in adapters]
        cells = [_SAID.get(each.status, "?") for each in results]
        print(f"| {EDITS[attack.name]} |", " | ".join(cells), "|", flush=True)
        for each in results:
            if each.error or each.guard:
                print(f"{each.tool}: {each.error or each.guard}")


if __name__ == "__main__":
    main()
