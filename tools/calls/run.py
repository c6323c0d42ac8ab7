"""The execution of one tool call: exactly one outcome, never twice, whatever the tool does."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp

from segue.core.errors import listed
from segue.core.tools import CallKey, Claim, Ledger, Tool

from ..bound_tool import BadArguments, BoundTool
from .context import NOT_DONE, CallContext, current_call, idempotency_key
from .failures import failure
from .json_values import json_value
from .threads import left_a_thread

logger = logging.getLogger(__name__)

GRACE_SECONDS = 1.0
"""How long a cancelled tool may take to tidy up before it counts as one that cannot be stopped."""

_calls: set["asyncio.Task[Result]"] = set()
"""What runs: asyncio itself does not keep tasks alive, and one that cannot be stopped has no other owner."""

Result = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a call came to: `result` is {"success": value} or {"error": text, …}; `seconds` of wall-clock time."""

    result: Result
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
    approved: bool = False,
    context: CallContext | None = None,
) -> Outcome:
    """Carry out one call through the ledger; a call that was finished before gives its stored result.

    `approved`: a person wants it to run. Cancelled in the middle, it leaves the call under way in the ledger: whether
    it took effect is not known. `context` is passed to a tool that declares a parameter for it.
    """
    started = time.monotonic()
    claim = Claim("fresh") if ledger is None else await ledger.claim(key, name, arguments)
    if claim.state == "finished":
        return Outcome(dict(claim.outcome or {}), 0.0)
    tool = tools.get(name)
    current_call.set(context or _context_of(key, name, arguments))
    if tool is None:
        result = _missing(name, tools, claim)
    else:
        result = await _result_of(tool, arguments, claim, tool.timeout or default_timeout, approved)
    if ledger is not None:
        await ledger.settle(key, result)
    return Outcome(result, time.monotonic() - started)


def _context_of(key: CallKey, name: str, arguments: Mapping[str, Any]) -> CallContext:
    origin = f"{key.task_id}/{key.scope}/{key.index}"
    return CallContext(idempotency_key=idempotency_key(origin, name, arguments), tool=name, task_id=key.task_id)


def _missing(name: str, tools: Mapping[str, Tool], claim: Claim) -> Result:
    if claim.state == "interrupted":
        return unknown_outcome(INTERRUPTED.format(name=name))
    return {"error": f'There is no tool "{name}"; the tools are: {listed(tools)}.'}


async def _result_of(tool: Tool, arguments: Mapping[str, Any], claim: Claim, seconds: float, approved: bool) -> Result:
    """Run the call, unless it must not run now or its check knows what it came to."""
    repeatable = tool.idempotent or tool.read_only
    if claim.state == "interrupted":
        current_call.set(replace(current_call.get(), attempt=2))
        settled = None if claim.moved else await _ask_check(tool, arguments, seconds)
        if settled is not NOT_DONE and not (settled is None and repeatable):
            return settled or unknown_outcome(INTERRUPTED.format(name=tool.name))
    if tool.needs_approval and not approved:
        return {"error": f"{tool.name} needs a person's approval and has none, so it was not run."}
    if claim.state == "doubtful" and not (repeatable or approved):
        return {"error": DOUBTFUL.format(name=tool.name), "unknown_outcome": True}
    return await _attempt(tool, arguments, seconds)


async def _ask_check(tool: Tool, arguments: Mapping[str, Any], seconds: float) -> Any:
    """The result that the tool's check gives for an interrupted call, `NOT_DONE`, or None if nothing can tell."""
    check = tool.effect_check if isinstance(tool, BoundTool) else None
    if check is None:
        return None
    known = {name: value for name, value in arguments.items() if name in check.parameters}
    answer = await _attempt(check, known, seconds, lambda value: value if value is NOT_DONE else json_value(value))
    value = answer.get("success")
    if value is None and "error" in answer:
        logger.warning("The check of the tool %s failed: %s", tool.name, answer["error"])
    if value is None or value is NOT_DONE:
        return value
    return answer


