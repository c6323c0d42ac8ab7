"""CALL_LLM: one model call, one decision."""

from typing import Any

from segue.decision import ActionType, Decision, decode
from segue.errors import UnreadableReply
from segue.events import Action, ErrorRaised, Observe, StepUpdate, Thought, ToolCall
from segue.plan import Step
from segue.services import ModelReply, ModelRequest

from ..calling import LiveEnvelope, add_usage, ask_model
from ..context import Bench, NodeRuntime, announce, bench
from ..showing_tools import envelope_schema
from .progress import begin_step, claimed, step_events
from .records import calls_of, ids_of, record_of
from .snapshot import prompt, view
from .state import ReactState, ReactUpdate


async def call_llm(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Ask the model what to do; a reply that cannot be read becomes the next round's error."""
    work = bench(runtime)
    reply = await _ask(state, work)
    usage = add_usage(state["usage"], reply)
    try:
        decision = decode(reply.text)
    except UnreadableReply as error:
        record = record_of(state, "UNREADABLE", error=str(error))
        return {
            "decision": None,
            "records": [record],
            "usage": usage,
            "events": announce(ErrorRaised(message=str(error), **ids_of(state))),
        }
    steps = tuple(Step(**step) for step in state["plan"])
    moved = begin_step(claimed(steps, decision.step_status_update), decision)
    update: ReactUpdate = {
        "decision": decision.model_dump(mode="json"),
        "plan": [step.model_dump(mode="json") for step in moved],
        "usage": usage,
        "events": announce(*_events(state, decision, step_events(steps, moved, ids_of(state)))),
    }
    if decision.action_type is ActionType.CALL_TOOL:
        update["calls"] = calls_of(decision)
    if decision.action_type is ActionType.REFLECT:
        update["records"] = [record_of(state, "REFLECT", decision)]
    return update


async def _ask(state: ReactState, work: Bench) -> ModelReply:
    request = ModelRequest(
        purpose="decide",
        messages=prompt(state, work),
        schema=envelope_schema(work.tools),
        tools=[tool.spec for tool in work.tools.values()],
        view=view(state, work),
    )
    live = LiveEnvelope(work, state["task_id"], state["trace_id"], state["iteration"])
    return await ask_model(work.model, request, live)


def _events(state: ReactState, decision: Decision, steps: list[StepUpdate]) -> list[Any]:
    ids = ids_of(state)
    action = Action(action_type=decision.action_type.value, output=decision.output, **ids)
    calls = [
        ToolCall(index=call["index"], name=call["name"], arguments=call["arguments"], **ids)
        for call in calls_of(decision)
    ]
    said = [Observe(text=decision.observe, **ids)] if decision.observe else []
    thought = [Thought(text=decision.thought, **ids)] if decision.thought else []
    return [*said, *thought, action, *steps, *calls]
