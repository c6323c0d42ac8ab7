"""What a call needs before it runs: a person's approval, and values: their sources, and hidden ones by reference."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from segue.core.agents import Agent
from segue.core.approval import ApprovalTerms, Grant, Verdict, flow_of, settled, unfit
from segue.core.call_rules import CallTerms, asking_words
from segue.core.calls import (
    DIRECTORY_SCOPE,
    HIDDEN,
    RECALL,
    SECRET,
    SOURCES,
    AnyCall,
    Approved,
    Asked,
    CallKey,
    CallResult,
    Ledger,
    PendingCall,
    Rejected,
    Running,
    Tool,
    move_call,
)
from segue.core.context import PromptText, descriptions_of
from segue.core.digests import tool_digest
from segue.core.errors import Clause, FileUnavailable, InvalidAnswer, ModelError, listed
from segue.core.events import ApprovalGiven, Durable, ModelCalled, PermissionGranted
from segue.core.message import Attachment
from segue.core.models import ModelRequest, Usage
from segue.core.plan import Step
from segue.core.provenance import DOUBTS, Assessment, Hiding, SeenText, Source, SourcedText
from segue.core.quotations import split_quotations
from segue.core.records import Call
from segue.passages import text_of
from segue.prompts.catalogue import error_text, render, task_text
from segue.tools.calls import SCRATCHPAD, argument_error

from .context import (
    REF,
    DanglingReference,
    NodeContext,
    as_text,
    follow,
    is_lookup,
    recall_ref,
    references,
    resolve_arguments,
    truncate,
)
from .model_call import Listener, ask_model, refused_call

# Approval of calls by a person, before any call of their batch runs.

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


def _answered_now() -> frozenset[int]:
    """The indexes of the calls that the answers which this run of the node begins with are about.

    They are asked about again whatever was found since, so that no answer goes unread.
    """
    pad = get_config().get("configurable", {}).get(SCRATCHPAD)
    answers = [*pad.resume, pad.get_null_resume(False)] if pad else []
    known = (answer.get(VERSIONS) or {} for answer in answers if isinstance(answer, Mapping))
    return frozenset(int(index) for versions in known for index in versions)


def _changed(tools: Collection[str], language: str) -> str:
    return task_text("tool_changed", language, tools=listed(dict.fromkeys(tools)))


def versions_of(calls: Calls) -> dict[str, str]:
    """The digests of the tools that a question asks about."""
    return {str(call["index"]): _version(call) for call in calls}


def _version(call: Mapping[str, Any]) -> str:
    """The digest of a call's tool, and who had to approve it: a question from elsewhere may say something else."""
    terms = ApprovalTerms.of(call).json()
    return f"{call['version']} {json.dumps(terms)}" if terms else str(call["version"])


def check_answer(calls: Calls, tools: Mapping[str, Tool], answer: object) -> tuple[Verdict, ...]:
    """The verdicts in the order of the calls that were asked about."""
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
    """Refuse to approve a call that cannot run: the agent was changed since it was asked about."""
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


def approval_events(calls: Calls, verdicts: Mapping[int, Verdict], agent_id: str, **ids: Any) -> list[Durable]:
    """What a person decided, and the tools of the agent that they allowed from here on."""
    given = [(call, verdicts[call["index"]]) for call in calls]
    allowed = dict.fromkeys(
        (str(verdict.rule(call)), verdict.always, call["version"]) for call, verdict in given if verdict.always
    )
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
    return task_text("why", language, reason=reason.rstrip(".。 ")) if reason else ""


# What entered a session before a call was decided: a person's words, prompts, descriptions of tools, and results.


async def collect_sources(
    work: NodeContext, task_id: str, tools: Mapping[str, Tool], memory: str = "", together: Collection[str] = ()
) -> SeenText | None:
    """What entered the session until now; None where nothing remembers it.

    `memory` is what was read of its files. Calls of the scopes `together` were decided at once, none of them by what
    the others returned.
    """
    ledger = work.services.ledger
    said = await work.services.said()
    if ledger is None or said is None:
        return None
    finished = await ledger.finished()
    entered = [*_of_calls(finished, task_id, tools, together, work.services.entered)]
    described = descriptions_of({**work.tools, **tools}.values())
    for message in [*said, *(each for each in described if each not in said)]:
        entered += await _of_message(message, work)
    if memory:
        entered.append(SourcedText(memory, (Source("memory"),)))
    own = [split_quotations(message.text)[0] for message in said if message.trusted]
    return SeenText(own, work.agent.prompt, entered)


