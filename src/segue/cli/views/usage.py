"""Tokens and cost of many tasks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...core.usage_report import UsageReport, UsageTotal
from .sanitize import one_line
from .tables import Column, print_table

if TYPE_CHECKING:
    from ..settings import Settings

_NUMBERS = ("tasks", "input", "output")


def print_usage(console: Console, report: UsageReport, by: str, settings: "Settings") -> None:
    """A row for each day with tasks, agent or model, the total, and what is not known of it."""
    parts: Mapping[str, Mapping[str, UsageTotal]] = {
        "day": report.by_day,
        "agent": report.by_agent,
        "model": report.by_model,
    }
    used = {name: total for name, total in parts[by].items() if total.tasks}
    if not used:
        return console.print(settings.say("usage_none", since=report.since))
    columns = [Column(by), *(Column(name, whole=True) for name in _NUMBERS), Column("cost")]
    rows = [_row(by, one_line(name) or "–", total, settings) for name, total in used.items()]
    total = _row(by, settings.say("usage_total"), report.total, settings)
    cells = [*rows, {name: Text(cell.plain, style="bold") for name, cell in total.items()}]
    print_table(console, settings.ui_language, columns, cells)
    for line in _notes(report.total, settings):
        console.print(Text(line, style="dim"), soft_wrap=True)
    return None


def _row(by: str, name: str, total: UsageTotal, settings: "Settings") -> dict[str, Text]:
    numbers = {each: Text(f"{getattr(total, each):,}") for each in _NUMBERS}
    return {by: Text(name), **numbers, "cost": Text(_cost(total, settings))}


def _cost(total: UsageTotal, settings: "Settings") -> str:
    """The cost, or what is known of it; a cost of nothing is a stroke."""
    known = " + ".join(f"{cost:.4f} {currency}".strip() for currency, cost in total.known_costs.items())
    if total.unpriced:
        return settings.say("cost_at_least", cost=known) if known else settings.say("usage_unknown")
    return known or "–"


def _notes(total: UsageTotal, settings: "Settings") -> list[str]:
    """That costs are computed, and of how many tasks they are not known."""
    unpriced = total.unpriced - total.unfinished
    counted = {"usage_unfinished": total.unfinished, "usage_uncounted": total.uncounted, "usage_unpriced": unpriced}
    return [settings.say("usage_computed"), *(settings.say(name, n=n) for name, n in counted.items() if n)]
