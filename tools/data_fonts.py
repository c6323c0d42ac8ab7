"""Fonts for charts: which of those on this machine have the characters of a label."""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

PREFERRED = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "Microsoft YaHei", "PingFang SC"),
    *("Hiragino Sans GB", "Heiti SC", "STHeiti", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "SimSun"),
    *("Noto Sans CJK JP", "Noto Sans CJK TC", "Arial Unicode MS", "Droid Sans Fallback", "AR PL UMing CN"),
)
_TRIED = "中文数据"
_PLACEHOLDERS = ("Last Resort",)
"""Fonts that have every character and draw none of them."""


@dataclass(frozen=True)
class Lettering:
    """The font to draw with, and the characters of the texts that it has."""

    properties: "FontProperties"
    covered: frozenset[str]

    def has(self, text: str) -> bool:
        return set(text) <= self.covered


def lettering(texts: Iterable[str], chinese: str | None = None) -> Lettering:
    """The font that has most of the texts' characters; a Chinese one is looked for only where it is needed.

    `chinese` is a font's file, or empty for none.
    """
    from matplotlib.font_manager import FontProperties

    wanted = {char for text in texts for char in text}
    file, covered = plain_file(), _covered(plain_file(), wanted)
    if wanted - covered:
        other = chinese_file() if chinese is None else chinese
        if other and len(more := _covered(other, wanted)) > len(covered):
            file, covered = other, more
    return Lettering(FontProperties(fname=file), frozenset(covered))


def plain_file() -> str:
    """The file of the font that matplotlib brings along."""
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")


@cache
def chinese_file() -> str:
    """The file of a font that can write Chinese: of this machine, else the one that a package brings; else empty."""
    from matplotlib.font_manager import fontManager

    usual = sorted(fontManager.ttflist, key=lambda font: (font.style != "normal", abs(_weight(font.weight) - 400)))
    known = [font for name in PREFERRED for font in usual if font.name == name]
    rest = [font for font in usual if not font.name.startswith(_PLACEHOLDERS)]
    tried = dict.fromkeys(font.fname for font in [*known, *rest])
    candidates = (file for file in [*tried, *brought()] if _covered(file, set(_TRIED)) >= set(_TRIED))
    return next(candidates, "")


def brought() -> list[str]:
    """Noto Sans SC, which zhplot brings along; the package itself, which changes matplotlib, is not imported."""
    found = importlib.util.find_spec("zhplot")
    return [str(Path(found.origin).with_name("fonts") / "NotoSansSC-Regular.ttf")] if found and found.origin else []


def _weight(weight: Any) -> int:
    return weight if isinstance(weight, int) else 400


def _covered(file: str, wanted: set[str]) -> set[str]:
    """The characters of a set that the font has."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(file)
    except (ValueError, OSError, RuntimeError):
        return set()
    return {char for char in wanted if char.isprintable() and font.get_char_index(ord(char))}
