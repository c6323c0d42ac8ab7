"""Who answers, above a conversation, and the notice where no language model does."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...core.environment import without_password
from ...prompts.terminal import sentence
from ...prompts.words import word
from .consoles import print_prose
from .sanitize import one_line

if TYPE_CHECKING:
    from ...core.models import Model


def offline_notice(*languages: str) -> Text:
    """That no language model answers, and how to get one."""
    text = Text("\n".join(sentence("offline", language) for language in languages), style="yellow")
    text.stylize("bold reverse", 0, len(text.plain.partition("：" if languages[0] == "zh" else ":")[0]))
    return text


def header(agent: str, model: "Model", mode: str, session: str, database: str, language: str) -> Text:
    """Who answers, and where it is kept."""
    parts = {"agent": agent, "model": model.name, "mode": mode, "session": session}
    parts["database"] = without_password(database)
    text = Text()
    for name, value in parts.items():
        text.append(f"{word(name, language)} ", style="dim").append(f"{one_line(value)}  ", style="bold")
    text.rstrip()
    return text


def greet(console: Console, model: "Model", heading: Text, *languages: str) -> None:
    """Print the header, and the notice where the model is none."""
    print_prose(console, heading)
    if not model.is_language_model:
        print_prose(console, offline_notice(*languages))
    console.print()
