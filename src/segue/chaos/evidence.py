"""What a run's database says of its calls, read without Segue."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def calls(database: Path) -> dict[str, dict[str, Any]]:
    """The calls by "task/scope/index": {"name", "outcome"}; none where the database was not made."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT task_id, scope, idx, name, outcome FROM calls").fetchall()
    return {
        f"{task}/{scope}/{index}": {"name": name, "outcome": json.loads(outcome) if outcome else None}
        for task, scope, index, name, outcome in rows
    }


def is_unknown(outcome: dict[str, Any] | None) -> bool:
    """Whether a call is flagged: it may or may not have taken effect."""
    return bool(outcome) and str((outcome or {}).get("error", "")).startswith("unknown_outcome")
