"""The json protocol: the user's request, the system prompt with the live state, and a record for each past round."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from segue.core.decision import Decision, decode
from segue.core.errors import UnreadableReply
from segue.core.models import ModelReply, ModelRequest
from segue.prompts.load import agent_prompt, has_slot, render, template

from ..shared.context import NodeContext
from ..shared.history_window import kept_from, window
from ..shared.prompt_budget import as_json, conversation, tokens, truncate, truncate_result
from ..shared.quotation import refuse_quotation
from ..shared.task import before_objective
from ..shared.tool_schemas import described, envelope_schema
from .call_limits import stuck
from .prompt_state import MEMORY_SHARE, current_state, line_of, tools_at_hand
from .state import ReactState


def request(state: ReactState, work: NodeContext) -> ModelRequest:
    """[0] the user's request, [1] the system prompt, [2…] the records; `system_first` agents get the system first."""
    budget, tools = work.agent.budget, tools_at_hand(state, work)
    past = window(before_objective(state["messages"]), budget.prompt_tokens // 4, budget.result_chars)
    spoken = conversation(past, budget.result_chars)
    texts = [record_text(record, budget.result_chars) for record in state["records"]]
    first = kept_from([tokens(text) for text in texts], _room(state, work, spoken))
    memory = [line_of(record) for record in state["records"][:first]]
    system = SystemMessage(_system(state, work, as_json(current_state(state, work, memory, spoken))))
    return ModelRequest(
        purpose="decide",
        messages=_ordered(state, work, system, [AIMessage(text) for text in texts[first:]]),
        schema=envelope_schema(tools, _offered(state)),
        tools=[tool.spec for tool in tools.values()],
        nudge=template("nudge", state["language"]) if texts and not work.agent.system_first else "",
    )


def _offered(state: ReactState) -> tuple[str, ...]:
    """The actions that make sense now: no plan after a plan, no repair where nothing failed, no endless repeats."""
    if stuck(state):
        return ("ANSWER",)
    last = state["records"][-1] if state["records"] else {"action_type": "", "error": ""}
    plan = () if last["action_type"] == "PLAN" and not last["error"] else ("PLAN",)
    return ("CALL_TOOL", *plan, *(("REMEND",) if last["error"] else ()), "ANSWER")


def _room(state: ReactState, work: NodeContext, spoken: Sequence[Any]) -> int:
    """Tokens that are left for records beside the request, the system prompt and the memory's share."""
    most = work.agent.budget.prompt_tokens
    bare = _system(state, work, as_json(current_state(state, work, (), spoken)))
    return max(most // 8, most - most // MEMORY_SHARE - tokens(bare) - tokens(state["objective"]))


def read(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision:
    """Read the envelope.

    Raises:
        UnreadableReply: it is none, it was truncated, or it quotes a tool's result.
    """
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit: write a shorter one.")
    refuse_quotation(reply.text, (outcome["result"] for record in state["records"] for outcome in record["results"]))
    return decode(reply.text)


def record_text(record: dict[str, Any], result_chars: int) -> str:
    """A record as the assistant message that represents it, its results bounded."""
    shown: dict[str, Any] = {
        "observe": record.get("observe", ""),
        "thought": record.get("thought", ""),
        "action": {"result": {"action_type": record["action_type"], "output": record.get("output", {})}},
    }
    if record.get("results"):
        shown["result"] = [
            {
                "function": {
                    **{k: o[k] for k in ("name", "original", "arguments") if k in o},
                    "result": truncate_result(o["result"], result_chars, o["ref"]),
                }
            }
            for o in record["results"]
        ]
    if record.get("error"):
        shown["error_log"] = truncate(record["error"], result_chars)
    return as_json(shown)


def _ordered(
    state: ReactState, work: NodeContext, system: SystemMessage, records: Sequence[AIMessage]
) -> list[BaseMessage]:
    user = HumanMessage(state["objective"])
    if not work.agent.system_first:
        return [user, system, *records]
    nudge = HumanMessage(template("nudge", state["language"]))
    return [system, user, *records, *([nudge] if records else [])]


def _system(state: ReactState, work: NodeContext, snapshot: str) -> str:
    language = state["language"]
    tools = described(tools_at_hand(state, work), language)
    own = agent_prompt(work.agent, language, state["objective"], current_state=snapshot, tools=tools)
    text = render("react", language, agent_prompt=own, tools=tools)
    if has_slot(work.agent.prompt, "current_state"):
        return text
    return f"{text}\n\n{render('state', language, current_state=snapshot)}"
