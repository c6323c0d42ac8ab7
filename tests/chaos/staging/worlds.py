"""What exists in the staging system, read without its tools."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from . import place


class Files:
    """The text files of a run."""

    def __init__(self, namespace: str) -> None:
        self._folder = place.folder(namespace)

    def snapshot(self) -> object:
        files = sorted(path for path in self._folder.rglob("*") if path.is_file() and ".db" not in path.name)
        return {path.relative_to(self._folder).as_posix(): path.read_text().splitlines() for path in files}


class Database:
    """The rows of a run's SQLite database, keys aside."""

    def __init__(self, namespace: str) -> None:
        self._file = place.folder(namespace) / "staging.db"
        with closing(sqlite3.connect(self._file)) as db:
            db.executescript(place.TABLES)

    def snapshot(self) -> dict[str, Any]:
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = {
                name: [dict(row) for row in db.execute(f"SELECT * FROM {name}")] for name in names if name != "keys"
            }
        return {name: [{k: v for k, v in row.items() if k != "key"} for row in table] for name, table in rows.items()}


class Accounts(Database):
    """The database, in which a transfer keeps the sum of all balances."""

    def check(self, before: Any, after: Any, effects: Sequence[Any]) -> str | None:
        one, other = (sum(row["balance"] for row in world["accounts"]) for world in (before, after))
        return None if one == other else f"The balances were {one} together, and are {other}."


class Service:
    """What the services have: payments, orders, shipments and mails."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def snapshot(self) -> object:
        return place.get("state", self._namespace)


class Everything(Accounts):
    """Files, rows and what the services have."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self._others = {"files": Files(namespace), "services": Service(namespace)}

    def snapshot(self) -> object:
        others = {name: world.snapshot() for name, world in self._others.items()}
        return {**super().snapshot(), **others}


class Postgres:
    """The stock in PostgreSQL, a table for each run."""

    def __init__(self, namespace: str) -> None:
        import psycopg

        self._connect, self._table = psycopg.connect, f"stock_{namespace}"
        with self._connect(os.environ["STAGING_POSTGRES"]) as db:
            db.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (key text UNIQUE, item text, count integer)".encode())

    def snapshot(self) -> object:
        with self._connect(os.environ["STAGING_POSTGRES"]) as db:
            return {"stock": db.execute(f"SELECT item, count FROM {self._table}".encode()).fetchall()}


class Office(Database):
    """Rows, folders and files, of which some are there from the beginning."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self._folder = place.folder(namespace)
        for name, lines in {"notes.txt": "Bob\nEve\n", "old.txt": "Old.\n", "jobs.txt": "print\nscan\n"}.items():
            if not (self._folder / name).exists():
                (self._folder / name).write_text(lines)

    def snapshot(self) -> dict[str, Any]:
        files = sorted(path for path in self._folder.rglob("*") if "staging.db" not in path.name)
        found = {path.relative_to(self._folder).as_posix(): self._content(path) for path in files}
        return {**super().snapshot(), "files": found}

    @staticmethod
    def _content(path: Path) -> object:
        return {} if path.is_dir() else path.read_bytes().decode("latin-1").splitlines()
