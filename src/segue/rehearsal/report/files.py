"""The report's files: JSON, Markdown and one page of HTML."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import MissingExtra
from ..text_file import replace_text
from .comparison import Comparison
from .statistics import Estimate
from .summary import Report

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def write_report(report: Report, folder: Path, comparison: Comparison | None = None) -> list[Path]:
    """Write report.json, report.md and report.html into a folder; returns their paths.

    Raises:
        MissingExtra: the plotting library is not installed.
    """
    form = report.json() | ({"comparison": comparison.json()} if comparison else {})
    texts = {
        "report.json": json.dumps(form, ensure_ascii=False, indent=2) + "\n",
        "report.md": markdown_of(report, comparison),
        "report.html": page_of(report, comparison),
    }
    return [replace_text(folder / name, text) for name, text in texts.items()]


def markdown_of(report: Report, comparison: Comparison | None = None) -> str:
    """The report as Markdown."""
    return _environment().get_template("report.md.j2").render(report=report, comparison=comparison)


def page_of(report: Report, comparison: Comparison | None = None) -> str:
    """The report as one page of HTML that loads nothing."""
    try:
        from .charts import charts_of

        charts = charts_of(report)
    except ImportError as error:
        raise MissingExtra("A report with charts", "rehearsal") from error
    return _environment().get_template("report.html.j2").render(report=report, comparison=comparison, charts=charts)


@cache
def _environment() -> "Environment":
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    except ImportError as error:
        raise MissingExtra("A report", "rehearsal") from error
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {"rows": figures, "listed": _listed}
    made.filters |= {"estimate": _estimate, "share": _share, "cell": _cell}
    return made


def figures(report: Report) -> list[tuple[str, str]]:
    """The summary as names and values, for a person."""
    summary = report.summary
    cost = "–" if summary.cost is None else f"{summary.cost:.4f} {summary.currency}"
    return [
        ("success (95 % interval)", _estimate(summary.success)),
        ("success by rule", _estimate(summary.by_rule)),
        (f"success by judge {report.judge}".rstrip(), _estimate(summary.by_judge)),
        ("agreement of rule and judge", _estimate(summary.judge_agreement)),
        ("calls", f"{summary.calls}, precision {_share(summary.precision)}, recall {_share(summary.recall)}"),
        ("turns", f"{summary.turns_mean:.1f} on average, {summary.turns_median:g} at the median"),
        ("tokens", f"{summary.input_tokens} read, {summary.output_tokens} written"),
        ("cost", cost),
        ("seconds", f"{summary.seconds_mean:.1f} on average, {summary.seconds_median:.1f} at the median"),
        ("ended by", _listed(summary.end_reasons)),
        ("failures attributed to", _listed(summary.faults)),
    ]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "–"


def _estimate(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.1%} ({estimate.low:.1%} to {estimate.high:.1%})"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _cell(value: Any) -> str:
    """Text for a Markdown table's cell, in one line."""
    return " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
