"""Timelines of sessions, differences of snapshots, and the effects that going back leaves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ...core.records import Json, Task
from ...core.task import OPEN, TaskStatus
from ...core.timeline import Branch, Effect, Place, SnapshotDifference, TimelineEntry, Undone
from ...prompts.catalogue import label, terminal_text, word
from ..settings import continue_command, task_command
from .console import arguments_line, flat, json_line, one_line, plain_line, print_prose, printable, result_line
from .lines import Symbols, symbols_for
from .tables import Column, print_table

if TYPE_CHECKING:
    from ..settings import Settings

MOST = 100
"""Columns of what happened before a snapshot."""


@dataclass(frozen=True)
class Reverted:
    """A snapshot that a session goes back to, the effects after it that stay, and the undos that were tried."""

    place: Place
    effects: Sequence[Effect]
    undone: Sequence[Undone]

    @property
    def all_undone(self) -> bool:
        return all(effect.undo == "done" for effect in self.undone)

    def json(self) -> Json:
        """The public form."""
        return {"effects": [each.json() for each in self.effects], "undone": [each.json() for each in self.undone]}


def print_timeline(
    console: Console, entries: Sequence[TimelineEntry], settings: "Settings", fork: Callable[[str], str]
) -> None:
    """Each snapshot with its id, its place, what happened, and the effects that came later.

    `fork` is the command that starts a session from a snapshot.
    """
    language, signs = settings.ui_language, symbols_for(console)
    columns: list[Column[TimelineEntry]] = [
        Column("snapshot", lambda entry: Text(entry.short_id, style="bold")),
        Column("place", lambda entry: _place(entry.turn, entry.recursion, entry.steps, language)),
        Column("what happened", lambda entry: _summary(entry, signs, language)),
    ]
    if any(entry.effects_since for entry in entries):
        columns.append(Column("later effects", lambda entry: Text(str(entry.effects_since or ""), style="yellow")))
    print_table(console, language, columns, entries)
    if entries:
        command = printable(fork(entries[-2:][0].short_id))
        console.print(Text(f"\n{terminal_text('fork_from', language)}\n  {command}", style="dim"), soft_wrap=True)


def print_branches(
    console: Console, branches: Sequence[Branch], shown: str, settings: "Settings", show: Callable[[str], str]
) -> None:
    """The other branches of a session's conversation, each by the command that shows it."""
    others = [each for each in branches if each.session_id != shown]
    if others:
        console.print(Text(f"\n{settings.say('other_branches')}", style="dim"))
    for each in others:
        line = f"  {printable(show(each.session_id))}  {settings.say('branch_from', n=each.turn)}"
        console.print(Text(line, style="dim"), soft_wrap=True)


def _place(turn: int, recursion: int, steps: Sequence[str], language: str) -> str:
    parts = [terminal_text("turn", language, n=turn)]
    if recursion:
        parts.append(terminal_text("round", language, n=recursion))
    if steps:
        parts.append(f"{word('step', language)} {one_line(', '.join(steps), 20)}")
    return " · ".join(parts)


def _summary(entry: TimelineEntry, signs: Symbols, language: str) -> Text:
    if entry.damaged:
        return Text(one_line(entry.damaged, MOST), style="red")
    lines = [_event(each, signs, language) for each in entry.happened]
    if not lines and entry.next:
        lines = [Text(terminal_text("next_node", language, nodes=", ".join(entry.next)), style="dim")]
    return Text("\n").join(lines)


def _event(happened: Mapping[str, Any], signs: Symbols, language: str) -> Text:
    if happened["type"] == "call":
        sign, style = {"success": (signs.ok, "green"), "error": (signs.failed, "red")}.get(
            happened["outcome"], (signs.unknown, "yellow")
        )
        call = f"{one_line(happened['name'])}({arguments_line(happened['arguments'])})"
        return Text.assemble((f"{sign} ", style), call)
    text = happened.get("name") or happened["text"]
    count = happened.get("steps")
    steps = f" ({terminal_text('step' if count == 1 else 'steps', language, n=count)})" if count else ""
    shown = plain_line(text, MOST) if happened["type"] == "answer" else one_line(text, MOST)
    return Text.assemble((label(happened["type"], language), "dim"), shown, (steps, "dim"))


