"""Lists: sessions, tasks, agents, modes, and what was said in a session."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...core.conversation import MODE, PREFIXES, Role, Utterance, spoken
from ...core.task import FORK_MARK, TaskStatus, title_of
from ...prompts.catalogue import label, terminal_text, word
from ..settings import SHORT, task_command
from .console import arguments_line, flat, indented, markdown_text, one_line, print_prose, print_said, printable
from .lines import STYLES

if TYPE_CHECKING:
    from ...core.agents import Agent
    from ...core.calls import Tool
    from ...core.notifications import Notification
    from ...core.records import Hit, Permission, RatedAnswer, Task, Thread, UserPreferences
    from ...memory.files import Fact
    from ..settings import Settings

R = TypeVar("R")
_HELD = (TaskStatus.PAUSED, TaskStatus.WAITING, TaskStatus.PAUSING)
_STATUS: Mapping[str, str] = {**STYLES, **dict.fromkeys(_HELD, "yellow"), TaskStatus.CANCELLED: "dim"}
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
        return Text(terminal_text("interrupted", language, status=shown), style="bold yellow")
    return Text(shown, style=_STATUS.get(status, ""))


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column: its cell in a row, and the width of the terminal from which on it is shown."""

    name: str
    cell: Callable[[R], Text | str]
    least: int = 0
    whole: bool = False
    """Its cells are short, and stay in one line."""


def print_table(
    console: Console, language: str, columns: Sequence[Column[R]], rows: Iterable[R], empty: str = ""
) -> None:
    """A table without lines whose cells are wrapped and never cut, or the sentence for an empty one."""
    listed = [*rows]
    width = console.width if console.is_terminal else PIPED_TABLE
    table = _grid(header_style="dim", show_header=True)
    shown = [column for column in columns if width >= column.least]
    for column in shown:
        table.add_column(word(column.name, language), overflow="fold", no_wrap=column.whole)
    for row in listed:
        cells = (column.cell(row) for column in shown)
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
    console.print(table if listed or not empty else Text(terminal_text(empty, language)), width=width)


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


def message_text(message: str, language: str, most: int) -> str:
    """The message in a line; of a conversation, whose task holds its configuration, who takes part in it."""
    if message.startswith('{"'):
        from ...core.conversation import ConversationConfig

        with suppress(ValueError):
            config = ConversationConfig.model_validate_json(message)
            message = terminal_text("conversation", language, user=config.user_mode, bot=config.bot_mode)
    return one_line(message, most)


def print_sessions(
    console: Console, rows: Sequence["Thread"], interrupted: Mapping[str, str], settings: "Settings"
) -> None:
    """The sessions; `interrupted` maps those whose task was interrupted to the task."""
    language = settings.ui_language
    columns: list[Column[Thread]] = [
        Column("session", lambda row: flat(row.session_id)),
        Column("turns", lambda row: str(row.turns), 80),
        Column(
            "status",
            lambda row: status_text(row.status, language, interrupted=row.session_id in interrupted),
            whole=True,
        ),
        Column("last used", lambda row: when(row.updated_at), 80),
        Column(
            "last message",
            lambda row: _titled(row, message_text(row.message, language, MESSAGE_WIDTH)),
        ),
    ]
    print_table(console, language, columns, rows, "no_session")
    _print_resume_commands(console, [interrupted[r.session_id] for r in rows if r.session_id in interrupted], settings)


def print_hits(console: Console, hits: Sequence["Hit"], settings: "Settings") -> None:
    """Where something was said."""
    language = settings.ui_language
    columns: list[Column[Hit]] = [
        Column("session", lambda hit: flat(hit.session_id)),
        Column("started", lambda hit: when(hit.created_at), 80),
        Column("message", lambda hit: flat(hit.snippet)),
    ]
    print_table(console, language, columns, hits, "nothing_found")


