"""What the prompts of a task cost an agent in each protocol."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage

from segue.core.agents import Agent
from segue.core.context import RunContext, Services
from segue.core.decision import ActionType, Decision, RequestedCall
from segue.core.prompt_size import PromptSize, SentPrompts

from ..shared.context import NodeContext
from ..shared.tool_messages import Settled, exchange
from .protocols import protocol_of
from .records import ids_of, key_of, record_of
from .state import ReactState

CALLS, RESULT_CHARS = 20, 1000
"""The task that is measured: so many calls, one a round, each with a result of so many characters."""

PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "json": {"protocol": "json", "state": "inline"},
    'json, state="last"': {"protocol": "json", "state": "last"},
    "native": {"protocol": "native"},
}


def prompt_costs(agent: Agent, services: Services, language: str) -> dict[str, PromptSize]:
    """The characters of all requests of the task by protocol, and those that a request shares with the one before."""
    return {
        name: _cost(NodeContext(services, RunContext(), agent.model_copy(update=dict(fields))), language)
        for name, fields in PROTOCOLS.items()
    }


def _cost(work: NodeContext, language: str) -> PromptSize:
    state, sent, sizes = _begun(work, language), SentPrompts(), []
    protocol = protocol_of(work)
    tool = next(iter(work.tools), "look_up")
    for number in range(CALLS + 1):
        state["iteration"] = number + 1
        sizes.append(sent.add(protocol.request(state, work)))
        call = RequestedCall(name=tool, arguments={"number": number}, call_id=f"call_{number}")
        _record_call(state, call, Decision(action_type=ActionType.CALL_TOOL, tool_calls=(call,)))
    return PromptSize(sum(size.chars for size in sizes), sum(size.prefix_chars for size in sizes))


def _begun(work: NodeContext, language: str) -> ReactState:
    objective = "?" * 100
    messages: list[AnyMessage] = [HumanMessage(objective)]
    return {
        "messages": messages,
        "task_id": work.services.ids.task(),
        "trace_id": work.services.ids.trace(),
        "objective": objective,
        "language": language,
        "plan": [],
        "records": [],
        "calls": [],
        "outcomes": [],
        "tool_calls": 0,
        "repairs": 0,
    }


def _record_call(state: ReactState, call: RequestedCall, decision: Decision) -> None:
    """Add the round of a call to the state."""
    result: dict[str, Any] = {"success": "x" * RESULT_CHARS}
    outcome = {"index": 0, "ref": f"{ids_of(state)['task_id'][:8]}.{state['iteration']}", "result": result}
    record = record_of(state, "CALL_TOOL", decision, [{"name": call.name, "arguments": call.arguments, **outcome}])
    state["records"] = [*state["records"], record]
    settled = Settled(call.call_id, call.name, call.arguments, result, key_of(state, state["iteration"]))
    state["messages"] = [*state["messages"], *exchange("", [settled])]
    state["tool_calls"] += 1
