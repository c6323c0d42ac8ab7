"""The comparison of what an agent did in a turn with what it does now, and the judge of it."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Self

from langchain_core.messages import HumanMessage, SystemMessage

from ...core.calls import RECALL, Tool, has_effect
from ...core.decision import read_object
from ...core.errors import UnreadableReply
from ...core.json import object_schema
from ...core.models import Model, ModelRequest
from ...core.records import Json
from ...nodes.permission import all_arguments
from ...prompts.catalogue import backtest_text, colon, render
from ..rehearsal.grades import ask_judge
from ..rehearsal.report import canonical
from .recording import RecordedTurn

# What an agent did in a turn, as it was recorded or as it is now, and the form in which calls are compared.

Answered = Literal["recording", "live", "stand_in", "missing", "refused", "nothing"]
"""What answered a call: the recording, its tool, a stand-in; its tool is missing, or refused the arguments."""
RAN: Sequence[Answered] = ("recording", "live", "stand_in", "nothing")


@dataclass(frozen=True, kw_only=True)
class MadeCall:
    """A call; `key` is equal for calls that mean the same, and `whole` are its arguments with defaults."""

    name: str
    arguments: Json
    whole: Json
    key: str
    effect: bool
    answered: Answered = "recording"
    stand_in: Any = None
    """The result of a stand-in."""

    def text(self, beside: "MadeCall | None" = None) -> str:
        """The call on one line; with defaults where it is the same as another one but for them."""
        return f"{self.name}({json.dumps(self.given(beside), ensure_ascii=False)})"

    def given(self, beside: "MadeCall | None" = None) -> Json:
        """The arguments; with defaults where they are the same as another call's but for them."""
        return self.whole if beside and beside.arguments == self.arguments else self.arguments

    def json(self) -> Json:
        """{"name", "arguments"}."""
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What came of a turn. `status` is done, error, waiting, or stopped at a call that nothing could answer."""

    status: str
    answer: str = ""
    error: str = ""
    question: str = ""
    """What it waits with."""
    calls: Sequence[MadeCall] = ()
    usage: Mapping[str, Any]
    """{"input", "output", "calls", "cost"}."""
    seconds: float = 0.0

    @property
    def ran(self) -> list[MadeCall]:
        """The calls that reached a tool, or would have."""
        return [call for call in self.calls if call.answered in RAN]


def key_of(name: str, arguments: Mapping[str, Any], tools: Mapping[str, Tool]) -> str:
    """The same text for calls that mean the same: keys in order, defaults filled in, 3.0 as 3."""
    return f"{name}({canonical(_whole(arguments, tools.get(name)))})"


def _whole(arguments: Mapping[str, Any], tool: Tool | None) -> Json:
    return all_arguments(arguments, tool) if tool else dict(arguments)


def call_of(
    name: str,
    arguments: Mapping[str, Any],
    tools: Mapping[str, Tool],
    answered: Answered,
    effects: Collection[str] | None = None,
) -> MadeCall:
    """A call as it is compared; one of an unknown tool has effects, and one of a tool that had `effects` then."""
    tool = tools.get(name)
    key, whole = key_of(name, arguments, tools), _whole(arguments, tool)
    return MadeCall(
        name=name,
        arguments=dict(arguments),
        whole=whole,
        key=key,
        effect=name in (effects or ()) or has_effect(name, tool),
        answered=answered,
    )


def recorded_behaviour(recorded: RecordedTurn, tools: Mapping[str, Tool]) -> Behaviour:
    """What was recorded; `tools` are those that the agent has now."""
    turn = recorded.turn
    return Behaviour(
        status=turn.status,
        answer=turn.answer,
        error=turn.error or turn.failure,
        calls=[
            call_of(call.name, call.arguments, tools, "recording", recorded.effects)
            for call in turn.tool_calls
            if call.name != RECALL
        ],
        usage=recorded.usage,
        seconds=recorded.seconds,
    )


# The comparison of what an agent did in a turn with what it does now.

MESSAGE_CHARS = 80
"""Characters of a message where a task is described."""


def shortened(text: str, most: int) -> str:
    """A text on one line, or its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Verdict(StrEnum):
    """What is different about a task, the worst first."""

    ERROR = "error"
    """It fails, or cannot be run any more."""
    OTHER_EFFECTS = "other_effects"
    """It calls tools that change something otherwise."""
    OTHER_CALLS = "other_calls"
    """It calls tools that only read otherwise, or asks something else."""
    OTHER_WORDS = "other_words"
    """It makes the same calls, and answers in other words."""
    SAME = "same"


