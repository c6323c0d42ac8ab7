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

_NUMBERS = ("tasks", "input", "output")


def print_usage(console: Console, report: UsageReport, by: str, settings: "Settings") -> None:
    """A row for each day with tasks, agent, user or model, the total, what is not known of it, and the limits."""
    used = {name: total for name, total in report.by(by).items() if total.tasks or total.estimated}
    if used:
        _print_totals(console, report, by, used, settings)
    else:
        console.print(settings.say("usage_none", since=report.since))
    if report.limits:
        console.print()
        rows = [_limit_row(limit, settings) for limit in report.limits]
        print_table(console, settings.ui_language, [Column(name) for name in ("limit", "of", "used", "at most")], rows)


def _print_totals(
    console: Console, report: UsageReport, by: str, used: Mapping[str, UsageTotal], settings: "Settings"
) -> None:
    columns = [Column(by), *(Column(name, whole=True) for name in _NUMBERS), Column("cost")]
    rows = [_row(by, one_line(name) or "–", total, settings) for name, total in used.items()]
    total = _row(by, settings.say("usage_total"), report.total, settings)
    cells = [*rows, {name: Text(cell.plain, style="bold") for name, cell in total.items()}]
    print_table(console, settings.ui_language, columns, cells)
    for line in _notes(report.total, settings):
        console.print(Text(line, style="dim"), soft_wrap=True)


def _limit_row(limit: LimitUse, settings: "Settings") -> dict[str, Text]:
    """A limit, whose it is, and what is used of it; red where a tenth is left at most."""
    language = settings.ui_language
    used, most = (amount(value, limit.unit, language) for value in (limit.used, limit.limit))
    style = "red" if limit.used >= 0.9 * limit.limit else ""
    names = {"limit": limit.limit_name, "of": one_line(limit.name or limit.day)}
    return {
        **{name: Text(text) for name, text in names.items()},
        "used": Text(used, style=style),
        "at most": Text(most),
    }


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
    notes = [settings.say(name, n=n) for name, n in counted.items() if n]
    if total.estimated:
        cost = amount(total.estimated_cost, USD, settings.ui_language)
        about = {"n": total.estimated, "tokens": f"{total.estimated_tokens:,}", "cost": cost}
        notes.append(settings.say("usage_estimated", **about))
    return [settings.say("usage_computed"), *notes]
