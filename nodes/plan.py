"""The plan graphs: state, routes and nodes of plan and plan_react."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send, interrupt
from typing_extensions import TypedDict

from segue.core.agents import Budget
from segue.core.calls import (
    ASK_USER,
    PAUSE,
    CallKey,
    CallPhase,
    CallResult,
    CallStatus,
    Done,
    PendingCall,
    Proposed,
    Tool,
    move_call,
)
from segue.core.decision import read_clarification, read_object
from segue.core.errors import InvalidPlan, TaskError, UnreadableReply
from segue.core.events import Durable, ErrorRaised, Phase, QuestionAnswered, Token
from segue.core.events import PlanUpdate as PlanUpdated
from segue.core.models import ModelReply, ModelRequest, Usage, add_usages
from segue.core.plan import Plan, Status, Step, keep_finished, validate
from segue.prompts import catalogue
from segue.prompts.catalogue import agent_prompt, render, task_text

from .calls import (
    CallRunner,
    answer_steps,
    begin_steps,
    call_events,
    describe_outcome,
    end_steps,
    ready_calls,
    result_events,
    skip_steps,
    step_event,
    step_events,
    undone_line,
)
from .context import (
    REF,
    DanglingReference,
    Node,
    NodeContext,
    NodeRuntime,
    Settled,
    announce,
    as_json,
    conversation,
    described,
    exchange,
    follow,
    node_context,
    plan_schema,
    resolve_arguments,
    truncate_result,
    truncate_together,
)
from .history import window
from .model_call import (
    MOST_ASKS,
    CompletedCall,
    Listener,
    LiveText,
    ask_model,
    is_truncated,
    refuse_quotation,
    refuse_unreadable,
    whole_answer,
)
from .permission import is_to_call, reason_clause, reference_to, vetted_steps
from .plan_review import plan_actions, read_draft, referenced_steps, review
from .questions import ask_question
from .task import (
    PlannedTask,
    Records,
    TaskState,
    additions,
    amended,
    before_objective,
    begin,
    compose_result,
    end_task,
    joined,
    objective_message,
    read_added_messages,
    replaced,
    unfinished,
)

# State of the plan graph.


@dataclass(frozen=True, kw_only=True)
class PlannedCall(PendingCall):
    """The call of a step, with what the plan says of it."""

    description: str
    phase: str
    action: str
    params: dict[str, Any]
    """The step's tool and parameters when the call was made of it."""
    used: Usage | None = None
    """What the models used for it before it waited."""