CHANGED = (Verdict.ERROR, Verdict.OTHER_EFFECTS, Verdict.OTHER_CALLS)
"""The verdicts with which a backtest fails."""


@dataclass(frozen=True)
class Difference:
    """The first difference. `kind` is call, tool_missing, arguments_refused, question, error or answer.

    `then` and `now` are both sides as text, empty where there is none; `call` counts calls from 1.
    """

    kind: str
    then: str
    now: str
    call: int = 0

    @property
    def change(self) -> str:
        """Its kind; of a call whether one is changed, added or dropped."""
        if self.kind != "call":
            return self.kind
        return "changed" if self.then and self.now else "added" if self.now else "dropped"

    @property
    def tool(self) -> str:
        """The tool whose call differs; empty where none does."""
        of_call = self.kind == "call" or self.kind in _BROKEN.values()
        return (self.now or self.then).partition("(")[0] if of_call else ""

    def describe(self, language: str = "en", most: int = 200) -> str:
        """The difference as a sentence, with at most so many characters of each side."""
        kind = self.change
        then, now = shortened(self.then, most), shortened(self.now, most)
        return backtest_text(f"difference_{kind}", language, then=then, now=now, call=self.call)


_EFFECTS = ("added", "dropped", "changed")


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Calls with effects that differ: {"name", "arguments"}, and of changed ones {"name", "then", "now"}."""

    added: Sequence[Json] = ()
    dropped: Sequence[Json] = ()
    changed: Sequence[Json] = ()

    @classmethod
    def of(cls, parts: Iterable["Effects"]) -> Self:
        """All of these together."""
        every = list(parts)
        return cls(**{name: [each for part in every for each in getattr(part, name)] for name in _EFFECTS})

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.changed)


@dataclass(frozen=True)
class Sides:
    """A number then and now; None where it is not known."""

    then: float | None
    now: float | None


@dataclass(frozen=True, kw_only=True)
class TaskReport:
    """One task of a backtest.

    `answered` counts its calls by what answered them. `success` is (then, now) where it is known.
    """

    session_id: str
    task_id: str
    agent_id: str = ""
    verdict: Verdict
    difference: Difference | None = None
    effects: Effects = field(default_factory=Effects)
    message: str = ""
    status: str = "done"
    answers: tuple[str, str] = ("", "")
    """What was answered then, and now."""
    cost: Sides
    tokens: Sides
    seconds: Sides
    answered: dict[str, int] = field(default_factory=dict)
    recorded: Mapping[str, int] = field(default_factory=dict)
    """How many calls of each tool were recorded."""
    calls: Sequence[Json] = ()
    """What it calls now: {"name", "arguments"}."""
    stand_ins: Sequence[Json] = ()
    """Calls that a stand-in answered: {"name", "arguments", "result"}."""
    ran: Mapping[str, int] = field(default_factory=dict)
    """How many calls of each tool were really carried out."""
    success: tuple[bool | None, bool | None] = (None, None)
    judged: str = ""
    """Why the judge decided so."""
    steps: Sequence[Verdict] = ()
    """The verdict on each decision, where those were compared."""

    def describe(self, language: str = "en") -> str:
        """The verdict, the message and the first difference."""
        verdict, message = backtest_text(self.verdict, language), shortened(self.message, MESSAGE_CHARS)
        head = f"{verdict}{colon(language)}{message}  ({self.session_id}, {self.task_id[:8]})"
        return f"{head}\n{self.difference.describe(language)}" if self.difference else head

    def json(self) -> Json:
        """The task as JSON."""
        return asdict(self) | {"verdict": str(self.verdict)}


_BROKEN = {"missing": "tool_missing", "refused": "arguments_refused"}


def compared(then: Behaviour, now: Behaviour) -> tuple[Verdict, Difference | None, Effects]:
    """The verdict on a turn, its first difference, and the effects that differ."""
    effects = effects_of(then, now)
    difference = first_difference(then, now)
    if now.status == "error" and then.status != "error":
        is_broken = difference is not None and difference.kind in _BROKEN.values()
        return Verdict.ERROR, difference if is_broken else Difference("error", then.answer, now.error), effects
    if effects:
        return Verdict.OTHER_EFFECTS, difference, effects
    if difference:
        return Verdict.OTHER_CALLS, difference, effects
    said, says = _words(then), _words(now)
    if said != says:
        return Verdict.OTHER_WORDS, Difference("answer", then.answer or then.error, now.answer or now.error), effects
    return Verdict.SAME, None, effects


def _words(behaviour: Behaviour) -> str:
    """What is said, whatever its spaces; an error's own text is no part of the answer."""
    return " ".join((behaviour.answer or behaviour.error).split())


