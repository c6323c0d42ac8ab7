"""ANSWER: the final answer goes into the history and ends the task."""

from langchain_core.messages import AIMessage

from segue.core.plan import Step

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import answer_steps, step_events
from ..shared.task import end_task
from .records import decision_of, ids_of, react_result, whole_answer
from .state import ReactState, ReactUpdate


async def answer(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Close the plan and write the result."""
    decision = decision_of(state)
    text, chars = decision.answer, node_context(runtime).agent.budget.result_chars
    steps = tuple(Step(**step) for step in state["plan"])
    closed = answer_steps(steps)
    plan = [step.model_dump(mode="json") for step in closed]
    ids = ids_of(state)
    whole = whole_answer(state, text)
    result = react_result({**state, "plan": plan}, whole, chars, decision.thought)
    if decision.truncated:
        result["truncated"] = True
    if decision.malformed:
        result["malformed"] = True
    if decision.refused:
        result["refused"] = True
    return {
        "messages": [AIMessage(text)],
        "plan": plan,
        "result": result,
        "events": announce(*step_events(steps, closed, ids), *end_task(state, result, **ids)),
    }
