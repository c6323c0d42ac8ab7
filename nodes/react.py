"""The react graph: routes and nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage

from segue.core.calls import ASK_USER, RECALL, CallResult, PendingCall
from segue.core.decision import ActionType, Decision, RequestedCall
from segue.core.errors import InvalidPlan, UnreadableReply
from segue.core.events import (
    Action,
    AttemptRestarted,
    Durable,
    ErrorRaised,
    Observe,
    Phase,
    PlanUpdate,
    QuestionAnswered,
    RecursionStart,
    RestartReason,
    StepUpdate,
    Thought,
    Token,
)
from segue.core.models import REFUSAL
from segue.core.plan import Plan, Step, validate
from segue.prompts.catalogue import error_text, task_text
from segue.tools.adapters.agents import TASK

from .calls import (
    answer_steps,
    begin_steps,
    brief,
    count_usage,
    describe_outcome,
    end_steps,
    replan_steps,
    result_events,
    show_problem,
    step_events,
    steps_of_calls,
)
from .context import NodeContext, NodeRuntime, Settled, announce, exchange, node_context
from .model_call import MOST_ASKS, CompletedCall, Listener, LiveReply, ask_model, cut_answer, is_truncated
from .permission import reason_clause, vetted_steps
from .plan_review import is_same_plan, plan_actions, read_draft, review
from .questions import ask_question
from .react_prompt import (
    ANSWERED,
    ReactState,
    ReactUpdate,
    agents_under_way,
    all_rounds,
    announced_calls,
    calls_of,
    control_exchange,
    decision_of,
    ids_of,
    key_of,
    limit_reached,
    prose_answer,
    protocol_of,
    react_result,
    record_of,
    runner_of,
)
from .repeated_failures import UNREADABLE, repeated_failure
from .task import additions, amended, begin, end_task, joined, read_added_messages, replaced, unfinished

# Routers of the react graph.


def after_input(state: ReactState) -> Literal["CALL_LLM", "FINISH"]:
    """A spent budget ends the task."""
    return "FINISH" if state["spent"] else "CALL_LLM"


def after_call_llm(state: ReactState) -> Literal["CALL_TOOL", "PLAN", "REMEND", "ASK_USER", "ANSWER", "INPUT"]:
    """The decision's action; an unreadable reply and a mere reflection go back to INPUT."""
    decision = state["decision"]
    match decision["action_type"] if decision else "":
        case "CALL_TOOL":
            return "CALL_TOOL"
        case "PLAN":
            return "PLAN"
        case "REMEND":
            return "REMEND"
        case "CLARIFY":
            return "ASK_USER"
        case "ANSWER":
            return "ANSWER"
        case _:
            return "INPUT"


def after_call_tool(state: ReactState) -> Literal["CALL_TOOL", "INPUT"]:
    """Calls that are left run next, each behind a boundary where a pause can be taken."""
    return "CALL_TOOL" if state["calls"] else "INPUT"


def after_ask_user(state: ReactState) -> Literal["INPUT", "FINISH"]:
    """The person ended the task instead of answering."""
    return "FINISH" if state["spent"] else "INPUT"


def after_remend(state: ReactState) -> Literal["CALL_TOOL", "PLAN", "INPUT"]:
    """Carry out the correction: its calls, its plan, or neither when repairs are used up."""
    decision = state["decision"]
    if state["calls"]:
        return "CALL_TOOL"
    return "PLAN" if decision and decision["plan"] else "INPUT"


# INIT: a new task on the thread.