def _titled(row: "Thread", message: str) -> str:
    """The last message, behind the title where that says something else."""
    title = flat(row.title)
    if title.startswith(FORK_MARK):
        return FORK_MARK + message
    return message if row.mode == MODE or title in ("", title_of(row.message)) else f"{title} · {message}"


def print_tasks(console: Console, rows: Sequence["Task"], interrupted: Collection[str], settings: "Settings") -> None:
    """The tasks; `interrupted` has the ids of those that were."""
    language = settings.ui_language
    shortest = _shortest([row.task_id for row in rows])
    columns: list[Column[Task]] = [
        Column("task", lambda row: row.task_id[:shortest], whole=True),
        Column(
            "status", lambda row: status_text(row.status, language, interrupted=row.task_id in interrupted), whole=True
        ),
        Column("session", lambda row: flat(row.session_id), 80),
        Column("agent", lambda row: flat(row.agent_id), 100),
        Column("mode", lambda row: flat(_mode(row)), 100),
        Column("started", lambda row: when(row.created_at), 80),
        Column("message", lambda row: message_text(row.message, language, MESSAGE_WIDTH)),
    ]
    print_table(console, language, columns, rows, "no_task")
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
        console.print(Text(f"\n{terminal_text('interrupted_tasks', settings.ui_language)}", style="yellow"))
        for command in commands:
            console.print(Text(f"  {printable(command)}"), soft_wrap=True)


def print_agents(console: Console, agents: Iterable["Agent"], language: str, served: Mapping[str, str]) -> None:
    """The agents, with their own tools and those `served` by their MCP servers."""
    columns: list[Column[Agent]] = [
        Column("agent", lambda agent: one_line(agent.agent_id)),
        Column("mode", lambda agent: one_line(agent.mode), 60),
        Column(
            "model",
            lambda agent: one_line(
                terminal_text("environment_model", language) if agent.model is None else agent.model
            ),
            60,
        ),
        Column(
            "tools",
            lambda agent: flat(
                ", ".join([*own_tools(agent), *filter(None, [served.get(agent.agent_id)])]) or word("none", language)
            ),
        ),
        Column("description", lambda agent: one_line(agent.description, DESCRIPTION), 100),
    ]
    print_table(console, language, columns, agents)


def own_tools(agent: "Agent") -> list[str]:
    """The names of an agent's tools, without those of MCP servers."""
    called = [f"agent:{tool.agent}" for tool in agent.agent_tools]
    return [*(tool if isinstance(tool, str) else getattr(tool, "__name__", "…") for tool in agent.own_tools), *called]


def print_tools(console: Console, rows: Iterable[tuple[str, "Tool"]], language: str) -> None:
    """The tools, each with the agent that has it."""
    columns: list[Column[tuple[str, Tool]]] = [
        Column("tool", lambda row: one_line(row[1].name)),
        Column("agent", lambda row: one_line(row[0]), 60),
        Column("marks", lambda row: ", ".join(tool_marks(row[1])), 60),
        Column("description", lambda row: one_line(tool_description(row[1]).partition("\n\n")[0], DESCRIPTION)),
    ]
    print_table(console, language, columns, rows)


def tool_marks(tool: "Tool") -> list[str]:
    """The options that the tool declares."""
    repeatable = ("read_only" if tool.read_only else "idempotent", tool.idempotent)
    return [mark for mark, is_set in (repeatable, ("needs_approval", tool.needs_approval)) if is_set]


def tool_description(tool: "Tool") -> str:
    return str(tool.spec["function"].get("description", ""))


def print_permissions(console: Console, rows: Iterable["Permission"], language: str) -> None:
    columns: list[Column[Permission]] = [
        Column("session", lambda row: flat(row.session_id)),
        Column("agent", lambda row: flat(row.agent_id), 60),
        Column("tool", lambda row: flat(row.tool)),
        Column("allowed in", lambda row: _scope(row, language)),
        Column("since", lambda row: when(row.granted_at), 80),
    ]
    print_table(console, language, columns, rows, "no_permission")


