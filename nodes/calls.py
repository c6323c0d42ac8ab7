"""The one way from decided calls to their results: permission, question, budget, ledger, execution, events, steps."""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import cached_property, partial
from typing import Any

from langgraph.config import get_config
from langgraph.types import interrupt

from segue.core.approval import Grant, Verdict
from segue.core.calls import (
    ANSWERS,
    ASKS,
    JOB,
    UNKNOWN_OUTCOME,
    WAIT,
    AnyCall,
    Approved,
    Asked,
    CallKey,
    CallResult,
    CallStatus,
    Done,
    Execution,
    Executor,
    Ledger,
    PendingCall,
    Proposed,
    Rejected,
    Running,
    Tool,
    Waiting,
    has_effect,
    move_call,
)
from segue.core.context import AppContext, ModelCalls, Share, surrounding
from segue.core.decision import StepStatusUpdate
from segue.core.errors import IllegalTransition, listed
from segue.core.events import CallPermitted, Durable, Phase, StepUpdate, ToolCall, ToolResult
from segue.core.models import Usage, add_usages
from segue.core.plan import FINAL, AnyStep, Status, Step, keep_finished, ready, set_status
from segue.core.provenance import SeenText
from segue.core.task import format_time
from segue.prompts.catalogue import clauses, task_text, word
from segue.prompts.origins import doubt_lines
from segue.tools.adapters.agents import LocalAgentTool
from segue.tools.adapters.client import ClientTool, Results, client_call, client_question
from segue.tools.bound_tool import BadArguments, idempotency_key
from segue.tools.calls import TOOLS

from .context import NodeContext, as_json, as_text, kept, recall_ref, truncate_result
from .permission import (
    Summary,
    approval_events,
    as_seen,
    ask_person,
    assess_call,
    carries_labels,
    collect_sources,
    decide_call,
    find_labels,
    find_unread_directories,
    granted_scope,
    has_secrets,
    hiding_of,
    is_approved,
    is_callers_error,
    is_in_doubt,
    is_outdated,
    matching_grants,
    needs_no_approval,
    question_about,
    reason_clause,
    reason_not_asked,
    seen_result,
    summarized,
    with_values,
)
from .task import nested_services

# Calls that the task's client carries out: which ones wait together, and the results that it sends.


def _waits_for_client(call: PendingCall) -> bool:
    return isinstance(call.state, Waiting) and call.state.terms is None


def with_client_results(calls: Sequence[AnyCall], tools: Mapping[str, Tool]) -> list[AnyCall]:
    """The calls with the results that the client sends of those that wait for it.

    The graph is interrupted until it has sent at least one; the others are asked for again.
    """
    asked = [call for call in calls if _waits_for_client(call)]
    forms = [client_call(_id(call), call.name, _client_tool(tools, call).fit(call.arguments)) for call in asked]
    results = interrupt(client_question(forms, _client_tool(tools, asked[0]).language))["results"]
    return [_answered(call, results) if _waits_for_client(call) else call for call in calls]


def _client_tool(tools: Mapping[str, Tool], call: PendingCall) -> ClientTool:
    tool = tools[call.name]
    assert isinstance(tool, ClientTool)
    return tool


def _answered(call: AnyCall, results: Results) -> AnyCall:
    decision, call_id = _decided(call), _id(call)
    if call_id in results:
        return move_call(call, Running(decision, sent={call_id: results[call_id]}))
    return move_call(call, decision)


def with_result(tools: Mapping[str, Tool], call: PendingCall) -> Mapping[str, Tool]:
    """The tools, that of the call with the result that the client sent."""
    tool = tools.get(call.name)
    if not isinstance(tool, ClientTool) or not isinstance(call.state, Running) or call.state.sent is None:
        return tools
    return {**tools, call.name: replace(tool, results=call.state.sent)}


def _fits(call: PendingCall, tool: ClientTool) -> bool:
    """Whether the client can be asked for the call; what is wrong with it otherwise, running it says."""
    try:
        tool.check(call.arguments)
    except BadArguments:
        return False
    return True


def _id(call: PendingCall) -> str:
    return idempotency_key(call.origin, call.name, call.arguments)


def _decided(call: PendingCall) -> Proposed | Approved:
    """The decision by which a call runs; one that was rejected never does."""
    assert not isinstance(call.decision, Rejected)
    return call.decision


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


def wait_for_result(call: AnyCall, result: CallResult) -> AnyCall:
    """The call that ran, which waits if its result comes later, or for the answer to what its tool asks.

    One that stopped for a pause goes on when the task does.
    """
    if result.is_paused:
        return call
    given = [*((isinstance(call.state, Running) and call.state.answers) or ())]
    if result.status is CallStatus.ASKING:
        return move_call(call, Waiting(_decided(call), {ASKS: result.value, ANSWERS: given}))
    if result.job is not None:
        return move_call(call, Waiting(_decided(call), {**result.value, ANSWERS: given}))
    return move_call(call, Waiting(_decided(call), result.value)) if result.status is CallStatus.WAITING else call


