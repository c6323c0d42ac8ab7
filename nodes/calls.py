"""The one way from decided calls to their results: permission, question, budget, ledger, execution, events."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from itertools import takewhile
from typing import Any

from langgraph.config import get_config
from langgraph.types import interrupt

from segue.core.approval import Grant, Verdict
from segue.core.call_rules import CallTerms
from segue.core.calls import UNKNOWN_OUTCOME, WAIT, CallResult, CallStatus, Execution, Executor, PendingCall
from segue.core.digests import tool_digest
from segue.core.errors import listed
from segue.core.events import CallPermitted, Durable, Phase, ToolCall, ToolResult
from segue.core.models import Usage, add_usages
from segue.core.provenance import DOUBTS, SeenText
from segue.core.task import written
from segue.core.tools import CallKey, Ledger, Tool, has_effect
from segue.prompts.catalogue import phrase
from segue.tools.adapters.client import ClientTool, Results, ask_client, client_call
from segue.tools.bound_tool import BadArguments, idempotency_key
from segue.tools.calls import TOOLS

from .approval import (
    answered_now,
    approval_events,
    approved,
    ask_person,
    by_person,
    decided,
    is_outdated,
    question_of,
    reason_clause,
)
from .call_values import (
    Summary,
    as_seen,
    collect_sources,
    describe_tool_for_matching,
    hiding_of,
    is_callers_error,
    seen_result,
    summarized,
    taken_refs,
    with_values,
)
from .context import NodeContext, as_json, as_text, kept, recall_ref, truncate, truncate_result

# Calls that the task's client carries out: which ones wait together, and the results that it sends.


def marked(
    calls: Sequence[PendingCall], tools: Mapping[str, Tool], refuse: Callable[[PendingCall], CallResult | None]
) -> list[PendingCall] | None:
    """The calls, the first ones marked that wait together for the client; None if the first one is not the client's."""
    count = 0
    for call in calls:
        tool = tools.get(call["name"])
        if not isinstance(tool, ClientTool) or "brought" in call or refuse(call) or not _fits(call, tool):
            break
        count += 1
        if not tool.parallel:
            break
    waiting: list[PendingCall] = [{**call, "awaited": True} for call in calls[:count]]
    return [*waiting, *calls[count:]] if waiting else None


def with_client_results(calls: Sequence[PendingCall], tools: Mapping[str, Tool]) -> list[PendingCall]:
    """The calls with the results that the client sends of the marked ones.

    The graph is interrupted until it has sent at least one; the others are asked for again.
    """
    asked = [call for call in calls if call.get("awaited")]
    first = tools[asked[0]["name"]]
    assert isinstance(first, ClientTool)
    forms = [client_call(_id(call), call["name"], call["arguments"]) for call in asked]
    results = ask_client(forms, first.language)
    return [_answered(call, results) for call in calls]


def _answered(call: PendingCall, results: Results) -> PendingCall:
    rest: PendingCall = {**call}
    if rest.pop("awaited", False) and (call_id := _id(call)) in results:
        return {**rest, "brought": {call_id: results[call_id]}}
    return rest


def with_result(tools: Mapping[str, Tool], call: PendingCall) -> Mapping[str, Tool]:
    """The tools, that of the call with the result that the client sent."""
    tool = tools.get(call["name"])
    if "brought" not in call or not isinstance(tool, ClientTool):
        return tools
    return {**tools, call["name"]: replace(tool, results=call["brought"])}


def _fits(call: PendingCall, tool: ClientTool) -> bool:
    """Whether the client can be asked for the call; what is wrong with it otherwise, running it says."""
    try:
        tool.check(call["arguments"])
    except BadArguments:
        return False
    return True


def _id(call: PendingCall) -> str:
    return idempotency_key(call["origin"], call["name"], call["arguments"])


# Calls that fail again and again: refused first, then the task ends.

Outcome = Mapping[str, Any]
"""A call as a state keeps it: {name, arguments, result}."""
Rounds = Sequence[Sequence[Outcome]]
"""The outcomes of each round that made calls, oldest first."""

