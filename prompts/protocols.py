"""Progress of tasks for clients of other protocols, and the results of calls that they carry out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.calls import FORM_SCHEMA, REVIEW_PLAN
from segue.core.reviews import RESPOND, list_decisions
from segue.core.task import TaskStatus

from .catalogue import Language, Texts, word
from .verdicts import own_words, read_verdict

_text = Texts("protocols")
_LINE_END = "\n"


def progress(kind: str, language: Language, **slots: object) -> str:
    """The sentence on how far a task is; empty for what is not worth one."""
    name = f"progress_{kind.lower()}"
    return _text(name, language, **slots) if name in _text else ""


def client_call_notice(name: str, arguments: Mapping[str, Any], language: Language) -> str:
    """The question of a call that the client carries out."""
    shown = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return _text("client_call", language, name=name, arguments=shown)


def client_result(content: str | None, error: str, language: Language) -> str:
    """The result of a client's call: its content, None where it sent none, or error."""
    if error:
        return _text("client_error", language, error=error)
    if content is None:
        return _text("no_result", language)
    return content.strip() or _text("carried_out", language)


def not_carried_out(language: Language) -> str:
    """The error of a call that a person ended."""
    return _text("not_carried_out", language)


def no_answer(language: Language) -> str:
    """The sentence on a task that stopped without an answer."""
    return _text("no_answer", language)


def question_text(question: Mapping[str, Any], language: Language) -> str:
    """The question with its choices, the calls to approve with their arguments, or the plan to review."""
    if question["kind"] == "approval":
        plans = [call for call in question["calls"] if is_plan(call)]
        lines = [line for call in question["calls"] for line in call.get("why", ())]
        text = "\n".join([_text("approve", language, calls=_listed(question["calls"])), *lines])
        if plans:
            text = _text("review", language, plan="\n".join(plan_lines(plans[0]["arguments"], language)))
        return f"{question['problem']} {text}" if question.get("problem") else text
    return with_choices(str(question["question"]), question.get("choices", ()))


def with_choices(question: str, choices: Sequence[str]) -> str:
    """A question, and below it the answers that it suggests."""
    return "\n".join([question, *(f"- {choice}" for choice in choices)])


def is_plan(call: Mapping[str, Any]) -> bool:
    """Whether a call that a person is asked about is a plan for review."""
    return call["name"] == REVIEW_PLAN and isinstance(call["arguments"].get("steps"), list)


def plan_lines(plan: Mapping[str, Any], language: str) -> list[str]:
    """The goal and the steps of a plan that a person reviews, a line each."""
    lines = [str(plan.get("goal", ""))]
    for step in plan["steps"]:
        action, params = step.get("action"), step.get("params") or {}
        call = f" · {_listed([{'name': action, 'arguments': params}])}" if action and action != "none" else ""
        after = ", ".join(map(str, step.get("depends_on") or ()))
        needs = f" ({_text('plan_after', language, steps=after)})" if after else ""
        status = f" [{word(step['status'], language)}]" if step.get("status") else ""
        lines.append(f"{step['step']}. {step.get('description') or action}{call}{needs}{status}")
    return lines


def reply_notice(question: Mapping[str, Any], language: Language) -> str:
    """The question, and how a message answers it."""
    text = question_text(question, language)
    if question["kind"] != "approval":
        return text
    verdicts = {_verdict_of_text(call, approving=False) for call in question["calls"]}
    how = "reply_result" if RESPOND in verdicts else "reply"
    if not _may_all(question, "approve"):
        how = "reply_only_result"
    return f"{text}{'' if text.endswith(_LINE_END) else ' '}{_text(how, language)}"


def go_on_request(language: Language) -> str:
    """The message of a client that wants its last answer to go on."""
    return _text("go_on", language)


def left_out_notice(name: str, language: Language) -> str:
    """The note that a file of an earlier message does not go along."""
    return _text("left_out", language, name=name)


