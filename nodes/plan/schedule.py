"""SCHEDULE: fold in what ran, then pick the steps that run next."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from segue.events import ToolCall
from segue.plan import Status, Step, ready, set_status
from segue.services import Tool

from ..context import Bench, NodeRuntime, announce, bench
from ..exchange import Settled, exchange
from .calls import key_of
from .references import DanglingReference, resolve
from .state import PlanState, PlanUpdate
from .steps import step_event, thought_through

MOST_REPLANS = 2
"""How often a plan is mended after a failed step."""


async def schedule(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Settle the last wave, then fix the next one; a failed step asks for a mended plan."""
    work = bench(runtime)
    ran = _last_wave(state)
    settled = _settle(tuple(Step(**step) for step in state["plan"]), ran)
    spent = _spent(state, work)
    left = work.agent.budget.tool_calls - len(state["outcomes"])
    chosen = () if spent else _choose(settled, work.tools)[:left]
    wave, broken = _wave(chosen, state)
    begun = _begin(settled, [], broken)
    failed = [step for step in begun if step.status is Status.ERROR]
    update: PlanUpdate = {
        "messages": _exchange(state["task_id"], len(state["outcomes"]) - len(ran), ran),
        "outcomes": broken,
        "complaint": "",
        "wave": [],
    }
    if failed and not spent and state["replans"] < MOST_REPLANS:
        why = "; ".join(f"step {step.step_id} ({step.description}) failed: {step.note}" for step in failed)
        return {**update, "complaint": why, "replans": state["replans"] + 1, **_moved(state, settled, begun, [])}
    return {**update, "wave": wave, **_moved(state, settled, _begin(begun, wave, []), wave)}


def _last_wave(state: PlanState) -> list[dict[str, Any]]:
    """The outcomes of the wave that was sent out, in the wave's order."""
    results = {(o["step_id"], o["attempt"]): o for o in state["outcomes"]}
    return [results[key] for item in state["wave"] if (key := (item["step_id"], item["attempt"])) in results]


def _settle(steps: tuple[Step, ...], ran: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    for outcome in ran:
        error = outcome["result"].get("error", "")
        steps = set_status(steps, outcome["step_id"], Status.ERROR if error else Status.DONE, error[:200])
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


def _reads_only(tool: Tool | None) -> bool:
    return tool is not None and tool.read_only


def _spent(state: PlanState, work: Bench) -> bool:
    budget = work.agent.budget
    late = work.seconds_since(state["started_at"]) > budget.seconds
    return late or len(state["outcomes"]) >= budget.tool_calls


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


def _moved(state: PlanState, settled: Sequence[Step], begun: Sequence[Step], wave: list[dict[str, Any]]) -> PlanUpdate:
    """The plan and the events of its moves: first what ended, then what begins."""
    task_id = state["task_id"]
    old = {step["step_id"]: step["status"] for step in state["plan"]}
    between = {step.step_id: step.status for step in settled}
    ended = [step_event(task_id, step) for step in settled if step.status != old[step.step_id]]
    begins = [step_event(task_id, step) for step in begun if step.status != between[step.step_id]]
    calls = [
        ToolCall(task_id=task_id, step_id=i["step_id"], index=0, name=i["name"], arguments=i["arguments"]) for i in wave
    ]
    return {"plan": [s.model_dump(mode="json") for s in begun], "events": announce(*ended, *begins, *calls)}


def _exchange(task_id: str, first: int, ran: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """The wave's calls and results, as the thread's history keeps them; `first` counts the calls before them."""
    calls = [
        Settled(f"{task_id[:8]}-{first + place}", o["name"], o["arguments"], o["result"], key_of(task_id, o))
        for place, o in enumerate(ran)
    ]
    return exchange("", calls) if calls else []
