"""Calls that the task's client carries out: which ones wait together, and the results that it sends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from segue.core.calls import CallResult, PendingCall
from segue.core.tools import Tool
from segue.tools.adapters.client import ClientTool, Results, ask_client, client_call
from segue.tools.bound_tool import BadArguments, idempotency_key


def marked(
    calls: Sequence[PendingCall], tools: Mapping[str, Tool], refuse: Callable[[PendingCall], CallResult | None]
) -> list[PendingCall] | None:
    """The calls, the first ones marked that wait together for the client; None if the first one is not the client's."""
    count = 0
    for call in calls:
        tool = tools.get(call["name"])
        if not isinstance(tool, ClientTool) or "brought" in call or refuse(call) or not _fits(call, tool):
            break
        count += 1
        if not tool.parallel:
            break
    waiting: list[PendingCall] = [{**call, "awaited": True} for call in calls[:count]]
    return [*waiting, *calls[count:]] if waiting else None


def with_client_results(calls: Sequence[PendingCall], tools: Mapping[str, Tool]) -> list[PendingCall]:
    """The calls with the results that the client sends of the marked ones.

    The graph is interrupted until it has sent at least one; the others are asked for again.
    """
    asked = [call for call in calls if call.get("awaited")]
    first = tools[asked[0]["name"]]
    assert isinstance(first, ClientTool)
    forms = [client_call(_id(call), call["name"], call["arguments"]) for call in asked]
    results = ask_client(forms, first.language)
    return [_answered(call, results) for call in calls]


def _answered(call: PendingCall, results: Results) -> PendingCall:
    rest: PendingCall = {**call}
    if rest.pop("awaited", False) and (call_id := _id(call)) in results:
        return {**rest, "brought": {call_id: results[call_id]}}
    return rest


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
