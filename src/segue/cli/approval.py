"""Show calls that wait for a person, and ask the person at the terminal about each."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..core.approval import ApprovalTerms, PermissionRule, flow_of
from ..core.calls import INTERRUPT, WAIT
from ..core.provenance import DOUBTS
from ..core.reviews import DECISIONS, RESPOND, list_decisions
from ..core.spend import SPEND
from ..prompts.catalogue import terminal_text, word
from ..prompts.protocols import is_plan, plan_lines
from .verdicts import Answer, Call, Verdict, arguments_of
from .views.console import INDENT, discard_typed, flow_line, json_line, origin_line, print_prose, read_line, visible

Question = Mapping[str, Any]

MOST = 2_000
"""Characters of an argument that are shown."""


_REJECTS = re.compile(r"(?:r|R|reject)(?:\s+(.+))?")
"""A verdict that a person may give with the reason: `r too dear`."""


def can_ask() -> bool:
    """Whether a person is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_question(console: Console, question: Question, language: str) -> None:
    """Everything that waits, to be read and not to be answered here."""
    console.print()
    console.print(_heading(question, language), soft_wrap=True)
    if question["kind"] in ("question", INTERRUPT, SPEND, WAIT):
        print_prose(console, Text(f"  {_further(visible(question['question']))}"))
        for choice in question.get("choices", ()):
            print_prose(console, Text(f"  - {_further(visible(choice))}"))
    for call in question.get("calls", ()):
        console.print(Text.assemble("  ", _title(call)), soft_wrap=True)
        arguments = _shown_arguments(call, language)
        if not arguments:
            console.print(Text(f"    {terminal_text('no_arguments', language)}", style="dim"), soft_wrap=True)
        for name, value in arguments.items():
            shown = _further(f"{visible(name)}: ")
            line = Text.assemble("    ", (shown, "dim"), _further(_value(value, language)))
            if origin := origin_line(call, name, language):
                line.append("  ").append(origin)
            console.print(line, soft_wrap=True)
        for warning in _warnings(call, language):
            console.print(Text.assemble("    ", warning), soft_wrap=True)


