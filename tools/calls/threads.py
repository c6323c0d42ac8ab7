"""Synchronous tools run in daemon threads of their own.

The default executor of asyncio would wait for a hanging tool when the interpreter exits.
"""

import asyncio
import contextvars
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_left: dict[threading.Thread, str] = {}
_leavers: "weakref.WeakSet[asyncio.Task[Any]]" = weakref.WeakSet()


@dataclass(frozen=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


async def run_in_thread(name: str, function: Callable[[], T]) -> T:
    """Call the function in a thread that sees this task's context variables.

    Nothing can stop a thread: when the task is cancelled, it is left running and counts as `abandoned`.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_Ended[T]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        ended = _ended(context, function)
        with suppress(RuntimeError):  # the loop is closed, so nothing waits for it
            loop.call_soon_threadsafe(_deliver, waiting, ended)

    thread = threading.Thread(target=work, name=f"tool {name}", daemon=True)
    thread.start()
    try:
        ended = await waiting
    except asyncio.CancelledError:
        _leave(thread, name)
        raise
    if ended.error is not None:
        raise ended.error
    return ended.value  # type: ignore[return-value]


def abandoned() -> dict[str, int]:
    """How many abandoned threads still run, by name."""
    with _lock:
        _forget_ended()
        return dict(Counter(_left.values()))


def left_a_thread(task: "asyncio.Task[Any]") -> bool:
    """Whether the task was cancelled while it waited for a thread, which may have gone on."""
    return task in _leavers


def _ended(context: contextvars.Context, function: Callable[[], T]) -> _Ended[T]:
    try:
        return _Ended(value=context.run(function))
    except BaseException as error:  # noqa: BLE001 - nothing is handled here: the caller gets it
        return _Ended(error=error)


def _deliver(waiting: "asyncio.Future[_Ended[T]]", ended: _Ended[T]) -> None:
    if not waiting.done():
        waiting.set_result(ended)


def _leave(thread: threading.Thread, name: str) -> None:
    with _lock:
        _forget_ended()
        _left[thread] = name
    if task := asyncio.current_task():
        _leavers.add(task)


def _forget_ended() -> None:
    for thread in [thread for thread in _left if not thread.is_alive()]:
        del _left[thread]
