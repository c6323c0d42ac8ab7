"""One line, or a few, for everything that can be seen of a task. Text from outside is never read as markup."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ...core.calls import REVIEW_PLAN, CallResult, CallStatus
from ...core.environment import without_password
from ...core.events import (
    AttemptRestarted,
    BranchEnd,
    BranchStart,
    CallPermitted,
    Cancelled,
    ErrorRaised,
    Fallback,
    FlowEnd,
    ModeReason,
    ModeSelected,
    Phase,
    Recovered,
    RestartReason,
    Resumed,
    Steered,
    ToolCall,
    ToolResult,
    Waiting,
)
from ...prompts.catalogue import colon, label, terminal_text, with_more, word
from ...runtime.reply import Approved, Part, PlanItem, Projection
from .console import (
    arguments_line,
    flat,
    indented,
    one_line,
    origin_line,
    plain_line,
    print_prose,
    printable,
    result_line,
)

if TYPE_CHECKING:
    from ...core.models import Model
    from ...core.records import Task

STYLES = {"pending": "dim", "running": "bold cyan", "done": "green", "error": "red", "skipped": "yellow"}
_RULE = "━"
INDENT = 4
"""Columns before a call's result."""


@dataclass(frozen=True)
class Symbols:
    """The characters of each status."""

    steps: Mapping[str, str]
    ok: str
    failed: str
    begins: str
    unknown: str


SIGNS = Symbols({"pending": "☐", "running": "▶", "done": "☑", "error": "✗", "skipped": "⊘"}, "✓", "✗", "→", "?")
PLAIN_SIGNS = Symbols(
    {"pending": "[ ]", "running": "[>]", "done": "[x]", "error": "[!]", "skipped": "[-]"},
    "ok",
    "FAILED",
    "->",
    "UNKNOWN",
)
UNKNOWN_STYLE = "bold yellow"


def symbols_for(console: Console) -> Symbols:
    """Signs that the console's encoding can write."""
    return SIGNS if console.encoding.lower().startswith("utf") else PLAIN_SIGNS


def mode_line(event: ModeSelected, language: str) -> Text:
    said = "auto" if event.reason == ModeReason.PICKED else one_line(event.reason)
    reason = with_more("", word(said, language), language) if said and said != ModeReason.ASKED_FOR else ""
    return Text.assemble((f"{word('mode', language)} ", "dim"), (one_line(event.mode), "bold"), (reason, "dim"))


def banner_lines(event: Phase) -> list[str]:
    """A banner's lines without its rule and its blank ones; the first is its heading."""
    lines = [line.strip() for line in printable(event.content).splitlines()]
    return [line for line in lines if line.strip(_RULE)]


def banner_text(lines: Iterable[str]) -> Text:
    heading, *rest = lines
    return Text("\n").join([Text(heading, style="bold cyan"), *(Text(line, style="dim") for line in rest)])


def thought_text(text: str) -> Text:
    return Text(indented(printable(text).strip()), style="dim italic")


def call_line(event: ToolCall, signs: Symbols) -> Text:
    return Text.assemble((f"{signs.begins} ", "cyan"), _call(event.name, event.arguments))


def branch_line(event: BranchStart, signs: Symbols) -> Text:
    """A branch that begins."""
    call = _call(event.branch, event.arguments)
    return Text.assemble((f"{signs.begins} ", "cyan"), call, (f"  {one_line(event.kind)}", "dim"))


def branch_end_line(event: BranchEnd, signs: Symbols, most: int = 160) -> Text:
    """The result of a branch."""
    sign, style = outcome_sign(event.result, signs)
    return Text.assemble((f"{sign} ", style), plain_line(event.summary, most))


def flow_end_line(event: FlowEnd, language: str, most: int = 160) -> Text:
    """The result of a flow."""
    named = f"{word('flow', language)} {one_line(event.flow)} {word(event.status, language)}"
    return Text.assemble((f"{named}{colon(language)}", "dim"), plain_line(event.summary, most))


def decided_line(event: ToolCall, signs: Symbols, language: str) -> Text:
    """A call that was decided on and not begun."""
    pending = (f"{signs.steps['pending']} ", "dim")
    return Text.assemble(pending, _call(event.name, event.arguments), (f"  {word('not started', language)}", "dim"))


def outcome_line(event: ToolResult, signs: Symbols, language: str, most: int = 100, step: str = "") -> Text:
    sign, style = outcome_sign(event.result, signs)
    took = f"  {terminal_text('took', language, seconds=f'{event.seconds:.2f}')}"
    was_killed = sign == signs.unknown and not round(event.seconds, 2)
    if was_killed or is_rejected(event):
        took = ""
    text = Text.assemble((f"{sign} ", style), _call(event.name, event.arguments), (f"{took}{step}", "dim"))
    shade = {signs.failed: "red", signs.unknown: "dim"}.get(sign, "")
    return text.append(f"\n    {result_line(event.result, most)}", style=shade).append(
        hidden_line(event.result, language)
    )


def is_rejected(event: ToolResult) -> bool:
    """Whether a person rejected the call, as a line of its own says."""
    return CallResult.of(event.result).status is CallStatus.REJECTED


