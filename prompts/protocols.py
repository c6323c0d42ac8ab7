"""Progress of tasks for clients of other protocols, and the results of calls that they carry out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .catalogue import Language, Texts

_text = Texts("protocols")


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


def with_message(result: str, message: str, language: Language) -> str:
    """The result of a client's call, and what the user wrote since."""
    return f"{result}\n\n{_text('user_wrote', language, message=message)}"


def not_carried_out(language: Language) -> str:
    """The error of a call that a person ended."""
    return _text("not_carried_out", language)


def no_answer(language: Language) -> str:
    """The sentence on a task that stopped without an answer."""
    return _text("no_answer", language)


_APPROVING = frozenset({"approve", "approved", "yes", "y", "ok", "okay", "批准", "同意", "可以", "好", "好的", "是"})
_MARKS = " \t\r\n.!。！,，"


def question_text(question: Mapping[str, Any], language: Language) -> str:
    """The question, or the calls to approve with their arguments, after what is to be known of them."""
    if question["kind"] == "approval":
        text = _text("approve", language, calls=_listed(question["calls"]))
        return f"{question['problem']} {text}" if question.get("problem") else text
    return str(question["question"])


def reply_notice(question: Mapping[str, Any], language: Language) -> str:
    """The question, and how a message answers it."""
    text = question_text(question, language)
    return f"{text} {_text('reply', language)}" if question["kind"] == "approval" else text


def ask_again(question: Mapping[str, Any], session_id: str, language: Language) -> str:
    """The question, and how another call answers it."""
    named = {"session_id": session_id, "interrupt_id": question["interrupt_id"]}
    return f"{reply_notice(question, language)} {_text('call_again', language, **named)}"


def stop_notice(status: str, language: Language, *, resumed: bool = False) -> str:
    """The sentence on a task that was paused or cancelled, or that the service resumes when it starts again."""
    if status == "cancelled":
        return _text("cancelled", language)
    return _text("stopped" if resumed else "paused", language)


_CONTINUING = frozenset({"continue", "please continue", "go on", "resume", "继续", "请继续", "继续吧", "接着说"})


def asks_to_continue(message: str) -> bool:
    """Whether a reply to `stop_notice` asks for the rest of the answer, and for nothing else."""
    return message.strip(_MARKS).casefold() in _CONTINUING


def answer_of(question: Mapping[str, Any], reply: str) -> Any:
    """The answer that a reply to `reply_notice` is, as `App.answer` takes it."""
    if question["kind"] != "approval":
        return {"answer": reply}
    if reply.strip(_MARKS).casefold() in _APPROVING:
        return "approve"
    return _rejection(question, reply)


def answer_schema(question: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of the form that a person fills in."""
    if question["kind"] != "approval":
        return {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    properties = {"verdict": {"type": "string", "enum": ["approve", "reject"]}, "reason": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["verdict"]}


def verdict_of(question: Mapping[str, Any], form: Mapping[str, Any], language: Language, *, accepted: bool) -> Any:
    """The answer to an approval that a filled form is; whatever its reason says, only its verdict approves."""
    if accepted and form.get("verdict") == "approve":
        return "approve"
    return _rejection(question, str(form.get("reason") or "") or declined(language))


def declined(language: Language) -> str:
    """The reason of a rejection that gives none."""
    return _text("declined", language)


def _rejection(question: Mapping[str, Any], reason: str) -> dict[str, Any]:
    verdicts = [{"index": call["index"], "verdict": "reject", "reason": reason} for call in question["calls"]]
    return {"verdicts": verdicts}


def _listed(calls: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{call['name']}({', '.join(f'{name}={_json(value)}' for name, value in call['arguments'].items())})"
        for call in calls
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
