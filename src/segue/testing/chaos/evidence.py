"""What a run's database says of its calls, read without Segue."""

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_FAILS = re.compile(r"\s*(error|failed|failure|错误|失败)\s*[:：]", re.IGNORECASE)
_PARSED = ("arguments", "outcome", "result")


def opened(database: Path) -> sqlite3.Connection:
    """Open a database for reading only."""
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True)


def rows(db: sqlite3.Connection, query: str) -> list[Row]:
    """The rows of a query; columns of JSON are parsed."""
    db.row_factory = sqlite3.Row
    found = [dict(row) for row in db.execute(query)]
    return [{n: json.loads(v) if n in _PARSED and v is not None else v for n, v in row.items()} for row in found]


def calls(database: Path) -> dict[str, Row]:
    """The calls of the ledger by "task/scope/index"; none where the database was not made."""
    if not database.exists():
        return {}
    with closing(opened(database)) as db:
        return {f"{row['task_id']}/{row['scope']}/{row['idx']}": row for row in rows(db, "SELECT * FROM calls")}


def is_unknown(outcome: Mapping[str, Any] | None) -> bool:
    """Whether a call is flagged: it may or may not have taken effect."""
    return bool((outcome or {}).get("unknown_outcome"))


def error_in(outcome: Mapping[str, Any] | None) -> str:
    """The error of a call, raised or returned as its result; empty where it succeeded or is flagged."""
    if not outcome or is_unknown(outcome):
        return ""
    if "error" in outcome:
        return str(outcome["error"]) or "error"
    value = outcome.get("success")
    if isinstance(value, str):
        if _FAILS.match(value):
            return value
        try:
            value = json.loads(value)
        except ValueError:
            return ""
    if not isinstance(value, dict):
        return ""
    failed = (
        value.get("error") or value.get("errors") or str(value.get("status")).lower() in ("error", "failed", "failure")
    )
    failed = failed or any(value.get(name) is False for name in ("ok", "success"))
    return json.dumps(value, ensure_ascii=False) if failed else ""