def _describe_tool_for_matching(tool: Tool, agent: Agent) -> CallTerms:
    """The words by which a person asks for calls of a tool, what of its arguments is only text, and its rules.

    The words are its keywords, and the first word of its name with others that say the same: "send" of `send_mail`,
    and "write"; "do" of `do_it` is too short.
    """
    first = tool.name.partition("_")[0]
    words = [
        *(asking_words(first) if len(first) > 2 or not first.isascii() else ()),
        *tool.spec.get("segue", {}).get("keywords", ()),
    ]
    allowed = [rule for rule in agent.allow if rule.tool == tool.name]
    secret = tool.name if tool.secret else ""
    defaults = {} if tool.foreign_text else all_arguments({}, tool)
    return CallTerms(words, tool.content, defaults, secret, allowed, _choices(tool))


def _choices(tool: Tool) -> dict[str, Sequence[Any]]:
    """The values of the arguments that the tool's schema gives a closed list of."""
    schema = tool.spec["function"].get("parameters", {})
    named = {f"#/$defs/{name}": each for name, each in schema.get("$defs", {}).items()}
    found = {name: named.get(each.get("$ref", ""), each) for name, each in schema.get("properties", {}).items()}
    return {name: each["enum"] for name, each in found.items() if "enum" in each}


def _of_calls(
    finished: Iterable[Call],
    task_id: str,
    tools: Mapping[str, Tool],
    together: Collection[str],
    read: dict[object, SourcedText],
) -> Iterable[SourcedText]:
    """The results of calls, each numbered in its task; 0 in another one. Those that were `read` are not read again.

    A directory that Segue read itself has the number 0.
    """
    for _, calls in groupby(finished, key=lambda call: call.task_id):
        count = 0
        for call in calls:
            is_counted = not is_lookup(call.scope)
            count += is_counted
            number = count if is_counted and task_id == call.task_id else 0
            if call.name != RECALL and not (call.task_id == task_id and call.scope in together):
                tool = tools.get(call.name)
                own, secret = _labels(call, number, tool)
                fields = frozenset(tool.trusted_fields if tool else ())
                key = (call.task_id, call.scope, call.idx, own, secret, fields)
                if key not in read:
                    result = CallResult.of(call.outcome or {})
                    ref = recall_ref(CallKey(call.task_id, call.scope, call.idx))
                    read[key] = SourcedText(
                        result.content, result.sources or (own,), secret, result.hidden is True, ref, fields
                    )
                yield read[key]


def _labels(call: Call, number: int, tool: Tool | None) -> tuple[Source, Source | None]:
    """The call as a source, and as one of a secret, if its result is one."""
    outcome = call.outcome or {}
    kind = tool.source_kind if tool else "tool"
    own = Source(kind, call.name, number, trusted=SOURCES in outcome)
    is_secret = bool(outcome.get(SECRET)) or (tool is not None and tool.secret)
    return own, replace(own, trusted=False) if is_secret else None


async def _of_message(message: PromptText, work: NodeContext) -> list[SourcedText]:
    """The files of a message, and its text where it is not the person's own."""
    found = []
    foreign = split_quotations(message.text)[1] if message.trusted else message.text
    if foreign or not message.trusted:
        kind = "quoted" if message.trusted else message.kind
        text = (kind, message.name, foreign)
        if text not in work.services.entered:
            work.services.entered[text] = SourcedText(foreign, (Source(kind, message.name),))
        found.append(work.services.entered[text])
    for file in message.files:
        key = ("file", file.digest, file.name)
        if key not in work.services.entered:
            work.services.entered[key] = SourcedText(await _content(file, work), (Source("file", file.name),))
        found.append(work.services.entered[key])
    return found


async def _content(file: Attachment, work: NodeContext) -> str:
    """The text of a file; of any other, and of one that is lost, its name."""
    if file.kind != "text" or file.url:
        return file.name
    try:
        return text_of(await work.services.files(file.digest))
    except FileUnavailable:
        return file.name


async def find_unread_directories(
    call: PendingCall, work: NodeContext, task_id: str, tools: Mapping[str, Tool]
) -> list[PendingCall]:
    """The calls that read the directories which the task has not read yet, for a call that a person is asked about."""
    ledger, names = work.services.ledger, [name for name, tool in tools.items() if tool.directory]
    if not (ledger and names):
        return []
    read = {each.name for each in await ledger.finished() if each.task_id == task_id and not each.arguments}
    scopes = {name: f"{DIRECTORY_SCOPE}{call.scope}:{name}" for name in names if name not in read}
    return [
        PendingCall(
            index=call.index, name=name, arguments={}, scope=scope, origin=f"{call.origin}/{scope}", hidden=True
        )
        for name, scope in scopes.items()
    ]


