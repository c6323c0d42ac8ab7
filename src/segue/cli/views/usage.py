"""Tokens and cost of many tasks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...core.spend import USD, LimitUse, UsageReport, UsageTotal
from ...nodes.model_call import amount
from .console import one_line
from .tables import Column, print_table

if TYPE_CHECKING:
    from ..settings import Settings


def print_usage(console: Console, report: UsageReport, by: str, settings: "Settings") -> None:
    """A row for each day with tasks, agent, user or model, the total, what is not known of it, and the limits."""
    used = {name: total for name, total in report.by(by).items() if total.tasks or total.estimated}
    if used:
        _print_totals(console, report, by, used, settings)
    else:
        console.print(settings.say("usage_none", since=report.since))
    if report.limits:
        console.print()
        language = settings.ui_language
        columns: list[Column[LimitUse]] = [
            Column("limit", lambda limit: limit.limit_name),
            Column("of", lambda limit: one_line(limit.name or limit.day)),
            Column("used", lambda limit: _used(limit, language)),
            Column("at most", lambda limit: amount(limit.limit, limit.unit, language)),
        ]
        print_table(console, language, columns, report.limits)


def _print_totals(
    console: Console, report: UsageReport, by: str, used: Mapping[str, UsageTotal], settings: "Settings"
) -> None:
    name_of_total = settings.say("usage_total")
    rows = [
        *((one_line(name) or "–", total, "") for name, total in used.items()),
        (name_of_total, report.total, "bold"),
    ]
    columns: list[Column[tuple[str, UsageTotal, str]]] = [
        Column(by, lambda row: Text(row[0], style=row[2])),
        Column("tasks", lambda row: Text(f"{row[1].tasks:,}", style=row[2]), whole=True),
        Column("input", lambda row: Text(f"{row[1].input:,}", style=row[2]), whole=True),
        Column("output", lambda row: Text(f"{row[1].output:,}", style=row[2]), whole=True),
        Column("cost", lambda row: Text(_cost(row[1], settings), style=row[2])),
    ]
    print_table(console, settings.ui_language, columns, rows)
    for line in _notes(report.total, settings):
        console.print(Text(line, style="dim"), soft_wrap=True)


def _used(limit: LimitUse, language: str) -> Text:
    """What is used of a limit, red where a tenth is left at most."""
    style = "red" if limit.used >= 0.9 * limit.limit else ""
    return Text(amount(limit.used, limit.unit, language), style=style)


def _cost(total: UsageTotal, settings: "Settings") -> str:
    """The cost, or what is known of it; a cost of nothing is a stroke."""
    known = " + ".join(f"{cost:.4f} {currency}".strip() for currency, cost in total.known_costs.items())
    if known:
        return settings.say("cost_at_least", cost=known) if total.unpriced else known
    return settings.say("usage_unknown") if total.unpriced > total.unfinished else "–"


def _notes(total: UsageTotal, settings: "Settings") -> list[str]:
    """That costs are computed, and of how many tasks they are not known."""
    unpriced = total.unpriced - total.unfinished
    counted = {"usage_unfinished": total.unfinished, "usage_uncounted": total.uncounted, "usage_unpriced": unpriced}
    notes = [settings.say(name, n=n) for name, n in counted.items() if n]
    if total.estimated:
        cost = amount(total.estimated_cost, USD, settings.ui_language)
        about = {"n": total.estimated, "tokens": f"{total.estimated_tokens:,}", "cost": cost}
        notes.append(settings.say("usage_estimated", **about))
    return [settings.say("usage_computed"), *notes]