MOST_FAILURES = 2
"""How often in a row the same call may fail before it is refused."""
MOST_FAILED_ROUNDS = 5
"""Rounds in a row that make the same failing call, and nothing else that succeeds; then the task ends."""
SHOWN_CHARS = 300


def refused_repeat(call: PendingCall, rounds: Rounds, task_id: str, language: str) -> CallResult | None:
    """The result of a call that failed too often to run again; one that a person approved may fail as they like."""
    if by_person(call, task_id) or failures_in_a_row(call, rounds) < MOST_FAILURES:
        return None
    why = phrase("call_refused", language, tool=call["name"], n=MOST_FAILURES)
    return CallResult(status=CallStatus.REFUSED, error=why)


def failures_in_a_row(call: PendingCall, rounds: Rounds) -> int:
    """How many of the latest calls were this one and failed."""
    count = 0
    for outcomes in reversed(rounds):
        for outcome in reversed(outcomes):
            same = outcome["name"] == call["name"] and outcome["arguments"] == call["arguments"]
            if not same or _result(outcome).success:
                return count
            count += 1
    return count


def repeated_failure(rounds: Rounds, known: Collection[str], language: str) -> str:
    """Why a task ends whose latest rounds only repeated failing calls; empty if it continues.

    The same calls end it after `MOST_FAILED_ROUNDS`, two in turn after twice as many. Calls of a tool that is not
    `known` are the same whatever their arguments.
    """
    failed = [*takewhile(_is_failed, reversed(rounds))]
    for different, name in ((1, "spent_failures"), (2, "spent_in_turn")):
        latest = failed[: different * MOST_FAILED_ROUNDS]
        made = {_made(outcomes, known) for outcomes in latest}
        if len(latest) == different * MOST_FAILED_ROUNDS and len(made) <= different:
            return _why(name, latest, language)
    return ""


def _why(name: str, latest: Rounds, language: str) -> str:
    """The sentence; `latest` are the failed rounds, newest first."""
    failures = [o for outcomes in latest for o in reversed(outcomes) if not _result(o).success]
    last = next((o for o in failures if _result(o).status is not CallStatus.REFUSED), failures[0])
    call = f"{last['name']} {truncate(as_json(last['arguments']), SHOWN_CHARS)}"
    error = truncate(_result(last).error.rstrip(" .。"), SHOWN_CHARS)
    return phrase(name, language, n=len(latest), call=call, error=error)


def _made(outcomes: Sequence[Outcome], known: Collection[str]) -> str:
    return as_json([(o["name"], o["arguments"] if o["name"] in known else None) for o in outcomes])


