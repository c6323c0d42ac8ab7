"""MAKE_PLAN: one model call writes the plan; after a complaint it writes it again."""

from typing import Any, cast

from langchain_core.messages import SystemMessage

from segue.core.agents import Budget
from segue.core.decision import read_object
from segue.core.errors import UnreadableReply
from segue.core.events import ErrorRaised, Phase
from segue.core.models import ModelReply, ModelRequest
from segue.prompts import errors
from segue.prompts.catalogue import phrase
from segue.prompts.load import agent_prompt, render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.history_window import window
from ..shared.live_reply import Listener
from ..shared.model_call import ask_model, refuse_quotation
from ..shared.prompt_budget import as_json, conversation, truncate_together
from ..shared.task import amended, before_objective, joined, objective_message, read_added_messages
from ..shared.tool_schemas import described, plan_schema
from .state import PlanState, PlanUpdate


async def make_plan(state: PlanState, runtime: NodeRuntime) -> PlanUpdate:
    """Ask for the plan; one that cannot be read leaves a complaint for the next try."""
    work = node_context(runtime)
    added = cast(PlanUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    language, why = state["language"], state["complaint"]
    banner = phrase("plan_again", language, why=why) if why else phrase("plan_1", language)
    work.emit(Phase(task_id=state["task_id"], content=banner))
    ids = {"task_id": state["task_id"]}
    asked = await ask_model(work, _request(state, work), Listener, state["usage"], ids, state["language"])
    update: PlanUpdate = {"asked": state["asked"] + 1, "usage": asked.usage}
    try:
        update |= {"draft": _read(asked.reply, state), "complaint": "", "events": announce(asked.event)}
    except UnreadableReply as error:
        why = errors.render(error, language)
        events = announce(asked.event, ErrorRaised(task_id=state["task_id"], message=why))
        update |= {"draft": None, "complaint": why, "events": events}
    return joined(added, update)


def _read(reply: ModelReply, state: PlanState) -> dict[str, Any]:
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
    system = render("make_plan", language, agent_prompt=own, tools=tools, current_state=known)
    return ModelRequest(
        purpose="plan",
        messages=[SystemMessage(system), objective_message(state)],
        schema=plan_schema(work.tools),
        tools=[tool.spec for tool in work.tools.values()],
    )


_SHOWN = ("step_id", "name", "arguments", "original", "description", "phase", "rejected", "result")
"""Of what ran, for the planner."""


def _known(state: PlanState, past: list[dict[str, Any]], budget: Budget) -> dict[str, Any]:
    """What a planner should see: the talk so far, and on a re-plan what was done and what is wrong."""
    known: dict[str, Any] = {"conversation": past}
    if state["complaint"]:
        ran = [{name: each[name] for name in _SHOWN if name in each} for each in state["outcomes"]]
        done = truncate_together(ran, budget.result_chars, budget.prompt_tokens // 2)
        known |= {"plan": state["plan"], "results": done, "problem": state["complaint"]}
        known["rule"] = "Keep finished steps with their numbers; give new steps new numbers."
    return known