def has_secrets(tools: Mapping[str, Tool]) -> bool:
    """Whether results of one of the tools are secret."""
    return any(tool.secret for tool in tools.values())


def values_taken(call: PendingCall) -> dict[str, list[str]]:
    """The refs of the results that each argument takes a value of, by a reference of the plan or of the model."""
    planned, given = call.taken or {}, _taken_refs(call)
    return {name: [*planned.get(name, ()), *given.get(name, ())] for name in {**planned, **given}}


def assess_call(call: AnyCall, seen: SeenText | None, tool: Tool, agent: Agent, *, planned: bool) -> AnyCall:
    """The call with the sources of its arguments and what is found of them; `seen` is None where nothing is known.

    Of a tool that is not asked about by its sources, only values of secret results count.
    """
    if seen is None:
        return replace(call, assessment=Assessment({}, "unknown_sources"))
    found = seen.assess(call.arguments, _describe_tool_for_matching(tool, agent), planned, values_taken(call))
    finding = found.finding
    if finding != "secret" and tool.approve != "untrusted":
        if tool.approve == "always":
            return call
        finding = "clean"
    if finding not in DOUBTS and call.index in _answered_now():
        finding = "unasked"
    return replace(call, assessment=replace(found, finding=finding))


def carries_labels(tool: Tool | None, *, secrets: bool) -> bool:
    """Whether what goes into a call of the tool counts for its result; `secrets`: there are tools with secret ones."""
    return tool is not None and (tool.trusted or (secrets and tool.read_only))


def find_labels(call: PendingCall, seen: SeenText | None, tool: Tool | None, agent: Agent) -> dict[str, Any]:
    """What the result of a call carries: secrets, and of a trusted tool the untrusted sources of its arguments."""
    if tool is None:
        return {}
    about = (call.arguments, _describe_tool_for_matching(tool, agent), values_taken(call))
    labels: dict[str, Any] = {"secret": tool.secret or bool(tool.read_only and seen and seen.secrets(*about))}
    if tool.trusted and seen is not None:
        labels["sources"] = seen.untrusted_sources(*about)
    return labels