def hidden_line(result: Mapping[str, Any], language: str) -> Text:
    """Whether the model saw nothing of a result, or a summary; empty where it saw all of it."""
    hidden = CallResult.of(result).hidden
    name = "hidden_but_summary" if hidden == "summary" else "hidden_from_model"
    return Text(f"\n    {terminal_text(name, language)}" if hidden else "", style="dim")


def hanging(text: Text) -> RenderableType:
    """A text whose further lines are indented as far where they are wrapped."""
    first, *rest = text.split("\n")
    further = [Padding(line[len(line) - len(line.plain.lstrip()) :], (0, 0, 0, INDENT)) for line in rest]
    return Group(first, *further) if further else text


def outcome_sign(result: Mapping[str, Any], signs: Symbols) -> tuple[str, str]:
    """The sign and the style of a call's outcome."""
    styles = {"unknown": (signs.unknown, UNKNOWN_STYLE), "error": (signs.failed, "red"), "success": (signs.ok, "green")}
    return styles[CallResult.of(result).outcome]


def unknown_calls(task: "Task", signs: Symbols, language: str) -> Text | None:
    """The calls of an ended task whose outcome is unknown, or None."""
    calls = (task.result or {}).get("unknown_outcomes")
    if not calls:
        return None
    text = Text(terminal_text("unknown_calls", language), style="yellow")
    for call in calls:
        text.append(f"\n  {signs.unknown} ", style=UNKNOWN_STYLE).append(_call(call["name"], call["arguments"]))
    return text


def _call(name: str, arguments: Mapping[str, Any]) -> Text:
    return Text.assemble((one_line(name), "bold"), (f"({arguments_line(arguments)})", "dim"))


def item_sign(item: PlanItem, signs: Symbols) -> tuple[str, str]:
    """The sign and the style of a step; one that is done is not ticked off where nobody knows what its calls did."""
    if item.status == "done" and item.unknown_outcome:
        return signs.unknown, UNKNOWN_STYLE
    return signs.steps.get(item.status, "?"), STYLES.get(item.status, "")


def item_line(item: PlanItem, signs: Symbols) -> Text:
    """A step with its status, and why it has it."""
    sign, style = item_sign(item, signs)
    text = Text.assemble(
        (f"{sign} ", style),
        (f"{one_line(item.step_id)} ", "dim"),
        (one_line(item.description or item.status, 120), style if item.status in ("running", "error") else ""),
    )
    if item.note and item.status in ("error", "skipped"):
        text.append(f"  ({one_line(item.note, 80)})", style="dim")
    return text


def fallback_line(event: Fallback, language: str) -> Text:
    old, new = one_line(event.from_mode), one_line(event.to_mode)
    return Text(
        terminal_text("fell_back", language, old=old, new=new, why=word(one_line(event.reason, 160), language)),
        style="yellow",
    )


def steered_line(event: Steered, language: str, most: int = 160) -> Text:
    return Text.assemble((label("added", language), "yellow"), one_line(event.message, most))


def recovered_line(event: Recovered, language: str, most: int = 160) -> Text:
    went_back = label("went back to an older snapshot", language)
    return Text(f"{went_back}{word(one_line(event.reason, most), language)}", style="yellow")


def asked_line(call: Mapping[str, Any], signs: Symbols, language: str) -> Text:
    """A call that a person is asked about, and what its untrusted values come from."""
    line = Text.assemble((f"{signs.begins} ", "yellow"), _call(call["name"], call["arguments"]))
    for name, found in call.get("sources", {}).items():
        origin = origin_line(call, name, language)
        if origin and not all(source["trusted"] for source in found):
            line.append(f"\n    {one_line(name)}: ", style="dim").append(origin)
    return line


def _flow(flow: Mapping[str, Sequence[str]]) -> str:
    """What was allowed to flow where, as `read_mail → to`."""
    return "; ".join(one_line(f"{', '.join(sources)} → {name}") for name, sources in flow.items())


def verdict_line(verdict: Mapping[str, Any], call: Mapping[str, Any], signs: Symbols, language: str) -> Text:
    """What a person decided on one call; edited arguments beside the original ones."""
    name, original = call.get("name", f"#{verdict['index']}"), verdict.get("original", call.get("arguments", {}))

    def called(arguments: Mapping[str, Any]) -> Text:
        is_plan = name == REVIEW_PLAN
        return Text(terminal_text("the_plan", language), style="bold") if is_plan else _call(name, arguments)

    match verdict["verdict"]:
        case "approve":
            approved = f"{signs.ok} {word('approved', language)} "
            always = terminal_text(f"always_{verdict['always']}", language) if verdict.get("always") else ""
            if verdict.get("only"):
                always += terminal_text("always_only", language, only=arguments_line(verdict["only"]))
            if verdict.get("flow"):
                always += terminal_text("always_flow", language, flow=_flow(verdict["flow"]))
            return Text.assemble((approved, "green"), called(original), (always, "green"))
        case "edit":
            edited = f"{signs.ok} {word('edited', language)} "
            instead = terminal_text("instead_of", language, arguments=arguments_line(original))
            return Text.assemble((edited, "green"), called(verdict.get("arguments", {})), (instead, "dim"))
        case "respond":
            responded = f"{signs.ok} {word('responded', language)} "
            result = f"  {one_line(verdict['reason'], 160)}"
            return Text.assemble((responded, "green"), called(original), (result, "green"))
        case _:
            rejected = f"{signs.failed} {word('rejected', language)} "
            why = f"  {one_line(verdict['reason'], 160)}" if verdict.get("reason") else ""
            return Text.assemble((rejected, "red"), called(original), (why, "red"))


