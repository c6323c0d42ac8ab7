"""`segue waiting`: every task that waits for a person."""

from typing import TYPE_CHECKING

from .. import options
from ..command_lines import SHORT
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, write_json
from .inspect import ask

if TYPE_CHECKING:
    from rich.console import Console

    from ...core.records import WaitingTask


def waiting(db: options.Database = DEFAULT_DATABASE, as_json: options.JsonOfList = False) -> None:
    """List every task that waits for a person, and how to answer it."""
    settings = Settings(db)
    rows = ask(settings, lambda opened: opened.tasks.waiting())
    if as_json:
        return write_json([row.json() for row in rows], indent=2)
    console = output()
    if not rows:
        console.print(settings.say("none_waiting"))
    for row in rows:
        _print_one(console, row, settings)


def _print_one(console: "Console", row: "WaitingTask", settings: Settings) -> None:
    """What it asks, since when, and the commands that answer it."""
    from rich.text import Text

    from ...prompts.words import word
    from ..dialog.approval import print_question
    from ..dialog.hints import answer_hints
    from ..views.consoles import print_prose
    from ..views.sanitize import printable
    from ..views.tables import message_text, when

    language, form = settings.language_for(row.message), row.json()
    about = f"  {word('session', language)} {row.thread_id}  {word('agent', language)} {row.agent_id}"
    title = Text.assemble((row.task_id[:SHORT], "bold"), (f"{printable(about)}  {when(row.since)}", "dim"))
    print_prose(console, title.append(f"\n{message_text(row.message, language, 120)}"))
    if row.kind:
        print_question(console, form, language)
    commands = answer_hints(settings, row.task_id, form) if row.kind else [row.problem]
    for line in commands:
        console.print(Text(printable(line), style="dim"), soft_wrap=True)
    console.print()
