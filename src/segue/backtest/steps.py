"""Recorded decisions made anew, each from its recorded state: one is judged although an earlier one differs."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from ..core.decision import ActionType, Decision
from ..core.errors import UnreadableReply
from ..core.events import Action
from ..core.records import Json
from ..core.tools import Tool
from ..graphs.chat import MODES
from ..nodes.shared.prompt_budget import as_json
from ..runtime.run import config_of, state_at, thread_config
from .behaviour import Behaviour, call_of
from .comparison import Difference, Effects, Verdict, compared
from .recording import RecordedTurn, Recording
from .turn import IN_MEMORY, Setup, TurnRun, ended, failed

_REACT = MODES["react"]
_DECIDES = "CALL_LLM"
_ROUNDS = ("react", "plan_react")
"""The modes whose rounds are the task's own agent's."""


@dataclass(frozen=True)
class RecordedStep:
    """A decision in a round of ReAct, and the state that it was made in."""

    action: Action
    state: Json


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One decision; `iteration` is its round's."""

    iteration: int
    verdict: Verdict
    difference: Difference | None = None
    effects: Effects


async def steps_of(recording: Recording, recorded: RecordedTurn) -> AsyncIterator[RecordedStep]:
    """The decisions of a turn whose snapshots are kept, in the rounds of its own agent, oldest first."""
    task, storage = recorded.task, recording.storage
    events = await storage.events.read(task.task_id)
    actions = {event.trace_id: event for event in events if isinstance(event, Action)}
    if not actions:
        return
    for snapshot in reversed(await storage.sessions.snapshots(task.thread_id, -1)):
        if snapshot.task_id == task.task_id and snapshot.next == [_DECIDES] and snapshot.inside in _ROUNDS:
            place = await storage.sessions.find_place(snapshot.checkpoint_id, task.thread_id)
            state = (await state_at(recording.graph, config_of(place))).values
            if action := actions.get(state.get("trace_id", "")):
                yield RecordedStep(action, state)


async def decided_anew(setup: Setup, recorded: RecordedTurn, step: RecordedStep) -> StepReport:
    """What the agent decides now in a recorded state; no call is carried out."""
    tools = setup.tools(recorded)
    then = _behaviour(step.action.action_type, step.action.output, setup.tools_then(recorded), recorded)
    deciding = await ended(_decision(setup, recorded, step))
    if error := deciding.exception():
        now, kind = failed(error, recorded), ""
    else:
        decision = deciding.result()
        kind = decision.action_type.value
        now = _behaviour(kind, decision.output, tools, recorded)
    verdict, difference, effects = compared(then, now)
    if verdict is Verdict.OTHER_WORDS and kind != step.action.action_type:
        verdict = Verdict.OTHER_CALLS
    return StepReport(iteration=step.action.iteration, verdict=verdict, difference=difference, effects=effects)


async def _decision(setup: Setup, recorded: RecordedTurn, step: RecordedStep) -> Decision:
    """The decision.

    Raises:
        UnreadableReply: the reply is none.
    """
    run = TurnRun(setup, recorded, notes=_notes(recorded, step.action.iteration))
    await run.prepare()
    graph = _REACT.copy({"checkpointer": InMemorySaver(serde=IN_MEMORY)})
    config: RunnableConfig = thread_config(recorded.task.thread_id)
    state = {name: value for name, value in step.state.items() if name != "events"}
    await graph.aupdate_state(config, state, as_node="INPUT")
    await graph.ainvoke(None, config, context=run.context(), interrupt_after=[_DECIDES])
    decision = (await graph.aget_state(config)).values.get("decision")
    if not decision:
        raise UnreadableReply("The reply cannot be read as a decision.")
    return Decision.model_validate(decision)


def _notes(recorded: RecordedTurn, iteration: int) -> tuple[str, ...]:
    """What a person had added by a round."""
    turn = recorded.turn
    return turn.notes[: max((t.count for t in turn.taken_notes if t.model_calls < iteration), default=0)]


def _behaviour(kind: str, output: Json, tools: Mapping[str, Tool], recorded: RecordedTurn) -> Behaviour:
    """A decision in the form in which turns are compared: its calls, or what it says."""
    functions = [call["function"] for call in output.get("tool_calls", ())]
    calls = [call_of(each["name"], each["arguments"], tools, "recording", recorded.effects) for each in functions]
    said = output["answer"] if kind == ActionType.ANSWER else "" if calls else as_json([kind, output])
    return Behaviour(status="done", answer=said, calls=calls, usage={})
