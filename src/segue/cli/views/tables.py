"""Lists: threads, tasks, agents, modes, and what was said in a session."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...prompts.terminal import SENTENCES, sentence
from ...prompts.words import word
from .lines import STYLES
from .sanitize import arguments_line, markdown_text, one_line, printable

if TYPE_CHECKING:
    from ...core.agents import Agent

_STATUS = {**STYLES, "paused": "yellow", "waiting": "yellow", "pausing": "yellow", "cancelled": "dim"}


def when(seconds: float) -> str:
    """Unix time as the local clock shows it."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def status_text(row: Mapping[str, Any], language: str) -> Text:
    """The status of a task or of a session's latest one."""
    status = word(printable(row["status"]), language)
    if row.get("cut_off"):
        return Text(sentence("interrupted", language, status=status), style="bold yellow")
    return Text(status, style=_STATUS.get(row["status"], ""))


def _table(language: str, *columns: str, whole: Sequence[str] = ()) -> Table:
    """A table without lines; the columns in `whole` are never cut, so that they can be copied."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(word(name, language), no_wrap=True, overflow="fold" if name in whole else "ellipsis")
        if name in whole:
            table.columns[-1].min_width = 36 if name == "task" else 14
    return table


def print_threads(console: Console, rows: Sequence[Mapping[str, Any]], language: str) -> None:
    table = _table(language, "session", "turns", "status", "last used", "last message", whole=("session",))
    for row in rows:
        table.add_row(
            Text(printable(row["thread_id"])),
            Text(str(row["turns"])),
            status_text(row, language),
            Text(when(row["updated_at"])),
            Text(one_line(row["message"], 80)),
        )
    console.print(table if table.row_count else Text(sentence("no_session", language)))
    _print_hints(console, rows, language)


def print_tasks(console: Console, rows: Sequence[Mapping[str, Any]], language: str) -> None:
    table = _table(language, "task", "status", "session", "agent", "mode", "started", "message", whole=("task",))
    for row in rows:
        table.add_row(
            Text(row["task_id"]),
            status_text(row, language),
            Text(printable(row["thread_id"])),
            Text(printable(row["agent_id"])),
            Text(printable(_mode(row))),
            Text(when(row["created_at"])),
            Text(one_line(row["message"], 80)),
        )
    console.print(table if table.row_count else Text(sentence("no_task", language)))
    _print_hints(console, rows, language)


def _mode(row: Mapping[str, Any]) -> str:
    """The mode that was asked for, and the one that was picked for it."""
    picked = (row["result"] or {}).get("mode") if row["mode"] == "auto" else None
    return f"auto: {picked}" if picked else str(row["mode"])


def _print_hints(console: Console, rows: Iterable[Mapping[str, Any]], language: str) -> None:
    """Print the commands that resume interrupted tasks."""
    if hints := [row["hint"] for row in rows if row["cut_off"]]:
        console.print(Text(f"\n{sentence('interrupted_tasks', language)}", style="yellow"))
        for hint in hints:
            console.print(Text(f"  {printable(hint)}"), soft_wrap=True)


def print_agents(console: Console, agents: Iterable["Agent"], language: str, served: Mapping[str, str]) -> None:
    """The agents, with their own tools and those `served` by their MCP servers."""
    table = _table(language, "agent", "mode", "model", "tools", "description", whole=("agent",))
    for agent in agents:
        model = sentence("environment_model", language) if agent.model is None else agent.model
        own = [tool if isinstance(tool, str) else getattr(tool, "__name__", "…") for tool in agent.tools]
        tools = ", ".join([*own, *filter(None, [served.get(agent.agent_id)])])
        cells = (agent.agent_id, agent.mode, str(model), tools or word("none", language), agent.description)
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    console.print(table)


def print_modes(console: Console, names: Iterable[str], language: str) -> None:
    table = _table(language, "mode", "description", whole=("mode",))
    for name in names:
        known = f"mode_{name}" if f"mode_{name}" in SENTENCES else "own_mode"
        table.add_row(Text(one_line(name)), Text(sentence(known, language)))
    console.print(table)


def print_memory_files(console: Console, rows: Sequence[Mapping[str, Any]], language: str) -> None:
    table = _table(language, "file", "entries", "tasks", "bytes", "changed", whole=("file",))
    for row in rows:
        counts = (row["entries"], len(row["tasks"]), row["bytes"])
        cells = (row["name"], *map(str, counts), when(row["updated_at"]))
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    console.print(table if table.row_count else Text(sentence("no_memory", language)))
    for row in rows:
        if row["error"]:
            console.print(Text(printable(row["error"]), style="yellow"), soft_wrap=True)


def print_memory_file(console: Console, text: str) -> None:
    console.print(_answer(console, text), soft_wrap=not console.is_terminal)


def print_history(
    console: Console, messages: Iterable[Mapping[str, Any]], language: str, hints: Iterable[str] = ()
) -> None:
    """Who said what, calls and their results in a line each, and then the hints."""
    for message in messages:
        if message["role"] == "user":
            console.print(
                Text(sentence("you", language, text=printable(_content(message))), style="bold"), soft_wrap=True
            )
        elif message["role"] == "tool":
            console.print(Text(f"    {one_line(_content(message), 160)}", style="dim"), soft_wrap=True)
        for call in message.get("tool_calls") or ():
            console.print(_call(call["function"]), soft_wrap=True)
        if message["role"] == "assistant" and _content(message):
            console.print(_answer(console, _content(message)), soft_wrap=not console.is_terminal)
    for hint in hints:
        console.print(Text(printable(hint)), soft_wrap=True)


def _answer(console: Console, text: str) -> Any:
    if not console.is_terminal:
        return Text(printable(text) + "\n")
    return Padding(Markdown(markdown_text(text), hyperlinks=False), (0, 0, 1, 0))


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _call(function: Mapping[str, Any]) -> Text:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = function["arguments"]
    return Text.assemble(("  → ", "cyan"), one_line(function["name"]), (f"({arguments_line(arguments)})", "dim"))
