"""Approval of tool calls by a person, before any call of their batch runs."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from segue.core.approval import ApprovalTerms, Grant, Verdict, flow_of, settled, unfit
from segue.core.calls import AnyCall, Approved, Asked, PendingCall, Rejected, Running, move_call
from segue.core.digests import tool_digest
from segue.core.errors import Clause, InvalidAnswer, listed
from segue.core.events import ApprovalGiven, Durable, PermissionGranted
from segue.core.provenance import DOUBTS
from segue.core.tools import Tool
from segue.prompts.catalogue import error_text, phrase
from segue.tools.calls import argument_error

from .context import NodeContext

Calls = Sequence[Mapping[str, Any]]


def by_person(call: PendingCall, task_id: str) -> bool:
    """Whether a person approved the call in this task; a fork is another task and asks again."""
    return isinstance(call.decision, Approved) and call.decision.task == _mark(task_id)


def is_approved(call: PendingCall, task_id: str, tool: Tool | None) -> bool:
    """Whether a person approved the call in this task, and its tool is still the same."""
    return tool is not None and by_person(call, task_id) and not is_outdated(call, task_id, tool)


def is_outdated(call: PendingCall, task_id: str, tool: Tool) -> bool:
    """Whether a person approved the call in this task, but its tool has changed since."""
    decision = call.decision
    return isinstance(decision, Approved) and decision.task == _mark(task_id) and decision.version != tool_digest(tool)


def _mark(task_id: str) -> str:
    """A digest of the task's id: copying a thread replaces the ids in its state, and this stays what it was."""
    return sha256(task_id.encode()).hexdigest()[:16]


def is_in_doubt(call: PendingCall) -> bool:
    """Whether by the sources of the call a person is asked, or nobody looked at them."""
    return call.finding is None or call.finding in DOUBTS


def needs_no_approval(call: PendingCall, tool: Tool | None) -> bool:
    """Whether by the sources of the call nobody has to be asked."""
    return tool is not None and tool.approve != "always" and not is_in_doubt(call)


def reason_not_asked(call: PendingCall, tool: Tool | None) -> str:
    """Why nobody was asked about a call that was decided after untrusted text; empty otherwise."""
    return call.finding if call.finding and call.finding != "clean" and needs_no_approval(call, tool) else ""