def with_awaited_result(call: AnyCall, language: str) -> AnyCall:
    """A call with the result or the answer that it waits for; the graph is interrupted until that is there."""
    assert isinstance(call.state, Waiting) and call.state.terms is not None
    terms = call.state.terms
    if ASKS in terms:
        return move_call(call, Running(_decided(call), answers=[*terms[ANSWERS], interrupt(terms[ASKS])]))
    until, event = terms["until"], terms["event"]
    text = wait_sentence(until, event, language)
    value = interrupt({"kind": WAIT, "question": text, "tool": call.name, "until": until, "event": event})
    if JOB in terms:
        return move_call(call, Running(_decided(call), answers=terms[ANSWERS]))
    return move_call(call, Running(_decided(call), arrived=value))


def wait_sentence(until: float | None, event: str, language: str) -> str:
    """What a task waits for."""
    if until is None:
        return task_text("wait_for_event", language, event=event)
    moment = format_time(until, UTC)
    return (
        task_text("wait_for_both", language, event=event, moment=moment)
        if event
        else task_text("wait_until", language, moment=moment)
    )


# The one way from decided calls to their results: permission, question, budget, ledger, execution, events.

BANNER_CHARS = 300
"""Characters of arguments and of a result in a banner."""


@dataclass(frozen=True)
class FinishedCall:
    """A call with its result; it took `seconds` of wall-clock time.

    `ran`: it counts against the budget. `permission` is the scope of the permission that it ran under; it is empty if a
    person was asked, or did not have to be. Of a hidden result, `seen` is what the model sees, with its `summary`.
    `used` is what the models used that the tool called through Segue's graphs.
    """

    call: PendingCall
    result: CallResult
    ran: bool = False
    seconds: float = 0.0
    permission: str = ""
    seen: Mapping[str, Any] | None = None
    summary: Summary | None = None
    used: Usage = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """What the models used for the call: those of its tool, of the agent that is the tool, and of the summary."""
        parts = [self.used_now, (self.result.used or {}).get("usage")]
        return add_usages([part for part in parts if part])

    @property
    def used_now(self) -> Usage:
        """The same without what the stored result counts, which a call that runs again has again."""
        return add_usages([part for part in (self.used, self.summary and self.summary.usage) if part])

    @property
    def count(self) -> int:
        """How many calls it counts as in the budget: with it those of an agent that is the tool."""
        return self.ran + self.result.calls_inside


