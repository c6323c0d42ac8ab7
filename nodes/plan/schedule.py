"""SCHEDULE: fold in what ran, then pick the steps that run next, once a person has approved those that need it."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from segue.core.events import Durable, ToolCall
from segue.core.plan import Status, Step, ready, set_status
from segue.core.tools import Tool
from segue.prompts.phrases import phrase

from ..shared.approval import ask_person, because, decided, given_events, permitted, question_of, undecided
from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.notes import joined, take_up
from ..shared.tool_messages import Settled, exchange
from .references import DanglingReference, resolve
from .state import PlanState, PlanUpdate
from .steps import emit_thoughts, ended, key_of, step_event, thought_through, unmended

MOST_REPLANS = 2
"""How often a plan is revised after a failed step."""


async def schedule(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Settle the last wave, then fix the next one; a failed step or an addition asks for a revised plan."""
    work = node_context(runtime)
    added = cast(PlanUpdate, await take_up(state, work))
    ran = _last_wave(state)
    settled = _settle(tuple(Step(**step) for step in state["plan"]), ran)
    spent = _spent(state, work)
    left = work.agent.budget.tool_calls - _calls(state)
    chosen = () if spent else _choose(settled, work.tools)[: min(left, work.agent.budget.parallel_calls)]
    before, settled = settled, _thoughts_before(chosen, settled)
    wave, broken = _wave(chosen, state)
    begun = _begin(settled, [], broken)
    failed = [] if state["replans"] >= MOST_REPLANS else unmended(begun, state)
    pairs = _exchange(state["task_id"], len(state["outcomes"]) - len(ran), ran)
    update: PlanUpdate = {
        "messages": [*pairs, *added.get("messages", ())],
        "outcomes": broken,
        "complaint": "",
        "wave": [],
    }
    if (failed or added) and not spent:
        replans = state["replans"] + bool(failed)
        complaint = _complaint(failed, added, [*state["outcomes"], *broken], state["language"])
        update |= {"complaint": complaint, "replans": replans, **_moved(state, settled, begun, [])}
        return joined(added, update)
    wave, given = await _approved(wave, state, work)
    emit_thoughts(before, settled, state, work)
    update |= {"wave": wave, **_moved(state, settled, _begin(begun, wave, []), wave, given)}
    return joined(added, update)


async def _approved(
    wave: list[dict[str, Any]], state: PlanState, work: NodeContext
) -> tuple[list[dict[str, Any]], list[Durable]]:
    """The wave with what a person decided about it; the graph is interrupted until they have, before any of it runs."""
    shown, allowed = ("step_id", "description"), await permitted(wave, work.tools, state["task_id"], work)
    asked = [
        await question_of(place, item, state["task_id"], work, *shown)
        for place, item in enumerate(wave)
        if undecided(item, work.tools, state["task_id"]) and place not in allowed
    ]
    if not asked:
        return wave, []
    verdicts = ask_person(asked, work.tools)
    given = given_events(asked, verdicts, work, task_id=state["task_id"])
    return [decided(item, verdicts.get(place), state["task_id"]) for place, item in enumerate(wave)], given


def _complaint(failed: Sequence[Step], added: PlanUpdate, outcomes: Sequence[Mapping[str, Any]], language: str) -> str:
    """Why the plan has to be revised: what failed, what a person rejected, what they added."""
    last = {outcome["step_id"]: outcome for outcome in outcomes}
    wrong = [_what_is_wrong(step, last.get(step.step_id, {}), language) for step in failed]
    notes = "; ".join(message.text for message in added.get("messages", ()))
    return "; ".join([*wrong, *([phrase("user_added", language, notes=notes)] if notes else [])])


def _what_is_wrong(step: Step, outcome: Mapping[str, Any], language: str) -> str:
    if "rejected" not in outcome:
        return f"step {step.step_id} ({step.description}) failed: {step.note}"
    about = {"step": step.step_id, "description": step.description, "why": because(outcome["rejected"], language)}
    return phrase("rejected_step", language, **about)


def _calls(state: PlanState) -> int:
    """The calls that count against the budget."""
    return sum("rejected" not in outcome for outcome in state["outcomes"])


