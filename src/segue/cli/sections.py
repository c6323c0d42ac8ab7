"""The sections of `segue --help`."""

from collections.abc import Mapping, Sequence
from typing import Any

from .exits import OutputGroup

SECTIONS: Mapping[str, Sequence[str]] = {
    "Start": ("demo", "init", "chat", "run", "doctor"),
    "Tasks": ("waiting", "answer", "pause", "resume", "cancel", "rate"),
    "Read": ("sessions", "tasks", "history", "trace", "timeline", "diff"),
    "Go back": ("fork", "edit", "undo"),
    "Sessions and databases": ("export", "import", "copy", "prune", "recover", "delete"),
    "Agents and settings": ("agents", "tools", "modes", "graph", "preferences", "permissions", "memory"),
    "Rehearse and test": ("simulate", "workflows", "report", "record", "replay"),
    "Serve": ("serve", "worker", "mcp"),
}
"""By title the commands of a section."""


class SectionedGroup(OutputGroup):
    """Lists its commands by section."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, names in SECTIONS.items():
            listed = [(name, self.commands[name]) for name in names]
            about = [(name.ljust(width), one.get_short_help_str(formatter.width - width - 6)) for name, one in listed]
            with formatter.section(title):
                formatter.write_dl(about)
