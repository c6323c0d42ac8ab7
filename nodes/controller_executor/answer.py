"""ANSWER: an intermediate answer goes to the person, and the flow continues."""

from segue.core.events import BranchEnd, Token
from segue.prompts.catalogue import phrase

from ..shared.context import NodeRuntime, announce, node_context
from .branches import ids_of
from .outcome import outcome_of
from .state import FlowState, FlowUpdate


async def answer(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
    """Keep the intermediate answer: the final answer follows it."""
    call, ids = state["call"] or {}, ids_of(state)
    text = str(call["arguments"].get("answer") or "")
    node_context(runtime).emit(Token(content="\n\n", **ids))
    language = state["language"]
    needed = phrase("branch_needs", language, branch=call["name"], argument="answer")
    result = {"success": phrase("flow_said", language)} if text else {"error": needed}
    outcome = {**outcome_of(call["name"], "built_in", call["arguments"], result, state), "said": text}
    about = {name: outcome[name] for name in ("branch", "kind", "result", "summary")}
    return {"call": None, "outcome": outcome, "events": announce(BranchEnd(**about, **ids))}