def print_difference(console: Console, found: SnapshotDifference, language: str) -> None:
    """The parts that differ, each below its title."""
    for place, sign, style in ((found.a, "---", "red"), (found.b, "+++", "green")):
        console.print(Text(f"{sign} {_title(place, language)}", style=style), soft_wrap=True)
    sections = [
        ("state", [_pair(row["name"], row, language) for row in found.state]),
        ("plan", [_pair(f"{row['step_id']}. {row['description']}", row, language) for row in found.plan]),
        ("messages", _sides(found.messages, _message)),
        ("results", _sides(found.results, _result)),
        ("prompt", [_colored(line) for line in found.prompt]),
    ]
    for title, lines in sections:
        if lines:
            console.print(Text(f"\n{word(title, language)}", style="bold"))
            for line in lines:
                print_prose(console, line)
    if not any(lines for _, lines in sections):
        console.print(terminal_text("no_difference", language))


def _title(place: Mapping[str, Any], language: str) -> str:
    where = ""
    if "turn" in place:
        where = f"  {_place(place['turn'], place['recursion'], place['steps'], language)}"
    return f"{flat(place['session_id'])}/{place['checkpoint_id'][-6:]}{where}"


def _pair(name: str, row: Mapping[str, Any], language: str) -> Text:
    a, b = (word("none", language) if row[side] is None else _value(row[side], language) for side in ("a", "b"))
    return Text.assemble(f"  {one_line(name, 60)}: ", (a, "red"), " → ", (b, "green"))


def _value(value: Any, language: str) -> str:
    return one_line(word(value, language) if isinstance(value, str) else json_line(value), 80)


def _sides(sides: Mapping[str, Sequence[Any]], line: Any) -> list[Text]:
    return [
        Text(f"{sign} {line(each)}", style=style)
        for side, sign, style in (("a", "-", "red"), ("b", "+", "green"))
        for each in sides[side]
    ]


def _message(message: Mapping[str, Any]) -> str:
    functions = [call["function"] for call in message.get("tool_calls", ())]
    calls = ", ".join(f"{function['name']}({function['arguments']})" for function in functions)
    return f"{message['role']}: {one_line(calls or message.get('content') or '', 160)}"


def _result(result: Mapping[str, Any]) -> str:
    return f"{one_line(result['name'])}({arguments_line(result['arguments'])})  {result_line(result['result'], 100)}"


def _colored(line: str) -> Text:
    style = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1], "dim")
    return Text(one_line(line, 200), style=style)


def undo_lines(back: Reverted, settings: "Settings", again: str) -> list[str]:
    """What an undo did, or that there was nothing to undo; `again` is the command that undoes."""
    return effect_lines(back, settings, again) or [settings.say("nothing_to_undo")]


def effect_lines(back: Reverted, settings: "Settings", undo: str) -> list[str]:
    """The result of each undo, the effects that stay, and the command that can undo them."""
    lines = [_undone(effect, settings) for effect in back.undone]
    if back.effects:
        lines.append(settings.say("effects_stay"))
        lines += [f"  {_call(effect)}{_mark(effect, settings)}" for effect in back.effects]
    if any(effect.undo in ("available", "failed") for effect in back.effects):
        lines += [settings.say("to_undo"), f"  {undo}"]
    return [printable(line) for line in lines]


def _undone(effect: Undone, settings: "Settings") -> str:
    sentences = {"done": "undone", "failed": "not_undone", "unknown": "maybe_undone"}
    return settings.say(sentences[effect.undo], call=_call(effect), result=result_line(effect.result, 100))


def _call(effect: Effect) -> str:
    return f"{one_line(effect.name)}({arguments_line(effect.arguments)})"


def _mark(effect: Effect, settings: "Settings") -> str:
    outcome = {"unknown": "outcome unknown", "error": "failed"}.get(effect.outcome)
    undo = {"failed": "undo_failed", "unknown": "undo_unknown"}.get(effect.undo)
    marks = [word(outcome, settings.ui_language)] if outcome else []
    return "".join(f"  {mark}" for mark in [*marks, *([settings.say(undo)] if undo else [])])


def print_fork(
    console: Console, snapshot: str, session: str, task: Task | None, back: Reverted, settings: "Settings"
) -> None:
    """The new session, the effects that stay, and the command that continues it."""
    print_prose(console, Text(settings.say("forked", session=printable(session))))
    for line in effect_lines(back, settings, task_command(settings, "undo", snapshot)):
        console.print(Text(line), soft_wrap=True)
    command = continue_command(settings, session)
    if task and task.status in OPEN:
        command = task_command(settings, "answer" if task.status == TaskStatus.WAITING else "resume", task.task_id)
    console.print(Text(settings.say("to_continue")))
    console.print(Text(f"  {printable(command)}"), soft_wrap=True)
