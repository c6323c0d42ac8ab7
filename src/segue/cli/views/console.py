"""What the command line writes to and reads from, and the text that is safe to print."""

import io
import json
import re
import select
import sys
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from ...core.provenance import Source
from ...prompts.catalogue import joined, terminal_text
from ...prompts.origins import describe_origin
from ..output import echo, standard_output

# Text from people, models and tools, made safe to print.

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
_MARKUP = re.compile(r"\*\*|^#+ |^\*(?=\S)|(?<=\S)\*$", re.MULTILINE)
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


def plain_line(markdown: str, most: int = 100) -> str:
    """Markdown on one line, without the marks of headings and emphasis."""
    return one_line(_MARKUP.sub("", markdown), most)


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
    from ...core.calls import CallResult

    ended = CallResult.of(result)
    if ended.has_error:
        return one_line(ended.error, most)
    value = ended.value
    if isinstance(value, dict) and isinstance(value.get("summary"), str):
        return plain_line(value["summary"], most)
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


# What the command line writes to and reads from; none of it ever fails on a character.

PIPED_WIDTH = 400
"""Columns where no terminal sets a width: nothing is wrapped or cut then."""
PATIENCE = 3.0
"""Seconds after which it is said that standard input is read."""


class _TrimmedConsole(Console):
    """Ends no line with spaces where it is not a terminal: tables and trees are padded."""

    @property
    def file(self) -> IO[str]:
        file: IO[str] = self._file or (sys.stderr if self.stderr else standard_output())
        return getattr(file, "rich_proxied_file", file)  # while something is drawn live

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal:
            return super().print(*objects, **options)
        with self.capture() as printed:
            super().print(*objects, **options)
        self.file.write(_PADDING.sub("\n", printed.get()))
        self.file.flush()
        return None


_PADDING = re.compile(r"(?<! ) +\n")


def _console(stream: TextIO, *, stderr: bool) -> Console:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    console = _TrimmedConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def output() -> Console:
    """Standard output."""
    return _console(standard_output(), stderr=False)


def stderr_console() -> Console:
    """Standard error."""
    return _console(sys.stderr, stderr=True)


def progress() -> Console:
    """Where progress and hints are shown: a terminal, that of standard output or else of standard error, or nowhere."""
    shown = output()
    if not shown.is_terminal:
        shown = stderr_console()
        shown.quiet = not shown.is_terminal
    return shown


def print_prose(console: Console, text: RenderableType) -> None:
    """Print text that a terminal breaks between words; elsewhere a line stays a line."""
    console.print(text, soft_wrap=not console.is_terminal)


def print_said(console: Console, label: str, text: RenderableType, style: str = "") -> None:
    """Print what was said after a label; each further line is indented, also where a terminal breaks one."""
    if not isinstance(text, str):
        console.print(Text(label, style=style), Padding(text, (0, 0, 1, INDENT)), sep="\n")
        return
    body, indent = Text(printable(text)), max(INDENT, cell_len(label))
    lines = body.wrap(console, max(console.width - indent, 20)) if console.is_terminal else body.split(allow_blank=True)
    console.print(Text(label, style=style) + Text("\n" + " " * indent, style=style).join(lines), soft_wrap=True)


def print_error(sentence: str, *hints: str) -> None:
    """Write a sentence to standard error in red, and hints below it."""
    _write(Text(indented(sentence, 2), style="red"), hints)


def print_note(sentence: str, *hints: str) -> None:
    """Write to standard error what is no failure, and hints below it."""
    _write(Text(indented(sentence, 2), style="yellow"), hints)


def print_hints(*hints: str) -> None:
    """Write to standard error what can be done next."""
    for hint in hints:
        stderr_console().print(Text(indented(hint, 2)), soft_wrap=True)


def _write(sentence: Text, hints: tuple[str, ...]) -> None:
    print_prose(stderr_console(), sentence)
    print_hints(*hints)


def write_answer(text: str) -> None:
    """Write an answer to standard output as it is, without what a terminal would obey."""
    echo(printable(text).rstrip())


def write_json(value: Any, indent: int | None = None) -> None:
    """Write a JSON value to standard output, in ASCII, so that no locale and no splitting into lines can harm it."""
    echo(json.dumps(value, indent=indent, default=str))


def piped_text(on_delay: Callable[[], None]) -> str:
    """What a pipe or a file gives to standard input; empty at a terminal. Calls `on_delay` if the pipe stays silent."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    with suppress(OSError, ValueError):
        if not select.select([sys.stdin], [], [], PATIENCE)[0]:
            on_delay()
    return sys.stdin.buffer.read().decode("utf-8-sig", "replace")


def read_line(prompt: str) -> str:
    """Read a line from standard input; bytes that are no UTF-8 become �."""
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "surrogateescape":
        sys.stdin.reconfigure(errors="surrogateescape")
    return from_shell(input(prompt))


def discard_typed() -> None:
    """Discard what was typed at the terminal and not read yet."""
    try:
        import termios
    except ImportError:  # Windows
        return
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


# Where the arguments of a call come from, as a person reads it.


def origin_line(call: Mapping[str, Any], argument: str, language: str) -> Text | None:
    """What an argument of a question came from; None where the question does not say."""
    if not (origin := visible(describe_origin(call, argument, language))):
        return None
    trusted = all(source["trusted"] for source in call["sources"][argument])
    return Text(origin, style="dim" if trusted else "red")


def flow_line(call: Mapping[str, Any], language: str) -> str:
    """The choice to allow what flows where in a call always."""
    arguments = _listed(dict.fromkeys(one_line(name) for name in call["doubted"]), language)
    found = [Source.of(source) for name in call["doubted"] for source in call["sources"][name]]
    names = dict.fromkeys(
        terminal_text(_flow_name(of), language, name=one_line(of.name)) for of in found if not of.trusted
    )
    return terminal_text("choose_flow", language, arguments=arguments, source=_listed(names, language))


def _flow_name(source: Source) -> str:
    """The sentence for a source whichever of its calls it is."""
    kind = {"user": "imported", "tool": "any_tool", "mcp": "any_tool"}.get(source.kind, source.kind)
    return f"source_{kind.replace('-', '_')}"


def _listed(names: Mapping[str, None], language: str) -> str:
    return joined(names, language)