def _last_wave(state: PlanState) -> list[dict[str, Any]]:
    """The outcomes of the wave that was sent out, in the wave's order."""
    results = {(o["step_id"], o["attempt"]): o for o in state["outcomes"]}
    return [results[key] for item in state["wave"] if (key := (item["step_id"], item["attempt"])) in results]


def _settle(steps: tuple[Step, ...], ran: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    for outcome in ran:
        status, note = ended(outcome["result"])
        steps = set_status(steps, outcome["step_id"], status, note)
    return steps


def _begin(
    steps: tuple[Step, ...], wave: Sequence[Mapping[str, Any]], broken: Sequence[Mapping[str, Any]]
) -> tuple[Step, ...]:
    for item in wave:
        steps = set_status(steps, item["step_id"], Status.RUNNING)
    for item in broken:
        steps = set_status(steps, item["step_id"], Status.ERROR, item["result"]["error"])
    return steps


def _choose(steps: tuple[Step, ...], tools: Mapping[str, Tool]) -> tuple[Step, ...]:
    """All ready steps where they only read, else the first; steps without a tool are left to ANSWER."""
    waiting = tuple(step for step in ready(thought_through(steps)) if step.uses_tool)
    return waiting if all(_reads_only(tools.get(step.action)) for step in waiting) else waiting[:1]


def _thoughts_before(chosen: Sequence[Step], steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The plan with the steps without a tool done that come before the chosen ones."""
    ids = [step.step_id for step in steps]
    first = min((ids.index(step.step_id) for step in chosen), default=0)
    return thought_through(steps)[:first] + steps[first:]


def _reads_only(tool: Tool | None) -> bool:
    return tool is not None and tool.read_only


def _spent(state: PlanState, work: NodeContext) -> bool:
    budget = work.agent.budget
    late = work.seconds_since(state["started_at"]) > budget.seconds
    return late or _calls(state) >= budget.tool_calls


def _wave(chosen: Sequence[Step], state: PlanState) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The chosen steps with their resolved arguments, and those whose references lead nowhere."""
    results = {o["step_id"]: o["result"]["success"] for o in state["outcomes"] if "success" in o["result"]}
    wave: list[dict[str, Any]] = []
    broken: list[dict[str, Any]] = []
    for step in chosen:
        tried = sum(o["step_id"] == step.step_id for o in state["outcomes"])
        item = {"step_id": step.step_id, "attempt": tried + 1, "name": step.action, "arguments": step.params}
        item |= {"description": step.description, "phase": step.phase}
        try:
            wave.append({**item, "arguments": resolve(step.params, results)})
        except DanglingReference as error:
            broken.append({**item, "result": {"error": f"A parameter cannot be filled: {error}."}})
    return wave, broken


def _moved(
    state: PlanState,
    settled: Sequence[Step],
    begun: Sequence[Step],
    wave: list[dict[str, Any]],
    given: Sequence[Durable] = (),
) -> PlanUpdate:
    """The plan and the events of its moves: first what ended, then what was decided about it, then what begins.

    EXECUTE_STEP has said of most steps how they ended.
    """
    task_id = state["task_id"]
    old = {step["step_id"]: step["status"] for step in state["plan"]}
    between = {step.step_id: step.status for step in settled}
    announced = {outcome["step_id"] for outcome in _last_wave(state) if outcome.get("announced")}
    settled = [step for step in settled if step.step_id not in announced]
    after = [step_event(task_id, step) for step in settled if step.status != old[step.step_id]]
    begins = [step_event(task_id, step) for step in begun if step.status != between[step.step_id]]
    calls = [
        ToolCall(task_id=task_id, step_id=i["step_id"], index=0, name=i["name"], arguments=i["arguments"]) for i in wave
    ]
    events = announce(*after, *given, *begins, *calls)
    return {"plan": [s.model_dump(mode="json") for s in begun], "events": events}


def _exchange(task_id: str, first: int, ran: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """The wave's calls and results, as the thread's history keeps them; `first` counts the calls before them."""
    calls = [
        Settled(f"{task_id[:8]}-{first + place}", o["name"], o["arguments"], o["result"], key_of(task_id, o))
        for place, o in enumerate(ran)
    ]
    return exchange("", calls) if calls else []
