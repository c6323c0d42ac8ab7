"""Calls of a batch that the task's client carries out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from segue.core.tools import Tool
from segue.tools.adapters.client import ClientTool, Results, ask_client, client_call
from segue.tools.bound_tool import BadArguments
from segue.tools.calls.context import idempotency_key

from ..shared.context import NodeContext
from .call_limits import refusal
from .state import ReactState, ReactUpdate

Call = dict[str, Any]


def origin_of(call: Mapping[str, Any], state: ReactState) -> str:
    """The part of a call's idempotency key that forks keep."""
    return f"{state['trace_id']}/{call['index']}"


def awaited(state: ReactState, tools: Mapping[str, Tool], work: NodeContext) -> Sequence[tuple[Call, ClientTool]]:
    """The calls that the client has to carry out before anything else of the batch can run."""
    found: list[tuple[Call, ClientTool]] = []
    for call in state["calls"]:
        tool = tools.get(call["name"])
        if not isinstance(tool, ClientTool) or not _waits(call, tool, state, work):
            break
        found.append((call, tool))
        if not tool.parallel:
            break
    return found


def _waits(call: Call, tool: ClientTool, state: ReactState, work: NodeContext) -> bool:
    """Whether the client has to be asked for the call; what is wrong with it otherwise, running it says."""
    if "brought" in call or refusal(call, state, work.agent.budget.tool_calls):
        return False
    try:
        tool.check(call["arguments"])
    except BadArguments:
        return False
    return True


def ask_for_results(asked: Sequence[tuple[Call, ClientTool]], state: ReactState) -> ReactUpdate:
    """Have the client carry out these calls; the graph is interrupted until it has sent a result of at least one."""
    calls = [client_call(_id(call, state), call["name"], call["arguments"]) for call, _ in asked]
    results = ask_client(calls, asked[0][1].language)
    return {"calls": [_with_brought(call, results, state) for call in state["calls"]]}


def _with_brought(call: Call, results: Results, state: ReactState) -> Call:
    call_id = _id(call, state)
    return {**call, "brought": {call_id: results[call_id]}} if call_id in results else call


def with_result(call: Call, tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """The tools, that of the call with the result that the client brought."""
    tool = tools.get(call["name"])
    if "brought" not in call or not isinstance(tool, ClientTool):
        return tools
    return {**tools, call["name"]: replace(tool, results=call["brought"])}


def _id(call: Call, state: ReactState) -> str:
    return idempotency_key(origin_of(call, state), call["name"], call["arguments"])
