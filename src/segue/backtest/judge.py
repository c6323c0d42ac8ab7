"""The judge of changed answers: whether they say the same, and whether each version does what was asked."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from ..core.decision import read_object
from ..core.errors import UnreadableReply
from ..core.json_schema import object_schema
from ..core.models import Model, ModelRequest
from ..prompts.load import render
from ..rehearsal.report.judge import ask_judge
from .behaviour import Behaviour
from .comparison import TaskReport, Verdict
from .recording import RecordedTurn

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

    Raises:
        UnreadableReply, ModelError.
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
    """The verdict in a reply.

    Raises:
        UnreadableReply.
    """
    form = read_object(text)
    same, before, after = (form.get(name) for name in ("same", "before", "after"))
    if not (isinstance(same, bool) and isinstance(before, bool) and isinstance(after, bool)):
        raise UnreadableReply("`same`, `before` and `after` are not true or false.")
    return Judged(same, before, after, str(form.get("reason", "")))
