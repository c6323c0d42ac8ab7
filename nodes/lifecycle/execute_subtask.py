"""EXECUTE_SUBTASK: one subtask, in a context of its own, by the react graph."""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.state import CompiledStateGraph

from segue.core.attachments import naming
from segue.core.context import AppContext
from segue.core.errors import ModelUnreachable, StorageError
from segue.core.events import Phase
from segue.core.lifecycle import EngineEventType, SubTask
from segue.core.tools import Tool
from segue.prompts.catalogue import phrase
from segue.prompts.errors import sentence_of
from segue.prompts.load import render

from ..shared.context import Node, NodeContext, NodeRuntime, announce, node_context
from ..shared.nested_services import NestedLedger, nested_services
from ..shared.plan_progress import step_event
from ..shared.prompt_budget import as_json, as_text, truncate, truncate_together
from ..shared.task import Assignment
from ..shared.tool_messages import Settled, exchange
from .events import ended, engine_event, unknown_calls
from .state import LifecycleState, SubTaskWork

ReactGraph = CompiledStateGraph[Any, Any, Any, Any]

SHOWN = ("messages", "result", "events")
"""What streams show of a subtask's nodes; `events` is never a part of the output."""


class Failed(Exception):
    """The subtask could not be carried out; the message says why."""


def execute_subtask(graph: ReactGraph) -> Node[SubTaskWork, LifecycleState]:
    """The node over this react graph."""

    async def node(state: SubTaskWork, runtime: NodeRuntime) -> LifecycleState:
        """Work on one task; a failure is the task's own, and the others continue."""
        work, task = node_context(runtime), SubTask(**state["step"])
        about = {"i": state["place"], "n": state["total"], "description": task.description}
        banner = phrase("lifecycle_task", state["language"], **about)
        work.emit(Phase(task_id=state["task_id"], step_id=task.step_id, content=banner))
        try:
            out = await _in_time(graph, state, task, work)
        except Failed as failed:
            return _update(state, task, {"answer": "", "error": str(failed)}, [])
        result = out["result"]
        fresh = [message for message in out["messages"] if not message.additional_kwargs.get("brief")]
        made = [message.model_copy(update={"id": None}) for message in fresh if _is_call(message)]
        error = _failure(result, state["language"])
        unknown = unknown_calls(result["history"], state["language"])
        answer = "\n\n".join([result["answer"], *unknown])
        outcome = {"answer": answer, "error": error, "history": result["history"], "unknown": unknown}
        return _update(state, task, {**outcome, "usage": result["usage"]}, made)

    return node


async def _in_time(graph: ReactGraph, state: SubTaskWork, task: SubTask, work: NodeContext) -> dict[str, Any]:
    """What the react graph returns.

    Raises:
        Failed: it raised something, or the task's time ran out.
        ModelUnreachable, StorageError: the others would fail as well; the run stops here and can be resumed.
    """
    ledger = NestedLedger(work.services.ledger) if work.services.ledger else None
    knowledge = state["context"].get("knowledge", ())
    services = nested_services(work.services, ledger, step_id=task.step_id, read=knowledge)
    context = AppContext.carrying(services, **work.context.model_dump())
    try:
        async with asyncio.timeout(task.timeout) as limit:
            given = brief(state, task, work)
            out: dict[str, Any] = await graph.ainvoke(given, context=context, output_keys=SHOWN)
            return out
    except (GraphBubbleUp, ModelUnreachable, StorageError):
        raise
    except Exception as error:  # whatever one task raises becomes its failure; the others continue
        if not (isinstance(error, TimeoutError) and limit.expired()):
            raise Failed(sentence_of(error, state["language"])) from error
    why = phrase("lifecycle_late", state["language"], n=f"{task.timeout:g}")
    if ledger:
        await ledger.cancel(work.tools, why, state["language"])
    raise Failed(why)


