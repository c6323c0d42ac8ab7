"""CALL_LLM: one model call, one decision."""

from collections.abc import Mapping
from typing import Any, cast

from segue.core.calls import PendingCall
from segue.core.decision import ActionType, Decision
from segue.core.errors import UnreadableReply
from segue.core.events import Action, AttemptRestarted, ErrorRaised, Observe, RestartReason, StepUpdate, Thought, Token
from segue.core.models import REFUSAL
from segue.core.plan import Step
from segue.prompts.catalogue import phrase
from segue.prompts.errors import render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.model_call import CompletedCall, ask_model, is_truncated
from ..shared.plan_progress import begin_steps, step_events
from ..shared.task import amended, joined, read_added_messages
from .call_limits import MOST_UNREADABLE, prose_answer
from .protocols import protocol_of
from .records import announced_calls, calls_of, ids_of, record_of
from .state import ReactState, ReactUpdate


async def call_llm(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Ask the model what to do; a reply that cannot be read becomes the next round's error."""
    work = node_context(runtime)
    added = cast(ReactUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    protocol, ids = protocol_of(work), ids_of(state)
    request = protocol.request(state, work)
    asked = await ask_model(work, request, protocol.listen, state["usage"], ids, state["language"])
    try:
        decision = _decision(asked, state, work)
        errors: list[ErrorRaised] = []
    except UnreadableReply as error:
        prose, unread = prose_answer(asked.reply, state, work), render(error, state["language"])
        if prose is None:
            return joined(added, _unreadable(asked, unread, state, work))
        why = phrase("prose_answer", state["language"], n=MOST_UNREADABLE)
        decision, errors = prose, [ErrorRaised(message=f"{unread} {why}", **ids)]
    if asked.reply.finish_reason == REFUSAL:
        decision = decision.model_copy(update={"refused": True})
    calls = calls_of(state, decision) if decision.action_type is ActionType.CALL_TOOL else []
    decision = _streamed(decision, asked.streamed, work, ids)
    steps = tuple(Step(**step) for step in state["plan"])
    moved = begin_steps(steps, [call["step_id"] for call in calls], decision.step_status_update)
    update: ReactUpdate = {
        "decision": decision.model_dump(mode="json"),
        "plan": [step.model_dump(mode="json") for step in moved],
        "usage": asked.usage,
        "events": announce(
            asked.event, *errors, *_events(state, decision, step_events(steps, moved, ids), calls, work)
        ),
    }
    if calls:
        update["calls"] = calls
    if decision.action_type is ActionType.REFLECT:
        update["records"] = [record_of(state, "REFLECT", decision)]
    return joined(added, update)


def _decision(asked: CompletedCall, state: ReactState, work: NodeContext) -> Decision:
    """The decision of a reply; what was shown of one that ended at the client's limit of tokens is the answer.

    Raises:
        UnreadableReply: it cannot be read, or it does not call what the client requires, or calls what it forbids.
    """
    if is_truncated(work, asked.reply):
        return Decision(action_type=ActionType.ANSWER, answer=asked.streamed, truncated=True)
    decision = protocol_of(work).read(asked.reply, state, work)
    options, called = work.services.reply_options, {call.name for call in decision.tool_calls}
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
    record = record_of(state, "UNREADABLE", error=why)
    events = announce(asked.event, ErrorRaised(message=why, **ids))
    return {"decision": None, "records": [record], "usage": asked.usage, "events": events}


def _streamed(decision: Decision, streamed: str, work: NodeContext, ids: Mapping[str, Any]) -> Decision:
    """Stream what is missing of an answer; what was streamed before other actions is kept, as its first paragraph."""
    if decision.action_type is ActionType.ANSWER:
        rest = decision.answer.removeprefix(streamed)
    else:
        decision = decision.model_copy(update={"said": streamed})
        rest = "\n\n" if streamed else ""
    if rest:
        work.emit(Token(content=rest, **ids))
    return decision


def _events(
    state: ReactState,
    decision: Decision,
    steps: list[StepUpdate],
    calls: list[PendingCall],
    work: NodeContext,
) -> list[Any]:
    ids = ids_of(state)
    planned = calls or calls_of(state, decision)
    step_id = next((call["step_id"] for call in planned if call["step_id"]), decision.step_id)
    action = Action(action_type=decision.action_type.value, output=decision.output, step_id=step_id, **ids)
    observed = [Observe(text=decision.observe, **ids)] if decision.observe else []
    thought = [Thought(text=decision.thought, **ids)] if decision.thought and not decision.said else []
    return [*observed, *thought, action, *steps, *announced_calls(state, calls, work)]
