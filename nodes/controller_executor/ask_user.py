"""ASK_USER: the flow waits for a person's answer."""

from typing import Any

from langgraph.types import interrupt

from segue.core.errors import InvalidAnswer
from segue.core.events import BranchEnd, QuestionAnswered
from segue.core.question import read_answer
from segue.prompts.catalogue import phrase
from segue.prompts.errors import render

from ..shared.context import NodeRuntime, announce
from .branches import ids_of
from .hooks import exit_of, manual_finish
from .outcome import outcome_of
from .state import FlowState, FlowUpdate


async def ask_user(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
    """Interrupt the graph until a person has answered; they may also end the flow."""
    call, ids = state["call"] or {}, ids_of(state)
    question = str(call["arguments"].get("question") or "").strip()
    if not question:
        needed = phrase("branch_needs", state["language"], branch="ask_user", argument="question")
        result = {"error": needed}
        return {"call": None, "outcome": outcome_of("ask_user", "built_in", call["arguments"], result, state)}
    asked: dict[str, Any] = {"kind": "question", "question": question}
    if choices := _choices(call["arguments"].get("choices")):
        asked["choices"] = choices
    while True:
        try:
            answer = read_answer(interrupt(asked))
            break
        except InvalidAnswer as error:
            asked = {**asked, "problem": render(error, state["language"])}
    text = answer.text or phrase("flow_terminated", state["language"])
    outcome = outcome_of("ask_user", "built_in", call["arguments"], {"success": text}, state)
    about = {name: outcome[name] for name in ("branch", "kind", "result", "summary")}
    events = announce(QuestionAnswered(question=question, answer=text, **ids), BranchEnd(**about, **ids))
    ended = exit_of(manual_finish(state)) if answer.manual_finish else None
    return {"call": None, "outcome": outcome, "early_exit": ended, "events": events}


def _choices(given: object) -> list[str]:
    """The answers that the question offers, each once."""
    texts = [text.strip() for text in given if isinstance(text, str)] if isinstance(given, list) else []
    return [*dict.fromkeys(filter(None, texts))]