def _failure(result: Mapping[str, Any], language: str) -> str:
    """Why the task is not done: the react graph failed, or its answer says why there is none."""
    if not result["success"]:
        return str(result.get("error") or phrase("nothing_found", language))
    return str(result["answer"]).partition("\n")[0].rstrip(" :：") if result.get("refused") else ""


def _is_call(message: AnyMessage) -> bool:
    return isinstance(message, ToolMessage) or (isinstance(message, AIMessage) and bool(message.tool_calls))


def _update(
    state: SubTaskWork, task: SubTask, outcome: Mapping[str, Any], messages: list[AnyMessage]
) -> LifecycleState:
    task_id, error, total = state["task_id"], outcome["error"], state["total"]
    details: dict[str, Any] = {"task_id": task.step_id}
    if error:
        details |= {"error": error, "result": outcome["answer"], "progress": state["completed"] / total}
        event = engine_event(task_id, EngineEventType.TASK_FAILED, {**details, "skipped": False})
    else:
        details |= {"result": outcome["answer"], "progress": (state["completed"] + 1) / total}
        event = engine_event(task_id, EngineEventType.TASK_COMPLETED, details)
    kept = {"step_id": task.step_id, "history": [], "calls": [], "unknown": [], "usage": {}, **outcome}
    (done,) = ended([task], [kept])
    return {"messages": messages, "outcomes": [kept], "events": announce(step_event(done, {"task_id": task_id}), event)}


def brief(state: SubTaskWork, task: SubTask, work: NodeContext) -> dict[str, Any]:
    """The react graph's input."""
    assignment: Assignment = {
        "task_id": state["task_id"],
        "language": state["language"],
        "started_at": state["started_at"],
        "done": list(state["calls"]),
    }
    messages = [*_before(state, task, work), _instructions(state, task, work)]
    return {"messages": [*messages, *_made(state, task)], "assignment": assignment}


def _instructions(state: SubTaskWork, task: SubTask, work: NodeContext) -> HumanMessage:
    kept = {**_BRIEF, **naming(state.get("attachments", []))}
    return HumanMessage(_task_text(task, work.tools), additional_kwargs=kept)


def _task_text(task: SubTask, tools: Mapping[str, Tool]) -> str:
    """The description, followed by the call of a task that names a tool with everything that the tool requires."""
    tool = tools.get(task.action)
    if tool is None or any(name not in task.params for name in tool.spec["function"]["parameters"].get("required", ())):
        return task.description
    return f"{task.description}: {task.action}({as_json(task.params)})"


_BRIEF = {"brief": True}
"""Marks a subtask's instructions, which are not part of the thread's history."""


def _before(state: SubTaskWork, task: SubTask, work: NodeContext) -> list[AnyMessage]:
    """The message before the task itself; none where it would say nothing."""
    rules, knowledge = (state["context"].get(kind, []) for kind in ("rules", "knowledge"))
    if not (rules or knowledge or state["needed"]) and state["goal"] == task.description:
        return []
    language, budget = state["language"], work.agent.budget
    nothing = phrase("none_given", language)
    entries = [
        {"task": _task_text(SubTask(**need), work.tools), "result": {"success": need["answer"]}}
        for need in state["needed"]
    ]
    shown = truncate_together(entries, budget.result_chars, budget.prompt_tokens // 4)
    results = [f"{entry['task']}: {as_text(entry['result']['success'])}" for entry in shown]
    parts = {"rules": rules, "knowledge": knowledge, "results": results}
    texts = {name: "\n".join(f"- {item}" for item in items) or nothing for name, items in parts.items()}
    goal = truncate(state["goal"], budget.prompt_tokens // 4)
    return [HumanMessage(render("subtask", language, goal=goal, **texts), additional_kwargs=_BRIEF)]


def _made(state: SubTaskWork, task: SubTask) -> list[AnyMessage]:
    """The calls that the task made before it was interrupted, as its history."""
    calls = [
        Settled(f"{task.step_id}-{place}", call["name"], call["arguments"], call["result"])
        for place, call in enumerate(state["calls"])
    ]
    return exchange("", calls) if calls else []
