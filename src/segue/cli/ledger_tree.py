"""The ledger as a branch of the trace: every call that was begun, and what is known of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from .lines import UNKNOWN_STYLE, Signs, outcome_sign
from .notices import told
from .printable import arguments_line, one_line, result_line

MOST = 160
"""Columns of one entry."""
_UNDER_WAY = ("pending", "running", "pausing")

Call = Mapping[str, Any]


def add_ledger(root: Tree, trace: Mapping[str, Any], signs: Signs, language: str) -> None:
    """Add the calls of a trace below the root, in the order in which they were begun."""
    calls: Sequence[Call] = trace["calls"]
    ledger = root.add(Text(f"ledger: {len(calls)} calls", style="bold"))
    for call in calls:
        ledger.add(_entry(call, trace["task"]["status"], signs, language))


def _entry(call: Call, status: str, signs: Signs, language: str) -> Text:
    sign, style, known = _known_of(call, status, signs)
    text = Text.assemble((f"{sign} ", style), (one_line(call["name"]), "bold"))
    text.append(f"({arguments_line(call['arguments'])})", style="dim")
    seconds = f"  {call['finished_at'] - call['started_at']:.2f} s" if call["outcome"] else ""
    text.append(f"  {known}{seconds}", style=style)
    text.append(f"  {one_line(call['scope'], 12)} #{call['idx']}", style="dim")
    if call.get("orphaned"):
        text.append("  from before the session went back", style="dim")
    if sign == signs.unknown:
        text.append(f"\n    {told('unknown', language)}", style=UNKNOWN_STYLE)
    if call["outcome"]:
        text.append(f"\n    {result_line(call['outcome'], MOST)}")
    return text


def _known_of(call: Call, status: str, signs: Signs) -> tuple[str, str, str]:
    """Sign, style and words for a call of a task that has this status."""
    if call["state"] != "done" and status in _UNDER_WAY:
        return signs.begins, "cyan", "under way"
    if call["state"] != "done":
        return signs.unknown, UNKNOWN_STYLE, "begun, outcome unknown"
    sign, style = outcome_sign(call["outcome"] or {}, signs)
    return sign, style, "outcome unknown" if sign == signs.unknown else call["state"]