@dataclass(frozen=True)
class CallRunner:
    """Takes the calls of a round, a wave or a branch from the decision to their results.

    `ids` are what each of its events carries. `refuse` gives the result of a call that must not run; it is not asked
    about either. `planned`: a plan that was made before untrusted text was read has the call. `memory` is what was read
    of memory files. `shown` names further fields of a call that a question shows. `own` names the tools of the graph,
    which read its state: they run here, whatever the executor. `permission` is the scope of one that all
    calls have; with `rejects` none that needs approval runs. Without `hides`, who made the calls hides their results
    themselves. With `later` agents may run in the background; `joins` are the places of the calls that have a result of
    one. `together` names the tools of all calls that run at the same time, where others run some of them; `behind` run
    later, and were decided with them. `headings` are the banners before the calls and before their results.
    """

    work: NodeContext
    tools: Mapping[str, Tool]
    task_id: str
    language: str
    ids: Mapping[str, Any]
    refuse: Callable[[PendingCall], CallResult | None] = lambda call: None
    planned: Callable[[PendingCall], bool] = lambda call: False
    memory: str = ""
    shown: Sequence[str] = ()
    own: Collection[str] = ()
    permission: str = ""
    rejects: bool = False
    hides: bool = True
    later: bool = False
    joins: Collection[int] = ()
    together: Mapping[CallKey, str] = field(default_factory=dict)
    behind: Collection[CallKey] = ()
    headings: Sequence[str] = ()

    # What calls need before they run: the client's results, the result of a wait, or a person's decision.

    async def prepare(self, calls: Sequence[AnyCall]) -> tuple[list[AnyCall], list[Durable], bool]:
        """Add what the calls need before they run: the client's results, the result of a wait, or a decision.

        Returns the calls, the events of a decision, and whether they can run now. If not, the node stores them and runs
        again: LangGraph pairs answers with interrupts by their order, so each run of a node has one at most.
        """
        for place, call in enumerate(calls):
            match call.state:
                case Waiting(terms=terms) if terms is not None:
                    arrived = with_awaited_result(call, self.language)
                    return [*calls[:place], arrived, *calls[place + 1 :]], [], False
                case Waiting():
                    return with_client_results(calls, self.tools), [], False
        decided, given = await self.decide(calls)
        waiting = None if given else self.wait_for_client(decided)
        return waiting or decided, given, not (given or waiting)

    def wait_for_client(self, calls: Sequence[AnyCall]) -> list[AnyCall] | None:
        """The calls, the first ones waiting together for the client; None if the first one is not the client's."""
        count = 0
        for call in calls:
            tool = self.tools.get(call.name)
            is_sent = isinstance(call.state, Running) and call.state.sent is not None
            if not isinstance(tool, ClientTool) or isinstance(call.state, Rejected) or is_sent:
                break
            if self._refused(call) or not _fits(call, tool):
                break
            count += 1
            if not tool.parallel:
                break
        waiting = [move_call(call, Waiting(_decided(call))) for call in calls[:count]]
        return [*waiting, *calls[count:]] if waiting else None

    async def decide(self, calls: Sequence[AnyCall]) -> tuple[list[AnyCall], list[Durable]]:
        """Have a person decide about the calls that need it: the graph is interrupted until they have.

        Returns the calls with what they decided and what was found of their sources, and the events of a decision, none
        if nobody was asked.
        """
        known = await self._assessed(await with_values(calls, self.work.services.ledger, self.language))
        grants = () if self.rejects else await self._grants(known)
        permitted = await self._permitted(known, grants)
        proposed = [call if place in permitted else self._ask(call) for place, call in enumerate(known)]
        asked = [call for call in proposed if isinstance(call.state, Asked)]
        if not asked:
            return proposed, []
        given: list[Durable] = []
        if self.rejects:
            verdicts = {call.index: Verdict(index=call.index, verdict="reject") for call in asked}
        else:
            unknown = await self._unknown()
            questions = [self._question(call, unknown) for call in asked]
            outdated = [call.name for call in asked if self._is_outdated(call, grants)]
            verdicts = ask_person(questions, self.tools, self.language, outdated)
            given = approval_events(questions, verdicts, self.work.agent.agent_id, **self.ids)
        return [self._with_verdict(call, verdicts) for call in proposed], given

    def _ask(self, call: AnyCall) -> AnyCall:
        """The call, a person asked about it if one may have to approve it."""
        match call.state:
            case Proposed() | Approved() | Running() if self.is_undecided(call) and not self._refused(call):
                return move_call(call, Asked(call.state))
        return call

    def _with_verdict(self, call: AnyCall, verdicts: Mapping[int, Verdict]) -> AnyCall:
        if not isinstance(call.state, Asked):
            return call
        return decide_call(call, verdicts[call.index], self.task_id, self.tools[call.name])

    def is_undecided(self, call: PendingCall) -> bool:
        """Whether a person may have to approve the call, and has not decided yet."""
        tool = self.tools.get(call.name)
        if tool is None or isinstance(call.state, Rejected) or is_approved(call, self.task_id, tool):
            return False
        if call.index in self.joins:
            return False
        if self._is_guarded(call) and is_in_doubt(call):
            return True
        return not needs_no_approval(call, tool) and self._executor.needs_approval(tool)

    def _is_outdated(self, call: PendingCall, grants: Sequence[Grant]) -> bool:
        """Whether the tool has changed since a person approved the call or allowed it always."""
        tool = self.tools[call.name]
        granted = bool(matching_grants(call, tool, grants)) and not granted_scope(call, tool, grants)
        return granted or is_outdated(call, self.task_id, tool)

    def _refused(self, call: PendingCall) -> CallResult | None:
        """The result of a call that must not run, whatever a person would say."""
        if self.work.agent.on_secret == "refuse" and call.assessment and call.finding == "secret":
            names = listed(call.assessment.doubted)
            return CallResult.failed(task_text("call_secret", self.language, tool=call.name, arguments=names))
        if call.dangling:
            return CallResult.failed(call.dangling)
        if call.index in self.joins:
            return None
        tool = self.tools.get(call.name)
        if isinstance(tool, LocalAgentTool) and (task_id := tool.joins(call.arguments)):
            return CallResult.failed(task_text("agent_not_under_way", self.language, task_id=task_id))
        return self.refuse(as_seen(call))

    async def _assessed(self, calls: Sequence[AnyCall]) -> Sequence[AnyCall]:
        """The calls with the sources of their arguments, where these decide about approval and are not known yet."""
        places = [place for place, call in enumerate(calls) if self._is_unassessed(call)]
        if not places:
            return calls
        together = {calls[place].scope for place in places}
        assessed, seen = [*calls], await self._seen(together)
        for place in places:
            call = assessed[place] = self._assess(calls[place], seen)
            if call.finding in ("values", "unasked") and await self._read_directories(call, seen):
                seen = await self._seen(together)
                assessed[place] = self._assess(calls[place], seen)
        return assessed

    async def _seen(self, together: Collection[str] = ()) -> SeenText | None:
        return await collect_sources(self.work, self.task_id, self.tools, self.memory, together)

    def _assess(self, call: AnyCall, seen: SeenText | None) -> AnyCall:
        tool = self.tools[call.name]
        return assess_call(call, seen, tool, self.work.agent, planned=self.planned(as_seen(call)))

    async def _read_directories(self, call: PendingCall, seen: SeenText | None) -> bool:
        """Read the directories that the task has not read yet; whether there was one."""
        unread = await find_unread_directories(call, self.work, self.task_id, self.tools)
        for each in unread:
            await self._run(each, "", seen, {})
        return bool(unread)

    def _is_unassessed(self, call: PendingCall) -> bool:
        tool = self.tools.get(call.name)
        by_sources = tool is not None and (tool.approve == "untrusted" or self._is_guarded(call))
        return by_sources and call.assessment is None and self.is_undecided(call) and not self._refused(call)

    @cached_property
    def _has_secrets(self) -> bool:
        return has_secrets(self.tools)

    def _is_guarded(self, call: PendingCall) -> bool:
        """Whether values of secret results may not go into the call as they like."""
        return self._has_secrets and call.name not in self.own

    async def _grants(self, calls: Sequence[PendingCall]) -> Sequence[Grant]:
        """What a person allowed, if one of the calls is undecided."""
        if not any(map(self.is_undecided, calls)):
            return ()
        return await self.work.services.permissions(self.work.agent.agent_id)

    async def _permitted(self, calls: Sequence[PendingCall], grants: Sequence[Grant]) -> Mapping[int, str]:
        """The places of the undecided calls that a person need not be asked about, each with its permission's scope.

        A call like one that may have taken effect already is asked about anyway.
        """
        undecided = [(place, call) for place, call in enumerate(calls) if self.is_undecided(call)]
        if self.permission:
            return {place: self.permission for place, _ in undecided}
        if not grants:
            return {}
        unknown, found = await self._unknown(), {}
        for place, call in undecided:
            scope = granted_scope(call, self.tools[call.name], grants)
            if scope and name_and_arguments(call) not in unknown:
                found[place] = scope
        return found

    def _question(self, call: PendingCall, unknown: Collection[Mapping[str, Any]]) -> dict[str, Any]:
        """What a person is shown of a call; `unknown_outcome` where one like it may have taken effect already."""
        asked = question_about(call, self.tools[call.name]) | {name: getattr(call, name) for name in self.shown}
        if lines := doubt_lines(asked, self.language):
            asked["why"] = lines
        return {**asked, UNKNOWN_OUTCOME: True} if name_and_arguments(call) in unknown else asked

    async def _unknown(self) -> Sequence[Mapping[str, Any]]:
        ledger = self.work.services.ledger
        return await ledger.unknown(self.task_id) if ledger else ()

    # Calls that run.

    def next_group(self, calls: Sequence[AnyCall]) -> Sequence[AnyCall]:
        """The calls that run next, with a boundary behind them where a pause can be taken."""
        parallel = all(self.parallel(call.name) for call in calls)
        return calls[: self.work.agent.budget.parallel_calls] if parallel else calls[:1]

    def parallel(self, name: str) -> bool:
        """Whether calls of this tool may run beside others."""
        return name in self.tools and self._executor.parallel(self.tools[name])

    async def run(self, calls: Sequence[PendingCall]) -> list[FinishedCall]:
        """The calls with their results, in their order; they run at the same time.

        Summaries of hidden results are written one after the other: each may have to wait for a limit of spending.
        """
        filled = await with_values(calls, self.work.services.ledger, self.language)
        permitted = await self._permitted(filled, await self._grants(filled))
        follows_sources = self._has_secrets or any(tool.approve == "untrusted" for tool in self.tools.values())
        labelled = [call for call in filled if carries_labels(self.tools.get(call.name), secrets=self._has_secrets)]
        self._show_choices([call for call in calls if not isinstance(call.state, Rejected)])
        is_labelled = follows_sources and bool(labelled)
        seen = await self._seen() if is_labelled else None
        shares = self._shares(filled)
        finished = await asyncio.gather(
            *(self._run(call, permitted.get(place, ""), seen, shares) for place, call in enumerate(filled))
        )
        shown = [await self._hidden(done) if done.result.hidden and self.hides else done for done in finished]
        self._show_outcomes(shown)
        return shown

    def _shares(self, calls: Sequence[PendingCall]) -> Mapping[CallKey, Share]:
        """What each call of an agent may use of the budget, which those that run together divide.

        A part stays with the task itself, where it goes on beside one in the background.
        """
        together = self.together or {
            ledger_key(call, self.task_id): call.name for call in calls if call.index not in self.joins
        }
        agents = {
            key: tool for key, name in together.items() if isinstance(tool := self.tools.get(name), LocalAgentTool)
        }
        parts = len(agents) + (self.later and any(tool.config.background for tool in agents.values()))
        decided = {*together, *self.behind}
        return {key: Share(decided, place, parts) for place, key in enumerate(agents)}

    def _show_choices(self, calls: Sequence[PendingCall]) -> None:
        begun = [call for call in calls if not isinstance(call.state, Running) or call.state.sent is not None]
        if begun and self.headings:
            self.work.emit(Phase(content=self.headings[0], **self.ids))
        for call in begun:
            ids = {"step_id": call.step_id, **self.ids, "language": self.language}
            show_choice("call", call.name, call.arguments, self.work, **ids)

    def _show_outcomes(self, finished: Sequence[FinishedCall]) -> None:
        ended = [done for done in finished if done.result.status not in (CallStatus.WAITING, CallStatus.ASKING)]
        if self.headings and any(done.result.status is not CallStatus.REJECTED for done in ended):
            self.work.emit(Phase(content=self.headings[1], **self.ids))
        for done in ended:
            ids = {"step_id": done.call.step_id, **self.ids, "language": self.language}
            show_outcome("call", done.call.name, done.result, self.work, **ids)

    def waiting(self, calls: Sequence[PendingCall], ran: Sequence[FinishedCall]) -> list[PendingCall] | None:
        """The calls, of which those that ran wait for their results where these come later; None if there is none."""
        if not any(done.result.status in (CallStatus.WAITING, CallStatus.ASKING) for done in ran):
            return None
        return [*(wait_for_result(done.call, done.result) for done in ran), *calls[len(ran) :]]

    async def _run(
        self, call: PendingCall, permission: str, seen: SeenText | None, shares: Mapping[CallKey, Share]
    ) -> FinishedCall:
        if isinstance(call.state, Rejected):
            return FinishedCall(call, rejection(call.name, call.state.reason, self.language))
        if refused := self._refused(call):
            return FinishedCall(call, self._unasked(refused) if self.is_undecided(call) else refused)
        state = call.state if isinstance(call.state, Running) else Running(_decided(call))
        call = call if call.state is state else move_call(call, state)
        tool, session, services = self.tools.get(call.name), get_config().get("configurable", {}), self.work.services
        execution = Execution(
            key=ledger_key(call, self.task_id),
            name=call.name,
            arguments=call.arguments,
            tools=with_result(self.tools, call),
            timeout=self.work.agent.budget.tool_seconds,
            approved=bool(permission) or is_approved(call, self.task_id, tool),
            cleared=call.index in self.joins or needs_no_approval(call, tool),
            idempotency_key=_id(call),
            session_id=str(session.get("thread_id", "")),
            step_id=call.step_id,
            trace_id=self.ids.get("trace_id", ""),
            user_id=self.work.context.user_id,
            language=self.language,
            clock=services.clock,
            cancelled=services.cancelled,
            hidden=hiding_of(call, tool),
            answers=state.answers or (),
            **find_labels(call, seen, tool, self.work.agent),
        )
        executor = (services.graph_executor or TOOLS) if call.name in self.own else self._executor
        if state.arrived is not None:
            executor = Arrived(state.arrived)
        used: list[Usage] = []
        try:
            share = shares.get(execution.key, Share())
            with surrounding(self._context_inside(used), services, self.later, share):
                result, seconds = await run_once(executor, services.ledger, execution)
        finally:
            services.used.extend(used)
        if result.used:
            services.used.append(result.used["usage"])
        reason = permission or reason_not_asked(call, tool)
        return FinishedCall(call, result, True, seconds, reason, used=add_usages(used))

    def _unasked(self, refused: CallResult) -> CallResult:
        """The result of a call that would have needed a person's approval, which says that nobody was asked."""
        if refused.success:
            return refused
        return replace(refused, error=f"{refused.error} {task_text('call_not_asked', self.language)}")

    async def _hidden(self, done: FinishedCall) -> FinishedCall:
        """The call with what the model sees of its hidden result."""
        result, call = done.result, done.call
        if is_callers_error(result, call, self.tools.get(call.name)):
            return replace(done, result=replace(result, hidden=False))
        wanted = result.success and result.hidden == "summary"
        summary = await summarized(self.work, result.value, self.ids, self.language) if wanted else None
        ref = recall_ref(ledger_key(call, self.task_id))
        return replace(
            done, seen=seen_result(result, ref, self.language, summary.text if summary else ""), summary=summary
        )

    def _context_inside(self, used: list[Usage]) -> AppContext:
        """The context of Segue's graphs that a tool runs, which are parts of the task; `used` takes what they use."""
        services = self.work.services
        task = {"task_id": self.task_id, "language": self.language, "started_at": services.began}
        nested = nested_services(services, services.ledger, task)
        inside = replace(nested, used=used, model_calls=ModelCalls())  # a stop would run the tool's effects again
        return AppContext.carrying(inside, **{**self.work.context.model_dump(), "mode": ""})

    @property
    def _executor(self) -> Executor:
        return self.work.services.executor or TOOLS