def _is_failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether a call of the round failed, nothing new came of the others, and no person decided about one."""
    results = [_result(outcome) for outcome in outcomes]
    if any("approved" in o for o in outcomes) or any(r.status is CallStatus.REJECTED for r in results):
        return False
    return not all(result.success for result in results) and all(r.status is not CallStatus.DONE for r in results)


def _result(outcome: Outcome) -> CallResult:
    return CallResult.of(outcome["result"])


# Waits of calls for their results: the graph is interrupted until a moment, or until an event was sent.


@dataclass(frozen=True)
class Arrived:
    """The executor of a call that ran: it gives the result that the call waited for."""

    value: Mapping[str, Any]

    def needs_approval(self, tool: Tool) -> bool:
        return False

    def parallel(self, tool: Tool) -> bool:
        return False

    async def execute(self, execution: Execution) -> CallResult:
        return CallResult.done(dict(self.value))


def marked_wait(call: PendingCall, result: CallResult) -> PendingCall:
    """The call, marked if it waits for its result."""
    return {**call, "wait": result.value} if result.status is CallStatus.WAITING else call


def waited(call: PendingCall, language: str) -> PendingCall:
    """A marked call with its result; the graph is interrupted until that is there."""
    terms = call["wait"]
    text = wait_sentence(terms["until"], terms["event"], language)
    value = interrupt({"kind": WAIT, "question": text, "tool": call["name"], **terms})
    return {**without_wait(call), "waited": value}


def without_wait(call: PendingCall) -> PendingCall:
    """The call as it was decided."""
    rest: PendingCall = {**call}
    rest.pop("wait", None)
    rest.pop("waited", None)
    return rest


def wait_sentence(until: float | None, event: str, language: str) -> str:
    """What a task waits for."""
    if until is None:
        return phrase("wait_for_event", language, event=event)
    moment = written(until, UTC)
    return (
        phrase("wait_for_both", language, event=event, moment=moment)
        if event
        else phrase("wait_until", language, moment=moment)
    )


# The one way from decided calls to their results: permission, question, budget, ledger, execution, events.

BANNER_CHARS = 300
"""Characters of arguments and of a result in a banner."""


@dataclass(frozen=True)
class FinishedCall:
    """A call with its result; it took `seconds` of wall-clock time.

    `ran`: it counts against the budget. `permission` is the scope of the permission that it ran under; it is empty if a
    person was asked, or did not have to be. Of a hidden result, `seen` is what the model sees, with its `summary`.
    """

    call: PendingCall
    result: CallResult
    ran: bool = False
    seconds: float = 0.0
    permission: str = ""
    seen: Mapping[str, Any] | None = None
    summary: Summary | None = None


def allow_all(call: PendingCall) -> CallResult | None:
    """Let every call run."""
    return None


def unplanned(call: PendingCall) -> bool:
    """No plan has any call."""
    return False


@dataclass(frozen=True)
class CallRunner:
    """Takes the calls of a round, a wave or a branch from the decision to their results.

    `ids` are what each of its events carries. `refuse` gives the result of a call that must not run; it is not asked
    about either. `planned`: a plan that was made before untrusted text was read has the call. `memory` is what was read
    of memory files. `shown` names further fields of a call that a question shows. `own` names the tools of the graph,
    which read its state: they run here, whatever the executor. `permission` is the scope of one that all
    calls have; with `rejects` none that needs approval runs. Without `hides`, who made the calls hides their results
    themselves.
    """

    work: NodeContext
    tools: Mapping[str, Tool]
    task_id: str
    language: str
    ids: Mapping[str, Any]
    refuse: Callable[[PendingCall], CallResult | None] = allow_all
    planned: Callable[[PendingCall], bool] = unplanned
    memory: str = ""
    shown: Sequence[str] = ()
    own: Collection[str] = ()
    permission: str = ""
    rejects: bool = False
    hides: bool = True

    async def prepare(self, calls: Sequence[PendingCall]) -> tuple[list[PendingCall], list[Durable], bool]:
        """Add what the calls need before they run: the client's results, the result of a wait, or a decision.

        Returns the calls, the events of a decision, and whether they can run now. If not, the node stores them and runs
        again: LangGraph pairs answers with interrupts by their order, so each run of a node has one at most.
        """
        if calls[0].get("awaited"):
            return with_client_results(calls, self.tools), [], False
        for place, call in enumerate(calls):
            if "wait" in call:
                return [*calls[:place], waited(call, self.language), *calls[place + 1 :]], [], False
        calls, given = await self.decide(calls)
        awaited = None if given else marked(calls, self.tools, self._refused)
        return awaited or [*calls], given, not (given or awaited)

    async def decide(self, calls: Sequence[PendingCall]) -> tuple[list[PendingCall], list[Durable]]:
        """Have a person decide about the calls that need it: the graph is interrupted until they have.

        Returns the calls with what they decided and what was found of their sources, and the events of a decision, none
        if nobody was asked.
        """
        calls = await self._assessed(await self._with_values(calls))
        grants = () if self.rejects else await self._grants(calls)
        permitted = await self._permitted(calls, grants)
        waiting = [
            call
            for place, call in enumerate(calls)
            if self.undecided(call) and place not in permitted and not self._refused(call)
        ]
        if not waiting:
            return [*calls], []
        if self.rejects:
            verdicts = {call["index"]: Verdict(index=call["index"], verdict="reject") for call in waiting}
            return [self._decided(call, verdicts) for call in calls], []
        unknown = await self._unknown()
        questions = [self._question(call, unknown) for call in waiting]
        outdated = [call["name"] for call in waiting if self._is_outdated(call, grants)]
        verdicts = ask_person(questions, self.tools, self.language, outdated)
        given = approval_events(questions, verdicts, self.work, **self.ids)
        return [self._decided(call, verdicts) for call in calls], given

    def _is_outdated(self, call: PendingCall, grants: Sequence[Grant]) -> bool:
        """Whether the tool has changed since a person approved the call or allowed it always."""
        granted = bool(self._matching(call, grants)) and not self._scope(call, grants)
        return granted or is_outdated(call, self.task_id, self.tools[call["name"]])

    def _decided(self, call: PendingCall, verdicts: Mapping[int, Verdict]) -> PendingCall:
        verdict = verdicts.get(call["index"])
        return decided(call, verdict, self.task_id, self.tools[call["name"]]) if verdict else call

    def waiting(self, calls: Sequence[PendingCall], ran: Sequence[FinishedCall]) -> list[PendingCall] | None:
        """The calls, those marked that ran and whose results the next node waits for; None if there is none."""
        if not any(done.result.status is CallStatus.WAITING for done in ran):
            return None
        return [*(marked_wait(done.call, done.result) for done in ran), *calls[len(ran) :]]

    def next_group(self, calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
        """The calls that run next, with a boundary behind them where a pause can be taken."""
        parallel = all(self.parallel(call["name"]) for call in calls)
        return calls[: self.work.agent.budget.parallel_calls] if parallel else calls[:1]

    def parallel(self, name: str) -> bool:
        """Whether calls of this tool may run beside others."""
        return name in self.tools and self._executor.parallel(self.tools[name])

    def undecided(self, call: PendingCall) -> bool:
        """Whether a person may have to approve the call, and has not decided yet."""
        tool = self.tools.get(call["name"])
        if tool is None or "rejected" in call or approved(call, self.task_id, tool):
            return False
        if self._is_guarded(call) and call.get("finding", "secret") in DOUBTS:
            return True
        return not _cleared(call, tool) and self._executor.needs_approval(tool)

    @cached_property
    def _has_secrets(self) -> bool:
        return any(tool.secret for tool in self.tools.values())

    @cached_property
    def _follows_sources(self) -> bool:
        """Whether a decision here depends on what values come from."""
        return self._has_secrets or any(tool.approve == "untrusted" for tool in self.tools.values())

    def _is_guarded(self, call: PendingCall) -> bool:
        """Whether values of secret results may not go into the call as they like."""
        return self._has_secrets and call["name"] not in self.own

    def _refused(self, call: PendingCall) -> CallResult | None:
        """The result of a call that must not run, whatever a person would say."""
        if self.work.agent.on_secret == "refuse" and call.get("finding") == "secret":
            names = listed(call["doubted"])
            return CallResult.failed(phrase("call_secret", self.language, tool=call["name"], arguments=names))
        return CallResult.failed(call["dangling"]) if "dangling" in call else self.refuse(as_seen(call))

    async def _with_values(self, calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
        """The calls with the results that their arguments refer to."""
        return await with_values(calls, self.work.services.ledger, self.language)

    async def _assessed(self, calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
        """The calls with the sources of their arguments, where these decide about approval and are not known yet."""
        places = [place for place, call in enumerate(calls) if self._is_unassessed(call)]
        if not places:
            return calls
        together = {calls[place]["scope"] for place in places}
        known = await collect_sources(self.work, self.task_id, self.tools, self.memory, together)
        return [self._with_sources(call, known) if place in places else call for place, call in enumerate(calls)]

    def _is_unassessed(self, call: PendingCall) -> bool:
        tool = self.tools.get(call["name"])
        by_sources = tool is not None and (tool.approve == "untrusted" or self._is_guarded(call))
        return by_sources and "finding" not in call and self.undecided(call) and not self._refused(call)

    def _with_sources(self, call: PendingCall, known: SeenText | None) -> PendingCall:
        if known is None:
            return {**call, "sources": {}, "finding": "unknown_sources", "doubted": []}
        tool = self.tools[call["name"]]
        planned = self.planned(as_seen(call))
        found = known.assess(call["arguments"], self._terms_of(tool), planned, _taken(call))
        finding = found.finding
        if finding != "secret" and tool.approve != "untrusted":
            if tool.approve == "always":
                return call
            finding = "clean"
        if finding not in DOUBTS and call["index"] in answered_now():
            finding = "unasked"
        return {**call, "sources": found.json(), "finding": finding, "doubted": [*found.doubted]}

    def _terms_of(self, tool: Tool) -> CallTerms:
        return describe_tool_for_matching(tool, self.work.agent)

    def _carries_labels(self, call: PendingCall) -> bool:
        """Whether what went into the call counts for its result."""
        tool = self.tools.get(call["name"])
        return tool is not None and (tool.trusted or (self._has_secrets and tool.read_only))

    def _labels(self, call: PendingCall, known: SeenText | None) -> dict[str, Any]:
        """What the result of a call carries: secrets, and of a trusted tool the untrusted sources of its arguments."""
        tool = self.tools.get(call["name"])
        if tool is None:
            return {}
        about = (call["arguments"], self._terms_of(tool), _taken(call))
        labels: dict[str, Any] = {"secret": tool.secret or bool(tool.read_only and known and known.secrets(*about))}
        if tool.trusted and known is not None:
            labels["sources"] = known.untrusted_sources(*about)
        return labels

    async def run(self, calls: Sequence[PendingCall]) -> list[FinishedCall]:
        """The calls with their results, in their order; they run at the same time.

        Summaries of hidden results are written one after the other: each may have to wait for a limit of spending.
        """
        calls = await self._with_values(calls)
        permitted = await self._permitted(calls, await self._grants(calls))
        is_labelled = self._follows_sources and any(self._carries_labels(call) for call in calls)
        known = await collect_sources(self.work, self.task_id, self.tools, self.memory) if is_labelled else None
        finished = await asyncio.gather(
            *(self._run(call, permitted.get(place, ""), known) for place, call in enumerate(calls))
        )
        return [await self._hidden(done) if done.result.hidden and self.hides else done for done in finished]

    async def _hidden(self, done: FinishedCall) -> FinishedCall:
        """The call with what the model sees of its hidden result."""
        result, call = done.result, done.call
        if is_callers_error(result, call, self.tools.get(call["name"])):
            return replace(done, result=replace(result, hidden=False))
        wanted = result.success and result.hidden == "summary"
        summary = await summarized(self.work, result.value, self.ids, self.language) if wanted else None
        seen = seen_result(result, recall_ref(self._key(call)), self.language, summary.text if summary else "")
        return replace(done, seen=seen, summary=summary)

    def usage(self, usage: Usage, finished: Sequence[FinishedCall]) -> Usage:
        """A task's usage with that of the summaries of hidden results."""
        return add_usages([usage, *(done.summary.usage for done in finished if done.summary)])

    def events(self, finished: Sequence[FinishedCall]) -> list[Durable]:
        """What the log says of the results."""
        asked: list[Durable] = [
            CallPermitted(index=done.call["index"], name=done.call["name"], scope=done.permission, **self._ids(done))
            for done in finished
            if done.permission and done.ran
        ]
        summaries: list[Durable] = [done.summary.event for done in finished if done.summary]
        return [*asked, *map(self._result_event, finished), *summaries]

    def _result_event(self, done: FinishedCall) -> ToolResult:
        return ToolResult(
            scope=done.call["scope"],
            index=done.call["index"],
            name=done.call["name"],
            arguments=done.call["arguments"],
            result=truncate_result(done.result.json(), self.work.agent.budget.result_chars),
            seconds=round(done.seconds, 3),
            **self._ids(done),
        )

    def show_calls(self, calls: Sequence[PendingCall]) -> None:
        """Stream what was decided, for those who read only `thinking`."""
        for call in calls:
            self._banner("call_chosen", call, arguments=_written(call["arguments"]))

    def show_results(self, finished: Sequence[FinishedCall]) -> None:
        """Stream what came of the calls, for those who read only `thinking`."""
        for done in finished:
            result = done.result
            self._banner("call_done" if result.success else "call_failed", done.call, result=_brief(result.content))

    def _banner(self, name: str, call: PendingCall, **values: str) -> None:
        content = phrase(name, self.language, tool=call["name"], **values)
        self.work.emit(Phase(task_id=self.task_id, step_id=call.get("step_id", ""), content=content, call=True))

    def entry(self, done: FinishedCall) -> dict[str, Any]:
        """The form of the state: the call with its `ref` and its `result`, whose labels the ledger has."""
        key = self._key(done.call)
        whole = done.seen or replace(done.result, sources=None, secret=False).json()
        return {**as_seen(done.call), "ref": recall_ref(key), "result": kept({**whole}, key, self.work.services.ledger)}

    async def _run(self, call: PendingCall, permission: str, known: SeenText | None) -> FinishedCall:
        if "rejected" in call:
            return FinishedCall(call, rejection(call["name"], call["rejected"], self.language))
        if refused := self._refused(call):
            return FinishedCall(call, self._unasked(refused) if self.undecided(call) else refused)
        name, arguments, session = call["name"], call["arguments"], get_config().get("configurable", {})
        execution = Execution(
            key=self._key(call),
            name=name,
            arguments=arguments,
            tools=with_result(self.tools, call),
            timeout=self.work.agent.budget.tool_seconds,
            approved=bool(permission) or approved(call, self.task_id, self.tools.get(name)),
            cleared=_cleared(call, self.tools.get(name)),
            idempotency_key=idempotency_key(call["origin"], name, arguments),
            session_id=str(session.get("thread_id", "")),
            step_id=call.get("step_id", ""),
            trace_id=self.ids.get("trace_id", ""),
            user_id=self.work.context.user_id,
            language=self.language,
            clock=self.work.services.clock,
            cancelled=self.work.services.cancelled,
            hidden=hiding_of(call, self.tools.get(name)),
            **self._labels(call, known),
        )
        services = self.work.services
        executor = (services.graph_executor or TOOLS) if name in self.own else self._executor
        if "waited" in call:
            executor = Arrived(call["waited"])
        result, seconds = await run_once(executor, services.ledger, execution)
        return FinishedCall(
            without_wait(call), result, True, seconds, permission or _clearance(call, self.tools.get(name))
        )

    def _unasked(self, refused: CallResult) -> CallResult:
        """The result of a call that would have needed a person's approval, which says that nobody was asked."""
        if refused.success:
            return refused
        return replace(refused, error=f"{refused.error} {phrase('call_not_asked', self.language)}")

    async def _grants(self, calls: Sequence[PendingCall]) -> Sequence[Grant]:
        """What a person allowed, if one of the calls is undecided."""
        return await self.work.services.permissions(self.work.agent.agent_id) if any(map(self.undecided, calls)) else ()

    async def _permitted(self, calls: Sequence[PendingCall], grants: Sequence[Grant]) -> Mapping[int, str]:
        """The places of the undecided calls that a person need not be asked about, each with its permission's scope.

        A call like one that may have taken effect already is asked about anyway.
        """
        if self.permission:
            return {place: self.permission for place, call in enumerate(calls) if self.undecided(call)}
        if not grants:
            return {}
        unknown = await self._unknown()
        return {
            place: scope
            for place, call in enumerate(calls)
            if self.undecided(call) and _bare(call) not in unknown and (scope := self._scope(call, grants))
        }

    def _scope(self, call: PendingCall, grants: Sequence[Grant]) -> str:
        """The scope of the first grant for the call's tool as it is now, or empty."""
        version = tool_digest(self.tools[call["name"]])
        return next((grant.scope for grant in self._matching(call, grants) if grant.version == version), "")

    def _matching(self, call: PendingCall, grants: Sequence[Grant]) -> list[Grant]:
        """The grants whose rule the call matches."""
        asked = self._asked(call)
        return [grant for grant in grants if grant.rule.matches(asked)]

    def _question(self, call: PendingCall, unknown: Collection[Mapping[str, Any]]) -> dict[str, Any]:
        """What a person is shown of a call; `unknown_outcome` where one like it may have taken effect already."""
        fields: Mapping[str, Any] = call
        asked = self._asked(call) | {name: fields[name] for name in self.shown}
        return {**asked, UNKNOWN_OUTCOME: True} if _bare(call) in unknown else asked

    def _asked(self, call: PendingCall) -> dict[str, Any]:
        """The call with its defaults, and why a person is asked about it."""
        asked = question_of(call["index"], call["arguments"], self.tools[call["name"]])
        if "finding" in call:
            asked |= {"sources": call["sources"], "reason": call["finding"], "doubted": call.get("doubted", [])}
        return asked

    async def _unknown(self) -> Sequence[Mapping[str, Any]]:
        ledger = self.work.services.ledger
        return await ledger.unknown(self.task_id) if ledger else ()

    def _key(self, call: PendingCall) -> CallKey:
        return CallKey(self.task_id, call["scope"], call["index"])

    def _ids(self, done: FinishedCall) -> dict[str, Any]:
        return {"step_id": done.call.get("step_id", ""), **self.ids}

    @property
    def _executor(self) -> Executor:
        return self.work.services.executor or TOOLS


