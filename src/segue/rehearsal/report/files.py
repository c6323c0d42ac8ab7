"""The report's files: JSON, Markdown and one page of HTML."""

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import MissingExtra
from ...prompts.report import report_text
from ..text_file import replace_text
from .comparison import Comparison
from .statistics import Estimate
from .summary import Report
from .transcripts import Transcript, transcripts_of

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    report: Report, folder: Path, comparison: Comparison | None = None, language: str = "en"
) -> list[Path]:
    """Write report.json, report.md and report.html into a batch's folder; returns their paths.

    Raises:
        MissingExtra: the plotting library is not installed.
    """
    transcripts = transcripts_of(report, folder)
    form = report.json(language) | ({"comparison": comparison.json(language)} if comparison else {})
    texts = {
        "report.json": json.dumps(form, ensure_ascii=False, indent=2) + "\n",
        "report.md": _rendered("report.md.j2", report, comparison, language, transcripts=transcripts),
        "report.html": _page(report, comparison, language, transcripts),
    }
    return [replace_text(folder / name, text) for name, text in texts.items()]


def _page(report: Report, comparison: Comparison | None, language: str, transcripts: Sequence[Transcript]) -> str:
    """The report as one page of HTML that loads nothing, with the transcripts of failed conversations."""
    try:
        from .charts import charts_of

        charts = charts_of(report, language)
    except ImportError as error:
        raise MissingExtra("A report with charts", "rehearsal") from error
    return _rendered("report.html.j2", report, comparison, language, charts=charts, transcripts=transcripts)


def _rendered(template: str, report: Report, comparison: Comparison | None, language: str, **values: Any) -> str:
    def listed(counts: Mapping[str, int]) -> str:
        return _listed(counts, language)

    say = partial(_said, language)
    shared = {"report": report, "comparison": comparison, "language": language, "say": say, "listed": listed}
    return _environment().get_template(template).render(**shared, rows=figures(report, language), **values)


def _said(language: str, name: str, /, **slots: object) -> str:
    return report_text(name, language, **slots)


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
    made.filters |= {"estimate": _estimate, "share": _share, "cell": _cell}
    return made


def figures(report: Report, language: str = "en") -> list[tuple[str, str]]:
    """The summary as names and values, for a person."""
    say, summary = partial(_said, language), report.summary
    precision, recall = _share(summary.precision), _share(summary.recall)
    turns = say("mean_median", mean=f"{summary.turns_mean:.1f}", median=f"{summary.turns_median:g}")
    seconds = say("mean_median", mean=f"{summary.seconds_mean:.1f}", median=f"{summary.seconds_median:.1f}")
    judged = [
        (say("by_judge", judge=report.judge), _estimate(summary.by_judge)),
        (say("agreement"), _estimate(summary.judge_agreement)),
    ]
    return [
        (f"{say('success')} ({say('interval')})", _estimate(summary.success)),
        (say("by_rule"), _estimate(summary.by_rule)),
        *(judged if report.judge else ()),
        (say("calls"), f"{summary.calls}, {say('precision')} {precision}, {say('recall')} {recall}"),
        (say("turns"), turns),
        (say("tokens"), say("read_written", read=summary.input_tokens, written=summary.output_tokens)),
        (say("cost"), "–" if summary.cost is None else f"{summary.cost:.4f} {summary.currency}"),
        (say("seconds"), seconds),
        (say("ended_by"), _listed(summary.end_reasons, language)),
        (say("failures_of"), _listed(summary.faults, language)),
    ]


def _listed(counts: Mapping[str, int], language: str) -> str:
    return ", ".join(f"{report_text(name, language)} {count}" for name, count in counts.items()) or "–"


def _estimate(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{estimate.value:.1%} ({estimate.low:.1%} – {estimate.high:.1%})"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _cell(value: Any) -> str:
    """Text for a Markdown table's cell, in one line."""
    return " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