def ledger_key(call: PendingCall, task_id: str) -> CallKey:
    """What the ledger knows a call of the task by."""
    return CallKey(task_id, call.scope, call.index)


def name_and_arguments(call: PendingCall) -> dict[str, Any]:
    """What calls that are alike have in common, as the ledger names it."""
    return {"name": call.name, "arguments": call.arguments}


async def run_once(executor: Executor, ledger: Ledger | None, execution: Execution) -> tuple[CallResult, float]:
    """Carry out a call through the ledger, and the seconds it took; one that finished before has its stored result."""
    started = time.monotonic()
    synced = has_effect(execution.name, execution.tool)  # after a loss of power, what only reads runs again
    if ledger is not None:
        claim = await ledger.claim(execution.key, execution.name, execution.arguments, synced=synced)
        known = CallResult.of(claim.outcome or {}) if claim.state == "finished" else None
        if known and not (known.status is CallStatus.WAITING and isinstance(executor, Arrived)):
            return known, 0.0
        job = claim.outcome if claim.state == "interrupted" else None
        execution = replace(execution, claim=claim, job=job, keep=partial(ledger.keep, execution.key))
    result = await executor.execute(execution)
    if result.status is CallStatus.ASKING:
        if ledger is not None:
            await ledger.withdraw(execution.key)
        return result, time.monotonic() - started
    if result.status is not CallStatus.WAITING:
        sources = execution.sources if execution.sources is None else (*execution.sources, *(result.sources or ()))
        secret = execution.secret or result.secret
        result = replace(result, sources=sources, secret=secret, hidden=execution.hidden)
    if ledger is not None and result.job is not None:
        await ledger.keep(execution.key, result.job)
    elif ledger is not None:
        await ledger.settle(execution.key, result.json(), synced=synced)
    return result, time.monotonic() - started


