"""One node a mode: hand its graph a window of the history, take back what is new."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.graph.state import CompiledStateGraph

from segue.core.events import Answer, Fallback, Token
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.history_window import window
from ..shared.task import Assignment, before_objective, compose_result
from ..shared.tool_messages import calls_in
from .state import ChatNode, ChatState, ChatUpdate

ModeGraph = CompiledStateGraph[Any, Any, Any, Any]

FALLBACKS: Mapping[str, str] = {"direct": "react", "plan": "react", "plan_react": "react"}
"""The fallback of each mode that fails."""


def run_mode(name: str, graph: ModeGraph) -> ChatNode:
    """The node of one mode.

    The graph is given `messages` (the window, ending with the user's message) and `assignment`; it returns `messages`
    with its own appended, and may return `result` and `gave_up` (why another mode should take over).
    """

    async def run(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Carry the task in this mode."""
        work = node_context(runtime)
        budget = work.agent.budget
        past = before_objective(state["messages"])
        since = state["messages"][len(past) :]
        given = [*window(past, budget.prompt_tokens, budget.result_chars), *since]
        inherited: Assignment = {
            "task_id": state["task_id"],
            "language": state["language"],
            "usage": state["usage"],
            "started_at": state["started_at"],
            "done": calls_in(since),
        }
        out = await graph.ainvoke({"messages": given, "assignment": inherited}, context=runtime.context)
        fresh: list[AnyMessage] = [m.model_copy(update={"id": None}) for m in out["messages"][len(given) :]]
        if out.get("gave_up") and name in FALLBACKS:
            return _fall_back(state, name, out, fresh)
        if out.get("result"):
            return {"messages": fresh, "result": out["result"], "gave_up": ""}
        return _plain(state, name, fresh, work)

    return run


def _fall_back(state: ChatState, name: str, out: Mapping[str, Any], fresh: list[AnyMessage]) -> ChatUpdate:
    """What was done and used so far goes along, so that nothing is done twice."""
    why, other = out["gave_up"], FALLBACKS[name]
    fallback = Fallback(task_id=state["task_id"], from_mode=name, to_mode=other, reason=why)
    usage = out.get("usage") or state["usage"]
    return {"messages": fresh, "usage": usage, "gave_up": why, "mode": other, "events": announce(fallback)}


def _plain(state: ChatState, name: str, fresh: list[AnyMessage], work: NodeContext) -> ChatUpdate:
    """A graph that returns no result: its last assistant message is the answer."""
    answers = [m.text for m in fresh if m.type == "ai" and m.text]
    answer = answers[-1] if answers else ""
    if answer:
        work.emit(Token(task_id=state["task_id"], content=answer))
    result = compose_result(name, answer, error="" if answer else phrase("no_answer", state["language"], mode=name))
    return {
        "messages": fresh,
        "result": result,
        "gave_up": "",
        "events": announce(Answer(task_id=state["task_id"], answer=answer)),
    }
