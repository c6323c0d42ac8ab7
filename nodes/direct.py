"""The direct graph: state and nodes."""

from functools import partial
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from segue.core.errors import ModelError, ModelRefused, UnreadableReply
from segue.core.events import ErrorRaised, ModelCalled, Phase
from segue.core.models import ModelRequest
from segue.prompts import catalogue
from segue.prompts.catalogue import agent_prompt, render, task_text

from .context import NodeContext, NodeRuntime, announce, node_context
from .history import window
from .model_call import LiveText, ask_model, refused_call, whole_answer
from .task import TaskState, additions, amended, begin, compose_result, end_task, joined, read_added_messages

# State of the direct graph.


class DirectState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    notes_taken: int
    """How many additions the objective holds. INIT, ANSWER."""
    gave_up: str
    """ANSWER."""


DirectUpdate = DirectState
"""What a node returns: the channels that it changes."""


# INIT: a new task on the thread.


async def init(state: DirectState, runtime: NodeRuntime) -> DirectUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    fresh = cast(DirectUpdate, begin(state["messages"], state.get("assignment"), runtime))
    return {**fresh, "notes_taken": len(additions(state["messages"])), "gave_up": ""}


# ANSWER: system, history and user go to the model, its prose is the answer.


async def answer(state: DirectState, runtime: NodeRuntime) -> DirectUpdate:
    """Stream the answer; a refusal or an empty reply gives the task up to another mode."""
    work = node_context(runtime)
    added = cast(DirectUpdate, await read_added_messages(state, work))
    state = amended(state, added)
    work.emit(Phase(task_id=state["task_id"], content=task_text("direct", state["language"])))
    request, ids = _request(state, work), {"task_id": state["task_id"]}
    try:
        asked = await ask_model(work, partial(_request, state), LiveText, state["usage"], ids, state["language"])
    except ModelRefused as error:
        return joined(added, _failed(error, await refused_call(work, request, error, ids), state))
    try:
        text = whole_answer(work, asked.reply, state["language"])
    except UnreadableReply as error:
        given_up: DirectUpdate = {**_failed(error, asked.event, state), "usage": asked.usage}
        return joined(added, given_up)
    truncated, reasoning = asked.reply.finish_reason == "length", task_text("direct_reasoning", state["language"])
    result = compose_result("direct", text, reasoning=reasoning, usage=asked.usage, truncated=truncated)
    update: DirectUpdate = {
        "messages": [*added.get("messages", ()), AIMessage(text, id=await asked.message.end(text))],
        "usage": asked.usage,
        "result": result,
        "events": announce(asked.event, *end_task(state, result)),
    }
    return joined(added, update)


async def answer_at_once(state: DirectState, runtime: NodeRuntime) -> DirectUpdate:
    """What the graph does, inside a node of another graph: nothing is stored between its steps."""
    begun: DirectState = {**state, **await init(state, runtime)}
    return await answer(begun, runtime)


def _failed(error: ModelError, call: ModelCalled, state: DirectState) -> DirectUpdate:
    why = catalogue.error_text(error, state["language"])
    raised = ErrorRaised(task_id=call.task_id, message=why)
    return {"gave_up": why, "events": announce(call, raised)}


def _request(state: DirectState, work: NodeContext) -> ModelRequest:
    language, budget = state["language"], work.agent.budget
    own = agent_prompt(work.agent, language, state["objective"])
    spoken: list[AnyMessage] = [m for m in state["messages"] if m.type == "human" or (m.type == "ai" and m.text)]
    latest = window(spoken, budget.prompt_tokens // 2, budget.result_chars)
    recent = [m if m.type == "human" else AIMessage(m.text) for m in latest]
    return ModelRequest(
        purpose="answer",
        messages=[SystemMessage(render("direct", language, agent_prompt=own)), *recent],
        tools=[tool.spec for tool in work.tools.values()],
    )
