"""ANSWER: system, history and user go to the model, its prose is the answer."""

from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from segue.core.errors import ModelRefused, UnreadableReply
from segue.core.events import Answer, ErrorRaised, TaskComplete, Thinking
from segue.core.models import ModelRequest
from segue.prompts.load import agent_prompt, render
from segue.prompts.phrases import phrase

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.history_window import window
from ..shared.live_reply import LiveText
from ..shared.model_call import CompletedCall, ask_model, whole_answer
from ..shared.notes import amended, take_up
from ..shared.task import compose_result
from .state import DirectState, DirectUpdate


async def answer(state: DirectState, runtime: NodeRuntime) -> DirectUpdate:
    """Stream the answer; a refusal or an empty reply gives the task up to another mode."""
    work = node_context(runtime)
    added = cast(DirectUpdate, await take_up(state, work))
    state = amended(state, added)
    work.emit(Thinking(task_id=state["task_id"], content=phrase("direct", state["language"])))
    try:
        asked = await _ask(state, work)
        text = whole_answer(asked.reply, state["language"])
    except (ModelRefused, UnreadableReply) as error:
        events = announce(ErrorRaised(task_id=state["task_id"], message=str(error)))
        return {**added, "gave_up": str(error), "events": events}
    result = compose_result("direct", text, reasoning="[Direct Mode]", usage=asked.usage)
    done = [] if state["nested"] else [TaskComplete(task_id=state["task_id"], status="done", result=result)]
    return {
        **added,
        "messages": [*added.get("messages", ()), AIMessage(text)],
        "usage": asked.usage,
        "result": result,
        "events": announce(asked.event, Answer(task_id=state["task_id"], answer=text), *done),
    }


async def _ask(state: DirectState, work: NodeContext) -> CompletedCall:
    language, budget = state["language"], work.agent.budget
    own = agent_prompt(work.agent, language, state["objective"])
    spoken: list[AnyMessage] = [m for m in state["messages"] if m.type == "human" or (m.type == "ai" and m.text)]
    latest = window(spoken, budget.prompt_tokens // 2, budget.result_chars)
    recent = [m if m.type == "human" else AIMessage(m.text) for m in latest]
    request = ModelRequest(
        purpose="answer",
        messages=[SystemMessage(render("direct", language, agent_prompt=own)), *recent],
        tools=[tool.spec for tool in work.tools.values()],
    )
    ids = {"task_id": state["task_id"]}
    return await ask_model(work, request, LiveText, state["usage"], ids)
