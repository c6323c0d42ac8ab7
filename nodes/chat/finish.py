"""FINISH: the task ends with its mode's result, its answer in the form that the message asks for."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

from segue.core.conversation import MODE
from segue.core.events import Answer, ModelCalled
from segue.core.models import ModelReply, ModelRequest
from segue.core.reply_options import AnswerFormat

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.extraction import extract
from ..shared.live_reply import Listener
from ..shared.model_call import ask_model
from ..shared.prompt_budget import as_json
from ..shared.task import end_task
from .state import ChatState, ChatUpdate


async def finish(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Say that the task is complete, which model answered, and which calls may or may not have taken effect."""
    work = node_context(runtime)
    ledger, result = work.services.ledger, state["result"] or {}
    unknown = await ledger.unknown(state["task_id"]) if ledger else ()
    result = {**result, "unknown_outcomes": [*unknown], "model": _model_of(result, work)}
    form, update = work.services.reply_options.answer_format, ChatUpdate()
    if form and result.get("success") and not (result.get("refused") or result.get("truncated")):
        update = await _formatted(state, work, result, form)
        result = update["result"] or {}
    events = [*update.get("events", ()), *announce(*end_task(state, result, answered=False))]
    return {**update, "result": result, "events": events}


async def _formatted(state: ChatState, work: NodeContext, result: Mapping[str, Any], form: AnswerFormat) -> ChatUpdate:
    """The result with its answer as JSON of the form; an answer that is so already stays.

    Raises:
        UnreadableReply: the model did not write it.
    """
    task_id, usage = state["task_id"], dict(result.get("usage") or {})
    calls: list[ModelCalled] = []

    async def ask(request: ModelRequest) -> ModelReply:
        asked = await ask_model(work, request, Listener, usage, {"task_id": task_id}, state["language"])
        calls.append(asked.event)
        usage.update(asked.usage)
        return asked.reply

    found = await extract(ask, result["answer"], form.name, form.json_schema, form.read, form.strict)
    answer = as_json(found)
    last = next(message for message in reversed(state["messages"]) if message.type == "ai")
    return {
        "messages": [AIMessage(answer, id=last.id)],
        "result": {**result, "answer": answer, "usage": usage},
        "events": announce(*calls, Answer(answer=answer, task_id=task_id)),
    }


def _model_of(result: Mapping[str, Any], work: NodeContext) -> str:
    """The name of the agent's model; empty where it was not called, or each participant has its own."""
    called = (result.get("usage") or {}).get("calls")
    return work.model.name if called and result.get("mode") != MODE else ""
