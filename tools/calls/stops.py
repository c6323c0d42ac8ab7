"""What a tool raises to stop the process: it ends the tool's call, and the process goes on."""

import asyncio
import signal
import threading
import traceback
from collections.abc import Coroutine
from typing import Any

from ..bound_tool import current_call, runs_in_thread


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


async def _guarded(coro: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coro
    except SystemExit as error:
        raise RuntimeError(f"the tool called sys.exit({error.code!r})") from error
    except KeyboardInterrupt as error:
        if is_ctrl_c(error):
            raise
        raise RuntimeError("the tool raised KeyboardInterrupt") from error
    except GeneratorExit as error:
        closed = error.__traceback__ is None or error.__traceback__.tb_next is None
        if closed:
            raise  # this coroutine is closed; what a tool raised comes from a frame below this one
        raise RuntimeError("the tool raised GeneratorExit") from error


def guard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have the loop make tasks that a tool starts so that none of them ends the process."""
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(_Factory(before))