def call_panel(call: Call, language: str, place: str = "") -> Panel:
    """A call, after its place among several, with its arguments one below the other, nothing of them hidden."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", overflow="fold")
    rows.add_column(overflow="fold")
    for name, value in _shown_arguments(call, language).items():
        line = Text(_value(value, language))
        if origin := origin_line(call, name, language):
            line.append("\n" if "\n" in line.plain else "  ").append(origin)
        rows.add_row(Text(visible(name)), line)
    body: list[RenderableType] = [
        rows if rows.row_count else Text(terminal_text("no_arguments", language), style="dim")
    ]
    body += _warnings(call, language)
    title = Text.assemble((place, "dim"), (visible(str(call["name"])), "bold"))
    return Panel(Group(*body), title=title, title_align="left", border_style="yellow")


def _shown_arguments(call: Call, language: str) -> Mapping[str, Any]:
    """The arguments of a call; of a plan its steps, a line each."""
    arguments: Mapping[str, Any] = call["arguments"]
    if not is_plan(call):
        return arguments
    goal, *steps = plan_lines(arguments, language)
    return {"goal": goal, "steps": "\n".join(["", *steps])}


def _heading(question: Question, language: str) -> Text:
    """How many calls wait; before it what was wrong with the last answer, if any."""
    if question["kind"] == WAIT:
        return Text(word("waits", language), style="bold yellow")
    calls = question.get("calls", ())
    n = len(calls)
    name = "asked_plan" if any(map(is_plan, calls)) else "asked_one" if n == 1 else "asked" if n else "asked_question"
    heading = Text(terminal_text(name, language, n=n), style="bold yellow")
    problem = question.get("problem")
    return Text.assemble((f"{_further(visible(problem))}\n", "red"), heading) if problem else heading


def _warnings(call: Call, language: str) -> list[Text]:
    """Why the person is asked, and what to check first."""
    reason = call.get("reason")
    found = [Text(terminal_text(f"asked_{reason}", language), style="yellow")] if reason in DOUBTS else []
    if refused := call.get("refused"):
        found.append(Text(_further(visible(refused)), style="red"))
    if call.get("unknown_outcome"):
        found.append(Text(terminal_text("asked_unknown", language), style="bold yellow"))
    return found


def _title(call: Call) -> Text:
    return Text.assemble((f"{call['index']} ", "dim"), (_further(visible(str(call["name"]))), "bold"))


def _further(text: str) -> str:
    """The text with its further lines indented, so that none passes for another question or call."""
    return text.replace("\n", "\n" + " " * INDENT)


def _value(value: Any, language: str) -> str:
    """JSON, but a text of several lines as it reads; a long one cut, saying by how much."""
    if isinstance(value, str) and "\n" in value:
        text = f"\n{value}" if value[:1] != "\n" else value
    elif isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    else:
        text = json_line(value)
    left = len(text) - MOST
    return visible(text) if left <= 0 else f"{visible(text[:MOST])}{terminal_text('more', language, n=left)}"


class Questioner:
    """Asks about one call after the other."""

    def __init__(
        self,
        console: Console,
        language: str,
        read: Callable[[str], str] = read_line,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._console = console
        self._language = language
        self._read = read
        self._editor = editor_of(environ)
        self._written: dict[int, str] = {}
        """The arguments that were written for a call, by its number: an edit that is refused starts from them."""

    def ask(self, question: Question) -> Answer | None:
        """A verdict on each call, or a text; None if the person leaves without deciding, by Ctrl-C or Ctrl-D."""
        if question["kind"] != "approval":
            return self._text(question)
        calls = [call for call in question["calls"] if not call.get("refused")]
        if not calls:
            print_question(self._console, question, self._language)
            return None
        n = len(calls)
        self._console.print()
        self._console.print(_heading(question, self._language))
        verdicts: list[Verdict] = []
        try:
            for place, call in enumerate(calls):
                if _is_allowed(call, calls, verdicts):
                    verdicts.append({"index": call["index"], "verdict": "approve"})
                    continue
                self._console.print(call_panel(call, self._language, f"{place + 1}/{n} " if n > 1 else ""))
                discard_typed()  # an answer to what was not seen yet is none
                verdict = self._verdict(call, last=place == n - 1)
                if verdict is None:
                    verdicts += [{"index": left["index"], "verdict": "approve"} for left in calls[place:]]
                    break
                verdicts.append({"index": call["index"], **verdict})
        except (EOFError, KeyboardInterrupt):
            self._console.print()
            return None
        return {"verdicts": verdicts}

    def _text(self, question: Question) -> Answer | None:
        print_question(self._console, question, self._language)
        discard_typed()
        try:
            while not (text := self._read(f"{terminal_text('your_answer', self._language)} ").strip()):
                pass
        except (EOFError, KeyboardInterrupt):
            self._console.print()
            return None
        return {"answer": text}

    def _verdict(self, call: Call, *, last: bool) -> Verdict | None:
        """What is decided on a call; None approves it and all the rest."""
        question, possible = self._choices(call, last=last), list_decisions(call)
        while True:
            match given := self._read(question).strip():
                case "A" | "ALL" | "all" if "approve" in possible:
                    return None
                case "a" | "approve" if "approve" in possible:
                    return {"verdict": "approve"}
                case _ if "reject" in possible and (said := _REJECTS.fullmatch(given)):
                    why = said[1] or self._read(f"{terminal_text('why', self._language)} ")
                    return {"verdict": "reject", "reason": why.strip()}
                case "e" | "E" | "edit" if "edit" in possible:
                    if (arguments := self._edited(call)) is not None:
                        return {"verdict": "edit", "arguments": arguments}
                case "w" | "W" | "respond" if RESPOND in possible:
                    if result := self._read(f"{terminal_text('result_given', self._language)} ").strip():
                        return {"verdict": RESPOND, "reason": result}
                case key if allowed := _allowed_always(key, call):
                    return allowed
                case other if other:
                    self._say("no_choice", given=other)

    def _choices(self, call: Call, *, last: bool) -> str:
        keys = [*list_decisions(call)]
        if not last and "approve" in keys:
            keys.insert(keys.index("approve") + 1, "all")
        choices = [" · ".join(terminal_text(f"choose_{key}", self._language) for key in keys)]
        if _may_be_allowed(call):
            choices.append(terminal_text("choose_always", self._language))
            choices += [flow_line(call, self._language)] if _has_flow(call) else []
        return "\n".join([*choices, terminal_text("your_choice", self._language)])

    def _edited(self, call: Call) -> dict[str, Any] | None:
        """The arguments as the person writes them; None if they were left as they are."""
        original = visible(json.dumps(call["arguments"], ensure_ascii=False, indent=2 if self._editor else None))
        text = self._written.get(call["index"], original)
        while (text := self._change(text)).strip() not in ("", original):
            self._written[call["index"]] = text
            try:
                return arguments_of(text)
            except ValueError as error:
                self._say("no_object", why=error)
                if self._editor:
                    self._read(f"{terminal_text('again', self._language)} ")
        self._console.print(Text(terminal_text("unchanged", self._language), style="dim"))
        return None

    def _change(self, text: str) -> str:
        if self._editor:
            try:
                return edited(text, self._editor).strip()
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                self._say("no_editor", editor=self._editor, why=error)
                self._editor = ""
        with _already_written(text.replace("\n", " ")):
            return self._read(f"{terminal_text('write', self._language)} ")

    def _say(self, name: str, **slots: object) -> None:
        print_prose(self._console, Text(visible(terminal_text(name, self._language, **slots)), style="red"))


def _allowed_always(key: str, call: Call) -> Verdict | None:
    """What a letter allows always, if it does."""
    if not _may_be_allowed(call):
        return None
    match key:
        case "t" | "task" | "s" | "session":
            return _always(key)
        case "T" | "S" if call["arguments"]:  # a rule without arguments would be for all calls
            return {**_always(key), "only": call["arguments"]}
        case "f" | "flow" if _has_flow(call):
            return {**_always("session"), "flow": True}
    return None


def _may_be_allowed(call: Call) -> bool:
    """Whether a person may allow a tool always: not where each call needs approvals of its own, or a graph asks."""
    return DECISIONS not in call and not ApprovalTerms.of(call).each_call


def _has_flow(call: Call) -> bool:
    """Whether what a person is asked about came from somewhere."""
    flow = flow_of(call)
    return bool(flow) and all(flow.values())


def _always(key: str) -> Verdict:
    return {"verdict": "approve", "always": "task" if key.lower().startswith("t") else "session"}


def _is_allowed(call: Call, calls: Sequence[Call], verdicts: Sequence[Verdict]) -> bool:
    """Whether calls like it were just allowed always, and nothing speaks against this one."""
    decided = zip(calls, verdicts, strict=False)
    rules = [
        PermissionRule(known["name"], each.get("only", {}), flow_of(known) if each.get("flow") else {})
        for known, each in decided
        if each.get("always")
    ]
    is_allowed = any(rule.matches(call) for rule in rules)
    return is_allowed and not call.get("unknown_outcome")


@contextmanager
def _already_written(text: str) -> Iterator[None]:
    """Where the line can be edited, begin it with the text."""
    try:
        import readline
    except ImportError:
        yield
        return
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        yield
    finally:
        readline.set_startup_hook()


def editor_of(environ: Mapping[str, str]) -> str:
    """The command of the editor, or empty."""
    return environ.get("VISUAL") or environ.get("EDITOR") or ""


def edited(text: str, editor: str) -> str:
    """The text as it was left by the editor."""
    handle, name = tempfile.mkstemp(suffix=".json", prefix="segue-", text=True)
    path = Path(name)
    try:
        os.close(handle)
        path.write_text(text, encoding="utf-8")
        with _interrupts_left_to_the_editor():
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        return path.read_text(encoding="utf-8-sig")
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _interrupts_left_to_the_editor() -> Iterator[None]:
    """Ctrl-C goes to both; ignoring it outright would be passed on to the editor."""
    usual = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
