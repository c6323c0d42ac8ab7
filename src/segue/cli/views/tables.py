"""Lists: sessions, tasks, agents, modes, and what was said in a session."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...core.conversation import PREFIXES, Role, Utterance, spoken
from ...core.task import FORK_MARK
from ...prompts.catalogue import label, sentence, word
from ..settings import SHORT, task_command
from .console import arguments_line, flat, indented, markdown_text, one_line, print_prose, print_said, printable
from .lines import STYLES

if TYPE_CHECKING:
    from ...core.agents import Agent
    from ...core.calls import Tool
    from ...core.notifications import Notification
    from ...core.records import Hit, Permission, Task, Thread, UserPreferences
    from ..settings import Settings

_STATUS = {**STYLES, "paused": "yellow", "waiting": "yellow", "pausing": "yellow", "cancelled": "dim"}
MESSAGE_WIDTH = 120
"""Columns of a message in a list."""
DESCRIPTION = 1000
"""Columns of a description in a list, which is wrapped."""
PIPED_TABLE = 100
"""Columns of a table where no terminal sets a width."""


def when(seconds: float) -> str:
    """Unix time as the local clock shows it."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def status_text(status: str, language: str, *, interrupted: bool = False) -> Text:
    """The status of a task, or of a session's latest one."""
    shown = word(printable(status), language)
    if interrupted:
        return Text(sentence("interrupted", language, status=shown), style="bold yellow")
    return Text(shown, style=_STATUS.get(status, ""))


@dataclass(frozen=True)
class Column:
    """A column, and the width of the terminal from which on it is shown."""

    name: str
    least: int = 0
    whole: bool = False
    """Its cells are short, and stay in one line."""


def print_table(
    console: Console, language: str, columns: Sequence[Column], rows: Iterable[Mapping[str, Text]], empty: str = ""
) -> None:
    """A table without lines whose cells are wrapped and never cut, or the sentence for an empty one."""
    cells = [*rows]
    width = console.width if console.is_terminal else PIPED_TABLE
    table = _grid(header_style="dim", show_header=True)
    shown = [column for column in columns if width >= column.least]
    for column in shown:
        table.add_column(word(column.name, language), overflow="fold", no_wrap=column.whole)
    for row in cells:
        table.add_row(*(row[column.name] for column in shown))
    console.print(table if cells or not empty else Text(sentence(empty, language)), width=width)


def _grid(**options: Any) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), **options)