def misfit(tool: Tool | None, arguments: Mapping[str, Any]) -> str:
    """Why a tool would not take these arguments, in a line; empty if it would, or if only a call can tell."""
    if not isinstance(tool, BoundTool):
        return ""
    try:
        tool.check(arguments)
    except BadArguments as error:
        return _sentence(str(error))
    except Exception as error:  # noqa: BLE001 - the same seam: a tool's own validator may raise anything
        return _sentence(failure(error)["error"])
    return ""


DOUBTFUL = (
    "unknown_outcome: an earlier call of {name} with the same arguments may or may not have taken effect, so this one "
    "was not run: check what the earlier one did, and tell the user, who may ask for it again in a new message."
)
INTERRUPTED = (
    "{name} was under way when its process stopped, so it may or may not have taken effect. It was not run again"
)


LEFT_OPEN = "was under way when the task was cancelled"


def left_open(name: str, tools: Mapping[str, Tool]) -> Result:
    """The result of a call that was under way when its task was cancelled."""
    if name in tools and tools[name].idempotent:
        return {"error": f"{name} {LEFT_OPEN}."}
    return unknown_outcome(f"{name} {LEFT_OPEN}, so it may or may not have taken effect")


def unknown_outcome(what: str) -> Result:
    """The result of a call that may or may not have taken effect."""
    return {
        "error": f"unknown_outcome: {what}: check what it did before calling it once more.",
        "unknown_outcome": True,
    }


async def _attempt(
    tool: Tool, arguments: Mapping[str, Any], seconds: float, read: Callable[[Any], Any] = json_value
) -> Result:
    """Run the tool in a task of its own, so that its cancellations and timeouts are distinguished from ours."""
    running = asyncio.create_task(_outcome(tool, arguments, read), name=f"tool {tool.name}")
    _calls.add(running)
    running.add_done_callback(_forget)
    try:
        await asyncio.wait({running}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(running)
        raise
    return _result(tool, running) if running.done() else await _timed_out(tool, running, seconds)


async def _outcome(tool: Tool, arguments: Mapping[str, Any], read: Callable[[Any], Any]) -> Result:
    ran = ""
    try:
        value = await tool.call(arguments)
        ran = f"{tool.name} ran, but what it returned cannot be read: "
        if isinstance(value, ToolMessage) and value.status == "error":
            return {"error": _sentence(value.text)}
        return {"success": read(value)}
    except (GraphBubbleUp, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit):
        raise
    except BadArguments as error:
        return {"error": _sentence(f"The arguments of {tool.name} do not fit: {error}.")}
    except BaseException as error:  # noqa: BLE001 - the one seam: a tool may raise anything, and the task continues
        for signal in _signals(error):
            raise signal from None
        report = failure(error)
        return {"error": _sentence(ran + report["error"]), "stack": _sentence(report["stack"])}


def _sentence(text: str) -> str:
    return str(json_value(text))


def _signals(error: BaseException) -> Iterator[BaseException]:
    """LangGraph's own signals and Ctrl-C, which pass, also out of a task group."""
    if isinstance(error, GraphBubbleUp | KeyboardInterrupt):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _signals(inner)


def _result(tool: Tool, ended: "asyncio.Task[Result]") -> Result:
    return {"error": f"{tool.name} was cancelled from within."} if ended.cancelled() else ended.result()


async def _timed_out(tool: Tool, running: "asyncio.Task[Result]", seconds: float) -> Result:
    await _stop(running)
    if running.done() and not running.cancelled() and "success" in running.result():
        return running.result()  # it finished when it was cancelled
    late = f"{tool.name} took longer than {seconds:g} s"
    stopped = running.done() and not left_a_thread(running)
    if stopped or tool.idempotent or tool.read_only:
        return {"error": f"{late} and was cancelled."}
    return unknown_outcome(f"{late} and cannot be stopped, so it may still be running and take effect later")


async def _stop(running: "asyncio.Task[Result]") -> None:
    running.cancel()
    await asyncio.wait({running}, timeout=GRACE_SECONDS)


def _forget(ended: "asyncio.Task[Result]") -> None:
    _calls.discard(ended)
    if not ended.cancelled():
        ended.exception()  # asyncio warns of errors that are never retrieved
