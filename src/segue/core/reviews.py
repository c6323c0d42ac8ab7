"""Reviews of tool calls that LangChain's agents ask for, as questions of Segue, and decisions in their form."""

from collections.abc import Mapping, Sequence
from typing import Any

DECISIONS = "decisions"
"""In a call of a question: what its graph lets a person decide; any other call can be approved, edited and rejected."""
OF_APPROVALS = ("approve", "edit", "reject")
RESPOND = "respond"
"""The decision to give the result in place of the tool."""
_ONE = "tool_approval"
_ANY = (*OF_APPROVALS, RESPOND)


def list_decisions(call: Mapping[str, Any]) -> Sequence[str]:
    """What a person may decide about a call of a question."""
    decisions: Sequence[str] = call.get(DECISIONS, OF_APPROVALS)
    return decisions


def read_review(value: Any) -> dict[str, Any] | None:
    """The value of an interrupt as a question about calls, where it is one of LangChain's middleware."""
    match value:
        case {"type": "tool_approval", "name": str(), "args": Mapping()}:
            return {"kind": "approval", "calls": [_call(0, value, _ANY)]}
        case {"action_requests": [*requests], "review_configs": [*configs]} if requests:
            allowed = {config["action_name"]: config["allowed_decisions"] for config in configs}
            calls = [_call(index, each, allowed.get(each["name"], _ANY)) for index, each in enumerate(requests)]
            return {"kind": "approval", "calls": calls}
    return None


def _call(index: int, request: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    call = {"index": index, "name": request["name"], "arguments": dict(request["args"]), "version": ""}
    about = {"description": request["description"]} if request.get("description") else {}
    return {**call, **about, DECISIONS: [*allowed]}


def write_decisions(value: Any, answer: Any) -> Any:
    """A stored answer to the value of an interrupt in the form that its graph wants it in."""
    question = read_review(value)
    if question is None:
        return answer
    names = {call["index"]: call["name"] for call in question["calls"]}
    decisions = [_decision(verdict, names[verdict["index"]]) for verdict in answer["verdicts"]]
    return decisions[0] if value.get("type") == _ONE else {DECISIONS: decisions}


def _decision(verdict: Mapping[str, Any], name: str) -> dict[str, Any]:
    match verdict["verdict"]:
        case "edit":
            return {"type": "edit", "edited_action": {"name": name, "args": verdict["arguments"]}}
        case "reject" | "respond" as kind:
            return {"type": kind, **({"message": verdict["reason"]} if verdict.get("reason") else {})}
    return {"type": "approve"}


def read_decisions(answer: Any) -> Any:
    """An answer in the form of LangChain as one with verdicts; any other stays as it is."""
    match answer:
        case {"decisions": [*decisions]} if all(isinstance(each, Mapping) for each in decisions):
            return {"verdicts": [_verdict(index, each) for index, each in enumerate(decisions)]}
        case {"type": str()}:
            return {"verdicts": [_verdict(0, answer)]}
    return answer


def _verdict(index: int, decision: Mapping[str, Any]) -> dict[str, Any]:
    verdict = {"index": index, "verdict": decision.get("type"), "reason": decision.get("message", "")}
    edited = decision.get("edited_action")
    return {**verdict, "arguments": edited.get("args")} if isinstance(edited, Mapping) else verdict
