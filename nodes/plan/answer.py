"""ANSWER: write the answer from the results."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, SystemMessage

from segue.core.events import Phase, Token
from segue.core.models import ModelRequest
from segue.core.plan import Status, Step
from segue.prompts.catalogue import phrase
from segue.prompts.load import agent_prompt, render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.history_window import window
from ..shared.live_reply import LiveText
from ..shared.model_call import CompletedCall, ask_model, is_truncated, whole_answer
from ..shared.plan_progress import close_steps, step_events, undone_line
from ..shared.prompt_budget import as_json, conversation, truncate_result, truncate_together
from ..shared.task import (
    amended,
    before_objective,
    compose_result,
    end_task,
    joined,
    objective_message,
    read_added_messages,
    unfinished,
)
from .schedule import limit_reached
from .state import PlanState, PlanUpdate
from .steps import dependents_of, emit_thoughts, steps_in_doubt, unrepaired

MOST_EMPTY = 3
"""How often the answer is asked for while it is empty."""


async def answer(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Stream the answer, close the plan, and say which steps failed."""
    work = node_context(runtime)
    added = cast(PlanUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    task_id, language = state["task_id"], state["language"]
    old = tuple(Step(**step) for step in state["plan"])
    steps, error = _close(old, state)
    emit_thoughts(old, steps, state, work)
    work.emit(Phase(task_id=task_id, content=phrase("plan_4", language)))
    calls = await _ask_until_answered(state, work)
    asked = calls[-1]
    truncated = is_truncated(work, asked.reply)
    if asked.reply.text.strip() or truncated:
        written = whole_answer(work, asked.reply, language)
    else:
        why = phrase("spent_unreadable", language, n=MOST_EMPTY)
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
        total_steps=len(plan),
        plan=plan,
        usage=asked.usage,
        error=error,
        limit=limit_reached(state, work) if error else "",
        truncated=truncated,
    )
    moved = step_events(old, steps, {"task_id": task_id})
    update: PlanUpdate = {
        "messages": [*added.get("messages", ()), AIMessage(text)],
        "plan": plan,
        "usage": asked.usage,
        "result": result,
        "events": announce(*(call.event for call in calls), *moved, *end_task(state, result)),
    }
    return joined(added, update)


async def _ask_until_answered(state: PlanState, work: NodeContext) -> list[CompletedCall]:
    """The calls: one, or more where the first ones failed."""
    calls = [await _ask(state, work, state["usage"])]
    while not calls[-1].reply.text.strip() and not is_truncated(work, calls[-1].reply) and len(calls) < MOST_EMPTY:
        calls.append(await _ask(state, work, calls[-1].usage))
    return calls


async def _ask(state: PlanState, work: NodeContext, usage: Mapping[str, Any]) -> CompletedCall:
    language, chars, most = state["language"], work.agent.budget.result_chars, work.agent.budget.prompt_tokens
    results = truncate_together([_seen(outcome) for outcome in state["outcomes"]], chars, most // 2)
    past = conversation(window(before_objective(state["messages"]), most // 4, chars), chars)
    own = agent_prompt(work.agent, language, state["objective"])
    shown = {"conversation": as_json(past), "results": as_json(results)}
    system = render("plan_answer", language, agent_prompt=own, **shown)
    request = ModelRequest(
        purpose="answer",
        messages=[SystemMessage(system), objective_message(state)],
        tools=[tool.spec for tool in work.tools.values()],
    )
    ids = {"task_id": state["task_id"]}
    return await ask_model(work, request, LiveText, usage, ids, language)


def _seen(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer is written from; a person's edit shows, as the step's description does not know of it."""
    edit = {name: outcome[name] for name in ("original", "arguments")} if "original" in outcome else {}
    return {"step": outcome["description"], "tool": outcome["name"], **edit, "result": outcome["result"]}


def _close(steps: tuple[Step, ...], state: PlanState) -> tuple[tuple[Step, ...], str]:
    """The closed plan, and which steps failed; the answer carries out the steps without a tool.

    A call of unknown outcome is no failure, and the answer mentions it; the steps that need it did not run.
    """
    doubtful = steps_in_doubt(state)
    failed = {step.step_id for step in unrepaired(steps, state)} - doubtful
    blocked = dependents_of(steps, doubtful)
    language = state["language"]
    why = phrase("step_needs_failed" if failed else "step_over_budget", language)
    unknown = phrase("step_needs_unknown", language)
    left = [step.step_id for step in steps if step.status is Status.PENDING and step.uses_tool]
    notes = {step_id: unknown if step_id in blocked else why for step_id in left}
    steps = close_steps(steps, phrase("step_answered", language), notes)
    undone = [s for s in steps if s.step_id in failed or s.status is Status.SKIPPED]
    return steps, undone_line("step_undone", undone, language)


def _unknown(steps: Sequence[Step], state: PlanState) -> list[str]:
    """A line for each call that may or may not have taken effect, and the steps that did not run because of it."""
    doubtful, language = steps_in_doubt(state), state["language"]
    lines = [phrase("unknown_call", language, tool=s.action) for s in steps if s.step_id in doubtful]
    left = [f"- {step.description}" for step in steps if step.step_id in dependents_of(steps, doubtful)]
    return [*lines, *([phrase("unknown_left", language, steps="\n".join(left))] if left else [])]


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