# What is told of calls: their events and banners, and what a state keeps of them.


def call_events(calls: Sequence[PendingCall], waits: bool, ids: Mapping[str, Any]) -> list[ToolCall]:
    """One event a call that is about to run, or that waits for a person's approval."""
    return [
        ToolCall(
            index=call.index,
            name=call.name,
            arguments=call.arguments,
            needs_approval=waits,
            **{"step_id": call.step_id, **ids},
        )
        for call in calls
    ]


def result_events(finished: Sequence[FinishedCall], work: NodeContext, ids: Mapping[str, Any]) -> list[Durable]:
    """What the log says of the results."""
    permitted, results, summaries = list[Durable](), list[Durable](), list[Durable]()
    for done in finished:
        call, about = done.call, {"step_id": done.call.step_id, **ids}
        if done.permission and done.ran:
            permitted.append(CallPermitted(index=call.index, name=call.name, scope=done.permission, **about))
        shown = truncate_result(done.result.json(), work.agent.budget.result_chars)
        results.append(
            ToolResult(
                scope=call.scope,
                index=call.index,
                name=call.name,
                arguments=call.arguments,
                result=shown,
                seconds=round(done.seconds, 3),
                **about,
            )
        )
        if done.summary:
            summaries.append(done.summary.event)
    return [*permitted, *results, *summaries]