async def run_once(executor: Executor, ledger: Ledger | None, execution: Execution) -> tuple[CallResult, float]:
    """Carry out a call through the ledger, and the seconds it took; one that finished before has its stored result."""
    started = time.monotonic()
    synced = has_effect(execution.name, execution.tool)  # after a loss of power, what only reads runs again
    if ledger is not None:
        claim = await ledger.claim(execution.key, execution.name, execution.arguments, synced=synced)
        known = CallResult.of(claim.outcome or {}) if claim.state == "finished" else None
        if known and not (known.status is CallStatus.WAITING and isinstance(executor, Arrived)):
            return known, 0.0
        execution = replace(execution, claim=claim)
    result = await executor.execute(execution)
    if result.status is not CallStatus.WAITING:
        result = replace(result, sources=execution.sources, secret=execution.secret, hidden=execution.hidden)
    if ledger is not None:
        await ledger.settle(execution.key, result.json(), synced=synced)
    return result, time.monotonic() - started


def _taken(call: PendingCall) -> dict[str, list[str]]:
    """The refs of the results that each argument takes a value of, by a reference of the plan or of the model."""
    planned, given = call.get("taken", {}), taken_refs(call)
    return {name: [*planned.get(name, ()), *given.get(name, ())] for name in {**planned, **given}}