def merge_wave(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A new wave, or the one that is under way with those of its calls in place that wait now."""
    waiting = {call["scope"]: call for call in new if waits(call)}
    if len(waiting) == len(new) and waiting.keys() <= {call["scope"] for call in old} and new:
        return [waiting.get(call["scope"], call) for call in old]
    return new


def waits(call: Mapping[str, Any]) -> bool:
    """Whether a call of a wave waits for its result, or for an answer to what its tool asks."""
    return PlannedCall.of(call).state.phase is CallPhase.WAITING


class PlanState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    origin: str
    """What the idempotency keys of the calls are made of; a fork keeps it. INIT."""
    part: str
    """What tells its calls in the ledger from those of other plans of the task; empty for a plan of the mode. INIT."""
    notes_taken: int
    """How many additions the objective holds. INIT, MAKE_PLAN, SCHEDULE, ANSWER."""
    draft: dict[str, Any] | None
    """The plan as the model wrote it: {goal, steps}; None while it cannot be read. MAKE_PLAN."""
    asked: int
    """How often this plan was asked for. MAKE_PLAN; 0 again when one is accepted. DECOMPOSE."""
    complaint: str
    """What is wrong with the draft or went wrong with the plan; empty if nothing. MAKE_PLAN, DECOMPOSE, SCHEDULE."""
    replans: int
    """Plans asked for because a step failed. SCHEDULE."""
    goal: str
    """DECOMPOSE."""
    plan: list[dict[str, Any]]
    """Steps. DECOMPOSE, SCHEDULE, ANSWER."""
    vetted: list[dict[str, Any]]
    """Steps that untrusted text has no part in: {action, params}. INIT, DECOMPOSE."""
    repaired: list[str]
    """Failed steps that the plan goes around: they stay in it as they are. DECOMPOSE."""
    wave: Annotated[list[dict[str, Any]], merge_wave]
    """Calls of the steps that are under way, as `PlannedCall.json`. SCHEDULE, and EXECUTE_STEP for one that waits."""
    outcomes: Records
    """What ran: a wave's entry with its `result` and the `usage` of the models, its `count` in the budget where that is
    not 1, and `announced` where the events say how the step ended. EXECUTE_STEP, and SCHEDULE for what could not be
    run."""
    gave_up: str
    """GIVE_UP."""


PlanUpdate = PlanState
"""What a node returns: the channels that it changes."""


class StepWork(TypedDict):
    """What one EXECUTE_STEP is sent."""

    task_id: str
    language: str
    call: dict[str, Any]
    """Of the wave."""
    place: int
    """Of the step in its plan, from 1."""
    total: int
    together: list[list[str]]
    """The scope and the tool of each call of the wave."""


# Steps of a plan: their banners, those that failed or are in doubt, and references to their results.

_PHASES = ("planning", "execution", "generation")


def call_of(step: Step, state: PlanState) -> PlannedCall:
    """The call of a step, its references not resolved yet."""
    attempt = 1 + sum(outcome["step_id"] == step.step_id for outcome in state["outcomes"])
    scope = f"{step.step_id}#{state.get('part', '')}{attempt}"
    return PlannedCall(
        index=0,
        name=step.action,
        arguments=step.params,
        scope=scope,
        origin=f"{state['origin']}/{scope}",
        step_id=step.step_id,
        description=step.description,
        phase=step.phase,
        action=step.action,
        params=step.params,
    )


def resolved(call: PlannedCall, state: PlanState) -> PlannedCall:
    """The call with the results that its step refers to."""
    ran = {o["step_id"]: o for o in state["outcomes"] if CallResult.of(o["result"]).success}
    arguments = resolve_arguments(call.params, partial(_look_up, outcomes=ran))
    taken = {}
    for name, value in call.params.items():
        if refs := [ran[step]["ref"] for step in referenced_steps(value) if ran[step]["name"] != ASK_USER]:
            taken[name] = refs
    return replace(call, arguments=arguments, taken=taken or None)


def dispatched(call: PlannedCall, state: PlanState) -> PlannedCall:
    """The call as it is sent out: with what an update of the state has changed in its step since the wave was made."""
    step = next((Step(**step) for step in state["plan"] if step["step_id"] == call.step_id), None)
    if step is None or step.status is not Status.RUNNING:
        raise _not_changed(call, "it is under way in this state")
    if (step.action, step.params) == (call.action, call.params):
        return call
    if not isinstance(call.decision, Proposed):
        raise _not_changed(call, "a person decided about its call")
    if not isinstance(call.state, Proposed):
        raise _not_changed(call, "its call waits for a result or an answer")
    try:
        again = resolved(call_of(step, state), state)
    except DanglingReference as error:
        raise _not_changed(call, str(error)) from error
    return replace(again, scope=call.scope, origin=call.origin)


def _not_changed(call: PlannedCall, why: str) -> TaskError:
    return TaskError(
        "Step {step} of the plan cannot be changed like this: {why}. Choose a state before the step was scheduled.",
        step=call.step_id,
        why=why,
    )


def step_banner(task_id: str, item: Mapping[str, Any], place: int, total: int, language: str) -> Phase:
    """The banner of a step, or of a wave's entry, under the phase that the plan gave it."""
    phase = item["phase"] if item["phase"] in _PHASES else "execution"
    about = {"phase": task_text(f"phase_{phase}", language), "i": place, "n": total, "description": item["description"]}
    return Phase(task_id=task_id, step_id=item["step_id"], content=task_text("plan_step", language, **about))


def emit_thoughts(steps: Sequence[Step], chosen: Sequence[Step], state: PlanState, work: NodeContext) -> None:
    """Stream the banners of the steps without a tool that come between the last wave and the chosen steps."""
    ids = [step.step_id for step in steps]
    seen = min((ids.index(call["step_id"]) for call in state["wave"] if call["step_id"] in ids), default=0)
    first = min((ids.index(step.step_id) for step in chosen), default=len(ids))
    for place in range(seen, first):
        if not steps[place].uses_tool and steps[place].status is Status.PENDING:
            item = steps[place].model_dump()
            work.emit(step_banner(state["task_id"], item, place + 1, len(ids), state["language"]))


def last_wave(state: PlanState) -> list[dict[str, Any]]:
    """The outcomes of the wave that was sent out, in the wave's order."""
    results = {outcome["scope"]: outcome for outcome in state["outcomes"]}
    return [results[call["scope"]] for call in state["wave"] if call["scope"] in results]


def settled_steps(state: PlanState) -> tuple[Step, ...]:
    """The plan with the wave that was sent out settled by its outcomes."""
    return end_steps([Step(**step) for step in state["plan"]], last_wave(state))


def steps_in_doubt(state: PlanState) -> set[str]:
    """The ids of the steps whose last call may or may not have taken effect."""
    last = {outcome["step_id"]: outcome["result"] for outcome in state["outcomes"]}
    return {step_id for step_id, result in last.items() if CallResult.of(result).unknown}


def dependents_of(steps: Sequence[Step], step_ids: set[str]) -> set[str]:
    """The ids of the steps that need one of these, also through others."""
    found = set(step_ids)
    while more := {step.step_id for step in steps if found.intersection(step.depends_on)} - found:
        found |= more
    return found - step_ids


def unrepaired(steps: Sequence[Step], state: PlanState) -> list[Step]:
    """The failed steps that no new plan goes around."""
    return [step for step in steps if step.status is Status.ERROR and step.step_id not in state["repaired"]]


def _look_up(reference: str, outcomes: Mapping[str, Mapping[str, Any]]) -> Any:
    """The part of a step's result that a reference leads to; of a hidden one, the reference by which calls get it.

    `outcomes` are what ran successfully, by the steps' ids.
    """
    if is_to_call(reference):
        return {REF: reference}
    parts = reference.split(".")
    if len(parts) < 3 or parts[0] != "steps" or parts[2] != "result":
        raise DanglingReference(f"{reference!r} is not of the form steps.<step>.result.<field>")
    if parts[1] not in outcomes:
        raise DanglingReference(f"{reference!r}: step {parts[1]} has no result")
    outcome = outcomes[parts[1]]
    result = CallResult.of(outcome["result"])
    if result.hidden:
        return {REF: ".".join([reference_to(outcome["ref"]), *parts[3:]])}
    return follow(result.value, parts[3:], reference)


# Routers of the plan graph.


def after_make_plan(state: PlanState) -> Literal["DECOMPOSE", "MAKE_PLAN", "GIVE_UP"]:
    """An unreadable plan is asked again, then another mode takes over."""
    if state["draft"] is not None:
        return "DECOMPOSE"
    return "MAKE_PLAN" if state["asked"] < MOST_ASKS else "GIVE_UP"


def after_decompose(state: PlanState) -> Literal["SCHEDULE", "MAKE_PLAN", "GIVE_UP"]:
    """A plan that cannot run is asked again, then another mode takes over."""
    if not state["complaint"]:
        return "SCHEDULE"
    return "MAKE_PLAN" if state["asked"] < MOST_ASKS else "GIVE_UP"


def after_schedule(state: PlanState) -> list[Send] | Literal["SCHEDULE", "MAKE_PLAN", "ANSWER"]:
    """Send the calls out that have no outcome, once none waits; have a failed plan revised, or answer."""
    if any(map(waits, state["wave"])):
        return "SCHEDULE"
    if state["wave"]:
        ran = {outcome["scope"] for outcome in state["outcomes"]}
        total = len(state["plan"])
        places = {step["step_id"]: place for place, step in enumerate(state["plan"], start=1)}
        together = [[call["scope"], call["name"]] for call in state["wave"]]
        shared = {"task_id": state["task_id"], "language": state["language"], "total": total, "together": together}
        calls = [dispatched(PlannedCall.of(call), state) for call in state["wave"] if call["scope"] not in ran]
        nodes = ["ASK_USER" if call.name == ASK_USER else "EXECUTE_STEP" for call in calls]
        sent = [{**shared, "call": call.json(), "place": places[call.step_id]} for call in calls]
        return [Send(node, work) for node, work in zip(nodes, sent, strict=True)]
    return "MAKE_PLAN" if state["complaint"] else "ANSWER"


# INIT: a new task on the thread.


async def init(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    assignment, services = state.get("assignment"), node_context(runtime).services
    return {
        **cast(PlanUpdate, begin(state["messages"], assignment, runtime)),
        "origin": (origin := services.ids.origin()),
        "part": "" if assignment or not services.part_of else f"{origin[:8]}.",
        "notes_taken": len(additions(state["messages"])),
        "draft": None,
        "asked": 0,
        "complaint": "",
        "replans": 0,
        "goal": "",
        "plan": (assignment or {}).get("plan") or [],
        "vetted": [],
        "repaired": [],
        "wave": [],
        "outcomes": replaced([]),
        "gave_up": "",
    }


# MAKE_PLAN: one model call writes the plan; after a complaint it writes it again.


async def make_plan(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Ask for the plan; one that cannot be read leaves a complaint for the next try."""
    work = node_context(runtime)
    added = cast(PlanUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    language, why = state["language"], state["complaint"]
    banner = task_text("plan_again", language, why=why) if why else task_text("plan_1", language)
    work.emit(Phase(task_id=state["task_id"], content=banner))
    ids = {"task_id": state["task_id"]}
    asked = await ask_model(work, partial(_request, state), Listener, state["usage"], ids, state["language"])
    update: PlanUpdate = {"asked": state["asked"] + 1, "usage": asked.usage}
    try:
        update |= {"draft": _read(asked.reply, state), "complaint": "", "events": announce(asked.event)}
    except UnreadableReply as error:
        why = catalogue.error_text(error, language)
        events = announce(asked.event, ErrorRaised(task_id=state["task_id"], message=why))
        update |= {"draft": None, "complaint": why, "events": events}
    return joined(added, update)


def _read(reply: ModelReply, state: PlanState) -> dict[str, Any]:
    refuse_unreadable(reply)
    if reply.finish_reason == "length":
        raise UnreadableReply("The plan was truncated at its length limit: write a shorter one.")
    refuse_quotation(reply.text, (outcome["result"] for outcome in state["outcomes"]))
    draft = read_object(reply.text, "steps")
    if not isinstance(draft.get("steps"), list) or not draft["steps"]:
        raise UnreadableReply('The plan needs "steps": a list with at least one step.')
    return draft


def _request(state: PlanState, work: NodeContext) -> ModelRequest:
    agent, language = work.agent, state["language"]
    most, chars = agent.budget.prompt_tokens // 4, agent.budget.result_chars
    past = conversation(window(before_objective(state["messages"]), most, chars), chars)
    tools = described(work.tools, language)
    known = as_json(_known(state, past, agent.budget))
    own = agent_prompt(work.agent, language, state["objective"])
    ask = task_text("plan_asking", language) if work.asks_user else ""
    system = render("make_plan", language, agent_prompt=own, tools=tools, current_state=known, ask=ask)
    return ModelRequest(
        purpose="plan",
        messages=[SystemMessage(system), objective_message(state)],
        schema=plan_schema(work.tools, work.asks_user),
        tools=[tool.spec for tool in work.tools.values()],
    )


_SHOWN = ("step_id", "name", "arguments", "original", "description", "phase", "rejected", "result")
"""Of what ran, for the planner."""


def _known(state: PlanState, past: list[dict[str, Any]], budget: Budget) -> dict[str, Any]:
    """What a planner should see: the talk so far, and on a re-plan what was done and what is wrong."""
    known: dict[str, Any] = {"conversation": past}
    if state["complaint"]:
        ran = [{name: each[name] for name in _SHOWN if name in each} for each in state["outcomes"]]
        done = truncate_together(ran, budget.result_chars, budget.prompt_tokens // 2, state["objective"])
        known |= {"plan": state["plan"], "results": done, "problem": state["complaint"]}
        if state["draft"]:
            known["rejected_plan"] = state["draft"]
        known["rule"] = "Keep finished steps with their numbers; give new steps new numbers."
    return known


# DECOMPOSE: turn the draft into steps that can run.


async def decompose(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Validate the draft; what is wrong with it goes back to MAKE_PLAN, and nothing is dropped."""
    return await _decomposed(state, runtime, answers=True)


async def decompose_calls(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """As DECOMPOSE, without a last step that writes the answer: a controller answers by a command."""
    return await _decomposed(state, runtime, answers=False)


async def _decomposed(state: PlanState, runtime: NodeRuntime, *, answers: bool) -> PlanUpdate:
    work, language = node_context(runtime), state["language"]
    try:
        plan = _read_plan(state["draft"] or {}, state, work)
    except InvalidPlan as error:
        why = catalogue.error_text(error, language)
        event = ErrorRaised(task_id=state["task_id"], message=why)
        return {"complaint": why, "draft": None, "events": announce(event)}

    def check(draft: Mapping[str, Any]) -> None:
        _read_plan(draft, state, work)

    reviewed = review(work, plan.goal, plan.steps, check, task_id=state["task_id"], language=language)
    if reviewed and reviewed.draft is None:
        rejected = task_text("plan_rejected", language, why=reason_clause(reviewed.reason, language))
        return {"complaint": rejected, "asked": 0, "events": announce(*reviewed.events)}
    if reviewed and reviewed.draft and reviewed.edited:
        plan = _read_plan(reviewed.draft, state, work)
    merged = plan.steps
    if not answers and merged[-1].phase == "generation" and not merged[-1].uses_tool:
        merged = merged[:-1]
    steps = [step.model_dump(mode="json") for step in merged]
    banner = task_text("plan_made", language, goal=plan.goal, n=len(steps))
    work.emit(Phase(task_id=state["task_id"], content=banner))
    updated = PlanUpdated(task_id=state["task_id"], goal=plan.goal, steps=steps)
    repaired = [step.step_id for step in merged if step.status is Status.ERROR]
    update: PlanUpdate = {
        "goal": plan.goal,
        "plan": steps,
        "repaired": repaired,
        "draft": None,
        "asked": 0,
        "complaint": "",
    }
    vetted = await vetted_steps(work, state["task_id"], merged, state.get("vetted", ()))
    return {**update, "vetted": vetted, "events": announce(*(reviewed.events if reviewed else ()), updated)}


def _read_plan(draft: Mapping[str, Any], state: PlanState, work: NodeContext) -> Plan:
    """The plan of a draft behind what is done of the last one."""
    goal = str(draft.get("goal") or state["objective"])
    old = tuple(Step(**step) for step in state["plan"])
    new = _without_thoughts(read_draft(draft.get("steps")), old)
    merged, repeated = _without_repeats(keep_finished(old, new, failed=True), old, state, work.tools)
    left = tuple(step for step in merged if step.status is not Status.ERROR or step.step_id in repeated)
    validate(Plan(goal=goal, steps=left), plan_actions(work.tools, work.asks_user))
    return Plan(goal=goal, steps=merged)


def _without_thoughts(new: tuple[Step, ...], old: Sequence[Step]) -> tuple[Step, ...]:
    """The new plan, where nothing waits for steps without a tool that it leaves out."""
    gone = {step.step_id for step in old if not step.uses_tool} - {step.step_id for step in new}
    needs = [tuple(need for need in step.depends_on if need not in gone) for step in new]
    return tuple(step.model_copy(update={"depends_on": left}) for step, left in zip(new, needs, strict=True))


def _without_repeats(
    merged: tuple[Step, ...], old: Sequence[Step], state: PlanState, tools: Mapping[str, Tool]
) -> tuple[tuple[Step, ...], set[str]]:
    """The plan with the steps as they were whose calls may have taken effect, and the ids of those that it repeats.

    Such a call is not made again without a person's approval. What needs it cannot run; the rest of the plan can.
    """
    doubtful = steps_in_doubt(state)
    asks = {name for name, tool in tools.items() if tool.approve == "always"}
    kept = {step.step_id: step for step in old if step.step_id in doubtful and step.action not in asks}
    repeated = {step.step_id for step in merged if step.step_id in kept and step.status is Status.PENDING}
    return tuple(kept.get(step.step_id, step) for step in merged), repeated


# SCHEDULE: fold in what ran, then pick the steps that run next, once a person has approved those that need it.

MOST_REPLANS = 2
"""How often a plan is revised after a failed step."""


async def schedule(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Settle the last wave, then fix the next one; a failed step or an addition asks for a revised plan.

    While a call of the last wave waits, only its result is awaited.
    """
    work = node_context(runtime)
    if any(map(waits, state["wave"])):
        calls, _, _ = await runner_of(state, work).prepare([PlannedCall.of(call) for call in state["wave"]])
        return {"wave": [call.json() for call in calls]}
    added = cast(PlanUpdate, await read_added_messages(state, work))
    ran, settled = last_wave(state), settled_steps(state)
    spent = limit_reached(state, work) or any(outcome.get(_ENDED) for outcome in ran)
    left = work.agent.budget.tool_calls - _calls(state)
    runner = runner_of(state, work, state.get("vetted", ()))
    chosen = () if spent else _choose(settled, runner)[: min(left, work.agent.budget.parallel_calls)]
    wave, broken = _wave(chosen, state)
    begun = end_steps(begin_steps(settled, [outcome["step_id"] for outcome in broken]), broken)
    revisable = state["replans"] < MOST_REPLANS
    failed = unrepaired(begun, state) if revisable else []
    answered = revisable and _ends_with_question(ran, begun)
    pairs = _exchange(state, len(state["outcomes"]) - len(ran), ran)
    update: PlanUpdate = {
        "messages": [*pairs, *added.get("messages", ())],
        "outcomes": broken,
        "complaint": "",
        "wave": [],
    }
    if summaries := [outcome["usage"] for outcome in ran if "usage" in outcome]:
        update["usage"] = add_usages([state["usage"], *summaries])
    if (failed or added or answered) and not spent:
        replans = state["replans"] + bool(failed or answered)
        complaint = _complaint(failed, added, [*state["outcomes"], *broken], state["language"])
        if answered:
            question, text = ran[-1]["arguments"]["question"], CallResult.of(ran[-1]["result"]).value
            answer = task_text("user_answered", state["language"], question=question, answer=text)
            complaint = "; ".join(filter(None, [complaint, answer]))
        update |= {"complaint": complaint, "replans": replans, **_moved(state, settled, begun, [])}
        return joined(added, update)
    wave, given = await _prepared(wave, runner)
    emit_thoughts(settled, chosen, state, work)
    update |= {
        "wave": [call.json() for call in wave],
        **_moved(state, settled, begin_steps(begun, [call.step_id for call in wave]), wave, given),
    }
    return joined(added, update)


def _ends_with_question(ran: Sequence[Mapping[str, Any]], steps: Sequence[Step]) -> bool:
    """Whether the plan ends with the answer to a question, so that what follows from it is still to be planned."""
    answered = any(outcome["name"] == ASK_USER and CallResult.of(outcome["result"]).success for outcome in ran)
    return answered and not any(step.uses_tool and step.status is Status.PENDING for step in steps)


def runner_of(state: PlanState | StepWork, work: NodeContext, vetted: Sequence[Mapping[str, Any]] = ()) -> CallRunner:
    """What runs the calls of a wave; `vetted` are the steps that untrusted text has no part in."""
    ids = {"task_id": state["task_id"]}
    shown = ("step_id", "description")

    def planned(call: PendingCall) -> bool:
        assert isinstance(call, PlannedCall)
        return {"action": call.action, "params": call.params} in vetted

    return CallRunner(work, work.tools, state["task_id"], state["language"], ids, planned=planned, shown=shown)


async def _prepared(wave: list[PlannedCall], runner: CallRunner) -> tuple[list[PlannedCall], list[Durable]]:
    """The wave with what a person decided about it; the graph is interrupted until they have, before any of it runs.

    Calls that the task's client carries out wait from here on. In the ledger the index of a step's call is 0; a
    question needs one for each call.
    """
    calls, given, _ = await runner.prepare([replace(call, index=place) for place, call in enumerate(wave)])
    if given:
        calls, _, _ = await runner.prepare(calls)  # they are decided: the client's begin to wait
    return [replace(call, index=0) for call in calls], given


def _complaint(failed: Sequence[Step], added: PlanUpdate, outcomes: Sequence[Mapping[str, Any]], language: str) -> str:
    """Why the plan has to be revised: what failed, what a person rejected, what they added."""
    last = {outcome["step_id"]: outcome for outcome in outcomes}
    wrong = [_failure_text(step, last.get(step.step_id, {}), language) for step in failed]
    notes = "; ".join(message.text for message in added.get("messages", ()))
    return "; ".join([*wrong, *([task_text("user_added", language, notes=notes)] if notes else [])])


def _failure_text(step: Step, outcome: Mapping[str, Any], language: str) -> str:
    if not _rejected(outcome):
        return task_text("failed_step", language, step=step.step_id, description=step.description, why=step.note)
    about = {
        "step": step.step_id,
        "description": step.description,
        "why": reason_clause(outcome.get("rejected", ""), language),
    }
    return task_text("rejected_step", language, **about)


def _rejected(outcome: Mapping[str, Any]) -> bool:
    return CallResult.of(outcome["result"]).status is CallStatus.REJECTED if outcome else False


def _calls(state: PlanState) -> int:
    """The calls that count against the budget."""
    counted = [each for each in state["outcomes"] if not _rejected(each) and each["name"] != ASK_USER]
    return sum(outcome.get("count", 1) for outcome in counted)


def _choose(steps: tuple[Step, ...], runner: CallRunner) -> tuple[Step, ...]:
    """All ready calls where they may run beside each other, else the first."""
    waiting = ready_calls(steps)
    return waiting if all(runner.parallel(step.action) for step in waiting) else waiting[:1]


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
            result = CallResult.failed(task_text("not_filled", state["language"], error=error))
            broken.append(move_call(call, Done(Proposed(), result.json(), "")).json())
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
    calls = [call for call in wave if call.name != ASK_USER]
    events = announce(*ended, *given, *begins, *call_events(calls, False, ids))
    return {"plan": [s.model_dump(mode="json") for s in begun], "events": events}


def _exchange(state: PlanState, first: int, ran: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """The wave's calls and results, as the thread's history keeps them; `first` counts the calls before them."""
    calls, task_id = list[Settled](), state["task_id"]
    for place, o in enumerate(ran):
        key = None if o["name"] == ASK_USER else CallKey(task_id, o["scope"], 0)
        calls.append(Settled(f"{task_id[:8]}-{first + place}", o["name"], o["arguments"], o["result"], key))
    return exchange("", calls, request=state["objective"]) if calls else []


# EXECUTE_STEP: carry out one step's tool call.


async def execute_step(state: StepWork, runtime: NodeRuntime) -> PlanUpdate:
    """Run the call through the ledger and say how the step ended; SCHEDULE folds its outcome into the plan.

    A call that waits goes back to SCHEDULE.
    """
    work = node_context(runtime)
    call, ids = PlannedCall.of(state["call"]), {"task_id": state["task_id"]}
    together = {CallKey(state["task_id"], scope, 0): name for scope, name in state.get("together", ())}
    runner = replace(runner_of(state, work), together=together)
    work.emit(step_banner(state["task_id"], state["call"], state["place"], state["total"], state["language"]))
    ran = await runner.run([call])
    while ran[0].result.is_paused:
        interrupt({"kind": PAUSE})
        ran = await runner.run([call])
    used = add_usages([call.used or {}, ran[0].usage])
    if waiting := runner.waiting([call], ran):
        return {"wave": [{**each.json(), "used": used} for each in waiting]}
    outcome = describe_outcome(ran[0], work, state["task_id"])
    outcome.pop("used", None)
    if used:
        outcome["usage"] = used
    if ran[0].count > 1:
        outcome["count"] = ran[0].count
    running = Step(step_id=call.step_id, description=call.description, status=Status.RUNNING)
    (step,) = end_steps((running,), [outcome])
    events = announce(*result_events(ran, work, ids), step_event(step, ids))
    return {"outcomes": [{**outcome, "announced": True}], "events": events}


# ASK_USER: a step that asks the user a question, whose result is the answer.

_ENDED = "ended"
"""In an outcome: the person ended the task instead of answering."""


async def ask_user(state: StepWork, runtime: NodeRuntime) -> PlanUpdate:
    """Interrupt the graph until a person has answered; they may also end the task."""
    language, ids = state["language"], dict[str, Any](task_id=state["task_id"])
    call, answered, ended = PlannedCall.of(state["call"]), list[Durable](), False
    node_context(runtime).emit(step_banner(state["task_id"], state["call"], state["place"], state["total"], language))
    try:
        asked = read_clarification(call.arguments)
    except UnreadableReply as error:
        result = CallResult.failed(catalogue.error_text(error, language))
    else:
        answer = ask_question(asked["question"], asked["choices"], language)
        ended, text = answer.manual_finish, answer.text or task_text("question_ended", language)
        result = CallResult.failed(text) if ended else CallResult.done(text)
        answered = [QuestionAnswered(question=asked["question"], answer=text, step_id=call.step_id, **ids)]
    outcome = move_call(call, Done(Proposed(), result.json(), "")).json()
    running = Step(step_id=call.step_id, description=call.description, status=Status.RUNNING)
    (step,) = end_steps((running,), [outcome])
    done = {**outcome, "announced": True, **({_ENDED: True} if ended else {})}
    return {"outcomes": [done], "events": announce(*answered, step_event(step, ids))}


# REACT: hand the plan to the react graph, which carries it out with judgement.

NAME = "plan_react"


def react(graph: CompiledStateGraph[Any, Any, Any, Any]) -> Node[PlannedTask, PlannedTask]:
    """The node over this react graph."""

    async def run_react(state: PlannedTask, runtime: NodeRuntime) -> PlannedTask:
        """Run the react graph with the plan preloaded, and count the planning's tokens in."""
        given = state["messages"]
        inherited = {"task_id": state["task_id"], "language": state["language"], "plan": state["plan"]}
        inherited["vetted"] = state.get("vetted", [])
        out = await graph.ainvoke({"messages": given, "assignment": inherited}, context=runtime.context)
        usage = add_usages([out["result"]["usage"], state["usage"]])
        result = {**out["result"], "mode": NAME, "usage": usage}
        return {
            "messages": out["messages"][len(given) :],
            "result": result,
            "events": announce(*end_task(state, result, answered=False)),
        }

    return run_react


# ANSWER: write the answer from the results.


async def answer(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Stream the answer, close the plan, and say which steps failed."""
    work = node_context(runtime)
    added = cast(PlanUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    task_id, language = state["task_id"], state["language"]
    old = tuple(Step(**step) for step in state["plan"])
    steps, error = _close(old, state)
    work.emit(Phase(task_id=task_id, content=task_text("plan_4", language)))
    calls = await _ask_until_answered(state, work)
    asked = calls[-1]
    truncated = asked.reply.finish_reason == "length"
    if asked.reply.text.strip() or is_truncated(work, asked.reply):
        written = whole_answer(work, asked.reply, language)
    else:
        empty = task_text("answer_empty", language)
        why = task_text("spent_unreadable", language, n=MOST_ASKS, error=empty)
        written, error = unfinished(state["outcomes"], why, language), "; ".join(filter(None, [error, why]))
    text = "\n\n".join([written, *_unknown(old, state)])
    if rest := text.removeprefix(asked.streamed):
        work.emit(Token(task_id=task_id, content=rest))
    plan = [step.model_dump(mode="json") for step in steps]
    result = compose_result(
        "plan",
        text,
        history=_history(state, work.agent.budget.result_chars),
        reasoning=f"[Plan Mode] {state['goal']}",
        plan=plan,
        usage=asked.usage,
        error=error,
        limit=limit_reached(state, work) if error else "",
        truncated=truncated,
    )
    moved = step_events(old, steps, {"task_id": task_id})
    update: PlanUpdate = {
        "messages": [*added.get("messages", ()), AIMessage(text, id=await asked.message.end(text))],
        "plan": plan,
        "usage": asked.usage,
        "result": result,
        "events": announce(*(call.event for call in calls), *moved, *end_task(state, result)),
    }
    return joined(added, update)


async def _ask_until_answered(state: PlanState, work: NodeContext) -> list[CompletedCall]:
    """The calls: one, or more where the first ones failed."""
    calls = [await _ask(state, work, state["usage"])]
    while not calls[-1].reply.text.strip() and not is_truncated(work, calls[-1].reply) and len(calls) < MOST_ASKS:
        calls.append(await _ask(state, work, calls[-1].usage))
    return calls


async def _ask(state: PlanState, work: NodeContext, usage: Mapping[str, Any]) -> CompletedCall:
    ids = {"task_id": state["task_id"]}
    return await ask_model(work, partial(_answer_request, state), LiveText, usage, ids, state["language"])


def _answer_request(state: PlanState, work: NodeContext) -> ModelRequest:
    language, chars, most = state["language"], work.agent.budget.result_chars, work.agent.budget.prompt_tokens
    seen = [_seen(outcome) for outcome in state["outcomes"]]
    results = truncate_together(seen, chars, most // 2, state["objective"])
    past = conversation(window(before_objective(state["messages"]), most // 4, chars), chars)
    own = agent_prompt(work.agent, language, state["objective"])
    shown = {"conversation": as_json(past), "results": as_json(results)}
    system = render("plan_answer", language, agent_prompt=own, **shown)
    return ModelRequest(
        purpose="answer",
        messages=[SystemMessage(system), objective_message(state)],
        tools=[tool.spec for tool in work.tools.values()],
    )


def _seen(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer is written from; a person's edit shows, as the step's description does not know of it."""
    edit = {name: outcome[name] for name in ("original", "arguments")} if "original" in outcome else {}
    asked = {"question": outcome["arguments"].get("question")} if outcome["name"] == ASK_USER else {}
    return {"step": outcome["description"], "tool": outcome["name"], **asked, **edit, "result": outcome["result"]}


def _close(steps: tuple[Step, ...], state: PlanState) -> tuple[tuple[Step, ...], str]:
    """The closed plan, and which steps failed; the answer carries out the steps that write it.

    A call of unknown outcome is no failure, and the answer mentions it; the steps that need it did not run.
    """
    doubtful = steps_in_doubt(state)
    failed = {step.step_id for step in unrepaired(steps, state)} - doubtful
    blocked = dependents_of(steps, doubtful)
    language = state["language"]
    why = task_text("step_needs_failed" if failed else "step_over_budget", language)
    unknown = task_text("step_needs_unknown", language)
    left = [step.step_id for step in steps if step.status is Status.PENDING and step.uses_tool]
    notes = {step_id: unknown if step_id in blocked else why for step_id in left}
    steps = skip_steps(answer_steps(steps), notes)
    undone = [s for s in steps if s.step_id in failed or s.status is Status.SKIPPED]
    return steps, undone_line("step_undone", undone, language)


def _unknown(steps: Sequence[Step], state: PlanState) -> list[str]:
    """A line for each call that may or may not have taken effect, and the steps that did not run because of it."""
    doubtful, language = steps_in_doubt(state), state["language"]
    lines = [task_text("unknown_call", language, tool=s.action) for s in steps if s.step_id in doubtful]
    left = [f"- {step.description}" for step in steps if step.step_id in dependents_of(steps, doubtful)]
    return [*lines, *([task_text("unknown_left", language, steps="\n".join(left))] if left else [])]


def _history(state: PlanState, result_chars: int) -> list[dict[str, Any]]:
    return [
        {
            "step": outcome["step_id"],
            "phase": outcome["phase"],
            "action": outcome["name"],
            "result": truncate_result(outcome["result"], result_chars),
            "description": outcome["description"],
        }
        for outcome in state["outcomes"]
    ]


# GIVE_UP: no plan could be had; another mode takes over.


async def give_up(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Say why there is no plan; alone, the task ends with it."""
    why = state["complaint"]
    if state["nested"]:
        return {"gave_up": why}
    result = compose_result("plan", "", usage=state["usage"], error=why)
    return {
        "gave_up": why,
        "result": result,
        "events": announce(*end_task(state, result, failure=why, answered=False)),
    }