def describe_outcome(done: FinishedCall, work: NodeContext, task_id: str) -> dict[str, Any]:
    """The call as a state keeps it with its `ref` and its `result`, whose labels the ledger has."""
    call, key = as_seen(done.call), ledger_key(done.call, task_id)
    whole = done.seen or CallResult.without_labels(done.result.json())
    ref = recall_ref(key)
    return move_call(call, Done(call.decision, kept({**whole}, key, work.services.ledger), ref)).json()


def count_usage(usage: Usage, ran: Sequence[FinishedCall], *, again: bool = False) -> Usage | None:
    """A task's usage with what the models used for its calls; None where they used nothing.

    `again`: some wait, and all of them run again, those that are done from the ledger.
    """
    used = [used for done in ran if (used := done.used_now if again else done.usage)]
    return add_usages([usage, *used]) if used else None


def show_problem(why: str, work: NodeContext, language: str, **ids: Any) -> None:
    """Stream what went wrong, for those who read only `thinking`."""
    work.emit(Phase(content=task_text("problem", language, why=brief(why)), call=True, **ids))


def show_choice(kind: str, name: str, arguments: Mapping[str, Any], work: NodeContext, **ids: Any) -> None:
    """Stream what was chosen, a `call` or a `branch`, for those who read only `thinking`."""
    language = ids.pop("language")
    content = task_text(f"{kind}_chosen", language, tool=name, arguments=written_arguments(arguments))
    work.emit(Phase(content=content, call=True, **ids))


