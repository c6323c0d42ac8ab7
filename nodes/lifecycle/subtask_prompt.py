"""The prompt of a subtask: its description, the goal, the rules, and the results of the tasks that it depends on."""

from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from segue.core.attachments import naming
from segue.core.subtasks import SubTask
from segue.prompts.load import render

from ..shared.context import NodeContext
from ..shared.prompt_budget import as_json, truncate, truncate_together
from ..shared.task import Assignment
from ..shared.tool_messages import Settled, exchange
from .state import SubTaskWork


def brief(state: SubTaskWork, task: SubTask, work: NodeContext) -> dict[str, Any]:
    """The react graph's input."""
    assignment: Assignment = {
        "task_id": state["task_id"],
        "language": state["language"],
        "started_at": state["started_at"],
        "done": list(state["calls"]),
    }
    messages = [*_before(state, task, work), _instructions(state, task)]
    return {"messages": [*messages, *_made(state, task)], "assignment": assignment}


def _instructions(state: SubTaskWork, task: SubTask) -> HumanMessage:
    return HumanMessage(task.description, additional_kwargs={**_BRIEF, **naming(state.get("attachments", []))})


_BRIEF = {"brief": True}
"""Marks a subtask's instructions, which are not part of the thread's history."""


def _before(state: SubTaskWork, task: SubTask, work: NodeContext) -> list[AnyMessage]:
    """The message before the task itself; none where it would say nothing."""
    rules, knowledge = (state["context"].get(kind, []) for kind in ("rules", "knowledge"))
    if not (rules or knowledge or state["needed"]) and state["goal"] == task.description:
        return []
    language, budget = state["language"], work.agent.budget
    nothing = "（无）" if language == "zh" else "(none)"
    entries = [{"task": need["description"], "result": {"success": need["answer"]}} for need in state["needed"]]
    shown = truncate_together(entries, budget.result_chars, budget.prompt_tokens // 4)
    results = [f"{entry['task']}: {_said(entry['result']['success'])}" for entry in shown]
    parts = {"rules": rules, "knowledge": knowledge, "results": results}
    texts = {name: "\n".join(f"- {item}" for item in items) or nothing for name, items in parts.items()}
    goal = truncate(state["goal"], budget.prompt_tokens // 4)
    return [HumanMessage(render("subtask", language, goal=goal, **texts), additional_kwargs=_BRIEF)]


def _said(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def _made(state: SubTaskWork, task: SubTask) -> list[AnyMessage]:
    """The calls that the task made before it was interrupted, as its history."""
    calls = [
        Settled(f"{task.step_id}-{place}", call["name"], call["arguments"], call["result"])
        for place, call in enumerate(state["calls"])
    ]
    return exchange("", calls) if calls else []
