"""The ledger as a branch of the trace: every call that was begun, and what is known of it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from ...core.events import Resumed, ToolResult
from ...core.task_status import ACTIVE
from .lines import UNKNOWN_STYLE, Signs, outcome_sign
from .sanitize import arguments_line, one_line, result_line
from .task_view import CallKey
from .texts import told

MOST = 160
"""Columns of one entry."""

Call = Mapping[str, Any]
Events = Sequence[Mapping[str, Any]]
"""A trace's events in their dict form."""


def begun_at(calls: Sequence[Call], key: CallKey, after: float) -> float:
    """When the call that was decided on at a time was begun; infinity if it was not."""
    return min((c["started_at"] for c in calls if _key(c) == key and c["started_at"] >= after), default=math.inf)


def _key(call: Call) -> CallKey:
    """What the events name the call by; a step's scope is step_id#attempt."""
    return call["scope"].rpartition("#")[0] or call["scope"], call["idx"]


def add_ledger(root: Tree, trace: Mapping[str, Any], signs: Signs, language: str) -> None:
    """Add the calls of a trace below the root, in the order in which they were begun."""
    calls: Sequence[Call] = trace["calls"]
    ledger = root.add(Text(f"ledger: {len(calls)} {'call' if len(calls) == 1 else 'calls'}", style="bold"))
    under_way = trace["task"]["status"] in ACTIVE and not trace["task"].get("cut_off")
    for call in calls:
        ledger.add(_entry(call, trace["events"], under_way, signs, language))


def _entry(call: Call, events: Events, under_way: bool, signs: Signs, language: str) -> Text:
    sign, style, known = _known_of(call, under_way, signs)
    text = Text.assemble((f"{sign} ", style), (one_line(call["name"]), "bold"))
    text.append(f"({arguments_line(call['arguments'])})", style="dim")
    took = _how_long(call, events) if call["outcome"] and sign != signs.unknown else ""
    text.append(f"  {known}{took}", style=style)
    text.append(f"  {one_line(call['scope'], 12)} #{call['idx']}", style="dim")
    if call.get("orphaned"):
        text.append("  from before the session went back", style="dim")
    if sign == signs.unknown:
        text.append(f"\n    {told('unknown', language)}", style=UNKNOWN_STYLE)
    if call["outcome"]:
        text.append(f"\n    {result_line(call['outcome'], MOST)}")
    return text


def _how_long(call: Call, events: Events) -> str:
    """How long the call took; of one that a resume made run again, how long the last time."""
    began, ended = call["started_at"], call["finished_at"]
    if not any(form["type"] == Resumed.type and began < form["timestamp"] < ended for form in events):
        return f"  {ended - began:.2f} s"
    results = (form for form in events if form["type"] == ToolResult.type and form["timestamp"] >= ended)
    took = next((form["data"]["seconds"] for form in results if _key_of_result(form) == _key(call)), None)
    return ", run again" if took is None else f", run again  {took:.2f} s"


def _key_of_result(form: Mapping[str, Any]) -> CallKey:
    return form["trace_id"] or form["step_id"], form["data"]["index"]


def _known_of(call: Call, under_way: bool, signs: Signs) -> tuple[str, str, str]:
    """Sign, style and words for a call of a task that a process works on, or does not."""
    if call["state"] != "done" and under_way:
        return signs.begins, "cyan", "under way"
    if call["state"] != "done":
        return signs.unknown, UNKNOWN_STYLE, "begun, outcome unknown"
    sign, style = outcome_sign(call["outcome"] or {}, signs)
    return sign, style, "outcome unknown" if sign == signs.unknown else call["state"]