def show_outcome(kind: str, name: str, result: CallResult, work: NodeContext, **ids: Any) -> None:
    """Stream what came of it, for those who read only `thinking`."""
    said = f"{kind}_done" if result.success else f"{kind}_failed"
    content = task_text(said, ids.pop("language"), tool=name, result=brief(result.content))
    work.emit(Phase(content=content, call=True, **ids))


def written_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as they would be written in code; a dash where there are none."""
    return brief(", ".join(f"{name}={as_json(value)}" for name, value in arguments.items())) or "–"


def brief(value: Any) -> str:
    """A value on one line: its `summary` where it has one, else its beginning."""
    if isinstance(value, Mapping):
        value = value.get("summary", value)
    text = " ".join(as_text(value).split())
    return text if len(text) <= BANNER_CHARS else f"{text[:BANNER_CHARS]}…"


def rejection(name: str, reason: str, language: str) -> CallResult:
    """The result of a call that a person rejected."""
    error = task_text("rejected", language, tool=name, why=reason_clause(reason, language))
    return CallResult(status=CallStatus.REJECTED, error=error)


# The steps of a plan that calls carry out: begun, ended, skipped, and what is told of them.

NOTE_CHARS = 200
"""Characters of an error in the note of a step."""
_PREFIX = re.compile(r"^\D+")


def _plans_call(step: Step, name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the plan names this tool for the step, with these values for the parameters that it names."""
    if not step.uses_tool or step.action != name:
        return False
    return all(key in arguments and _fits_plan(value, arguments[key]) for key, value in step.params.items())


def _fits_plan(planned: Any, given: Any) -> bool:
    """A reference to an earlier result fits every value."""
    return (isinstance(planned, Mapping) and "$ref" in planned) or planned == given


def steps_of_calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]], steps: Sequence[Step], named: str, repaired: str = ""
) -> list[str]:
    """The id of the step that each call works on; empty where neither the plan nor the model says.

    The tool and the parameters that the plan names come first, then the step that the model names, then the failed step
    that a repair is for, then a step without a tool that says what the call does.
    """
    unfinished = [step for step in steps if step.status not in FINAL]
    named = _named(named, unfinished) or _named(repaired, unfinished)
    described = [[] if named else _described_by(name, arguments, unfinished) for name, arguments in calls]
    found: list[str] = []
    for place, (name, arguments) in enumerate(calls):
        planned = [step.step_id for step in unfinished if _plans_call(step, name, arguments)]
        if not planned:
            others = {step.step_id for each in described[:place] + described[place + 1 :] for step in each}
            planned = [
                step.step_id
                for step in described[place]
                if step.step_id not in others or not _NUMBER.search(step.description)
            ]
        if named in planned:
            found.append(named)
        else:
            found.append(next((step_id for step_id in planned if step_id not in found), named))
    return found


_WORD = re.compile(r"[^\W\d_\u4e00-\u9fff]+|\d+|[\u4e00-\u9fff]")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ARTICLES = frozenset({"a", "an", "the"})


def _described_by(name: str, arguments: Mapping[str, Any], steps: Sequence[Step]) -> list[Step]:
    """The steps without a tool that say no more than the call, or than the goal of a branch, and begin as that does.

    "Refund 17" is `refund(order=17)`, and a branch with the goal "refund order 17". A number of the step is the only
    argument, or number of the goal, that could be meant: `refund(order=18, amount=17)` is another call.
    """
    goal = str(arguments.get("goal") or "")
    texts = [str(value) for value in arguments.values()]
    numbers = [text for text in texts if _NUMBER.fullmatch(text)]
    given = [(_words(f"{name} {as_json(arguments)}"), numbers), (_words(goal), _NUMBER.findall(goal))]
    found = []
    for step in steps:
        said = [] if step.uses_tool or step.written_by_answer else _words(step.description)
        wanted = _NUMBER.findall(step.description)
        for words, held in given if said else ():
            fits = not wanted or (wanted == held and len(held) == 1)
            if fits and said[:1] == words[:1] and {*said} <= {*words}:
                found.append(step)
                break
    return found


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _ARTICLES]


def _named(step_id: str, steps: Sequence[Step]) -> str:
    """The step's id as the plan writes it, where a model writes "step_1" for "1"; empty if there is none."""
    ids = [step.step_id for step in steps]
    return next((known for known in (step_id, _PREFIX.sub("", step_id)) if known in ids), "")


def begin_steps(
    steps: Sequence[AnyStep], worked_on: Collection[str], claims: Sequence[StepStatusUpdate] = ()
) -> tuple[AnyStep, ...]:
    """The plan after what the model says of its steps, with those running whose calls are about to run.

    An impossible claim is ignored, and so is any about a step whose calls are about to run.
    """
    ignored = {*worked_on, *_denied(steps, claims)}
    for claim in claims:
        if claim.step_id not in ignored:
            with suppress(IllegalTransition):
                steps = set_status(steps, claim.step_id, claim.status)
    for step in steps:
        if step.step_id in worked_on and step.status not in FINAL:
            steps = set_status(steps, step.step_id, Status.RUNNING)
    return tuple(steps)


