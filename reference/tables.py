"""Markdown tables."""

import html
from collections.abc import Iterable


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; a cell that would break it is escaped."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def code(text: object) -> str:
    """A text in code type, or nothing for an empty one. A bar is an entity: in code its escape would be shown."""
    shown = str(text)
    if "|" in shown:
        return f"<code>{html.escape(shown).replace('|', '&#124;')}</code>"
    return f"`{shown}`" if shown else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
