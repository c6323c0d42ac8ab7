"""The executor of tools: exactly one result a call, never run twice, whatever the tool does."""

import asyncio
import dataclasses
import inspect
import logging
import math
import os
import signal
import threading
import traceback
from base64 import b64encode
from collections import UserString
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence, Set, ValuesView
from contextlib import contextmanager
from contextvars import Context, copy_context
from datetime import date, time
from enum import Enum
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import langchain_core
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from pydantic import BaseModel

from segue.core.calls import CallResult, CallStatus, Execution, Tool, is_repeatable, read_question
from segue.core.decision import storable_text
from segue.core.errors import InvalidMessage, listed
from segue.prompts.catalogue import error_text, rendered, task_text

from .adapters.agents import DatabaseLost, LocalAgentTool
from .bound_tool import (
    NOT_DONE,
    BadArguments,
    BoundTool,
    CallContext,
    Job,
    LaterResult,
    Marked,
    UnknownOutcome,
    Wait,
    current_call,
    current_job,
    has_running_thread,
    runs_in_thread,
)

# Conversion of a tool's result to JSON that a checkpoint can hold.

DEPTH = 100
"""Levels of nesting that are kept: a checkpoint takes about 1000, and puts the value into others."""
VALUES = 5_000_000
"""Values that a result may be made of: a few lists that hold one another can stand for any number."""
WORD = 2**63
"""Integers beyond 64 bits become text: a checkpoint takes no larger ones."""


class NoResult(TypeError):
    """What the tool returned is no value; the message says what to return instead."""


def json_value(value: Any) -> Any:
    """The value as text, numbers, lists and dicts; what JSON cannot say becomes its text."""
    return _Conversion().of(value)