def ask_again(question: Mapping[str, Any], session_id: str, language: Language) -> str:
    """The question, and how another call answers it."""
    named = {"session_id": session_id, "interrupt_id": question["interrupt_id"]}
    return f"{reply_notice(question, language)} {_text('call_again', language, **named)}"


def stop_notice(status: str, language: Language, *, resumed: bool = False) -> str:
    """The sentence on a task that was paused or cancelled, or that the service resumes when it starts again.

    Of one that is done it says that its answer has no rest.
    """
    match TaskStatus(status):
        case TaskStatus.DONE:
            return _text("complete", language)
        case TaskStatus.CANCELLED:
            return _text("cancelled", language)
        case (
            TaskStatus.PENDING
            | TaskStatus.RUNNING
            | TaskStatus.WAITING
            | TaskStatus.PAUSING
            | TaskStatus.PAUSED
            | TaskStatus.ERROR
        ):
            return _text("stopped" if resumed else "paused", language)


_CONTINUING = frozenset({"continue", "please continue", "go on", "resume", "继续", "请继续", "继续吧", "接着说"})


def asks_to_continue(message: str) -> bool:
    """Whether a reply to `stop_notice` asks for the rest of the answer, and for nothing else."""
    return own_words(message).strip(" \t\r\n.!。！,，").casefold() in _CONTINUING


def answer_of(question: Mapping[str, Any], reply: str) -> Any:
    """The answer that a reply to `reply_notice` is, as `App.answer` takes it.

    None if it neither approves nor rejects what waits for approval: then the question is to be sent again.
    """
    if question["kind"] != "approval":
        return {"answer": reply}
    said, words = read_verdict(reply), own_words(reply)
    if said == "approve" and _may_all(question, "approve"):
        return "approve"
    verdicts = [(call, _verdict_of_text(call, approving=said == "approve")) for call in question["calls"]]
    if not said and not all(verdict == RESPOND for _, verdict in verdicts):
        return None
    return {"verdicts": [_with_reason(call, verdict, words) for call, verdict in verdicts]}


def _verdict_of_text(call: Mapping[str, Any], *, approving: bool) -> str:
    """The verdict that a text is: where a call cannot be rejected, it is the result."""
    allowed = list_decisions(call)
    if approving and "approve" in allowed:
        return "approve"
    return RESPOND if RESPOND in allowed and "reject" not in allowed else "reject"


def _may_all(question: Mapping[str, Any], verdict: str) -> bool:
    return all(verdict in list_decisions(call) for call in question["calls"])


def _with_reason(call: Mapping[str, Any], verdict: str, reason: str) -> dict[str, Any]:
    return {"index": call["index"], "verdict": verdict, **({} if verdict == "approve" else {"reason": reason})}


def answer_schema(question: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of the form that a person fills in."""
    if isinstance(form := question.get(FORM_SCHEMA), Mapping):
        return {**form}
    if question["kind"] != "approval":
        return {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    allowed = [each for each in ("approve", "reject", RESPOND) if _may_all(question, each)]
    properties = {"verdict": {"type": "string", "enum": allowed or ["approve", "reject"]}, "reason": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["verdict"]}


def verdict_of(question: Mapping[str, Any], form: Mapping[str, Any], language: Language, *, accepted: bool) -> Any:
    """The answer to an approval that a filled form is; whatever its reason says, only its verdict approves.

    The form may have `verdicts` instead, one for each call.
    """
    if accepted and isinstance(form.get("verdicts"), list):
        return {"verdicts": form["verdicts"]}
    verdict, reason = form.get("verdict") if accepted else "reject", str(form.get("reason") or "")
    if verdict == "approve":
        return "approve"
    if verdict == RESPOND:
        return {"verdicts": [_with_reason(call, RESPOND, reason) for call in question["calls"]]}
    return {"verdicts": [_with_reason(call, "reject", reason or declined(language)) for call in question["calls"]]}


def declined(language: Language) -> str:
    """The reason of a rejection that gives none."""
    return _text("declined", language)


def _listed(calls: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for call in calls:
        given = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call["arguments"].items()]
        lines.append(f"{call['name']}({', '.join(given)})")
    return ", ".join(lines)
