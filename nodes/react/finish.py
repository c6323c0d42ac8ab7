"""FINISH: the budget is spent; say so, with what was found."""

from langchain_core.messages import AIMessage

from segue.core.events import Token

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.task import end_task, unfinished
from .call_limits import limit_reached
from .records import ids_of, react_result, whole_answer
from .state import ReactState, ReactUpdate


async def finish(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """End the task as an error that keeps what was found."""
    language, why = state["language"], state["spent"]
    text = unfinished([outcome for record in state["records"] for outcome in record["results"]], why, language)
    work, ids = node_context(runtime), ids_of(state)
    work.emit(Token(content=text, **ids))
    whole = whole_answer(state, text)
    limit = limit_reached(state, work)
    result = react_result(state, whole, work.agent.budget.result_chars, error=why, limit=limit)
    return {
        "messages": [AIMessage(text)],
        "result": result,
        "events": announce(*end_task(state, result, failure=why, **ids)),
    }
