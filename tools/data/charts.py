"""Charts of a table: what one shows, and its drawing as a PNG file."""

import hashlib
import importlib.util
import io
import json
import os
import re
import threading
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from segue.core.environment import need_extra
from segue.prompts.catalogue import Language, data_text

from .answers import (
    Every,
    Measure,
    Table,
    column_named,
    date_column,
    described,
    figure,
    group_column,
    groups_of,
    periods_of,
)

ChartKind = Literal["bar", "line", "pie"]
BARS, SLICES = 12, 8
"""Groups that are drawn one by one; the others are drawn as one more."""


@dataclass(frozen=True)
class Chart:
    """A chart's kind, title, axes and figures; `value` is the column that was added up, if there is one."""

    kind: ChartKind
    title: str
    by: str
    what: str
    labels: Sequence[str]
    figures: Sequence[int | float | str]
    value: str | None = None


def chart_of(
    table: Table,
    kind: ChartKind | None,
    column: str | None,
    value: str | None,
    every: Every | None,
    language: Language,
    measure: Measure = "sum",
) -> Chart:
    """Figures of `value`, or counts of rows without one, by group or over time; of the columns that suit."""
    named = column_named(table, column, language) if column else None
    if (named and table.kind_of(named) == "date") or (not named and (every or kind == "line")):
        by, kind = date_column(table, named, language), kind or "line"
        periods = periods_of(table, by, value, every, language, measure)["periods"]
        drawn = [(at["period"], at["figure"]) for at in periods if at["figure"] is not None]
    else:
        by, kind = group_column(table, named, language), kind or "bar"
        drawn = _groups(table, by, value, SLICES if kind == "pie" else BARS, language, measure)
    what = described({"value": value, "measure": measure}, language)
    title = data_text("chart_title", language, by=by, what=what)
    return Chart(kind, title, by, what, [label for label, _ in drawn], [figure for _, figure in drawn], value)


def _groups(
    table: Table, by: str, value: str | None, most: int, language: Language, measure: Measure
) -> list[tuple[str, Any]]:
    """The first groups and one for all others, where their figures add up."""
    found = groups_of(table, by, value, language, most=most, measure=measure)
    empty = data_text("empty", language)
    drawn = [(empty if group["name"] is None else group["name"], group["figure"]) for group in found["groups"]]
    if value and measure == "average":
        return [(name, figure) for name, figure in drawn if figure is not None]
    others = found["count"] - len(drawn)
    return [*drawn, (data_text("others", language, count=others), found["rest"])] if others else drawn


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontProperties

INCHES, DOTS = (9.0, 5.0), 100
_LONGEST = 16
"""Characters of a label."""
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")
_TICKS = 13
_NO_GLYPH = "□"
_drawing = threading.Lock()
"""Matplotlib's caches of fonts and glyphs are not safe for threads."""


@dataclass(frozen=True)
class Picture:
    """A chart's file; `lacks_characters` if no font has some of its characters."""

    path: Path
    size: tuple[int, int]
    bytes: int
    lacks_characters: bool


def need_matplotlib() -> None:
    """Check that matplotlib and the Chinese font are installed."""
    need_extra("Drawing charts", "data", "matplotlib", "zhplot")


def draw(chart: Chart, folder: Path, name: str, language: Language) -> Picture:
    """Write the chart to the folder; the same chart always has the same name there."""
    need_matplotlib()
    figures = [float(value) for value in chart.figures]
    if not figures:
        raise ValueError(data_text("no_figures", language))
    if chart.kind == "pie" and (min(figures) < 0 or sum(figures) <= 0):
        raise ValueError(data_text("pie_negative", language))
    with _drawing:
        lettered = _lettered(chart)
        png = _png(lettered, figures)
    path = folder / _file_name(chart, name)
    try:
        _write(path, png)
    except OSError as error:
        raise ValueError(data_text("no_chart", language, folder=folder, reason=error.strerror)) from error
    width, height = (int(side * DOTS) for side in INCHES)
    return Picture(path, (width, height), len(png), _NO_GLYPH in str(lettered) and _NO_GLYPH not in str(chart))


def _file_name(chart: Chart, name: str) -> str:
    content = json.dumps(asdict(chart), ensure_ascii=False, sort_keys=True)
    clean = re.sub(r"[^\w-]+", "_", name).strip("_")[:60] or "chart"
    return f"{clean}-{chart.kind}-{hashlib.sha256(content.encode()).hexdigest()[:10]}.png"


def _write(path: Path, png: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{uuid.uuid4().hex}.part"
    try:
        part.write_bytes(png)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _lettered(chart: Chart) -> Chart:
    """The chart with texts that can be drawn."""
    labels = [_drawable(label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…") for label in chart.labels]
    return replace(
        chart, title=_drawable(chart.title), by=_drawable(chart.by), what=_drawable(chart.what), labels=labels
    )


def _drawable(text: str) -> str:
    """The text on one line, never a formula, with a box for each character that no font has."""
    from matplotlib.font_manager import get_font

    clean = "".join(char for char in " ".join(text.split()) if char.isprintable())
    fonts = [get_font(file) for file in _fonts()[1]]
    shown = "".join(char if any(font.get_char_index(ord(char)) for font in fonts) else _NO_GLYPH for char in clean)
    return shown.replace("$", r"\$")


@cache
def _fonts() -> tuple["FontProperties", tuple[str, str]]:
    """A list of two fonts, and their files."""
    import matplotlib
    from matplotlib.font_manager import FontProperties, fontManager

    plain = str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"))
    package = importlib.util.find_spec("zhplot")  # importing it would change matplotlib's settings
    assert package is not None and package.origin is not None  # `need_matplotlib`
    chinese = str(Path(package.origin).with_name("fonts") / "NotoSansSC-Regular.ttf")
    fontManager.addfont(chinese)
    names = [FontProperties(fname=file).get_name() for file in (plain, chinese)]
    return FontProperties(family=names), (plain, chinese)


def _png(chart: Chart, figures: Sequence[float]) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=INCHES, dpi=DOTS, layout="constrained")
    canvas = FigureCanvasAgg(drawing)
    axes, font = drawing.subplots(), _fonts()[0]
    (_pie if chart.kind == "pie" else _plot)(axes, chart, figures, font)
    axes.set_title(chart.title, fontproperties=font.copy(), fontsize=13)
    out = io.BytesIO()
    canvas.print_png(out, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return out.getvalue()


def _pie(axes: "Axes", chart: Chart, figures: Sequence[float], font: "FontProperties") -> None:
    wedges = axes.pie(figures, colors=_COLOURS, startangle=90, counterclock=False)[0]
    total = sum(figures)
    shares = [f"{label}  {value / total:.1%}" for label, value in zip(chart.labels, figures, strict=True)]
    axes.legend(wedges, shares, loc="center left", bbox_to_anchor=(1.05, 0.5), prop=font.copy())


def _plot(axes: "Axes", chart: Chart, figures: Sequence[float], font: "FontProperties") -> None:
    from matplotlib.ticker import FuncFormatter

    places, step = list(range(len(figures))), -(-len(figures) // _TICKS)
    if chart.kind == "line":
        axes.plot(places, figures, color=_COLOURS[0], marker="o", markersize=4)
    else:
        axes.bar(places, figures, color=_COLOURS[0])
    axes.set_xticks(places[::step], labels=chart.labels[::step], rotation=30, ha="right", fontproperties=font.copy())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: figure(value)))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.set_xlabel(chart.by, fontproperties=font.copy())
    axes.set_ylabel(chart.what, fontproperties=font.copy())
