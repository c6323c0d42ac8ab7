"""FINISH: the budget is spent; say so, with what was found."""

from langchain_core.messages import AIMessage

from segue.core.events import Answer, ErrorRaised, TaskComplete, Token
from segue.prompts.phrases import phrase

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.prompt_budget import as_json, truncate
from .records import ids_of, react_result, whole_answer
from .state import ReactState, ReactUpdate

FOUND_CHARS = 400


async def finish(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """End the task as an error that keeps what was found."""
    language, why = state["language"], state["spent"]
    text = phrase("unfinished", language, why=why, found=_found(state) or phrase("nothing_found", language))
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


def _found(state: ReactState) -> str:
    """A line for each successful call."""
    succeeded = [o for record in state["records"] for o in record["results"] if "success" in o["result"]]
    return "\n".join(f"- {o['name']}: {truncate(as_json(o['result']['success']), FOUND_CHARS)}" for o in succeeded)