def all_arguments(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """A call's arguments and what the tool takes where it says nothing: a person has to see both."""
    properties = tool.spec["function"].get("parameters", {}).get("properties", {})
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    defaults |= tool.spec.get("segue", {}).get("defaults", {})
    return {**arguments, **defaults, **arguments}  # what the model chose comes first


def question_of(index: int, arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """What a person is shown of a call of this tool."""
    shown = {"arguments": all_arguments(arguments, tool), "version": tool_digest(tool)}
    return {"index": index, "name": tool.name, **shown, **tool.terms.json()}


def question_about(call: PendingCall, tool: Tool) -> dict[str, Any]:
    """What a person is shown of a decided call, and why they are asked about it."""
    asked = question_of(call.index, call.arguments, tool)
    if call.assessment:
        known = call.assessment.json()
        asked |= {"sources": known["sources"], "reason": known["finding"], "doubted": known["doubted"]}
    return asked


def matching_grants(call: PendingCall, tool: Tool, grants: Sequence[Grant]) -> list[Grant]:
    """The grants whose rule the call matches."""
    asked = question_about(call, tool)
    return [grant for grant in grants if grant.rule.matches(asked)]


def granted_scope(call: PendingCall, tool: Tool, grants: Sequence[Grant]) -> str:
    """The scope of the first grant for the call's tool as it is now, or empty."""
    version = tool_digest(tool)
    return next((grant.scope for grant in matching_grants(call, tool, grants) if grant.version == version), "")


VERSIONS = "versions"
"""In a stored answer: the digests of the tools that were asked about, by the indexes of their calls."""


_SCRATCHPAD = "__pregel_scratchpad"
"""Where LangGraph keeps the answers for a node."""


def ask_person(calls: Calls, tools: Mapping[str, Tool], language: str, outdated: Collection[str]) -> dict[int, Verdict]:
    """The verdicts by index. Interrupts the graph until a person has answered, and again if the answer does not fit.

    `outdated` are the tools that changed since they were approved.
    """
    question: dict[str, Any] = {"kind": "approval", "calls": [dict(call) for call in calls]}
    problem = _changed(outdated, language) if outdated else ""
    while True:
        answer = _latest_answer({**question, "problem": problem} if problem else question)
        if changed := _outdated(calls, answer):
            problem = _changed(changed, language)
            continue
        try:
            return {verdict.index: verdict for verdict in check_answer(calls, tools, answer)}
        except InvalidAnswer as error:
            problem = error_text(error, language)


def _latest_answer(question: Mapping[str, Any]) -> Any:
    """The last answer there is: those before it did not fit, or were about another version of a tool."""
    answer = interrupt(question)
    while True:
        try:
            answer = interrupt(question)
        except GraphInterrupt:
            return answer


def _outdated(calls: Calls, answer: object) -> list[str]:
    """The tools that are others than those that the answer is about."""
    known = answer.get(VERSIONS) if isinstance(answer, Mapping) else None
    return [call["name"] for call in calls if known is not None and known.get(str(call["index"])) != _version(call)]


def answered_now() -> frozenset[int]:
    """The indexes of the calls that the answers which this run of the node begins with are about.

    They are asked about again whatever was found since, so that no answer goes unread.
    """
    pad = get_config().get("configurable", {}).get(_SCRATCHPAD)
    answers = [*pad.resume, pad.get_null_resume(False)] if pad else []
    known = (answer.get(VERSIONS) or {} for answer in answers if isinstance(answer, Mapping))
    return frozenset(int(index) for versions in known for index in versions)


def _changed(tools: Collection[str], language: str) -> str:
    return phrase("tool_changed", language, tools=listed(dict.fromkeys(tools)))


def versions_of(calls: Calls) -> dict[str, str]:
    """The digests of the tools that a question asks about."""
    return {str(call["index"]): _version(call) for call in calls}


def _version(call: Mapping[str, Any]) -> str:
    """The digest of a call's tool, and who had to approve it: a question from elsewhere may say something else."""
    terms = ApprovalTerms.of(call).json()
    return f"{call['version']} {json.dumps(terms)}" if terms else str(call["version"])


def check_answer(calls: Calls, tools: Mapping[str, Tool], answer: object) -> tuple[Verdict, ...]:
    """The verdicts in the order of the calls that were asked about.

    Raises:
        InvalidAnswer: the answer does not fit them, or edited arguments do not fit their tool.
    """
    verdicts = settled(calls, answer)
    found: list[Clause] = []
    for call, verdict in zip(calls, verdicts, strict=True):
        if verdict.verdict == "edit" and (why := argument_error(tools.get(call["name"]), verdict.arguments or {})):
            what = "call {index}: the arguments are not valid for {tool}: {why}"
            found.append(Clause(what, index=verdict.index, tool=call["name"], why=why))
    if found:
        raise unfit(found)
    return verdicts


def check_tools(calls: Calls, verdicts: Sequence[Verdict], tools: Mapping[str, Tool], agent_id: str) -> None:
    """Refuse to approve a call that cannot run: the agent was changed since it was asked about.

    Raises:
        InvalidAnswer: naming the tools that are missing.
    """
    wanted = [call["name"] for call, verdict in zip(calls, verdicts, strict=True) if verdict.verdict != "reject"]
    if missing := [*dict.fromkeys(name for name in wanted if name not in tools)]:
        raise InvalidAnswer(
            "The agent {agent} no longer has the tool {tools}: add it to the agent's tools again, or reject the call.",
            agent=agent_id,
            tools=listed(missing),
        )


def decide_call(call: AnyCall, verdict: Verdict, task_id: str, tool: Tool) -> AnyCall:
    """The call that a person was asked about, with what they decided."""
    if verdict.verdict == "reject":
        return move_call(call, Rejected(verdict.reason.strip()))
    approved = Approved(_mark(task_id), tool_digest(tool))
    if verdict.verdict == "edit":
        original = call.arguments if call.original is None else call.original
        call = replace(call, arguments=verdict.arguments or {}, original=original)
    match call.state:
        case Asked(before=Running() as before):
            return move_call(call, replace(before, decision=approved))
    return move_call(call, approved)


def approval_events(calls: Calls, verdicts: Mapping[int, Verdict], work: NodeContext, **ids: Any) -> list[Durable]:
    """What a person decided, and the tools that they allowed from here on."""
    given = [(call, verdicts[call["index"]]) for call in calls]
    allowed = dict.fromkeys(
        (str(verdict.rule(call)), verdict.always, call["version"]) for call, verdict in given if verdict.always
    )
    agent_id = work.agent.agent_id
    return [
        ApprovalGiven(verdicts=_entries(calls, verdicts), **ids),
        *(PermissionGranted(agent_id=agent_id, tool=rule, scope=s, version=v, **ids) for rule, s, v in allowed),
    ]


def _entries(calls: Calls, verdicts: Mapping[int, Verdict]) -> list[dict[str, Any]]:
    """The verdicts as the event lists them: {index, verdict, arguments?, original?, reason?, always?, only?, by?}."""
    entries = []
    for call in calls:
        verdict = verdicts[call["index"]]
        entry: dict[str, Any] = {"index": verdict.index, "verdict": verdict.verdict}
        if verdict.verdict == "edit":
            entry |= {"arguments": verdict.arguments, "original": call["arguments"]}
        more: dict[str, Any] = {"reason": verdict.reason, "always": verdict.always, "only": verdict.only}
        more |= {"flow": flow_of(call) if verdict.flow else None, "by": [*verdict.by]}
        entries.append(entry | {name: value for name, value in more.items() if value})
    return entries


def reason_clause(reason: str, language: str) -> str:
    """A person's reason as the end of a sentence; empty where none was given."""
    return phrase("why", language, reason=reason.rstrip(".。 ")) if reason else ""