def _cleared(call: PendingCall, tool: Tool | None) -> bool:
    """Whether by the sources of the call nobody has to be asked."""
    return tool is not None and tool.approve != "always" and call.get("finding", "unknown_sources") not in DOUBTS


def _clearance(call: PendingCall, tool: Tool | None) -> str:
    """Why nobody was asked about a call that was decided after untrusted text; empty otherwise."""
    return call["finding"] if _cleared(call, tool) and call["finding"] != "clean" else ""


def call_events(calls: Sequence[PendingCall], waits: bool, ids: Mapping[str, Any]) -> list[ToolCall]:
    """One event a call that is about to run, or that waits for a person's approval."""
    return [
        ToolCall(
            index=call["index"],
            name=call["name"],
            arguments=call["arguments"],
            needs_approval=waits,
            **{"step_id": call.get("step_id", ""), **ids},
        )
        for call in calls
    ]


def _written(arguments: Mapping[str, Any]) -> str:
    """Arguments as they would be written in code; a dash where there are none."""
    return _brief(", ".join(f"{name}={as_json(value)}" for name, value in arguments.items())) or "–"


def _brief(value: Any) -> str:
    """A value on one line: its `summary` where it has one, else its beginning."""
    if isinstance(value, Mapping):
        value = value.get("summary", value)
    text = " ".join(as_text(value).split())
    return text if len(text) <= BANNER_CHARS else f"{text[:BANNER_CHARS]}…"


def rejection(name: str, reason: str, language: str) -> CallResult:
    """The result of a call that a person rejected."""
    error = phrase("rejected", language, tool=name, why=reason_clause(reason, language))
    return CallResult(status=CallStatus.REJECTED, error=error)


def _bare(call: PendingCall) -> dict[str, Any]:
    return {"name": call["name"], "arguments": call["arguments"]}