def print_pairs(console: Console, text: str) -> None:
    """Lines of a name, a tab and what it does, in two columns."""
    table = _grid(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for line in text.splitlines():
        table.add_row(*map(Text, line.split("\t")))
    console.print(table)


SESSION_COLUMNS = (
    Column("session"),
    Column("turns", 80),
    Column("status", whole=True),
    Column("last used", 80),
    Column("last message"),
)
HIT_COLUMNS = (Column("session"), Column("started", 80), Column("message"))
TASK_COLUMNS = (
    Column("task", whole=True),
    Column("status", whole=True),
    Column("session", 80),
    Column("agent", 100),
    Column("mode", 100),
    Column("started", 80),
    Column("message"),
)
AGENT_COLUMNS = (Column("agent"), Column("mode", 60), Column("model", 60), Column("tools"), Column("description", 100))
TOOL_COLUMNS = (Column("tool"), Column("agent", 60), Column("marks", 60), Column("description"))
PERMISSION_COLUMNS = (
    Column("session"),
    Column("agent", 60),
    Column("tool"),
    Column("allowed in"),
    Column("since", 80),
)
USED_COLUMNS = (Column("mode"), Column("rating"), Column("message"))
MODE_COLUMNS = (Column("mode"), Column("description"))
FILE_COLUMNS = (Column("file"), Column("entries"), Column("tasks"), Column("bytes"), Column("changed", 60))
SCHEDULE_COLUMNS = (
    Column("schedule", whole=True),
    Column("next run", whole=True),
    Column("every", 80),
    Column("last task"),
    Column("message"),
)
NOTIFICATION_COLUMNS = (
    Column("notification", whole=True),
    Column("receiver", whole=True),
    Column("what", whole=True),
    Column("task", 130, whole=True),
    Column("attempts", 130, whole=True),
    Column("next", whole=True),
    Column("error", 60),
)
VERSION_COLUMNS = (Column("agent"), Column("version"), Column("tasks"), Column("on_upgrade"), Column("there"))


def message_text(message: str, language: str, most: int) -> str:
    """The message in a line; of a conversation, whose task holds its configuration, who takes part in it."""
    if message.startswith('{"'):
        from ...core.conversation import ConversationConfig

        with suppress(ValueError):
            config = ConversationConfig.model_validate_json(message)
            message = sentence("conversation", language, user=config.user_mode, bot=config.bot_mode)
    return one_line(message, most)


def print_sessions(
    console: Console, rows: Sequence["Thread"], interrupted: Mapping[str, str], settings: "Settings"
) -> None:
    """The sessions; `interrupted` maps those whose task was interrupted to the task."""
    language = settings.ui_language
    cells = (
        {
            "session": Text(flat(row.session_id)),
            "turns": Text(str(row.turns)),
            "status": status_text(row.status, language, interrupted=row.session_id in interrupted),
            "last used": Text(when(row.updated_at)),
            "last message": Text(_fork_mark(row) + message_text(row.message, language, MESSAGE_WIDTH)),
        }
        for row in rows
    )
    print_table(console, language, SESSION_COLUMNS, cells, "no_session")
    _print_resume_commands(console, [interrupted[r.session_id] for r in rows if r.session_id in interrupted], settings)


def print_hits(console: Console, hits: Sequence["Hit"], settings: "Settings") -> None:
    """Where something was said."""
    language = settings.ui_language
    cells = (
        {
            "session": Text(flat(hit.session_id)),
            "started": Text(when(hit.created_at)),
            "message": Text(flat(hit.snippet)),
        }
        for hit in hits
    )
    print_table(console, language, HIT_COLUMNS, cells, "nothing_found")


def _fork_mark(row: "Thread") -> str:
    return FORK_MARK if row.title.startswith(FORK_MARK) else ""


def print_tasks(console: Console, rows: Sequence["Task"], interrupted: Collection[str], settings: "Settings") -> None:
    """The tasks; `interrupted` has the ids of those that were."""
    language = settings.ui_language
    shortest = _shortest([row.task_id for row in rows])
    cells = (
        {
            "task": Text(row.task_id[:shortest]),
            "status": status_text(row.status, language, interrupted=row.task_id in interrupted),
            "session": Text(flat(row.session_id)),
            "agent": Text(flat(row.agent_id)),
            "mode": Text(flat(_mode(row))),
            "started": Text(when(row.created_at)),
            "message": Text(message_text(row.message, language, MESSAGE_WIDTH)),
        }
        for row in rows
    )
    print_table(console, language, TASK_COLUMNS, cells, "no_task")
    _print_resume_commands(console, [row.task_id for row in rows if row.task_id in interrupted], settings)


def _shortest(ids: Sequence[str]) -> int:
    """To how many characters, six or more, the ids can be shortened and still differ."""
    for length in range(6, 36):
        if len({name[:length] for name in ids}) == len(ids):
            return length
    return 36


def _mode(row: "Task") -> str:
    """The requested mode, and the one that `auto` selected."""
    selected = (row.result or {}).get("mode") if row.mode == "auto" else None
    return f"auto: {selected}" if selected else row.mode


def _print_resume_commands(console: Console, task_ids: Iterable[str], settings: "Settings") -> None:
    """The commands that resume interrupted tasks."""
    if commands := [task_command(settings, "resume", task_id) for task_id in task_ids]:
        console.print(Text(f"\n{sentence('interrupted_tasks', settings.ui_language)}", style="yellow"))
        for command in commands:
            console.print(Text(f"  {printable(command)}"), soft_wrap=True)


def print_agents(console: Console, agents: Iterable["Agent"], language: str, served: Mapping[str, str]) -> None:
    """The agents, with their own tools and those `served` by their MCP servers."""
    cells = (
        {
            "agent": Text(one_line(agent.agent_id)),
            "mode": Text(one_line(agent.mode)),
            "model": Text(one_line(sentence("environment_model", language) if agent.model is None else agent.model)),
            "tools": Text(flat(_tool_names(agent, served) or word("none", language))),
            "description": Text(one_line(agent.description, DESCRIPTION)),
        }
        for agent in agents
    )
    print_table(console, language, AGENT_COLUMNS, cells)


def _tool_names(agent: "Agent", served: Mapping[str, str]) -> str:
    return ", ".join([*own_tools(agent), *filter(None, [served.get(agent.agent_id)])])


def own_tools(agent: "Agent") -> list[str]:
    """The names of an agent's tools, without those of MCP servers."""
    return [tool if isinstance(tool, str) else getattr(tool, "__name__", "…") for tool in agent.tools]


def print_tools(console: Console, rows: Iterable[tuple[str, "Tool"]], language: str) -> None:
    """The tools, each with the agent that has it."""
    cells = (
        {
            "tool": Text(one_line(tool.name)),
            "agent": Text(one_line(agent_id)),
            "marks": Text(", ".join(tool_marks(tool))),
            "description": Text(one_line(tool_description(tool).partition("\n\n")[0], DESCRIPTION)),
        }
        for agent_id, tool in rows
    )
    print_table(console, language, TOOL_COLUMNS, cells)


def tool_marks(tool: "Tool") -> list[str]:
    """The options that the tool declares."""
    repeatable = ("read_only" if tool.read_only else "idempotent", tool.idempotent)
    return [mark for mark, is_set in (repeatable, ("needs_approval", tool.needs_approval)) if is_set]


def tool_description(tool: "Tool") -> str:
    return str(tool.spec["function"].get("description", ""))


def print_permissions(console: Console, rows: Iterable["Permission"], language: str) -> None:
    cells = (
        {
            "session": Text(flat(row.session_id)),
            "agent": Text(flat(row.agent_id)),
            "tool": Text(flat(row.tool)),
            "allowed in": Text(_scope(row, language)),
            "since": Text(when(row.granted_at)),
        }
        for row in rows
    )
    print_table(console, language, PERMISSION_COLUMNS, cells, "no_permission")


def print_schedules(console: Console, rows: Iterable[Mapping[str, Text]], language: str) -> None:
    print_table(console, language, SCHEDULE_COLUMNS, rows, "no_schedules")


def print_notifications(console: Console, rows: Iterable["Notification"], language: str) -> None:
    """What receivers are still to be told, and why they were not yet."""
    cells = (
        {
            "notification": Text(row.notification_id),
            "receiver": Text(row.receiver),
            "task": Text(row.task_id[:SHORT]),
            "what": Text(word(row.kind, language)),
            "attempts": Text(str(row.attempts)),
            "next": Text(word("dead", language) if row.due is None else when(row.due)),
            "error": Text(flat(row.error or "–")),
        }
        for row in rows
    )
    print_table(console, language, NOTIFICATION_COLUMNS, cells, "no_notifications")


def print_versions(console: Console, rows: Iterable[Mapping[str, Any]], language: str) -> None:
    """The versions that unfinished tasks have, how many in which status, and where they are registered."""
    cells = (
        {
            "agent": Text(printable(row["agent_id"])),
            "version": Text(printable(row["version"] or "–")),
            "tasks": Text(", ".join(f"{n} {word(status, language)}" for status, n in row["tasks"].items())),
            "on_upgrade": Text(", ".join(f"{name} ({n})" for name, n in row["on_upgrade"].items()) or "–"),
            "there": Text(_places_of(row, language)),
        }
        for row in rows
    )
    print_table(console, language, VERSION_COLUMNS, cells, "no_unfinished")


def _places_of(row: Mapping[str, Any], language: str) -> str:
    """Where a version is registered."""
    places = [word("here", language)] if row["here"] else []
    return ", ".join([*places, *([f"{row['workers']} {word('workers', language)}"] if row["workers"] else [])]) or "–"


def _scope(row: "Permission", language: str) -> str:
    scope = word(row.scope, language)
    return scope if row.scope == "session" else f"{scope} {row.task_id[:6]}"


def print_modes(console: Console, modes: Mapping[str, str], language: str) -> None:
    """The modes with what they do."""
    cells = (
        {"mode": Text(one_line(name)), "description": Text(one_line(described, DESCRIPTION))}
        for name, described in modes.items()
    )
    print_table(console, language, MODE_COLUMNS, cells)


def print_preferences(console: Console, found: "UserPreferences", language: str) -> None:
    mode = found.default_mode
    print_prose(console, Text(sentence("default_mode" if mode else "no_default_mode", language, mode=printable(mode))))
    cells = (
        {
            "mode": Text(flat(used.mode)),
            "rating": Text("" if used.rating is None else str(used.rating)),
            "message": Text(message_text(used.query, language, MESSAGE_WIDTH)),
        }
        for used in found.mode_history
    )
    print_table(console, language, USED_COLUMNS, cells, "no_mode_used")


def print_memory_files(console: Console, rows: Sequence[Mapping[str, Any]], language: str) -> None:
    cells = (
        {
            "file": Text(flat(row["name"])),
            "entries": Text(str(row["entries"])),
            "tasks": Text(str(len(row["tasks"]))),
            "bytes": Text(str(row["bytes"])),
            "changed": Text(when(row["updated_at"])),
        }
        for row in rows
    )
    print_table(console, language, FILE_COLUMNS, cells, "no_memory")
    for row in rows:
        if row["error"]:
            print_prose(console, Text(flat(row["error"]), style="yellow"))


def print_memory_file(console: Console, text: str) -> None:
    print_prose(console, _answer(console, text))


def print_history(
    console: Console, messages: Iterable[Mapping[str, Any]], language: str, hints: Iterable[str] = ()
) -> None:
    """Who said what, calls and their results in a line each, and then the hints."""
    for message in messages:
        if message["role"] == "user":
            print_said(console, sentence("you", language, text=""), _content(message), "bold")
        elif message["role"] == "tool":
            console.print(Text(f"    {one_line(_content(message), 160)}", style="dim"), soft_wrap=True)
        for call in message.get("tool_calls") or ():
            console.print(_call(call["function"]), soft_wrap=True)
        if message["role"] == "assistant" and _content(message):
            answer = _content(message)
            markdown = Markdown(markdown_text(answer), hyperlinks=False) if console.is_terminal else f"{answer}\n"
            print_said(console, label("answer", language), markdown)
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
        console.print(line.append(f" {indented(text)}", style="default"), soft_wrap=True)


def prefix(role: Role) -> str:
    """The prefix of a role's lines."""
    return PREFIXES[role]


def print_footer(console: Console) -> None:
    """Print the last line."""
    console.print(Text(FOOTER), soft_wrap=True)
