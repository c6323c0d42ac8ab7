"""Text from people, models and tools, made safe to print."""

import json
import re
from typing import Any

from rich.cells import cell_len, set_cell_size

# Control characters, which a terminal would obey, and marks that turn the reading direction; newline and tab stay.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHOWN = "\n\u3000"
_MARKUP = re.compile(r"\*\*|^#+ ", re.MULTILINE)
_FENCE = re.compile(r"^\s*(```|~~~)")


def printable(text: object) -> str:
    """The text without what a terminal would obey; a carriage return becomes a newline."""
    return _UNSAFE.sub("", str(text).replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: object, most: int = 100) -> str:
    """The text on one line, at most that many columns wide."""
    line = " ".join(printable(text).split())
    return line if cell_len(line) <= most else f"{set_cell_size(line, most - 1).rstrip()}…"


def visible(text: str) -> str:
    """The text with everything that a terminal would obey or not show written out as \\uXXXX; newlines stay."""
    return "".join(char if char.isprintable() or char in _SHOWN else _written_out(char) for char in text)


def _written_out(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def from_shell(text: str) -> str:
    """An argument of the command line; bytes that are no UTF-8 become �."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def arguments_line(arguments: Any, most: int = 60) -> str:
    """A call's arguments as they would be written in code."""
    if not isinstance(arguments, dict):
        return one_line(json_line(arguments), most)
    return one_line(", ".join(f"{name}={json_line(value)}" for name, value in arguments.items()), most)


def result_line(result: Any, most: int = 100) -> str:
    """What a call came to, in a few words: its error, its `summary`, or the beginning of its value."""
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
