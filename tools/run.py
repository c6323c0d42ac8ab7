"""Run one tool call: exactly one outcome, never twice, whatever the tool does."""

import asyncio
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.errors import GraphBubbleUp

from segue.errors import SegueError, listed
from segue.services import CallKey, Ledger, Tool

from .registry import BadArguments

STACK_CHARS = 2_000
"""Characters of a stack trace that are kept; its end says most."""


@dataclass(frozen=True)
class Outcome:
    """What a call came to: `result` is {"success": value} or {"error": text, …}; `seconds` of wall-clock time."""

    result: dict[str, Any]
    seconds: float

    @property
    def failed(self) -> bool:
        return "error" in self.result


async def run_call(
    tools: Mapping[str, Tool],
    name: str,
    arguments: Mapping[str, Any],
    key: CallKey,
    ledger: Ledger | None,
    default_timeout: float,
) -> Outcome:
    """Carry out one call through the ledger; a call that was finished before gives its stored result."""
    started = time.monotonic()
    if ledger is None:
        return Outcome(await _attempt(tools, name, arguments, default_timeout), time.monotonic() - started)
    claim = await ledger.claim(key, name, arguments)
    if claim.state == "finished":
        return Outcome(dict(claim.outcome or {}), 0.0)
    if claim.state == "interrupted" and not (name in tools and tools[name].idempotent):
        result = _unknown_outcome(name)
    else:
        result = await _attempt(tools, name, arguments, default_timeout)
    await ledger.settle(key, result)
    return Outcome(result, time.monotonic() - started)


def _unknown_outcome(name: str) -> dict[str, Any]:
    return {
        "error": f"unknown_outcome: {name} was under way when its process stopped, so it may or may not have taken "
        "effect. It was not run again: check what it did before calling it once more.",
        "unknown_outcome": True,
    }


async def _attempt(
    tools: Mapping[str, Tool], name: str, arguments: Mapping[str, Any], default_timeout: float
) -> dict[str, Any]:
    tool = tools.get(name)
    if tool is None:
        return {"error": f"There is no tool «{name}»; the tools are: {listed(tools)}."}
    seconds = tool.timeout or default_timeout
    try:
        async with asyncio.timeout(seconds):
            value = await tool.call(arguments)
    except (GraphBubbleUp, SegueError):
        raise
    except BadArguments as error:
        return {"error": f"The arguments of {name} do not fit: {error}."}
    except TimeoutError:
        return {"error": f"{name} took longer than {seconds:g} s and was given up."}
    except Exception as error:  # noqa: BLE001 - the one seam: a tool may raise anything, and the task goes on
        return {"error": f"{type(error).__name__}: {error}", "stack": _stack(error)}
    return {"success": _json_value(value)}


def _stack(error: Exception) -> str:
    return "".join(traceback.format_exception(error))[-STACK_CHARS:]


def _json_value(value: Any) -> Any:
    """The value as JSON holds it; what JSON cannot say becomes its text."""
    return json.loads(json.dumps(value, ensure_ascii=False, default=str))