def effects_of(then: Behaviour, now: Behaviour) -> Effects:
    """The effects that differ; of a turn that stopped, nobody knows which later ones would be dropped."""
    old = [call for call in then.ran if call.effect]
    new = [call for call in now.ran if call.effect]
    gone, come = _without(old, new), _without(new, old)
    changed: list[Json] = []
    for call in [*come]:
        before = next((each for each in gone if each.name == call.name), None)
        if before:
            gone.remove(before)
            come.remove(call)
            changed.append({"name": call.name, "then": before.given(call), "now": call.given(before)})
    dropped = [] if now.status in ("stopped", "waiting") else gone
    return Effects(added=[c.json() for c in come], dropped=[c.json() for c in dropped], changed=changed)


def _without(calls: Sequence[MadeCall], others: Sequence[MadeCall]) -> list[MadeCall]:
    """The calls without one for each of the others that means the same."""
    left = Counter(call.key for call in others)
    found = []
    for call in calls:
        if left[call.key]:
            left[call.key] -= 1
        else:
            found.append(call)
    return found


def first_difference(then: Behaviour, now: Behaviour) -> Difference | None:
    """The first call or question that differs, whichever order the same calls come in."""
    gone, come = _without(then.ran, now.ran), _without(now.ran, then.ran)
    for place, call in enumerate(now.calls, 1):
        before = gone[0] if gone else None
        then_text, now_text = before.text(call) if before else "", call.text(before)
        if call.answered in _BROKEN:
            return Difference(_BROKEN[call.answered], then_text, now_text, place)
        if any(call is each for each in come):
            return Difference("call", then_text, now_text, place)
    if now.status == "waiting":
        return Difference("question", "", now.question)
    if gone:
        return Difference("call", gone[0].text(), "", 1 + next(n for n, c in enumerate(then.ran) if c is gone[0]))
    return None


# The judge of changed answers: whether they say the same, and whether each version does what was asked.

WITHHELD = "<withheld>"
"""What the judge sees in place of a hidden or secret value."""
_BOOLEAN = {"type": "boolean"}
_REPLY = object_schema(
    "reason", "same", "before", "after", reason={"type": "string"}, same=_BOOLEAN, before=_BOOLEAN, after=_BOOLEAN
)


@dataclass(frozen=True)
class Judged:
    """What the judge says."""

    same: bool
    before: bool
    after: bool
    reason: str


async def judged(
    judge: Model,
    recorded: RecordedTurn,
    policy: str,
    then: Behaviour,
    now: Behaviour,
    report: TaskReport,
    is_private: Callable[[Any], bool],
) -> TaskReport:
    """The report of a task that differs, with what the judge says; an answer that says the same is the same.

    The judge is not sent private arguments, and not asked about answers that are.
    """
    language = recorded.turn.language or "en"
    if any(is_private(_said(each)) for each in (then, now)):
        return report
    messages = [
        SystemMessage(render("judge_change", language, policy=policy or "-")),
        HumanMessage(
            f"{recorded.turn.message}\n\nBEFORE\n{_told(then, is_private)}\n\nAFTER\n{_told(now, is_private)}"
        ),
    ]
    request = ModelRequest(purpose="converse", messages=messages, schema=_REPLY)
    said = await ask_judge(judge, request, _read, recorded.task.task_id, language)
    report = replace(report, success=(said.before, said.after), judged=said.reason)
    if report.verdict is Verdict.OTHER_WORDS and said.same:
        return replace(report, verdict=Verdict.SAME, difference=None)
    return report


def _told(behaviour: Behaviour, is_private: Callable[[Any], bool]) -> str:
    lines = []
    for call in behaviour.calls:
        shown = {name: WITHHELD if is_private(value) else value for name, value in call.arguments.items()}
        lines.append(f"[CALL] {replace(call, arguments=shown).text()}")
    return "\n".join([*lines, f"[BOT] {_said(behaviour)}"])


def _said(behaviour: Behaviour) -> str:
    return behaviour.answer or behaviour.question or behaviour.error or behaviour.status


def _read(text: str) -> Judged:
    """The verdict in a reply."""
    form = read_object(text)
    same, before, after = (form.get(name) for name in ("same", "before", "after"))
    if not (isinstance(same, bool) and isinstance(before, bool) and isinstance(after, bool)):
        raise UnreadableReply("`same`, `before` and `after` are not true or false.")
    return Judged(same, before, after, str(form.get("reason", "")))
