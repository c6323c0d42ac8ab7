"""The audit log, and what a verification found."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...core.audit import AuditEntry, AuditReport, Kind
from .console import flat, one_line
from .tables import Column, print_table

if TYPE_CHECKING:
    from ..settings import Settings


_KINDS: dict[Kind, str] = {
    "changed": "audit_changed",
    "removed": "audit_removed",
    "inserted": "audit_inserted",
    "reordered": "audit_reordered",
    "truncated": "audit_truncated",
}


def print_entries(console: Console, entries: Iterable[AuditEntry], settings: "Settings") -> None:
    """A row for each entry; the digests of questions are left out."""
    columns: list[Column[AuditEntry]] = [
        Column("position", lambda entry: str(entry.position), whole=True),
        Column(
            "when",
            lambda entry: datetime.fromtimestamp(entry.moment).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            whole=True,
        ),
        Column("actor", lambda entry: flat(entry.actor)),
        Column("action", lambda entry: flat(entry.action)),
        Column("session", lambda entry: flat(entry.session_id)),
        Column("task", lambda entry: flat(entry.task_id[:8]), whole=True),
        Column("user", lambda entry: flat(entry.user_id)),
        Column("details", lambda entry: one_line(_details(entry), 120)),
    ]
    print_table(console, settings.ui_language, columns, entries, "audit_none")


def _details(entry: AuditEntry) -> str:
    calls = entry.details.get("calls")
    if calls:
        return ", ".join(f"{call['name']}: {call['verdict']}" for call in calls)
    shown = {name: value for name, value in entry.details.items() if name not in ("shown", "interrupt_id")}
    return json.dumps(shown, ensure_ascii=False) if shown else ""


def print_report(console: Console, report: AuditReport, settings: "Settings") -> None:
    """What was found, a line each, and what could not be compared."""
    say = settings.say
    if report.head is None:
        return console.print(say("audit_none"), soft_wrap=True)
    for finding in report.findings:
        row = flat(finding.row) or say("audit_some_row")
        session = flat(finding.session_id)
        place = say("audit_place", session=session, task=flat(finding.task_id) or "–") if session else ""
        line = say("audit_finding", kind=say(_KINDS[finding.kind]), table=finding.table, row=row, place=place)
        console.print(Text(line.strip(), style="red"), soft_wrap=True)
    if report.unsealed:
        console.print(Text(say("audit_unsealed", n=len(report.unsealed)), style="dim"), soft_wrap=True)
    if not report.complete:
        console.print(Text(say("audit_incomplete"), style="yellow"), soft_wrap=True)
    summary = say("audit_faults", n=len(report.findings)) if report.findings else say("audit_whole")
    console.print(Text(f"{summary} {say('audit_head', head=str(report.head))}"), soft_wrap=True)
    return None
