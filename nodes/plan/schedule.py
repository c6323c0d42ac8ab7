"""SCHEDULE: fold in what ran, then pick the steps that run next, once a person has approved those that need it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.core.events import Durable
from segue.core.plan import Step, ready
from segue.core.tools import CallKey
from segue.core.usage import add_usages
from segue.prompts.catalogue import phrase

from ..shared.approval import reason_clause
from ..shared.call_runner import CallRunner, call_events
from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.plan_progress import begin_steps, end_steps, finish_thoughts, step_events
from ..shared.references import DanglingReference
from ..shared.task import joined, read_added_messages
from ..shared.tool_messages import Settled, exchange
from .state import PlannedCall, PlanState, PlanUpdate, StepWork
from .steps import call_of, emit_thoughts, last_wave, resolved, settled_steps, unrepaired

MOST_REPLANS = 2
"""How often a plan is revised after a failed step."""


async def schedule(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Settle the last wave, then fix the next one; a failed step or an addition asks for a revised plan."""
    work = node_context(runtime)
    added = cast(PlanUpdate, await read_added_messages(state, work))
    ran, settled = last_wave(state), settled_steps(state)
    spent = limit_reached(state, work)
    left = work.agent.budget.tool_calls - _calls(state)
    runner = runner_of(state, work, state.get("vetted", ()))
    chosen = () if spent else _choose(settled, runner)[: min(left, work.agent.budget.parallel_calls)]
    before, settled = settled, _thoughts_before(chosen, settled)
    wave, broken = _wave(chosen, state)
    begun = _failed(settled, broken)
    failed = [] if state["replans"] >= MOST_REPLANS else unrepaired(begun, state)
    pairs = _exchange(state["task_id"], len(state["outcomes"]) - len(ran), ran)
    update: PlanUpdate = {
        "messages": [*pairs, *added.get("messages", ())],
        "outcomes": broken,
        "complaint": "",
        "wave": [],
    }
    if summaries := [outcome["usage"] for outcome in ran if "usage" in outcome]:
        update["usage"] = add_usages([state["usage"], *summaries])
    if (failed or added) and not spent:
        replans = state["replans"] + bool(failed)
        complaint = _complaint(failed, added, [*state["outcomes"], *broken], state["language"])
        update |= {"complaint": complaint, "replans": replans, **_moved(state, settled, begun, [])}
        return joined(added, update)
    wave, given = await _approved(wave, runner)
    emit_thoughts(before, settled, state, work)
    update |= {
        "wave": wave,
        **_moved(state, settled, begin_steps(begun, [call["step_id"] for call in wave]), wave, given),
    }
    return joined(added, update)


def runner_of(state: PlanState | StepWork, work: NodeContext, vetted: Sequence[Mapping[str, Any]] = ()) -> CallRunner:
    """What runs the calls of a wave; `vetted` are the steps that untrusted text has no part in."""
    ids = {"task_id": state["task_id"]}
    shown = ("step_id", "description")

    def planned(call: PendingCall) -> bool:
        fields: Mapping[str, Any] = call
        return {name: fields[name] for name in ("action", "params")} in vetted

    return CallRunner(work, work.tools, state["task_id"], state["language"], ids, planned=planned, shown=shown)


async def _approved(wave: list[PlannedCall], runner: CallRunner) -> tuple[list[PlannedCall], list[Durable]]:
    """The wave with what a person decided about it; the graph is interrupted until they have, before any of it runs."""
    numbered = [{**call, "index": place} for place, call in enumerate(wave)]
    calls, given = await runner.decide(cast(list[PendingCall], numbered))
    return [cast(PlannedCall, {**call, "index": 0}) for call in calls], given


def _complaint(failed: Sequence[Step], added: PlanUpdate, outcomes: Sequence[Mapping[str, Any]], language: str) -> str:
    """Why the plan has to be revised: what failed, what a person rejected, what they added."""
    last = {outcome["step_id"]: outcome for outcome in outcomes}
    wrong = [_failure_text(step, last.get(step.step_id, {}), language) for step in failed]
    notes = "; ".join(message.text for message in added.get("messages", ()))
    return "; ".join([*wrong, *([phrase("user_added", language, notes=notes)] if notes else [])])


