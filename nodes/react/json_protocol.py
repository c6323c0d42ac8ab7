"""The json protocol: the user's request, the system prompt with the live state, and a record for each past round."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from segue.core.decision import Decision, decode
from segue.core.errors import UnreadableReply
from segue.core.models import ModelReply, ModelRequest
from segue.core.tools import Tool
from segue.prompts.catalogue import phrase
from segue.prompts.load import agent_prompt, has_slot, render, template

from ..shared.attached_files import size_of
from ..shared.context import NodeContext
from ..shared.history_window import kept_from, window
from ..shared.model_call import refuse_quotation
from ..shared.prompt_budget import as_json, conversation, tokens, truncate, truncate_result
from ..shared.task import attachments_of, before_objective, objective_message
from ..shared.tool_schemas import described, envelope_schema
from .call_limits import is_repeating
from .prompt_state import MEMORY_SHARE, available_tools, current_state, has_truncated, line_of, offered
from .state import ReactState


def request(state: ReactState, work: NodeContext) -> ModelRequest:
    """[0] the user's request, [1] the system prompt, [2…] the records.

    Agents with `state="last"` get a static system prompt first and the state in a closing user message; `system_first`
    agents get the system first.
    """
    budget, tools = work.agent.budget, offered(available_tools(state, work), work)
    past = window(before_objective(state["messages"]), budget.prompt_tokens // 4, budget.result_chars)
    spoken = conversation(past, budget.result_chars)
    rendered, records = work.services.renderings.each, state["records"]
    first = kept_from(rendered(_size, records, budget.result_chars), _room(state, work, tools, spoken))
    texts = rendered(record_text, records[first:], budget.result_chars)
    if not first and not has_truncated(past, budget.result_chars) and not any(_TRUNCATED in text for text in texts):
        tools = offered(work.tools, work)
    memory = map(line_of, reversed(records[:first]))
    return ModelRequest(
        purpose="decide",
        messages=_ordered(state, work, tools, (memory, spoken), [AIMessage(text) for text in texts]),
        schema=envelope_schema(tools, _offered(state, work), planned=bool(state["plan"])),
        tools=[tool.spec for tool in tools.values()],
        nudge=template("nudge", state["language"])
        if texts and not (work.agent.system_first or work.state_last)
        else "",
    )


_TRUNCATED = " more characters: recall(ref="
"""In the text of a record whose result is truncated."""


def _size(record: dict[str, Any], result_chars: int) -> int:
    return tokens(record_text(record, result_chars))


def _offered(state: ReactState, work: NodeContext) -> tuple[str, ...]:
    """The actions that make sense now: no plan after a plan, no repair where nothing failed, no endless repeats.

    Where the client requires a call there is nothing else.
    """
    last = state["records"][-1] if state["records"] else {"action_type": "", "error": ""}
    if work.services.reply_options.required_tool:
        return ("CALL_TOOL", *(("REMEND",) if last["error"] else ()))
    if is_repeating(state):
        return ("ANSWER",)
    plan = () if last["action_type"] == "PLAN" and not last["error"] else ("PLAN",)
    return ("CALL_TOOL", *plan, *(("REMEND",) if last["error"] else ()), "ANSWER")


def _room(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], spoken: Sequence[Any]) -> int:
    """Tokens that are left for records beside the request, its files, the system prompt and the memory's share."""
    most = work.agent.budget.prompt_tokens
    bare = _system(state, work, tools, as_json(current_state(state, work, (), spoken)))
    asked = tokens(state["objective"]) + size_of(attachments_of(state["messages"]), work)
    return max(most // 8, most - most // MEMORY_SHARE - tokens(bare) - asked)


def read(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision:
    """Read the envelope.

    Raises:
        UnreadableReply: it is none, it was truncated, or it quotes a tool's result.
    """
    if reply.finish_reason == "length":
        raise UnreadableReply("The reply was truncated at its length limit: write a shorter one.")
    results = (outcome["result"] for record in state["records"] for outcome in record["results"])
    refuse_quotation(reply.text, results, work.services.renderings)
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
    state: ReactState,
    work: NodeContext,
    tools: Mapping[str, Tool],
    earlier: tuple[Iterable[str], Sequence[Any]],
    records: Sequence[AIMessage],
) -> list[BaseMessage]:
    """The messages; `earlier` are the lines of rounds that no longer fit, newest first, and the earlier turns."""
    memory, spoken = earlier
    user, nudge = objective_message(state), template("nudge", state["language"])
    if work.state_last:
        snapshot = as_json(current_state(state, work, memory, ()))
        live = render("native_state", state["language"], current_state=snapshot)
        closing = HumanMessage(f"{live}\n\n{nudge}" if records else live)
        return [SystemMessage(_static_system(state, work, tools, spoken)), user, *records, closing]
    system = SystemMessage(_system(state, work, tools, as_json(current_state(state, work, memory, spoken))))
    if not work.agent.system_first:
        return [user, system, *records]
    return [system, user, *records, *([HumanMessage(nudge)] if records else [])]


def _system(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], snapshot: str) -> str:
    text = _instructions(state, work, tools, snapshot)
    if has_slot(work.agent.prompt, "current_state"):
        return text
    return f"{text}\n\n{render('state', state['language'], current_state=snapshot)}"


def _static_system(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], spoken: Sequence[Any]) -> str:
    """The system prompt without the state: the same in every round of a task."""
    text = _instructions(state, work, tools, phrase("state_last", state["language"]))
    return f"{text}\n\n{as_json({'conversation': list(spoken)})}" if spoken else text


def _instructions(state: ReactState, work: NodeContext, tools: Mapping[str, Tool], snapshot: str) -> str:
    language = state["language"]
    shown = described(tools, language, work.services.renderings)
    own = agent_prompt(work.agent, language, state["objective"], current_state=snapshot, tools=shown)
    return render("react", language, agent_prompt=own, tools=shown)
