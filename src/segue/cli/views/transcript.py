"""How a conversation looks: a table of what it is about, a line per utterance, and a last line."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ...core.conversation import PREFIXES, Role, Utterance, spoken
from .sanitize import printable

FOOTER = " END! ".center(50, "=")
COLOURS = {Role.USER: "red", Role.BOT: "dark_orange", Role.API: "green"}


def print_header(console: Console, rows: Mapping[str, Any]) -> None:
    """Print names and values in a frame; a text is wrapped to the console's width, an object stays in one line."""
    names = max(map(cell_len, rows))
    room = max(console.width - names - 7, 20)
    cells = [cell for name, value in rows.items() for cell in _cells(console, name, value, room)]
    values = max(cell_len(text) for _, text in cells)
    rule = f"+{'-' * (names + 2)}+{'-' * (values + 2)}+"
    lines = [f"| {_padded(name, names)} | {_padded(text, values)} |" for name, text in cells]
    for line in (rule, *lines, rule):
        console.print(Text(line), soft_wrap=True)


def _cells(console: Console, name: str, value: Any, room: int) -> Iterator[tuple[str, str]]:
    """The lines of a row."""
    if isinstance(value, Mapping):
        yield name, printable(value)
        return
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    for place, line in enumerate(Text(printable(text)).wrap(console, room) or [Text()]):
        yield "" if place else name, line.plain


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def print_utterance(console: Console, utterance: Utterance) -> None:
    """Print what was said, called or returned; an end without words is not shown."""
    if text := spoken(utterance):
        line = Text(prefix(utterance.role), style=COLOURS[utterance.role])
        console.print(line.append(f" {printable(text)}", style="default"), soft_wrap=True)


def prefix(role: Role) -> str:
    """The prefix of a role's lines."""
    return PREFIXES[role]


def print_footer(console: Console) -> None:
    """Print the last line."""
    console.print(Text(FOOTER), soft_wrap=True)
