"""Approval of tool calls by a person, before any call of their batch runs."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from langgraph.types import interrupt

from segue.core.approval import Verdict, settled, unfit
from segue.core.errors import InvalidAnswer, listed
from segue.core.events import ApprovalGiven, Durable, PermissionGranted
from segue.core.permission_rule import PermissionRule
from segue.core.tools import Tool
from segue.prompts.phrases import phrase
from segue.tools.calls.run import misfit

from .context import NodeContext

Call = dict[str, Any]
"""{name, arguments, …}; with `approved`, `original` (the arguments before an edit) or `rejected` (why) once decided."""
Calls = Sequence[Mapping[str, Any]]


def undecided(call: Mapping[str, Any], tools: Mapping[str, Tool], task_id: str) -> bool:
    """Whether the call's tool needs approval and has no decision yet."""
    tool = tools.get(call["name"])
    return tool is not None and tool.needs_approval and not (approved(call, task_id) or "rejected" in call)


def approved(call: Mapping[str, Any], task_id: str) -> bool:
    """Whether a person approved the call in this task; a fork is another task and asks again."""
    return call.get("approved") == _mark(task_id)


def _mark(task_id: str) -> str:
    """A digest of the task's id: copying a thread replaces the ids in its state, and this stays what it was."""
    return sha256(task_id.encode()).hexdigest()[:16]


async def permitted(calls: Calls, tools: Mapping[str, Tool], task_id: str, work: NodeContext) -> Mapping[int, str]:
    """The places of the undecided calls that a person need not be asked about, each with its permission's scope.

    A call like one that may have taken effect already is asked about all the same.
    """
    undecided_ones = {place: call for place, call in enumerate(calls) if undecided(call, tools, task_id)}
    if not undecided_ones or not (scopes := await work.services.permissions(work.agent.agent_id)):
        return {}
    rules = [(PermissionRule.parse(text), scope) for text, scope in scopes.items()]
    unknown = await _unknown(task_id, work)
    return {
        place: scope
        for place, call in undecided_ones.items()
        if _bare(call) not in unknown and (scope := _scope(call, tools[call["name"]], rules))
    }


def _scope(call: Mapping[str, Any], tool: Tool, rules: Sequence[tuple[PermissionRule, str]]) -> str:
    """The scope of the first rule that the call matches, or empty."""
    arguments = {**_defaults(tool), **call["arguments"]}
    return next((scope for rule, scope in rules if rule.matches(call["name"], arguments)), "")


async def question_of(
    index: int, call: Call, task_id: str, work: NodeContext, *also: str, tools: Mapping[str, Tool] | None = None
) -> dict[str, Any]:
    """What a person is shown of a call; `unknown_outcome` where one like it may have taken effect already."""
    asked = {"index": index} | {name: call[name] for name in ("name", *also)}
    given, defaults = call["arguments"], _defaults((tools or work.tools)[call["name"]])
    asked["arguments"] = {**given, **defaults, **given}  # what the model chose comes first
    return {**asked, "unknown_outcome": True} if _bare(call) in await _unknown(task_id, work) else asked


async def _unknown(task_id: str, work: NodeContext) -> Sequence[Mapping[str, Any]]:
    ledger = work.services.ledger
    return await ledger.unknown(task_id) if ledger else ()


def _bare(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": call["name"], "arguments": call["arguments"]}


def _defaults(tool: Tool) -> dict[str, Any]:
    """What the tool takes where a call says nothing: a person has to see it."""
    properties = tool.spec["function"].get("parameters", {}).get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema}


def ask_person(calls: Calls, tools: Mapping[str, Tool]) -> dict[int, Verdict]:
    """The verdicts by index. Interrupts the graph until a person has answered, and again if the answer does not fit."""
    question: dict[str, Any] = {"kind": "approval", "calls": [dict(call) for call in calls]}
    while True:
        answer = interrupt(question)
        try:
            return {verdict.index: verdict for verdict in check_answer(calls, tools, answer)}
        except InvalidAnswer as error:
            question = {**question, "problem": str(error)}


def check_answer(calls: Calls, tools: Mapping[str, Tool], answer: object) -> tuple[Verdict, ...]:
    """The verdicts in the order of the calls that were asked about.

    Raises:
        InvalidAnswer: the answer does not fit them, or edited arguments do not fit their tool.
    """
    verdicts = settled(calls, answer)
    found = []
    for call, verdict in zip(calls, verdicts, strict=True):
        if verdict.verdict == "edit" and (why := misfit(tools.get(call["name"]), verdict.arguments or {})):
            found.append(f"call {verdict.index}: the arguments do not fit {call['name']}: {why}")
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
            "The agent {agent} has no tool {tools} any more: add it to the agent's tools again, or reject the call.",
            agent=agent_id,
            tools=listed(missing),
        )


def decided(call: Call, verdict: Verdict | None, task_id: str) -> Call:
    """The call with what a person decided about it, if one was asked."""
    match verdict:
        case Verdict(verdict="approve"):
            return {**call, "approved": _mark(task_id)}
        case Verdict(verdict="edit"):
            original = call.get("original", call["arguments"])
            return {**call, "arguments": verdict.arguments, "original": original, "approved": _mark(task_id)}
        case Verdict(verdict="reject"):
            return {**call, "rejected": verdict.reason.strip()}
        case _:
            return call


def given_events(calls: Calls, verdicts: Mapping[int, Verdict], work: NodeContext, **ids: Any) -> list[Durable]:
    """What a person decided, and the tools that they allowed from here on."""
    given = [(call["name"], verdicts[call["index"]]) for call in calls]
    rules = [(str(PermissionRule(tool, verdict.only or {})), verdict.always) for tool, verdict in given]
    allowed = dict.fromkeys((rule, scope) for rule, scope in rules if scope)
    agent_id = work.agent.agent_id
    return [
        ApprovalGiven(verdicts=_entries(calls, verdicts), **ids),
        *(PermissionGranted(agent_id=agent_id, tool=rule, scope=scope, **ids) for rule, scope in allowed),
    ]


def _entries(calls: Calls, verdicts: Mapping[int, Verdict]) -> list[dict[str, Any]]:
    """The verdicts as the event lists them: {index, verdict, arguments?, original?, reason?, always?, only?}."""
    entries = []
    for call in calls:
        verdict = verdicts[call["index"]]
        entry: dict[str, Any] = {"index": verdict.index, "verdict": verdict.verdict}
        if verdict.verdict == "edit":
            entry |= {"arguments": verdict.arguments, "original": call["arguments"]}
        more = {"reason": verdict.reason, "always": verdict.always, "only": verdict.only}
        entries.append(entry | {name: value for name, value in more.items() if value})
    return entries


def rejection(call: Mapping[str, Any], language: str) -> dict[str, Any]:
    """The result of a call that a person rejected: {"error", "rejected"}."""
    error = phrase("rejected", language, tool=call["name"], why=because(call["rejected"], language))
    return {"error": error, "rejected": True}


def because(reason: str, language: str) -> str:
    """A person's reason as the end of a sentence; empty where none was given."""
    return phrase("why", language, reason=reason.rstrip(".。 ")) if reason else ""
