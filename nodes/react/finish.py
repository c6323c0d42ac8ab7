"""FINISH: the budget is spent; say so, with what was found."""

from langchain_core.messages import AIMessage

from segue.core.events import Answer, ErrorRaised, TaskComplete, Token

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.task import unfinished
from .records import ids_of, react_result, whole_answer
from .state import ReactState, ReactUpdate


async def finish(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """End the task as an error that keeps what was found."""
    language, why = state["language"], state["spent"]
    text = unfinished([outcome for record in state["records"] for outcome in record["results"]], why, language)
    work, ids = node_context(runtime), ids_of(state)
    work.emit(Token(content=text, **ids))
    whole = whole_answer(state, text)
    result = react_result(state, whole, work.agent.budget.result_chars, error=why)
    ended = [] if state["nested"] else [TaskComplete(status="error", result=result, **ids)]
    return {
        "messages": [AIMessage(text)],
        "result": result,
        "events": announce(ErrorRaised(message=why, final=True, **ids), Answer(answer=whole, **ids), *ended),
    }
