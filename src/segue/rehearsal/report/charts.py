"""The report's charts, as SVG."""

import warnings
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any

from ...prompts.report import report_text
from .statistics import Estimate
from .summary import Report

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