def claim_steps(steps: Sequence[AnyStep], claims: Sequence[StepStatusUpdate]) -> tuple[AnyStep, ...]:
    """The plan after what the model says of its steps, where every claim has to be possible."""
    if _denied(steps, claims):
        raise IllegalTransition(Status.ERROR, Status.DONE)
    for claim in claims:
        steps = set_status(steps, claim.step_id, claim.status)
    return tuple(steps)


def _denied(steps: Sequence[Step], claims: Sequence[StepStatusUpdate]) -> set[str]:
    """The failed steps that are done according to the model, be it after another status: only a call can do them."""
    done = {claim.step_id for claim in claims if claim.status is Status.DONE}
    return {step.step_id for step in steps if step.status is Status.ERROR and step.step_id in done}


def replan_steps(old: Sequence[Step], new: Sequence[Step]) -> tuple[Step, ...]:
    """The model's new plan behind what is done of the old one; the statuses that it writes are claims."""
    failed = {step.step_id: Status.ERROR for step in old if step.status is Status.ERROR}
    before = [step.model_copy(update={"status": failed.get(step.step_id, Status.PENDING)}) for step in new]
    claims = [StepStatusUpdate(step_id=step.step_id, status=step.status) for step in new]
    return keep_finished(old, begin_steps(before, (), claims))


def restart_steps(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """The plan of a run that begins again elsewhere: what was under way is still to be done."""
    for step in steps:
        if step.status is Status.RUNNING:
            steps = set_status(steps, step.step_id, Status.PENDING)
    return tuple(steps)


def end_steps(
    steps: Sequence[AnyStep], outcomes: Sequence[Mapping[str, Any]], claims: Sequence[StepStatusUpdate] = ()
) -> tuple[AnyStep, ...]:
    """Settle the running steps by the results of their calls: {step_id, name, result, …} each.

    A step that the model says is running continues after a success.
    """
    still_running = {claim.step_id for claim in claims if claim.status is Status.RUNNING}
    for step in steps:
        results = [(o["name"], CallResult.of(o["result"])) for o in outcomes if o.get("step_id") == step.step_id]
        if step.status is not Status.RUNNING or not results:
            continue
        failed = [(name, result.error) for name, result in results if not result.success]
        shown = [error if len(results) == 1 else f"{name}: {error}" for name, error in failed]
        if failed:
            steps = set_status(steps, step.step_id, Status.ERROR, "; ".join(shown)[:NOTE_CHARS])
        elif step.step_id not in still_running:
            steps = set_status(steps, step.step_id, Status.DONE)
    return tuple(steps)


def ready_calls(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The ready steps with a tool: nothing has to wait for one without, which no call can do."""
    passed = tuple(steps)
    while thoughts := [step.step_id for step in ready(passed) if not step.uses_tool]:
        for step_id in thoughts:
            passed = set_status(passed, step_id, Status.DONE)
    return tuple(step for step in ready(passed) if step.uses_tool)


def answer_steps(steps: Sequence[Step], claims: Sequence[StepStatusUpdate] = ()) -> tuple[Step, ...]:
    """The plan once the answer is written: it carries out the steps that write it, unless the model says otherwise.

    Of all other steps only their calls or the model can say that they are done. What is under way is still to be done.
    """
    opened = {claim.step_id for claim in claims if claim.status is not Status.DONE}
    for step in steps:
        if step.status in {Status.PENDING, Status.RUNNING} and step.written_by_answer and step.step_id not in opened:
            steps = set_status(steps, step.step_id, Status.DONE)
    return restart_steps(steps)


def skip_steps(steps: Sequence[AnyStep], notes: Mapping[str, str]) -> tuple[AnyStep, ...]:
    """The plan with these steps skipped, each with the note that says why."""
    for step_id, note in notes.items():
        steps = set_status(steps, step_id, Status.SKIPPED, note)
    return tuple(steps)


def step_events(old: Sequence[Step], new: Sequence[Step], ids: Mapping[str, Any]) -> list[StepUpdate]:
    """One event a step whose status changed."""
    before = {step.step_id: step.status for step in old}
    return [step_event(step, ids) for step in new if before.get(step.step_id) not in (None, step.status)]


def step_event(step: Step, ids: Mapping[str, Any]) -> StepUpdate:
    """The event of a step that changed."""
    return StepUpdate(
        step_id=step.step_id, status=step.status.value, description=step.description, note=step.note, **ids
    )


def undone_line(text: str, steps: Sequence[Step], language: str) -> str:
    """The steps that are not done, each with its status and why, on one line; `text` names the sentence of one."""
    said = (task_text(text, language, step=s.step_id, status=word(s.status, language), why=s.note) for s in steps)
    return clauses(said, language)
