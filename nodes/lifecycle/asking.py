"""What a model is asked when a goal is to be broken down."""

from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.ports import ModelRequest
from segue.prompts.load import agent_prompt, render

from ..shared.context import NodeContext
from ..shared.history_window import window
from ..shared.prompt_budget import as_json, conversation
from ..shared.task import before_objective
from ..shared.tool_schemas import MOST_STEPS, described
from .state import LifecycleState

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


def decomposition(state: LifecycleState, work: NodeContext) -> ModelRequest:
    """The request; after a complaint it says what is wrong with the tasks that were written before."""
    budget, language = work.agent.budget, state["language"]
    earlier = before_objective(state["messages"])
    past = conversation(window(earlier, budget.prompt_tokens // 4, budget.result_chars), budget.result_chars)
    known: dict[str, Any] = {"conversation": past} | {k: v for k, v in state["context"].items() if k != "tools"}
    if state["complaint"]:
        known["problem"] = state["complaint"]
    own = agent_prompt(work.agent, language)
    tools = "\n".join(f"- {line}" for line in state["context"].get("tools", ())) or described(work.tools, language)
    system = render("decompose", language, agent_prompt=own, tools=tools, current_state=as_json(known))
    return ModelRequest(
        purpose="plan",
        messages=[SystemMessage(system), HumanMessage(state["objective"])],
        schema=TASKS_SCHEMA,
        tools=[tool.spec for tool in work.tools.values()],
    )
