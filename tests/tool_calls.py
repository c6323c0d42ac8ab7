"""A tool call as the graphs make it, through the ledger."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from segue.core.calls import CallKey, Execution, Ledger, Tool
from segue.nodes.calls import run_once
from segue.tools.bound_tool import idempotency_key
from segue.tools.calls import TOOLS


class Outcome(NamedTuple):
    """The result in the form of the ledger, and the seconds it took."""

    result: dict[str, Any]
    seconds: float


async def run_call(
    tools: Mapping[str, Tool],
    name: str,
    arguments: Mapping[str, Any],
    key: CallKey,
    ledger: Ledger | None,
    seconds: float,
    approved: bool = False,
) -> Outcome:
    """Carry out one call."""
    execution = Execution(
        key=key,
        name=name,
        arguments=arguments,
        tools=tools,
        timeout=seconds,
        approved=approved,
        idempotency_key=idempotency_key(f"{key.task_id}/{key.scope}/{key.index}", name, arguments),
    )
    result, took = await run_once(TOOLS, ledger, execution)
    return Outcome(result.json(), took)