async def init(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    assignment = state.get("assignment")
    done = (assignment or {}).get("done") or []
    begun = cast(ReactUpdate, begin(state["messages"], assignment, runtime))
    if not (assignment or {}).get("plan"):
        banner = task_text("react_task", begun["language"], message=brief(begun["objective"]))
        node_context(runtime).emit(Phase(task_id=begun["task_id"], content=banner))
    return {
        **begun,
        "notes_taken": len(additions(state["messages"])),
        "iteration": 0,
        "trace_id": "",
        "spent": "",
        "plan": (assignment or {}).get("plan") or [],
        "vetted": (assignment or {}).get("vetted") or [],
        "records": replaced([_before(done)] if done else []),
        "decision": None,
        "calls": [],
        "outcomes": [],
        "tool_calls": len(done),
        "repairs": 0,
    }


def _before(done: list[dict[str, Any]]) -> dict[str, Any]:
    """What another mode did for the task, as a record before the first round."""
    results = [(call["name"], CallResult.of(call["result"])) for call in done]
    failed = "\n".join(f"{name}: {result.error}" for name, result in results if not result.success)
    kept = {"iteration": 0, "trace_id": "", "action_type": "CALL_TOOL", "observe": "", "thought": "", "output": {}}
    return {**kept, "results": done, "error": failed}


# INPUT: the next recursion begins, if the budget allows.


async def input_(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Give the recursion its trace_id and number, or say which budget is spent."""
    work = node_context(runtime)
    if spent := _spent(state, work):
        return {"spent": spent}
    iteration = state["iteration"] + 1
    trace_id = work.services.ids.trace()
    start = RecursionStart(
        task_id=state["task_id"], trace_id=trace_id, iteration=iteration, max_iteration=work.agent.max_iteration
    )
    return {"iteration": iteration, "trace_id": trace_id, "decision": None, "outcomes": [], "events": announce(start)}


def _spent(state: ReactState, work: NodeContext) -> str:
    agent, language = work.agent, state["language"]
    match limit_reached(state, work):
        case "iterations":
            return task_text("spent_iterations", language, n=agent.max_iteration)
        case "tool_calls":
            return task_text("spent_calls", language, n=agent.budget.tool_calls)
        case "seconds":
            return task_text("spent_seconds", language, n=f"{agent.budget.seconds:g}")
    known = [*work.tools, RECALL, *ActionType]
    return repeated_failure(all_rounds(state), known, language)


# CALL_LLM: one model call, one decision.


async def call_llm(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Ask the model what to do; a reply that cannot be read becomes the next round's error."""
    work = node_context(runtime)
    added = cast(ReactUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    protocol, ids, current = protocol_of(work), ids_of(state), state
    if arrived := await _results_that_arrived(state, work):
        return joined(added, _joining(state, arrived, work))

    def listen(live: LiveReply) -> Listener:
        live.heading = _heading(current)
        return protocol.listen(live)

    asked = await ask_model(
        work, lambda within: protocol.request(current, within), listen, state["usage"], ids, state["language"]
    )
    try:
        decision = _decision(asked, state, work)
        errors: list[ErrorRaised] = []
    except UnreadableReply as error:
        prose, unread = prose_answer(asked.reply, state, work), error_text(error, state["language"])
        if prose is None:
            return joined(added, _unreadable(asked, unread, state, work))
        why = task_text("prose_answer", state["language"], n=MOST_ASKS)
        decision, errors = prose, [ErrorRaised(message=f"{unread} {why}", **ids)]
    if decision.action_type is ActionType.ANSWER and (left := agents_under_way(state, work)):
        if asked.streamed:
            work.emit(AttemptRestarted(attempt=1, reason=RestartReason.CONTINUED.value, **ids))
        waiting: ReactUpdate = {**_joining(state, left, work, asked.event), "usage": asked.usage}
        return joined(added, waiting)
    if decision.control_id or any(call.call_id for call in decision.tool_calls):
        decision = decision.model_copy(update={"kept": dict(asked.reply.kept)})
    if asked.reply.finish_reason == REFUSAL:
        decision = decision.model_copy(update={"refused": True})
    calls = calls_of(state, decision) if decision.action_type is ActionType.CALL_TOOL else []
    decision = _streamed(decision, asked.streamed, state, work)
    if decision.action_type is ActionType.ANSWER:
        decision = decision.model_copy(update={"message_id": await asked.message.end(decision.answer)})
    steps = tuple(Step(**step) for step in state["plan"])
    moved = begin_steps(steps, [call.step_id for call in calls], decision.step_status_update)
    update: ReactUpdate = {
        "decision": decision.model_dump(mode="json"),
        "plan": [step.model_dump(mode="json") for step in moved],
        "usage": asked.usage,
        "events": announce(
            asked.event, *errors, *_events(state, decision, step_events(steps, moved, ids), calls, work)
        ),
    }
    if calls:
        update["calls"] = [call.json() for call in calls]
    if decision.action_type is ActionType.REFLECT:
        update["records"] = [record_of(state, "REFLECT", decision)]
    return joined(added, update)


async def _results_that_arrived(state: ReactState, work: NodeContext) -> Mapping[str, str]:
    """The agents in the background that have ended, as `agents_under_way`."""
    under_way, calls = agents_under_way(state, work), work.services.agent_calls
    ended = await calls.ended(under_way) if calls and under_way else ()
    return {task_id: under_way[task_id] for task_id in ended}


def _joining(state: ReactState, agents: Mapping[str, str], work: NodeContext, *events: Durable) -> ReactUpdate:
    """The round that has the results of agents in the background: a call of each, which no model decided."""
    made = [RequestedCall(name=name, arguments={TASK: task_id}) for task_id, name in agents.items()]
    decision = Decision(action_type=ActionType.CALL_TOOL, tool_calls=tuple(made))
    calls = calls_of(state, decision)
    return {
        "decision": decision.model_dump(mode="json"),
        "calls": [call.json() for call in calls],
        "events": announce(*events, *_events(state, decision, [], calls, work)),
    }


def _decision(asked: CompletedCall, state: ReactState, work: NodeContext) -> Decision:
    """The decision of a reply; what was shown of one that ended at a length limit is the answer."""
    if is_truncated(work, asked.reply):
        return Decision(action_type=ActionType.ANSWER, answer=asked.streamed, truncated=True)
    options = work.services.reply_options
    if not options.required_tool and (cut := cut_answer(work, asked, state["language"])):
        return Decision(action_type=ActionType.ANSWER, answer=cut, truncated=True)
    decision = protocol_of(work).read(asked.reply, state, work)
    called = {call.name for call in decision.tool_calls}
    if options.tool_choice == "none" and called & work.services.client_tools.keys():
        raise UnreadableReply("The tools of the client are not available now: nothing was run. Answer without them.")
    if not options.required_tool or asked.reply.finish_reason == REFUSAL:
        return decision
    if decision.action_type is ActionType.ANSWER:
        required = options.required_tool if options.required_tool != "required" else "one of the client's tools"
        raise UnreadableReply(f"An answer is not possible now: call {required}.")
    return decision


def _unreadable(asked: CompletedCall, why: str, state: ReactState, work: NodeContext) -> ReactUpdate:
    """The error for the next round; what was streamed as the answer is discarded."""
    ids = ids_of(state)
    if asked.streamed:
        work.emit(AttemptRestarted(attempt=1, reason=RestartReason.UNREADABLE.value, **ids))
    show_problem(why, work, state["language"], **ids)
    record = record_of(state, UNREADABLE, error=why)
    events = announce(asked.event, ErrorRaised(message=why, **ids))
    return {"decision": None, "records": [record], "usage": asked.usage, "events": events}


def _streamed(decision: Decision, streamed: str, state: ReactState, work: NodeContext) -> Decision:
    """Stream what is missing of an answer; what was streamed before other actions is kept, as its first paragraph."""
    ids = ids_of(state)
    if decision.action_type is ActionType.ANSWER:
        rest = decision.answer.removeprefix(streamed)
        if not streamed and (heading := _heading(state)):
            work.emit(Phase(content=heading, **ids))
    else:
        decision = decision.model_copy(update={"said": streamed})
        rest = "\n\n" if streamed else ""
    if rest:
        work.emit(Token(content=rest, **ids))
    return decision


def _heading(state: ReactState) -> str:
    """The banner of the answer; empty where an earlier round has begun it."""
    return (
        "" if any(record.get("said") for record in state["records"]) else task_text("react_answer", state["language"])
    )


def _events(
    state: ReactState,
    decision: Decision,
    steps: list[StepUpdate],
    calls: list[PendingCall],
    work: NodeContext,
) -> list[Any]:
    ids = ids_of(state)
    planned = calls or calls_of(state, decision)
    step_id = next((call.step_id for call in planned if call.step_id), decision.step_id)
    action = Action(action_type=decision.action_type.value, output=decision.output, step_id=step_id, **ids)
    observed = [Observe(text=decision.observe, **ids)] if decision.observe else []
    thought = [Thought(text=decision.thought, **ids)] if decision.thought and not decision.said else []
    return [*observed, *thought, action, *steps, *announced_calls(state, calls, work)]


# CALL_TOOL: run the next of the decided calls, once a person has approved those that need it.
#
# The graph comes back here while some are left.


async def call_tool(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Run one call, or up to `parallel_calls` at once where every tool in the batch is read-only.

    Where a person has to approve some, they are asked about all of those at once, and what they decided is stored
    before any call runs. Consecutive calls that the client carries out wait together for their results.
    """
    work = node_context(runtime)
    runner = runner_of(state, work)
    calls, given, ready = await runner.prepare([PendingCall.of(call) for call in state["calls"]])
    if not ready:
        left: ReactUpdate = {"calls": [call.json() for call in calls]}
        return {**left, "events": announce(*given)} if given else left
    spent = state["tool_calls"] >= work.agent.budget.tool_calls
    group = calls if spent else runner.next_group(calls)
    ran = await runner.run(group)
    waiting = runner.waiting(calls, ran)
    usage = count_usage(state["usage"], ran, again=bool(waiting))
    if waiting:
        update: ReactUpdate = {"calls": [call.json() for call in waiting]}
        if usage:
            update["usage"] = usage
        return update
    outcomes = [*state["outcomes"], *(describe_outcome(done, work, state["task_id"]) for done in ran)]
    update = {
        "calls": [call.json() for call in calls[len(group) :]],
        "outcomes": outcomes,
        "tool_calls": state["tool_calls"] + sum(done.count for done in ran),
        "events": announce(*result_events(ran, work, ids_of(state))),
    }
    if usage:
        update["usage"] = usage
    return update if update["calls"] else _settle(update, state, outcomes)


def _settle(update: ReactUpdate, state: ReactState, outcomes: list[dict[str, Any]]) -> ReactUpdate:
    """The recursion's calls are done: write its record, move the plan, put the pairs into the history."""
    decision = decision_of(state)
    results = [(o["name"], CallResult.of(o["result"])) for o in outcomes]
    errors = [f"{name}: {result.error}" for name, result in results if not result.success]
    steps = tuple(Step(**step) for step in state["plan"])
    moved = end_steps(steps, outcomes, decision.step_status_update)
    update["records"] = [record_of(state, decision.action_type.value, decision, outcomes, "\n".join(errors))]
    native = any(call.call_id for call in decision.tool_calls)
    update["messages"] = _exchange(state, decision, native, outcomes)
    update["plan"] = [step.model_dump(mode="json") for step in moved]
    update["events"] = [*update["events"], *announce(*step_events(steps, moved, ids_of(state)))]
    if not errors:
        update["repairs"] = 0
    return update


def _exchange(state: ReactState, decision: Decision, native: bool, outcomes: list[dict[str, Any]]) -> list[AnyMessage]:
    if decision.control_id:
        done = [{name: o[name] for name in ("name", "original", "arguments", "result") if name in o} for o in outcomes]
        return control_exchange(decision, {"success": done})
    calls = [Settled(o["call_id"], o["name"], o["arguments"], o["result"], key_of(state, o["index"])) for o in outcomes]
    return exchange(decision.thought if native else "", calls, decision.kept, state["objective"])


# PLAN: write the plan, or rewrite it and keep what is done.


async def plan(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Take the decided plan over; one that cannot run becomes the next round's error."""
    decision = decision_of(state)
    old = tuple(Step(**step) for step in state["plan"])
    merged = replan_steps(old, decision.plan) if decision.plan else old
    try:
        validate(Plan(goal=state["objective"], steps=merged))
    except InvalidPlan as error:
        return _without_plan(state, error_text(error, state["language"]))
    given, rejected = list[Durable](), ""
    if not is_same_plan(old, merged):
        merged, given, rejected = _reviewed(state, old, merged, node_context(runtime))
    if rejected:
        return _without_plan(state, rejected, given)
    steps = [step.model_dump(mode="json") for step in merged]
    vetted = await vetted_steps(node_context(runtime), state["task_id"], merged, state.get("vetted", ()))
    lines = "\n".join(f"{step.step_id}. {step.description}" for step in merged)
    banner = task_text("react_plan", state["language"]) + lines + "\n\n"
    node_context(runtime).emit(Phase(content=banner, **ids_of(state)))
    return {
        "plan": steps,
        "vetted": vetted,
        "records": [record_of(state, decision.action_type.value, decision)],
        "messages": control_exchange(decision, {"success": "The plan is taken over."}),
        "events": announce(*given, PlanUpdate(goal=state["objective"], steps=steps, **ids_of(state))),
    }


def _without_plan(state: ReactState, why: str, given: Sequence[Durable] = ()) -> ReactUpdate:
    """The plan is not taken over: the next round is told why."""
    decision = decision_of(state)
    failed = record_of(state, decision.action_type.value, decision, error=why)
    return {"records": [failed], "events": announce(*given, ErrorRaised(message=why, **ids_of(state)))}


def _reviewed(
    state: ReactState, old: tuple[Step, ...], steps: tuple[Step, ...], work: NodeContext
) -> tuple[tuple[Step, ...], list[Durable], str]:
    """The plan after a person's review where it has changed, the events of that, and why they rejected it."""
    language = state["language"]

    def read(draft: Mapping[str, Any]) -> tuple[Step, ...]:
        new = replan_steps(old, read_draft(draft.get("steps")))
        return validate(Plan(steps=new), plan_actions(work.tools, work.asks_user)).steps

    reviewed = review(work, state["objective"], steps, read, language=language, **ids_of(state))
    if reviewed is None:
        return steps, [], ""
    if reviewed.draft is None:
        why = reason_clause(reviewed.reason, language)
        return steps, [*reviewed.events], task_text("plan_rejected", language, why=why)
    return read(reviewed.draft) if reviewed.edited else steps, [*reviewed.events], ""


# REMEND: take a diagnosis and carry its correction on.

MOST_REPAIRS = 3
"""REMENDs in a row for one failure."""


async def remend(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Set the corrected calls; when repairs are used up, tell the model to plan around the failure."""
    decision = decision_of(state)
    repairs = state["repairs"] + 1
    if repairs > MOST_REPAIRS:
        return _refused(state, task_text("plan_around", state["language"], n=MOST_REPAIRS), repairs)
    if not decision.tool_calls and not decision.plan:
        return _refused(state, task_text("repair_empty", state["language"]), repairs)
    steps = tuple(Step(**step) for step in state["plan"])
    calls = calls_of(state, decision)
    begun = begin_steps(steps, [call.step_id for call in calls])
    return {
        "calls": [call.json() for call in calls],
        "plan": [step.model_dump(mode="json") for step in begun],
        "repairs": repairs,
        "events": announce(
            *step_events(steps, begun, ids_of(state)), *announced_calls(state, calls, node_context(runtime))
        ),
    }


def _refused(state: ReactState, why: str, repairs: int) -> ReactUpdate:
    record = record_of(state, "REMEND", decision_of(state), error=why)
    return {
        "decision": None,
        "repairs": repairs,
        "records": [record],
        "events": announce(ErrorRaised(message=why, **ids_of(state))),
    }


# ASK_USER: the task waits for the user's answer, which is what the next recursion goes on with.


async def ask_user(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Interrupt the graph until a person has answered; they may also end the task."""
    decision, ids = decision_of(state), ids_of(state)
    answer = ask_question(decision.question, decision.choices, state["language"])
    text = answer.text or task_text("question_ended", state["language"])
    asked = decision.model_copy(update={"control_id": decision.control_id or f"{state['trace_id']}-0"})
    steps = tuple(Step(**step) for step in state["plan"])
    (step_id,) = steps_of_calls([(ASK_USER, decision.output)], steps, decision.step_id)
    outcome = {"step_id": step_id, "name": ASK_USER, "result": {"success": text}}
    moved = end_steps(begin_steps(steps, [step_id]), [outcome], decision.step_status_update)
    answered = QuestionAnswered(question=decision.question, answer=text, **ids)
    return {
        "plan": [step.model_dump(mode="json") for step in moved],
        "records": [{**record_of(state, decision.action_type.value, decision), ANSWERED: text}],
        "messages": control_exchange(asked, {"success": text}),
        "spent": task_text("question_ended", state["language"]) if answer.manual_finish else "",
        "events": announce(answered, *step_events(steps, moved, ids)),
    }


# ANSWER: the final answer goes into the history and ends the task.


async def answer(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Close the plan and write the result."""
    decision = decision_of(state)
    text, chars = decision.answer, node_context(runtime).agent.budget.result_chars
    steps = tuple(Step(**step) for step in state["plan"])
    closed = answer_steps(steps, decision.step_status_update)
    plan = [step.model_dump(mode="json") for step in closed]
    ids = ids_of(state)
    result = react_result({**state, "plan": plan}, text, chars, decision.thought)
    if decision.truncated:
        result["truncated"] = True
    if decision.malformed:
        result["malformed"] = True
    if decision.refused:
        result["refused"] = True
    return {
        "messages": [AIMessage(text, id=decision.message_id)],
        "plan": plan,
        "result": result,
        "events": announce(*step_events(steps, closed, ids), *end_task(state, result, **ids)),
    }


# FINISH: the budget is spent; say so, with what was found.


async def finish(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """End the task as an error that keeps what was found."""
    language, why = state["language"], state["spent"]
    text = unfinished([outcome for record in state["records"] for outcome in record["results"]], why, language)
    work, ids = node_context(runtime), ids_of(state)
    work.emit(Token(content=text, **ids))
    limit = limit_reached(state, work)
    result = react_result(state, text, work.agent.budget.result_chars, error=why, limit=limit)
    return {
        "messages": [AIMessage(text)],
        "result": result,
        "events": announce(*end_task(state, result, failure=why, **ids)),
    }