def permitted_line(event: CallPermitted, signs: Symbols, language: str) -> Text:
    """A call that ran by a permission."""
    line = Text.assemble((f"{signs.ok} {word('approved', language)} ", "green"), (one_line(event.name), "bold"))
    return line.append(terminal_text(f"permitted_{event.scope}", language), style="dim")


def notice_lines(part: Part, task: Projection, signs: Symbols, language: str) -> list[Text]:
    """The lines of a part that every view shows alike; none of any other."""
    match part:
        case ModeSelected():
            return [mode_line(part, language)]
        case Fallback():
            return [fallback_line(part, language)]
        case AttemptRestarted():
            name = "attempt" if part.reason == RestartReason.AFTER_WAIT else "restarting"
            why = word(one_line(part.reason, 160), language)
            return [Text(terminal_text(name, language, n=part.attempt, why=why), style="yellow")]
        case Waiting():
            why = word(one_line(part.reason, 160), language)
            name = "waits" if part.seconds is None else "waits_for"
            return [Text(terminal_text(name, language, why=why, seconds=f"{part.seconds or 0:.1f}"), style="dim")]
        case Steered():
            return [steered_line(part, language)]
        case Approved(given):
            asked = [(verdict, task.asked.get(verdict["index"], {})) for verdict in given.verdicts]
            return [Text("  ") + verdict_line(verdict, call, signs, language) for verdict, call in asked]
        case CallPermitted():
            return [Text("  ") + permitted_line(part, signs, language)]
    return _other_lines(part, signs, language)


def _other_lines(part: Part, signs: Symbols, language: str) -> list[Text]:
    """The lines of stops and of a flow's branches.

    A tool's branch is shown as its call, and a built-in one by what comes of it.
    """
    match part:
        case Resumed(agent_changed=True):
            return [Text(terminal_text("agent_changed", language), style="yellow")]
        case Recovered():
            return [recovered_line(part, language)]
        case Cancelled():
            return [Text(terminal_text("cancelled_partial" if part.partial else "cancelled", language), style="yellow")]
        case ErrorRaised(final=False):
            return [Text(f"! {one_line(part.message, 300)}", style="yellow")]
        case BranchStart(kind="agent" | "flow" | "graph"):
            return [branch_line(part, signs)]
        case BranchEnd(kind="agent" | "flow" | "graph"):
            return [branch_end_line(part, signs)]
    return []


def status_line(task: "Task", seconds: float, language: str) -> Text:
    """Mode, steps, tools and tokens of a task that ended."""
    result = task.result or {}
    reasoning, usage = result.get("reasoning") or {}, result.get("usage") or {}
    mode, plan = result.get("mode") or task.mode, result.get("plan")
    # The step of a plan that writes the answer has no place in the history.
    steps = len(plan) - (result.get("open_steps") or 0) if plan else reasoning.get("total_steps", 0)
    parts = [f"{word('mode', language)} {mode}"]
    if steps:
        parts.append(terminal_text("step" if steps == 1 else "steps", language, n=steps))
    if tools := reasoning.get("tools_used"):
        parts.append(f"{word('tools', language)} {', '.join(tools)}")
    if still_open := result.get("open_steps"):
        parts.append(terminal_text("answered_open_one" if still_open == 1 else "answered_open", language, n=still_open))
    parts += usage_parts(usage, language)
    return Text(flat(" · ".join([*parts, terminal_text("took", language, seconds=f"{seconds:.1f}")])), style="dim")


def usage_parts(usage: Mapping[str, Any], language: str) -> list[str]:
    """Tokens and cost, as far as they are known."""
    parts = []
    if usage.get("input") or usage.get("output"):
        parts.append(terminal_text("tokens", language, input=f"{usage['input']:,}", output=f"{usage['output']:,}"))
        if usage.get("cost") is None:
            parts.append(terminal_text("cost_unknown", language))
    if usage.get("cost"):
        parts.append(f"{usage['cost']:.4f} {usage.get('currency', '')}".strip())
    return parts


def offline_notice(*languages: str) -> Text:
    """That no language model answers, and how to get one."""
    text = Text("\n".join(terminal_text("offline", language) for language in languages), style="yellow")
    text.stylize("bold reverse", 0, len(text.plain.partition(colon(languages[0]).strip())[0]))
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


def print_heading(console: Console, model: "Model", heading: Text, *languages: str) -> None:
    """Print the header, and the notice where the model is none."""
    print_prose(console, heading)
    if not model.is_language_model:
        print_prose(console, offline_notice(*languages))
    console.print()