class _Conversion:
    """One walk through a value: `_open` are the objects that the walk is inside of."""

    def __init__(self) -> None:
        self._left = VALUES
        self._open: set[int] = set()

    def of(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NoResult(f"the result has more than {VALUES:,} values: return less of it")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, _SCALARS) and not isinstance(value, Enum):
            return _scalar(value)
        if id(value) in self._open:
            return "[circular]"
        if len(self._open) >= DEPTH:
            return f"[nested deeper than {DEPTH} levels]"
        self._open.add(id(value))
        try:
            return self._compound(value if type(value) in _PLAIN else _opened(value))
        finally:
            self._open.discard(id(value))

    def _compound(self, opened: Any) -> Any:
        if isinstance(opened, Mapping):
            return self._dict(opened)
        if isinstance(opened, Sequence) and not isinstance(opened, _TEXTS):
            return [self.of(inner) for inner in opened]
        return self.of(opened)

    def _dict(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, inner in value.items():
            name = _key(key)
            while name in result:  # 1 and "1"
                name += f" ({type(key).__name__})"
            result[name] = self.of(inner)
        return result


_SCALARS = (str, int, float)
_PLAIN = {dict, list, tuple}


def _scalar(value: str | int | float) -> str | int | float:
    if isinstance(value, str):
        return _text(value)
    if type(value) is int and -WORD <= value < WORD:
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NOT_FINITE.get(float(value), "NaN")
    return int(value) if -WORD <= value < WORD else _digits(value)


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _digits(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:  # Python refuses to write more than some thousand decimal digits
        return hex(value)


def _text(value: str) -> str:
    """A plain string that can be encoded: a lone half of a surrogate pair becomes U+FFFD."""
    plain = str.__str__(value)
    return plain if plain.isascii() else storable_text(plain)


def _key(key: Any) -> str:
    if isinstance(key, Enum):
        return _key(key.value)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(_scalar(key)) if isinstance(key, _SCALARS) else _text(str(key))


def _opened(value: Any) -> Any:
    """A mapping, a sequence or a simpler value that says what the object says."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for kinds, opened in _FORMS:
        if isinstance(value, kinds):
            return opened(value)
    listed = getattr(value, "tolist", None)  # NumPy's arrays and numbers
    return listed() if callable(listed) and not isinstance(value, type) else str(value)


def _bytes(value: bytes | bytearray | memoryview) -> Any:
    raw = bytes(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"bytes": len(raw), "base64": b64encode(raw).decode()}


def _refuse(value: Any) -> Any:
    raise NoResult(f"the tool returned a {type(value).__name__}, which is no value: return a list")


_BYTES = (bytes, bytearray, memoryview)
_TEXTS = (str, UserString, *_BYTES)
_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    (BaseMessage, lambda value: value.content),
    (BaseModel, lambda value: value.model_dump()),
    (_BYTES, _bytes),
    (UserString, str),
    (Set, lambda value: sorted(value, key=repr)),
    (ValuesView, list),
    ((Mapping, Sequence), lambda value: value),
    ((date, time), lambda value: value.isoformat()),
    ((Iterator, Coroutine), _refuse),
)


# What a tool raises to stop the process: it ends the tool's call, and the process goes on.


def is_ctrl_c(error: BaseException) -> bool:
    """Whether a person pressed Ctrl-C, and the error is not what a tool raised.

    Only the main thread hears of Ctrl-C. Where asyncio listens to it, the first one cancels its main task, and only a
    further one raises KeyboardInterrupt.
    """
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    if any(runs_in_thread(frame) for frame, _ in traceback.walk_tb(error.__traceback__)):
        return False
    task = asyncio.current_task()
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler or bool(task and task.cancelling())


class _Factory:
    """Makes a loop's tasks; those that a tool starts cannot end the process.

    asyncio passes SystemExit and KeyboardInterrupt from any task on to the program that runs the loop.
    """

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        context = options.get("context")
        call = current_call.get(None) if context is None else context.get(current_call)
        if call is not None and asyncio.iscoroutine(coro):
            coro = _guarded(coro)
        return self._before(loop, coro, **options) if self._before else asyncio.Task(coro, loop=loop, **options)


@contextmanager
def _guarding() -> Iterator[None]:
    """Have what a tool raises to stop the process be an error as any other."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(f"the tool called sys.exit({error.code!r})") from error
    except KeyboardInterrupt as error:
        if is_ctrl_c(error):
            raise
        raise RuntimeError("the tool raised KeyboardInterrupt") from error


async def _guarded(coro: Coroutine[Any, Any, Any]) -> Any:
    try:
        with _guarding():
            return await coro
    except GeneratorExit as error:
        closed = error.__traceback__ is None or error.__traceback__.tb_next is None
        if closed:
            raise  # this coroutine is closed; what a tool raised comes from a frame below this one
        raise RuntimeError("the tool raised GeneratorExit") from error


_SCHEDULING: Mapping[str, int] = {"call_soon": 0, "call_soon_threadsafe": 0, "call_at": 1}
"""A loop's methods that schedule a callback, and its place among their arguments; `call_later` calls `call_at`."""


def _schedule(schedule: Callable[..., Any], place: int, *given: Any, context: Context | None = None) -> Any:
    """Schedule a callback; one of a tool cannot end the process, and what it raises is logged."""
    call = current_call.get(None) if context is None else context.get(current_call)
    if call is not None and len(given) > place:
        given = (*given[:place], partial(_run_guarded, given[place]), *given[place + 1 :])
    return schedule(*given, context=context)


def _run_guarded(callback: Callable[..., Any], *given: Any) -> None:
    with _guarding():
        callback(*given)


def guard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop run tasks and callbacks of a tool so that none of them ends the process."""
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(_Factory(before))
        for name, place in _SCHEDULING.items():
            setattr(loop, name, partial(_schedule, getattr(loop, name), place))


# The executor of tools: exactly one result a call, never run twice, whatever the tool does.

STACK_CHARS = 2_000
"""Characters of a stack trace that are kept; its end says most."""
PART_CHARS = 400
"""Characters of one frame or message in it, so that a long message leaves room for the frames."""
MESSAGE_CHARS = 10_000
"""Characters of the error itself."""

_TOOLS = Path(__file__).parent
_MACHINERY = (
    *(str(_TOOLS / name) for name in ("bound_tool.py", "calls.py", "adapters/functions.py")),
    *(os.path.dirname(inspect.getfile(package)) + os.sep for package in (asyncio, langchain_core)),
)


def failure(error: BaseException) -> dict[str, Any]:
    """{"error", "stack"}, both bounded, even for an exception that cannot say what it is."""
    report = traceback.TracebackException.from_exception(error)
    _trim(report)
    stack = "".join(_cut(part, PART_CHARS, "…\n") for part in report.format())
    said = "; ".join(f"{type(leaf).__name__}: {_said(leaf)}".removesuffix(": ") for leaf in _leaves(error))
    return {
        "error": _cut(said, MESSAGE_CHARS, "…"),
        "stack": stack if len(stack) <= STACK_CHARS else "…" + stack[1 - STACK_CHARS :],
    }


_MOST_LEAVES = 10


def _leaves(error: BaseException) -> list[BaseException]:
    """What went wrong: of a group the exceptions that are in it, else the exception itself."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _MOST_LEAVES:
        one = waiting.pop(0)
        if isinstance(one, BaseExceptionGroup):
            waiting = [*one.exceptions, *waiting]
        else:
            found.append(one)
    return found


def _said(error: BaseException) -> str:
    return str(traceback.TracebackException(type(error), error, None))


def _cut(text: str, most: int, end: str) -> str:
    return text if len(text) <= most else text[: most - len(end)] + end


def _trim(report: traceback.TracebackException) -> None:
    """Leave out the frames that lead to the tool, in the exception and in those that it came of."""
    reports: list[traceback.TracebackException | None] = [report]
    seen: set[int] = set()
    while reports:
        one = reports.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        own = next((i for i, frame in enumerate(one.stack) if not frame.filename.startswith(_MACHINERY)), 0)
        one.stack = traceback.StackSummary.from_list(one.stack[own:])
        reports += [one.__cause__, one.__context__, *(one.exceptions or ())]


logger = logging.getLogger(__name__)

GRACE_SECONDS = 1.0
"""How long a cancelled tool may take to tidy up before it counts as one that cannot be stopped."""

_calls: set["asyncio.Task[CallResult]"] = set()
"""What runs: asyncio itself does not keep tasks alive, and one that cannot be stopped has no other owner."""


class ToolExecutor:
    """Runs the tools of this process, each call in a task of its own."""

    def needs_approval(self, tool: Tool) -> bool:
        return tool.needs_approval

    def parallel(self, tool: Tool) -> bool:
        return tool.read_only or isinstance(tool, LocalAgentTool)

    async def execute(self, execution: Execution) -> CallResult:
        """Run the call, unless it must not run now or its check knows the outcome.

        Cancelled in the middle, it leaves the call under way: whether it took effect is not known.
        """
        tool, claim = execution.tool, execution.claim
        current_call.set(_context_of(execution))
        current_job.set(_job_of(execution))
        if tool is None:
            return missing(execution)
        repeatable = is_repeatable(tool)
        if claim.state == "interrupted" and execution.job is None:
            settled = None if claim.moved else await _ask_check(tool, execution)
            current_call.set(_context_of(execution))  # a check that took too long has left its own as abandoned
            if settled is not NOT_DONE and not (settled is None and repeatable):
                return settled or _interrupted(execution)
        if tool.needs_approval and not (execution.approved or execution.cleared):
            return CallResult.failed(task_text("call_not_approved", execution.language, tool=tool.name))
        if claim.state == "doubtful" and not (repeatable or execution.approved):
            return unknown_outcome("call_doubtful", execution.language, tool=tool.name)
        result = await _attempt(tool, execution, tool.call)
        return _refused_approval(result, execution) if result.status is CallStatus.ASKING else result


TOOLS = ToolExecutor()


def _context_of(execution: Execution) -> CallContext:
    return CallContext(
        idempotency_key=execution.idempotency_key,
        tool=execution.name,
        session_id=execution.session_id,
        task_id=execution.key.task_id,
        step_id=execution.step_id,
        trace_id=execution.trace_id,
        user_id=execution.user_id,
        attempt=2 if execution.claim.state == "interrupted" else 1,
        index=execution.key.index,
        result=execution.undone,
    )


def _job_of(execution: Execution) -> Job:
    seconds = (execution.tool and execution.tool.timeout) or execution.timeout
    return Job(execution.job or {}, seconds, execution.keep)


def missing(execution: Execution) -> CallResult:
    """The result of a call whose tool the agent does not have."""
    if execution.claim.state == "interrupted":
        return _interrupted(execution)
    known = rendered(listed(execution.tools), execution.language)
    return CallResult.failed(task_text("no_tool", execution.language, tool=execution.name, known=known))


def _check_value(value: Any) -> Any:
    return value if value is NOT_DONE else json_value(value)


async def _ask_check(tool: Tool, execution: Execution) -> Any:
    """The result that the tool's check gives for an interrupted call, `NOT_DONE`, or None if nothing can tell."""
    if not isinstance(tool, Marked):
        return None
    answer = await _attempt(tool, execution, tool.check_effect, _check_value)
    if answer.status is CallStatus.ASKING:
        return None
    if answer.error:
        logger.warning("The check of the tool %s failed: %s", tool.name, answer.error)
    if answer.value is None or answer.value is NOT_DONE:
        return answer.value
    return answer


def argument_error(tool: Tool | None, arguments: Mapping[str, Any]) -> str:
    """Why a tool would not take these arguments, in a line; empty if it would, or if only a call can tell."""
    if not isinstance(tool, BoundTool):
        return ""
    try:
        tool.check(tool.fit(arguments))
    except BadArguments as error:
        return _sentence(str(error))
    except BaseException as error:  # noqa: BLE001 - a tool's own validator may raise anything
        for signal in _signals(error):
            raise signal from None
        return _sentence(failure(error)["error"])
    return ""


def left_open(name: str, tools: Mapping[str, Tool], language: str) -> CallResult:
    """The result of a call that was under way when its task was cancelled."""
    if is_repeatable(tools.get(name)):
        return CallResult(status=CallStatus.LEFT_OPEN, error=task_text("call_left_open", language, tool=name))
    return unknown_outcome("call_left_open_unknown", language, CallStatus.LEFT_OPEN, tool=name)


def _interrupted(execution: Execution) -> CallResult:
    return unknown_outcome("call_interrupted", execution.language, tool=execution.name)


def unknown_outcome(text: str, language: str, status: CallStatus = CallStatus.UNKNOWN, **values: str) -> CallResult:
    """The result of a call that may or may not have taken effect; `text` names the sentence that says why."""
    return CallResult.outcome_unknown(task_text(text, language, **values), status)


async def _attempt(
    tool: Tool,
    execution: Execution,
    call: Callable[[Mapping[str, Any]], Awaitable[Any]],
    read: Callable[[Any], Any] = json_value,
) -> CallResult:
    """Run the tool in a task of its own, so that its cancellations and timeouts are distinguished from ours."""
    seconds = tool.timeout or execution.timeout
    guard_tasks(asyncio.get_running_loop())
    outcome, context = _outcome(execution, call, read), _with_answers(execution.answers)
    running = asyncio.create_task(outcome, name=f"tool {tool.name}", context=context)
    _calls.add(running)
    running.add_done_callback(_forget)
    try:
        await asyncio.wait({running}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(running, abandoned=execution.cancelled())
        raise
    if not running.done():
        return await _timed_out(tool, running, seconds, execution.language)
    if running.cancelled():
        return CallResult.failed(task_text("call_cancelled", execution.language, tool=tool.name))
    return _ended(running)


SCRATCHPAD, SEND, _RUNTIME = "__pregel_scratchpad", "__pregel_send", "__pregel_runtime"
"""Where LangGraph's config has the answers to a node's interrupts, what stores them, and what stops a run.

It publishes none of these names.
"""


def _with_answers(answers: Sequence[Any]) -> Context:
    """The context of a call whose tool gets these answers from `interrupt`, one after the other.

    LangGraph keeps answers by node, in the order of its interrupts: calls that run at once would take each other's.
    A pause of the task stops no graph in the tool, which would begin anew: the call ends first.
    """
    context, config = copy_context(), var_child_runnable_config.get()
    pad = (config or {}).get("configurable", {}).get(SCRATCHPAD)
    if config is None or pad is None:
        return context
    left = [*answers]

    def next_answer(consume: bool = False) -> Any:
        return None if not left else left.pop(0) if consume else left[0]

    own = dataclasses.replace(pad, interrupt_counter=count().__next__, get_null_resume=next_answer, resume=[])
    places = {**config["configurable"], SCRATCHPAD: own, SEND: lambda writes: None}
    if runtime := places.get(_RUNTIME):
        places[_RUNTIME] = dataclasses.replace(runtime, control=None)
    context.run(var_child_runnable_config.set, {**config, "configurable": places})
    return context


def _ended(running: "asyncio.Task[CallResult]") -> CallResult:
    error = running.exception()
    return running.result() if error is None else _failed(error)


async def _outcome(
    execution: Execution, call: Callable[[Mapping[str, Any]], Awaitable[Any]], read: Callable[[Any], Any]
) -> CallResult:
    name, language, ran = execution.name, execution.language, ""
    try:
        value = await call(execution.arguments)
        ran = task_text("call_unreadable", language, tool=name) + " "
        if isinstance(value, ToolMessage) and value.status == "error":
            return CallResult.failed(_sentence(value.text))
        if isinstance(value, CallResult):
            return dataclasses.replace(value, value=read(value.value))
        return CallResult.done(read(value))
    except asyncio.CancelledError:
        raise
    except GraphBubbleUp as bubble:
        return _passed(bubble)
    except UnknownOutcome as error:
        return unknown_outcome("call_stopped_unknown", language, tool=name, why=_sentence(str(error)))
    except Wait as wait:
        return _waiting(wait, execution)
    except BadArguments as error:
        return CallResult.failed(_sentence(task_text("call_misfit", language, tool=name, why=str(error))))
    except BaseException as error:  # noqa: BLE001 - the one seam: a tool may raise anything, and the task continues
        return _failed(error, ran)


def _failed(error: BaseException, ran: str = "") -> CallResult:
    for interruption in _signals(error):
        return _passed(interruption)
    report = failure(error)
    return CallResult.failed(_sentence(ran + report["error"]), _sentence(report["stack"]))


def _passed(interruption: BaseException) -> CallResult:
    """What a tool asks with `interrupt`; any other signal passes."""
    if not isinstance(interruption, GraphInterrupt) or not interruption.args[0]:
        raise interruption from None
    return CallResult.asking(json_value(interruption.args[0][0].value))


def _refused_approval(asking: CallResult, execution: Execution) -> CallResult:
    """What a tool asks, or why it cannot: a graph that it runs asks about calls of its own.

    That graph starts anew with the answer, and may make other calls then; an agent that is called goes on with its own.
    """
    question = read_question(asking.value)
    names = dict.fromkeys(call["name"] for call in question.get("calls", ()))
    if isinstance(execution.tool, LocalAgentTool) or question["kind"] != "approval" or [*names] == [execution.name]:
        return asking
    calls = rendered(listed(names), execution.language)
    return CallResult.failed(task_text("call_asks_approval", execution.language, tool=execution.name, calls=calls))


def _waiting(wait: Wait, execution: Execution) -> CallResult:
    try:
        job = wait.job if isinstance(wait, LaterResult) else None
        return CallResult.waiting(wait.moment(execution.clock()), wait.event, job)
    except InvalidMessage as error:
        return CallResult.failed(_sentence(error_text(error, execution.language)))


def _sentence(text: str) -> str:
    return str(json_value(text))


def _signals(error: BaseException) -> Iterator[BaseException]:
    """LangGraph's own signals, a person's Ctrl-C and the loss of the database, which pass, also out of a task group."""
    if isinstance(error, GraphBubbleUp | DatabaseLost) or is_ctrl_c(error):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _signals(inner)


async def _timed_out(tool: Tool, running: "asyncio.Task[CallResult]", seconds: float, language: str) -> CallResult:
    await _stop(running, abandoned=True)
    if running.done() and not running.cancelled():
        ended = _ended(running)
        if ended.success or ended.status is CallStatus.UNKNOWN:
            return ended  # it finished when it was cancelled, or says what it left
    limit = f"{seconds:g}"
    stopped = running.done() and not has_running_thread(running)
    if stopped or is_repeatable(tool):
        return CallResult.failed(task_text("call_late", language, tool=tool.name, n=limit))
    return unknown_outcome("call_late_unknown", language, tool=tool.name, n=limit)


async def _stop(running: "asyncio.Task[CallResult]", *, abandoned: bool) -> None:
    if abandoned:
        current_call.get().abandoned.set()
    running.cancel()
    await asyncio.wait({running}, timeout=GRACE_SECONDS)


def _forget(ended: "asyncio.Task[CallResult]") -> None:
    _calls.discard(ended)
    if not ended.cancelled():
        ended.exception()  # asyncio warns of errors that are never retrieved
