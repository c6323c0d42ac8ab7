"""Text from people, models and tools, made safe to print."""

import json
import re
import unicodedata
from typing import Any

from rich.cells import cell_len, set_cell_size

# Control characters, which a terminal would obey, marks that turn the reading direction, and what is not shown at all:
# zero-width characters, fillers, lone tags. Newline and tab stay.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a]"
)
_TAGS = re.compile("(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f)|[\U000e0000-\U000e007f]")
"""Tags spell the flag of a region after a black flag; anywhere else they are text that nobody sees."""
_SELECTORS = re.compile("(?:^|(?<=[\\s\ufe00-\ufe0f\U000e0100-\U000e01ef]))[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
"""Variation selectors that follow no character of their own."""
_JOINERS = re.compile("[\u200c\u200d]")
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_MARKS = re.compile(f"({_ACCENT}{{4}}){_ACCENT}+")
"""Accents beyond four on a letter, which would be drawn over the lines around it."""
_JOINING = re.compile("[\u0600-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u18af\u1900-\u1a1f\u1b00-\u1bff\ua800-\uabff]")
"""Letters of the scripts that are written with joiners: Arabic, Indic and related ones."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""What Python counts as printable, and nobody sees."""
_SHOWN = "\n\u3000"
INDENT = 6
"""Columns before a text's further lines: more than before any line of a view."""
_MARKUP = re.compile(r"\*\*|^#+ ", re.MULTILINE)
_FENCE = re.compile(r"^\s*(```|~~~)")


def printable(text: object) -> str:
    """The text without what a terminal would obey or not show; a carriage return becomes a newline."""
    safe = _UNSAFE.sub("", str(text).replace("\r\n", "\n").replace("\r", "\n"))
    if safe.isascii():
        return safe
    safe = _JOINERS.sub(_joiner, _TAGS.sub(r"\1", safe))
    return _MARKS.sub(r"\1", _SELECTORS.sub("", safe))


def _joiner(found: re.Match[str]) -> str:
    """A joiner between two emoji or two letters that are written with it; else nothing."""
    before = found.string[max(0, found.start() - 2) : found.start()]
    after = found.string[found.end() : found.end() + 1]
    if _is_emoji(before.rstrip("\ufe0f")[-1:]) and _is_emoji(after):
        return found[0]
    return found[0] if _JOINING.fullmatch(before[-1:]) and _JOINING.fullmatch(after) else ""


def _is_emoji(char: str) -> bool:
    return bool(char) and (unicodedata.category(char) == "So" or "\U0001f3fb" <= char <= "\U0001f3ff")


def indented(text: object, by: int = INDENT) -> str:
    """The text with its further lines indented, so that none passes for a line of the view."""
    return printable(text).replace("\n", "\n" + " " * by)


def flat(text: object) -> str:
    """The text on one line."""
    return " ".join(printable(text).split())


def one_line(text: object, most: int = 100) -> str:
    """The text on one line, at most that many columns wide."""
    line = flat(text)
    return line if cell_len(line) <= most else f"{set_cell_size(line, most - 1).rstrip()}…"


def visible(text: str) -> str:
    """The text with everything that a terminal would obey or not show written out as \\uXXXX; newlines stay."""
    shown = (char in _SHOWN or (char.isprintable() and not _BLANK.fullmatch(char)) for char in text)
    return "".join(char if is_shown else _written_out(char) for char, is_shown in zip(text, shown, strict=True))


def _written_out(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def from_shell(text: str) -> str:
    """An argument of the command line; bytes that are not valid UTF-8 become �."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def arguments_line(arguments: Any, most: int = 60) -> str:
    """A call's arguments as they would be written in code."""
    if not isinstance(arguments, dict):
        return one_line(json_line(arguments), most)
    return one_line(", ".join(f"{name}={json_line(value)}" for name, value in arguments.items()), most)


def result_line(result: Any, most: int = 100) -> str:
    """A call's result, in a few words: its error, its `summary`, or the beginning of its value."""
    if not isinstance(result, dict):
        return one_line(json_line(result), most)
    if "error" in result:
        return one_line(result["error"], most)
    value = result.get("success")
    if isinstance(value, dict) and isinstance(value.get("summary"), str):
        return one_line(_MARKUP.sub("", value["summary"]), most)
    return one_line(value if isinstance(value, str) else json_line(value), most)


def json_line(value: Any) -> str:
    """Compact JSON that keeps Chinese readable."""
    return json.dumps(value, ensure_ascii=False, default=str)


def markdown_text(text: str) -> str:
    """Markdown in which a line break stays a line break, as people and models mean it."""
    lines = []
    fenced = False
    for line in printable(text).split("\n"):
        fenced ^= bool(_FENCE.match(line))
        lines.append(line if fenced or not line.strip() else f"{line.rstrip()}  ")
    return "\n".join(lines)
