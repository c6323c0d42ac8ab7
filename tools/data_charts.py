"""Charts as PNG files, drawn without any state that the process shares, each under a name made of what it shows."""

import hashlib
import importlib.util
import io
import json
import os
import re
import threading
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from segue.core.errors import MissingExtra

from .data_fonts import Lettering, lettering
from .data_summaries import figure
from .data_words import Language, told

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ChartKind = Literal["bar", "line", "pie"]
INCHES, DOTS = (9.0, 5.0), 100
BARS, SLICES = 12, 8
"""Groups that are shown one by one; the rest is one more."""
_LONGEST = 16
"""Characters of a label."""
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")
_TICKS = 13
_drawing = threading.Lock()
"""Matplotlib's caches of fonts and glyphs are not safe for threads."""


@dataclass(frozen=True)
class Chart:
    """What a chart shows."""

    kind: ChartKind
    title: str
    across: str
    up: str
    labels: Sequence[str]
    figures: Sequence[float]


@dataclass(frozen=True)
class Drawn:
    """A chart's file; `lacks_characters` if no font has some of its texts: labels are then #1, #2, …"""

    path: Path
    size: tuple[int, int]
    bytes: int
    lacks_characters: bool


def need_matplotlib() -> None:
    """Refuse to go on without matplotlib.

    Raises:
        MissingExtra: naming what to install.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtra("Drawing charts", "data")


def draw(chart: Chart, folder: Path, name: str, language: Language, font: str | None = None) -> Drawn:
    """Write the chart to the folder; the same chart always has the same name there.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: there is nothing that such a chart can show, or the folder cannot be written to.
    """
    need_matplotlib()
    _check(chart, language)
    with _drawing:
        letters = lettering([*chart.labels, chart.title, chart.across, chart.up], font)
        png = _png(chart, letters)
    path = folder / _file_name(chart, name)
    try:
        _write(path, png)
    except OSError as error:
        raise ValueError(
            told(
                language,
                f"图表不能写入「{folder}」（{error.strerror}）：请用 SEGUE_CHARTS 指定可写的文件夹。",
                f"No chart can be written to «{folder}» ({error.strerror}): name another folder in SEGUE_CHARTS.",
            )
        ) from error
    width, height = (int(side * DOTS) for side in INCHES)
    texts = [*chart.labels, chart.title, chart.across, chart.up]
    return Drawn(path, (width, height), len(png), not all(map(letters.has, texts)))


def _check(chart: Chart, language: Language) -> None:
    if not chart.figures:
        raise ValueError(told(language, "没有数据可画。", "There is nothing to draw."))
    if chart.kind == "pie" and (min(chart.figures) < 0 or sum(chart.figures) <= 0):
        raise ValueError(
            told(
                language,
                "饼图只能画不小于零的数：请用柱状图（bar）。",
                "A pie chart takes no figures below zero: ask for a bar chart.",
            )
        )


def _file_name(chart: Chart, name: str) -> str:
    shown = json.dumps(asdict(chart), ensure_ascii=False, sort_keys=True)
    clean = re.sub(r"[^\w-]+", "_", name).strip("_")[:60] or "chart"
    return f"{clean}-{chart.kind}-{hashlib.sha256(shown.encode()).hexdigest()[:10]}.png"


def _write(path: Path, png: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{uuid.uuid4().hex}.part"
    try:
        part.write_bytes(png)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _png(chart: Chart, letters: Lettering) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=INCHES, dpi=DOTS, layout="constrained")
    canvas = FigureCanvasAgg(drawing)
    axes = drawing.subplots()
    labels = [_label(label, place, letters) for place, label in enumerate(chart.labels, start=1)]
    if chart.kind == "pie":
        _pie(axes, chart, labels, letters)
    else:
        _plot(axes, chart, labels, letters)
    _say(axes.set_title, chart.title, letters, fontsize=13)
    out = io.BytesIO()
    canvas.print_png(out, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return out.getvalue()


def _label(label: str, place: int, letters: Lettering) -> str:
    if not letters.has(label):
        return f"#{place}"
    return _as_it_is(label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…")


def _as_it_is(text: str) -> str:
    """Two dollar signs would make a formula of what stands between them."""
    return text.replace("$", r"\$")


def _say(put: Any, text: str, letters: Lettering, **options: Any) -> None:
    """Put a text up if its characters can be drawn."""
    if letters.has(text):
        put(_as_it_is(text), fontproperties=letters.properties.copy(), **options)


def _pie(axes: "Axes", chart: Chart, labels: Sequence[str], letters: Lettering) -> None:
    wedges = axes.pie(chart.figures, colors=_COLOURS, startangle=90, counterclock=False)[0]
    total = sum(chart.figures)
    shares = [f"{label}  {value / total:.1%}" for label, value in zip(labels, chart.figures, strict=True)]
    axes.legend(wedges, shares, loc="center left", bbox_to_anchor=(1.05, 0.5), prop=letters.properties.copy())


def _plot(axes: "Axes", chart: Chart, labels: Sequence[str], letters: Lettering) -> None:
    from matplotlib.ticker import FuncFormatter

    places = list(range(len(labels)))
    if chart.kind == "line":
        axes.plot(places, chart.figures, color=_COLOURS[0], marker="o", markersize=4)
    else:
        axes.bar(places, chart.figures, color=_COLOURS[0])
    step = -(-len(labels) // _TICKS)
    font = letters.properties.copy()
    axes.set_xticks(places[::step], labels=labels[::step], rotation=30, ha="right", fontproperties=font)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: figure(value)))
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    _say(axes.set_xlabel, chart.across, letters)
    _say(axes.set_ylabel, chart.up, letters)
