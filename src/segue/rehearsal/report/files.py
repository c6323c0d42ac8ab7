"""The report's files: JSON, Markdown, and one page of HTML with charts and transcripts."""

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.conversation import PREFIXES, Conversation, Role, Utterance, shown, spoken
from ...core.errors import MissingExtra
from ...prompts.catalogue import report_text
from ..batch import log_file_of
from ..log import read_log
from ..text_file import replace_text
from .outcome import Fault, Outcome
from .statistics import Estimate
from .summary import Comparison, Report


@dataclass(frozen=True)
class Line:
    """One utterance as the page shows it; `note` says what the text does not: a status code or a controller."""

    index: int
    turn: int
    role: str
    prefix: str
    text: str
    note: str
    action: bool
    cited: bool


@dataclass(frozen=True)
class Transcript:
    """A failed conversation."""

    outcome: Outcome
    log: str
    """The log's path, from the report's folder."""
    lines: Sequence[Line]


def transcripts_of(report: Report, folder: Path) -> list[Transcript]:
    """The transcripts of a report's failures, from the logs in the batch's folder."""
    found = []
    for outcome in report.failures:
        assert outcome.fault
        file = log_file_of(folder, outcome.conversation_id)
        lines = _lines(read_log(file), outcome.fault)
        found.append(Transcript(outcome, file.relative_to(folder).as_posix(), lines))
    return found


def _lines(conversation: Conversation, fault: Fault) -> list[Line]:
    cited = _cited(conversation, fault)
    return [
        Line(u.index, u.turn, u.role.value, PREFIXES[u.role], spoken(u), _note(u), u.is_action, u.index == cited)
        for u in shown(conversation)
    ]


def _cited(conversation: Conversation, fault: Fault) -> int:
    """The index of the line to show: the cited utterance or, where it has no words, the last one before it."""
    lines = list(shown(conversation))
    until = [u for u in lines if (u.turn <= fault.turn if fault.index < 0 else u.index <= fault.index)]
    return (until or lines[:1] or [Utterance(index=-1, turn=0, role=Role.USER)])[-1].index


def _note(utterance: Utterance) -> str:
    code = "" if utterance.status_code is None else str(utterance.status_code)
    return " ".join(part for part in (code, utterance.controller, utterance.error) if part)


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
        charts = charts_of(report, language)
    except ImportError as error:
        raise MissingExtra("A report with charts", "rehearsal") from error
    return _rendered("report.html.j2", report, comparison, language, charts=charts, transcripts=transcripts)


def _rendered(template: str, report: Report, comparison: Comparison | None, language: str, **values: Any) -> str:
    def listed(counts: Mapping[str, int]) -> str:
        return _listed(counts, language)

    say = partial(_said, language)
    shared = {"report": report, "comparison": comparison, "language": language, "say": say, "listed": listed}
    return environment().get_template(template).render(**shared, rows=figures(report, language), **values)


def _said(language: str, name: str, /, **slots: object) -> str:
    return report_text(name, language, **slots)


@cache
def environment(*folders: Path) -> "Environment":
    """The templates' engine, for the templates of these folders and of reports.

    Raises:
        MissingExtra: its library is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
    except ImportError as error:
        raise MissingExtra("A report", "rehearsal") from error
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"estimate": _estimate, "share": _share, "cell": _cell, "code": _code}
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


_MARKS = re.compile(r"[\\`*\[\]|]")
_TICKS = re.compile("`+")


def _cell(value: Any) -> str:
    """Text for Markdown, in one line: no link, image, code or HTML of its own, and no cell of a table."""
    line = " ".join(str(value).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(r"\\\g<0>", line)


def _code(value: Any) -> str:
    """Text for Markdown as code, in one line, whatever backticks it has."""
    line = " ".join(str(value).split()).replace("|", "\\|")
    ticks = "`" * (max(map(len, _TICKS.findall(line)), default=0) + 1)
    pad = " " if "`" in (line[:1], line[-1:]) else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


SUCCESS, FAILURE, NEUTRAL = "#2a7f62", "#b5483a", "#44618f"
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "segue",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
}


def charts_of(report: Report, language: str = "en") -> dict[str, str]:
    """SVG elements by title; a chart with nothing to show is left out."""

    def say(name: str) -> str:
        return report_text(name, language)

    def said(counts: Mapping[str, int]) -> dict[str, int]:
        return {say(name): count for name, count in counts.items()}

    summary = report.summary
    rates = {name: inner.success for name, inner in report.scenarios.items() if inner.success}
    found = {
        say("chart_scenarios"): _chart(_rates(rates), height=1.2 + 0.34 * len(rates)) if rates else "",
        "pass^k": _chart(_powers(report.pass_hat)) if len(report.pass_hat) > 1 else "",
        say("chart_turns"): _chart(_turns(report, say)) if report.outcomes else "",
        say("chart_ends"): _chart(_counts(said(summary.end_reasons), NEUTRAL), height=1.8),
        say("chart_faults"): _chart(_counts(said(summary.faults), FAILURE), height=1.8) if summary.faults else "",
    }
    return {title: svg for title, svg in found.items() if svg}


def _chart(draw: Callable[[Any], None], height: float = 2.6) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the browser has its own fonts
        figure = Figure(figsize=(6, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def _rates(rates: Mapping[str, Estimate]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        names, values = list(rates)[::-1], list(rates.values())[::-1]
        below = [max(v.value - v.low, 0) for v in values]
        above = [max(v.high - v.value, 0) for v in values]
        axes.barh(names, [v.value for v in values], color=SUCCESS, alpha=0.75, height=0.6)
        axes.errorbar([v.value for v in values], names, xerr=[below, above], fmt="none", ecolor="#222", capsize=3)
        axes.set_xlim(0, 1.02)

    return draw


def _powers(powers: Mapping[int, Estimate]) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        places, values = list(powers), list(powers.values())
        axes.plot(places, [v.value for v in values], color=SUCCESS, marker="o")
        axes.fill_between(places, [v.low for v in values], [v.high for v in values], color=SUCCESS, alpha=0.2)
        axes.set_ylim(0, 1.02)
        axes.set_xticks(places)
        axes.set_xlabel("k")

    return draw


def _turns(report: Report, say: Callable[[str], str]) -> Callable[[Any], None]:
    groups = {True: (say("succeeded"), SUCCESS), False: (say("failed"), FAILURE), None: (say("not_graded"), NEUTRAL)}

    def draw(axes: Any) -> None:
        turns = {key: [o.turns for o in report.outcomes if o.success is key] for key in groups}
        shown = {key: values for key, values in turns.items() if values}
        counts = [outcome.turns for outcome in report.outcomes]
        edges = [place - 0.5 for place in range(min(1, *counts), max(counts) + 2)]
        labels, colours = zip(*(groups[key] for key in shown), strict=True)
        axes.hist(list(shown.values()), bins=edges, stacked=True, label=labels, color=colours, rwidth=0.9)
        axes.legend(frameon=False)

    return draw


def _counts(counts: Mapping[str, int], colour: str) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        bars = axes.barh(list(counts)[::-1], list(counts.values())[::-1], color=colour, alpha=0.75, height=0.6)
        axes.bar_label(bars, padding=3)
        axes.set_ylim(-0.5, max(len(counts), 3) - 0.5)

    return draw
