"""What the command line says about itself, in both languages where a person's language is known."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from .printable import one_line

if TYPE_CHECKING:
    from ..services import Model

_OFFLINE = {
    "en": (
        "NO LANGUAGE MODEL: this is Segue's embedded offline planner, which works by rules.\n"
        "For a real model set OPENAI_API_KEY (or OPENAI_BASE_URL), or add --model openai:NAME; see `segue doctor`."
    ),
    "zh": (
        "没有使用语言模型：这是 Segue 内置的离线规划器，按规则工作。\n"
        "要使用真实模型，请设置 OPENAI_API_KEY（或 OPENAI_BASE_URL），或加 --model openai:名称；参见 `segue doctor`。"
    ),
}


def offline_notice(*languages: str) -> Text:
    """That no language model answers, and how to get one."""
    text = Text("\n".join(_OFFLINE[language] for language in languages), style="yellow")
    text.stylize("bold reverse", 0, len(text.plain.partition("：" if languages[0] == "zh" else ":")[0]))
    return text


def header(agent: str, model: "Model", mode: str, session: str, database: str) -> Text:
    """Who answers, and where it is kept."""
    parts = {"agent": agent, "model": model.name, "mode": mode, "session": session, "database": database}
    text = Text()
    for name, value in parts.items():
        text.append(f"{name} ", style="dim").append(f"{one_line(value)}  ", style="bold")
    text.rstrip()
    return text


def greet(console: Console, model: "Model", heading: Text, *languages: str) -> None:
    """Print the header, and the notice where the model is none."""
    console.print(heading, soft_wrap=not console.is_terminal)
    if not model.is_language_model:
        console.print(offline_notice(*languages), soft_wrap=not console.is_terminal)
    console.print()


HELP = """\
/mode NAME   switch the mode (auto, direct, react, plan, …)
/history     what was said in this session
/resume      go on with a task that was paused or failed
/cancel      give that task up
/exit        leave (also Ctrl-D, or Ctrl-C while nothing runs)
Ctrl-C       while a task runs: pause it; twice: stop it now"""