async def vetted_steps(
    work: NodeContext, task_id: str, steps: Iterable[Step], before: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The steps that untrusted text has no part in, as {action, params}: all of a plan from before any was read.

    Of a later plan they are those of `before`.
    """
    tools = work.tools
    if not any(tool.approve == "untrusted" for tool in tools.values()):
        return []
    known = await collect_sources(work, task_id, tools)
    if known is None or known.untrusted:
        return [dict(step) for step in before]
    return [{"action": step.action, "params": step.params} for step in steps if step.uses_tool]


# Hidden results: what the model sees in their place, and the values that its calls take by reference.

SUMMARY_CHARS: Final = 500
"""Characters of a summary."""
_STRENGTH: Final[Sequence[Hiding]] = (False, "summary", True)
"""How far results are hidden, in ascending order."""
_CALLS: Final = "calls."
_RESULT: Final = ".result"


def reference_to(ref: str) -> str:
    """The reference by which a call takes the result with this ref."""
    return f"{_CALLS}{ref}{_RESULT}"


def is_to_call(reference: str) -> bool:
    """Whether a reference is to the result of a call, not to that of a step."""
    return reference.startswith(_CALLS)


def hiding_of(call: PendingCall, tool: Tool | None) -> Hiding:
    """How far the result of a call is hidden: as its tool says, and all of it if the call takes a hidden value.

    Of a value that the model knows a summary of, the tool may give one, too.
    """
    own = tool.hidden if tool else False
    return True if call.hidden is True else own or bool(call.hidden)


async def with_values(calls: Sequence[AnyCall], ledger: Ledger | None, language: str) -> Sequence[AnyCall]:
    """The calls with the results that their arguments refer to; `given` is what the model wrote.

    One that refers to nothing has the error in `dangling`, and must not run.
    """
    if ledger is None or not any(map(_is_unresolved, calls)):
        return calls
    outcomes = {
        recall_ref(CallKey(call.task_id, call.scope, call.idx)): call.outcome or {} for call in await ledger.finished()
    }
    return [_resolved(call, outcomes, language) if _is_unresolved(call) else call for call in calls]


def _is_unresolved(call: PendingCall) -> bool:
    return call.given is None and not call.dangling and any(map(is_to_call, references(call.arguments)))


def _resolved(call: AnyCall, outcomes: Mapping[str, Mapping[str, Any]], language: str) -> AnyCall:
    try:
        arguments = resolve_arguments(call.arguments, lambda reference: _look_up(reference, outcomes))
    except DanglingReference as error:
        return replace(call, dangling=task_text("not_filled", language, error=error))
    filled = replace(call, arguments=arguments, given=call.arguments)
    hidings = [outcomes[ref].get(HIDDEN, False) for refs in _taken_refs(filled).values() for ref in refs]
    return replace(filled, hidden=max(hidings, key=_STRENGTH.index, default=False))


def _look_up(reference: str, outcomes: Mapping[str, Mapping[str, Any]]) -> Any:
    """The part of a result that a reference leads to; of a hidden result an error says nothing."""
    ref, path = _parts(reference)
    result = CallResult.of(outcomes.get(ref, {"error": ""}))
    if not result.success:
        raise DanglingReference(f"{reference!r}: there is no such result")
    try:
        return follow(result.value, path, reference)
    except DanglingReference as error:
        if result.hidden:
            raise DanglingReference(f"{reference!r} leads to no part of the hidden result") from error
        raise


def _parts(reference: str) -> tuple[str, list[str]]:
    """The ref of a reference, and the path behind it."""
    ref, _, path = reference.removeprefix(_CALLS).partition(_RESULT)
    return ref, path.removeprefix(".").split(".") if path else []


def _taken_refs(call: PendingCall) -> dict[str, list[str]]:
    """The refs of the results that each argument of a call takes a value of."""
    found = {}
    for name, value in (call.given or {}).items():
        if refs := [_parts(each)[0] for each in references(value) if is_to_call(each)]:
            found[name] = refs
    return found


def as_seen(call: AnyCall) -> AnyCall:
    """A call as its model may see it: with references in place of the values, also after a person's edit."""
    given = call.given
    if given is None:
        return call
    taken = _taken_refs(call)
    arguments = {name: given[name] if name in taken else value for name, value in call.arguments.items()}
    return replace(call, arguments=arguments, given=None, original=None if call.original is None else given)


@dataclass(frozen=True)
class Summary:
    """What the model sees of a hidden value, and the event and usage of the call that wrote it."""

    text: str
    event: ModelCalled
    usage: Usage = field(default_factory=dict)


async def summarized(work: NodeContext, value: Any, ids: Mapping[str, Any], language: str) -> Summary | None:
    """A summary by the agent's model, which has no tools and sees nothing else; None if the model is none of language.

    Where the model refuses, or its reply cannot be read, it is empty.
    """
    if not work.model.is_language_model:
        return None
    data = truncate(as_text(value), work.agent.budget.result_chars)
    system = render("summary", language, words=str(SUMMARY_CHARS // 10))
    request = ModelRequest(purpose="summary", messages=[SystemMessage(system), HumanMessage(data)])
    try:
        asked = await ask_model(work, request, Listener, {}, ids, language)
    except ModelError as error:
        return Summary("", await refused_call(work, request, error, ids))
    written = "" if asked.reply.unreadable else asked.reply.text
    return Summary(" ".join(written.split())[:SUMMARY_CHARS], asked.event, asked.usage)


def seen_result(result: CallResult, ref: str, language: str, summary: str = "") -> dict[str, Any]:
    """What the model sees of a hidden result: the reference to it, its type, and a summary."""
    bare = replace(result, stack="", sources=None, secret=False, used=None)
    if not result.success:
        return replace(bare, error=task_text("hidden_error", language)).json()
    reference = reference_to(ref)
    kind = next((name for type_, name in _TYPES if isinstance(result.value, type_)), "null")
    shown: dict[str, Any] = {REF: reference, "type": kind}
    if isinstance(result.value, list):
        shown["length"] = len(result.value)
    if summary:
        shown["untrusted_summary"] = summary
    part = f"{reference}.0" if isinstance(result.value, list) else f"{reference}.<field>"
    return replace(bare, value={**shown, "note": task_text("hidden_result", language, reference=part)}).json()


def seen_outcome(outcome: Mapping[str, Any], key: CallKey, language: str) -> Mapping[str, Any]:
    """A stored outcome as the model may see it."""
    return (
        seen_result(CallResult.of(outcome), recall_ref(key), language)
        if outcome.get(HIDDEN)
        else CallResult.without_labels(outcome)
    )


def is_callers_error(result: CallResult, call: PendingCall, tool: Tool | None) -> bool:
    """Whether a call failed because of the arguments that the model itself wrote, so that it may see the error."""
    return not result.success and call.given is None and bool(argument_error(tool, call.arguments))


_TYPES: Final = ((bool, "boolean"), (int | float, "number"), (str, "string"), (list, "array"), (Mapping, "object"))
