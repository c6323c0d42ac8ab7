"""The prompt of one recursion: the request, the system prompt with the live state, and the records so far."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from segue.agents import Agent
from segue.prompts.load import fill, has_slot, render, template

from ..budgeting import as_json, conversation, cut, cut_result, tokens
from ..compaction import window
from ..context import Bench
from ..objective import before_objective
from ..showing_tools import described
from .state import ReactState

LINE_CHARS = 160
LINES = 60


def current_state(state: ReactState, work: Bench, earlier: Sequence[str]) -> dict[str, Any]:
    """The snapshot that stands in the system prompt; `earlier` are records that were too old to be shown whole."""
    budget = work.agent.budget
    past = window(before_objective(state["messages"]), budget.prompt_tokens // 4, budget.result_chars)
    last = state["records"][-1] if state["records"] else None
    return {
        "global": {
            "task_id": state["task_id"],
            "iteration": state["iteration"],
            "max_iteration": work.agent.max_iteration,
            "status": "running",
        },
        "current_recursion": {"trace_id": state["trace_id"]},
        "context": {
            "objective": state["objective"],
            "constraints": {"tool_calls_left": budget.tool_calls - state["tool_calls"]},
            "plan": [_step(step) for step in state["plan"]],
            "memory": list(earlier),
            "conversation": conversation(past, budget.result_chars),
        },
        "last_recursion": _last(last),
    }


def _step(step: dict[str, Any]) -> dict[str, Any]:
    shown = ("step_id", "description", "status", "note", "action", "params")
    return {name: step[name] for name in shown if step.get(name)}


def _last(record: dict[str, Any] | None) -> dict[str, Any] | None:
    if record is None:
        return None
    kept = {name: record[name] for name in ("trace_id", "iteration", "action_type")}
    return {**kept, "failed": bool(record.get("error"))}


def record_text(record: dict[str, Any], result_chars: int) -> str:
    """A record as the assistant message that stands for it, its results bounded."""
    shown: dict[str, Any] = {
        "observe": record.get("observe", ""),
        "thought": record.get("thought", ""),
        "action": {"result": {"action_type": record["action_type"], "output": record.get("output", {})}},
    }
    if record.get("results"):
        shown["result"] = [
            {
                "function": {
                    "name": o["name"],
                    "arguments": o["arguments"],
                    "result": cut_result(o["result"], result_chars),
                }
            }
            for o in record["results"]
        ]
    if record.get("error"):
        shown["error_log"] = cut(record["error"], result_chars)
    return as_json(shown)


def recent(records: Sequence[dict[str, Any]], most_tokens: int, result_chars: int) -> tuple[list[str], list[str]]:
    """The newest records whole, as many as fit, and a line for each older one."""
    whole: list[str] = []
    used = 0
    for record in reversed(records):
        text = record_text(record, result_chars)
        used += tokens(text)
        if whole and used > most_tokens:
            break
        whole.insert(0, text)
    older = records[: len(records) - len(whole)]
    return whole, [_line(record) for record in older[-LINES:]]


def _line(record: dict[str, Any]) -> str:
    outcome = "error" if record.get("error") else "ok"
    names = ", ".join(o["name"] for o in record.get("results", ()))
    return cut(
        f"#{record['iteration']} {record['action_type']} {names} {outcome}: {record.get('thought', '')}", LINE_CHARS
    )


def prompt(state: ReactState, work: Bench) -> list[BaseMessage]:
    """[0] the user's request, [1] the system prompt, [2…] the records; `system_first` agents get the system first."""
    agent, language = work.agent, state["language"]
    budget = agent.budget
    whole, earlier = recent(state["records"], budget.prompt_tokens // 2, budget.result_chars)
    system = SystemMessage(_system(agent, language, work, as_json(current_state(state, work, earlier))))
    user = HumanMessage(state["objective"])
    records = [AIMessage(text) for text in whole]
    if not agent.system_first:
        return [user, system, *records]
    nudge = HumanMessage(template("nudge", language))
    return [system, user, *records, *([nudge] if records else [])]


def _system(agent: Agent, language: str, work: Bench, snapshot: str) -> str:
    own = agent.prompt or template("agent", language)
    slots = {"current_state": snapshot, "tools": described(work.tools, language)}
    text = render("react", language, agent_prompt=fill(own, **slots), tools=slots["tools"])
    if has_slot(own, "current_state"):
        return text
    return f"{text}\n\n{render('state', language, current_state=snapshot)}"


def view(state: ReactState, work: Bench) -> dict[str, Any]:
    """What the prompt was rendered from, for a model that plans from data."""
    results = [outcome for record in state["records"] for outcome in record.get("results", ())]
    last = state["records"][-1] if state["records"] else {}
    return {
        "language": state["language"],
        "objective": state["objective"],
        "conversation": conversation(before_objective(state["messages"]), work.agent.budget.result_chars),
        "results": results,
        "plan": state["plan"],
        "error": last.get("error"),
    }