def print_notifications(console: Console, rows: Iterable["Notification"], language: str) -> None:
    """What receivers are still to be told, and why they were not yet."""
    columns: list[Column[Notification]] = [
        Column("notification", lambda row: row.notification_id, whole=True),
        Column("receiver", lambda row: row.receiver, whole=True),
        Column("what", lambda row: word(row.kind, language), whole=True),
        Column("task", lambda row: row.task_id[:SHORT], 130, whole=True),
        Column("attempts", lambda row: str(row.attempts), 130, whole=True),
        Column("next", lambda row: word("dead", language) if row.due is None else when(row.due), whole=True),
        Column("error", lambda row: flat(row.error or "–"), 60),
    ]
    print_table(console, language, columns, rows, "no_notifications")


def print_versions(console: Console, rows: Iterable[Mapping[str, Any]], language: str) -> None:
    """The versions that unfinished tasks have, how many in which status, and where they are registered."""
    columns: list[Column[Mapping[str, Any]]] = [
        Column("agent", lambda row: printable(row["agent_id"])),
        Column("version", lambda row: printable(row["version"] or "–")),
        Column("tasks", lambda row: ", ".join(f"{n} {word(status, language)}" for status, n in row["tasks"].items())),
        Column("on_upgrade", lambda row: ", ".join(f"{name} ({n})" for name, n in row["on_upgrade"].items()) or "–"),
        Column("there", lambda row: _places_of(row, language)),
    ]
    print_table(console, language, columns, rows, "no_unfinished")


def _places_of(row: Mapping[str, Any], language: str) -> str:
    """Where a version is registered."""
    places = [word("here", language)] if row["here"] else []
    return ", ".join([*places, *([f"{row['workers']} {word('workers', language)}"] if row["workers"] else [])]) or "–"


def _scope(row: "Permission", language: str) -> str:
    scope = word(row.scope, language)
    return scope if row.scope == "session" else f"{scope} {row.task_id[:6]}"


def print_modes(console: Console, modes: Mapping[str, str], language: str) -> None:
    """The modes with what they do."""
    columns: list[Column[tuple[str, str]]] = [
        Column("mode", lambda row: one_line(row[0])),
        Column("description", lambda row: one_line(row[1], DESCRIPTION)),
    ]
    print_table(console, language, columns, modes.items())


def print_preferences(console: Console, found: "UserPreferences", language: str) -> None:
    mode = found.default_mode
    print_prose(
        console, Text(terminal_text("default_mode" if mode else "no_default_mode", language, mode=printable(mode)))
    )
    columns: list[Column[RatedAnswer]] = [
        Column("mode", lambda used: flat(used.mode)),
        Column("rating", lambda used: "" if used.rating is None else str(used.rating)),
        Column("message", lambda used: message_text(used.query, language, MESSAGE_WIDTH)),
    ]
    print_table(console, language, columns, found.mode_history, "no_mode_used")


def print_facts(console: Console, facts: Sequence["Fact"], language: str) -> None:
    """What holds, each with its key, and what it replaces."""
    columns: list[Column[Fact]] = [
        Column("key", lambda fact: flat(fact.key), whole=True),
        Column("fact", lambda fact: flat(fact.text)),
        Column("replaces", lambda fact: flat("; ".join(before.text for before in fact.earlier)), 80),
        Column("changed", lambda fact: when(fact.created_at), 120),
    ]
    print_table(console, language, columns, facts)


def print_memory_files(console: Console, rows: Sequence[Mapping[str, Any]], language: str) -> None:
    columns: list[Column[Mapping[str, Any]]] = [
        Column("file", lambda row: flat(row["name"])),
        Column("entries", lambda row: str(row["entries"])),
        Column("tasks", lambda row: str(len(row["tasks"]))),
        Column("bytes", lambda row: str(row["bytes"])),
        Column("changed", lambda row: when(row["updated_at"]), 60),
    ]
    print_table(console, language, columns, rows, "no_memory")
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
            print_said(console, terminal_text("you", language, text=""), _content(message), "bold")
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
