"""What went wrong with a fleet's tasks, from the file of effects and the database alone: nothing of Segue is used."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]
_ASKED = re.compile(r"\[pay (\S+) (\d+)")


@dataclass(frozen=True)
class Verdict:
    """How many tasks ended, what is wrong with them, and how many calls are honestly reported as unknown."""

    tasks: int
    done: int
    lost: Sequence[str]
    repeated: Sequence[str]
    stuck: Sequence[str]
    gaps: Sequence[str]
    unknown: int

    @property
    def faults(self) -> list[str]:
        return [*self.lost, *self.repeated, *self.stuck, *self.gaps]


def judge(url: str, payments: Path) -> Verdict:
    """Compare the effects with what the tasks asked for and what the database says of them."""
    with psycopg.connect(url, row_factory=dict_row, options="-c search_path=segue") as connection:
        tasks = connection.execute("SELECT task_id, message, status, result FROM tasks ORDER BY position").fetchall()
        calls = connection.execute("SELECT task_id, state, arguments, outcome FROM calls").fetchall()
        numbers = connection.execute(
            "SELECT task_id, array_agg(seq ORDER BY seq) AS seqs FROM events GROUP BY task_id"
        ).fetchall()
    happened = _effects(payments)
    unknown = {_label(call) for call in calls if "unknown_outcome" in str(call["outcome"])}
    return Verdict(
        tasks=len(tasks),
        done=sum(task["status"] == "done" for task in tasks),
        lost=[*_lost(tasks, happened, unknown)],
        repeated=[f"{label} happened {times} times" for label, times in happened.items() if times > 1],
        stuck=[f"task {task['task_id']} is {task['status']}" for task in tasks if task["status"] != "done"]
        + [f"call {_label(call)} is {call['state']}" for call in calls if call["state"] != "done"],
        gaps=[
            f"{row['task_id']}: {row['seqs']}" for row in numbers if row["seqs"] != [*range(1, len(row["seqs"]) + 1)]
        ],
        unknown=len(unknown),
    )


def _effects(payments: Path) -> Counter[str]:
    lines = (
        [json.loads(line) for line in payments.read_text(encoding="utf-8").splitlines()] if payments.exists() else []
    )
    return Counter(line["label"] for line in lines if line["moment"] == "effect")


def _label(call: Row) -> str:
    return str(json.loads(call["arguments"])["label"])


def _lost(tasks: Sequence[Row], happened: Counter[str], unknown: set[str]) -> Iterator[str]:
    """The payments that never happened, and nobody says so; those with a check are never unknown."""
    for task in tasks:
        found = _ASKED.search(task["message"])
        for number in range(int(found[2]) if found else 0):
            label = f"{found[1] if found else ''}-{number}"
            if not happened[label] and (number % 2 or label not in unknown):
                yield f"{label} never happened"
