"""DECOMPOSING: break the goal down into tasks; after a complaint they are requested again."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from langchain_core.messages import SystemMessage

from segue.core.decision import read_object
from segue.core.errors import InvalidPlan, UnreadableReply
from segue.core.events import Durable, ErrorRaised, Phase, PlanUpdate
from segue.core.lifecycle import EngineEventType, EngineState, SubTask, read_tasks
from segue.core.models import ModelReply, ModelRequest
from segue.prompts import errors
from segue.prompts.catalogue import phrase
from segue.prompts.load import agent_prompt, render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.history_window import window
from ..shared.live_reply import Listener
from ..shared.model_call import ask_model
from ..shared.prompt_budget import as_json, conversation
from ..shared.task import amended, before_objective, joined, objective_message, read_added_messages
from ..shared.tool_schemas import MOST_STEPS, described
from .events import as_steps, changed, engine_event, tasks_of
from .state import LifecycleNode, LifecycleState

MOST_ASKS = 3
"""Tasks that cannot be read or carried out are asked for twice more."""

Decompose = Callable[[str], Awaitable[object]]
"""Breaks a goal down without a model: gives the list of tasks."""


_TEXT = {"type": "string"}
_TASK = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "description": _TEXT,
        "priority": {"type": "integer"},
        "dependencies": {"type": "array", "items": _TEXT},
        "type": _TEXT,
        "timeout": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["id", "description", "priority", "dependencies", "type", "timeout"],
    "additionalProperties": False,
}
TASKS_SCHEMA = {
    "type": "object",
    "properties": {"tasks": {"type": "array", "items": _TASK, "minItems": 1, "maxItems": MOST_STEPS}},
    "required": ["tasks"],
    "additionalProperties": False,
}


class Undecomposable(Exception):
    """Somebody's own way to break goals down failed; the message says how."""


def decomposing(decompose: Decompose | None) -> LifecycleNode:
    """The node that asks the agent's model, or `decompose` in its place."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Ask for the tasks, or keep those of a restored run; nothing of what was written is left out."""
        work = node_context(runtime)
        if state["steps"]:
            return _accepted(state, work, tasks_of(state["steps"]), ())
        added = cast(LifecycleState, await read_added_messages(state, work))
        state = amended(state, added)
        why, language = state["complaint"], state["language"]
        banner = phrase("lifecycle_again", language, why=why) if why else phrase("lifecycle_decompose", language)
        work.emit(Phase(task_id=state["task_id"], content=banner))
        update: LifecycleState = {"asked": state["asked"] + 1}
        also: list[Durable] = []
        try:
            tasks = await _from_function(decompose, state) if decompose else await _asked(state, work, update, also)
        except Undecomposable as error:
            update |= {"failure": {"error": str(error), "phase": state["phase"]}}
        except (InvalidPlan, UnreadableReply) as error:
            update |= _refused(state, errors.render(error, language), also)
        else:
            update |= _accepted(state, work, tasks, also)
        return joined(added, update)

    return node


async def _from_function(decompose: Decompose, state: LifecycleState) -> tuple[SubTask, ...]:
    text = "\n\n".join(part for part in (state["objective"], state["complaint"]) if part)
    try:
        given = await decompose(text)
    except Exception as error:  # anybody's code: the run ends and says why
        why = phrase("not_broken_down", state["language"], why=str(error) or type(error).__name__)
        raise Undecomposable(why) from error
    return read_tasks(given)


async def _asked(
    state: LifecycleState, work: NodeContext, update: LifecycleState, also: list[Durable]
) -> tuple[SubTask, ...]:
    ids = {"task_id": state["task_id"]}
    asked = await ask_model(work, _request(state, work), Listener, state["usage"], ids, state["language"])
    update["usage"] = asked.usage
    also.append(asked.event)
    return read_tasks(_read(asked.reply))


def _request(state: LifecycleState, work: NodeContext) -> ModelRequest:
    """The request; after a complaint it says what is wrong with the tasks that were written before."""
    budget, language = work.agent.budget, state["language"]
    earlier = before_objective(state["messages"])
    past = conversation(window(earlier, budget.prompt_tokens // 4, budget.result_chars), budget.result_chars)
    known: dict[str, Any] = {"conversation": past} | {k: v for k, v in state["context"].items() if k != "tools"}
    if state["complaint"]:
        known["problem"] = state["complaint"]
    own = agent_prompt(work.agent, language, state["objective"])
    tools = "\n".join(f"- {line}" for line in state["context"].get("tools", ())) or described(work.tools, language)
    system = render("decompose", language, agent_prompt=own, tools=tools, current_state=as_json(known))
    return ModelRequest(
        purpose="plan",
        messages=[SystemMessage(system), objective_message(state)],
        schema=TASKS_SCHEMA,
        tools=[tool.spec for tool in work.tools.values()],
    )


def _read(reply: ModelReply) -> dict[str, Any]:
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit: write fewer tasks.")
    return read_object(reply.text, "tasks")


def _refused(state: LifecycleState, why: str, also: list[Durable]) -> LifecycleState:
    events = announce(*also, ErrorRaised(task_id=state["task_id"], message=why))
    if state["asked"] + 1 < MOST_ASKS:
        return {"complaint": why, "events": events}
    error = phrase("not_broken_down_after", state["language"], n=MOST_ASKS, why=why)
    return {"complaint": why, "failure": {"error": error, "phase": state["phase"]}, "events": events}


def _accepted(
    state: LifecycleState, work: NodeContext, tasks: tuple[SubTask, ...], also: list[Durable] | tuple[()]
) -> LifecycleState:
    task_id, steps = state["task_id"], as_steps(tasks)
    work.emit(Phase(task_id=task_id, content=phrase("lifecycle_schedule", state["language"], n=len(tasks))))
    details = {"task_count": len(tasks), "tasks": [task.public for task in tasks]}
    events = announce(
        *also,
        PlanUpdate(task_id=task_id, goal=state["objective"], steps=steps),
        engine_event(task_id, EngineEventType.TASK_DECOMPOSED, details),
        changed(task_id, state["phase"], EngineState.SCHEDULING),
    )
    return {"steps": steps, "complaint": "", "phase": EngineState.SCHEDULING.value, "events": events}