def _failure_text(step: Step, outcome: Mapping[str, Any], language: str) -> str:
    if not _rejected(outcome):
        return phrase("failed_step", language, step=step.step_id, description=step.description, why=step.note)
    about = {
        "step": step.step_id,
        "description": step.description,
        "why": reason_clause(outcome.get("rejected", ""), language),
    }
    return phrase("rejected_step", language, **about)


def _rejected(outcome: Mapping[str, Any]) -> bool:
    return CallResult.of(outcome["result"]).status is CallStatus.REJECTED if outcome else False


def _calls(state: PlanState) -> int:
    """The calls that count against the budget."""
    return sum(not _rejected(outcome) for outcome in state["outcomes"])


def _failed(steps: tuple[Step, ...], broken: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The plan with the steps failed whose calls cannot be made."""
    return end_steps(begin_steps(steps, [outcome["step_id"] for outcome in broken]), broken)


def _choose(steps: tuple[Step, ...], runner: CallRunner) -> tuple[Step, ...]:
    """All ready steps where they may run beside each other, else the first; those without a tool are left to ANSWER."""
    waiting = tuple(step for step in ready(finish_thoughts(steps)) if step.uses_tool)
    return waiting if all(runner.parallel(step.action) for step in waiting) else waiting[:1]


def _thoughts_before(chosen: Sequence[Step], steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan with the steps without a tool done that come before the chosen ones."""
    ids = [step.step_id for step in steps]
    first = min((ids.index(step.step_id) for step in chosen), default=0)
    return finish_thoughts(steps)[:first] + steps[first:]


def limit_reached(state: PlanState, work: NodeContext) -> str:
    """Which budget of the agent is spent: seconds or tool_calls; empty while none is."""
    budget = work.agent.budget
    if work.seconds_since(state["started_at"]) > budget.seconds:
        return "seconds"
    return "tool_calls" if _calls(state) >= budget.tool_calls else ""


def _wave(chosen: Sequence[Step], state: PlanState) -> tuple[list[PlannedCall], list[dict[str, Any]]]:
    """The calls of the chosen steps with their resolved arguments, and those whose references lead nowhere."""
    wave: list[PlannedCall] = []
    broken: list[dict[str, Any]] = []
    for step in chosen:
        call = call_of(step, state)
        try:
            wave.append(resolved(call, state))
        except DanglingReference as error:
            result = CallResult.failed(phrase("not_filled", state["language"], error=error))
            broken.append({**call, "result": result.json()})
    return wave, broken


def _moved(
    state: PlanState,
    settled: Sequence[Step],
    begun: Sequence[Step],
    wave: Sequence[PlannedCall],
    given: Sequence[Durable] = (),
) -> PlanUpdate:
    """The plan and the events of its moves: first what ended, then what was decided about it, then what begins.

    EXECUTE_STEP has said of most steps how they ended.
    """
    ids = {"task_id": state["task_id"]}
    old = [Step(**step) for step in state["plan"]]
    announced = {outcome["step_id"] for outcome in last_wave(state) if outcome.get("announced")}
    ended = step_events(old, [step for step in settled if step.step_id not in announced], ids)
    begins = step_events(settled, begun, ids)
    events = announce(*ended, *given, *begins, *call_events(wave, False, ids))
    return {"plan": [s.model_dump(mode="json") for s in begun], "events": events}


def _exchange(task_id: str, first: int, ran: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """The wave's calls and results, as the thread's history keeps them; `first` counts the calls before them."""
    calls = [
        Settled(
            f"{task_id[:8]}-{first + place}", o["name"], o["arguments"], o["result"], CallKey(task_id, o["scope"], 0)
        )
        for place, o in enumerate(ran)
    ]
    return exchange("", calls) if calls else []
