"""Where the arguments of a call come from, as a person reads it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from segue.core.provenance import Source

from .catalogue import joined, terminal_text

MOST: Final = 200
"""Characters of a value in a line."""
NAME: Final = 100
"""Characters of a source's name."""


def describe_origin(call: Mapping[str, Any], argument: str, language: str) -> str:
    """What an argument of a question came from; empty where the question does not say."""
    found = [Source.of(source) for source in call.get("sources", {}).get(argument, ())]
    others = [source for source in found if not source.trusted]
    mixed = any(source.kind == "user" and source.trusted for source in found)
    name = "from_trusted" if not others else "from_others_too" if mixed else "from_others"
    names = dict.fromkeys(name_source(source, language) for source in others or found)
    return terminal_text(name, language, source=joined(names, language)) if found else ""


def doubt_lines(call: Mapping[str, Any], language: str) -> list[str]:
    """Each argument in doubt with its value and what that came from, in one line."""
    lines = []
    for name in call.get("doubted", ()):
        value = json.dumps(call["arguments"].get(name), ensure_ascii=False, default=str)
        shown = value if len(value) <= MOST else f"{value[:MOST]}…"
        lines.append(f"{name}: {shown} {describe_origin(call, name, language)}".rstrip())
    return lines


def name_source(source: Source, language: str) -> str:
    """A source, and the number of its call."""
    name = {"user": "imported", "tool": "tool", "mcp": "tool"}.get(source.kind, source.kind)
    if source.kind == "user" and source.trusted:
        name = "user"
    if name == "tool" and not source.call:
        name = "tool_before"
    one_line = " ".join(source.name.split())[:NAME]
    return terminal_text(f"source_{name.replace('-', '_')}", language, name=one_line, call=source.call)
