"""Calls that the task's client carries out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from segue.core.calls import CallResult, PendingCall
from segue.core.tools import Tool
from segue.tools.adapters.client import ClientTool, ask_client, client_call
from segue.tools.bound_tool import BadArguments
from segue.tools.calls.context import idempotency_key


def with_client_results(
    calls: Sequence[PendingCall], tools: Mapping[str, Tool], refuse: Callable[[PendingCall], CallResult | None]
) -> list[PendingCall] | None:
    """The calls with the results that the client sends of the first ones, which wait together for them.

    The graph is interrupted until it has sent at least one. None if the first call is not the client's.
    """
    asked: list[tuple[PendingCall, ClientTool]] = []
    for call in calls:
        tool = tools.get(call["name"])
        if not isinstance(tool, ClientTool) or "brought" in call or refuse(call) or not _fits(call, tool):
            break
        asked.append((call, tool))
        if not tool.parallel:
            break
    if not asked:
        return None
    forms = [client_call(_id(call), call["name"], call["arguments"]) for call, _ in asked]
    results = ask_client(forms, asked[0][1].language)
    return [
        {**call, "brought": {call_id: results[call_id]}} if (call_id := _id(call)) in results else call
        for call in calls
    ]


def with_result(tools: Mapping[str, Tool], call: PendingCall) -> Mapping[str, Tool]:
    """The tools, that of the call with the result that the client sent."""
    tool = tools.get(call["name"])
    if "brought" not in call or not isinstance(tool, ClientTool):
        return tools
    return {**tools, call["name"]: replace(tool, results=call["brought"])}


def _fits(call: PendingCall, tool: ClientTool) -> bool:
    """Whether the client can be asked for the call; what is wrong with it otherwise, running it says."""
    try:
        tool.check(call["arguments"])
    except BadArguments:
        return False
    return True


def _id(call: PendingCall) -> str:
    return idempotency_key(call["origin"], call["name"], call["arguments"])
