"""Synchronous tools run in daemon threads of their own.

The default executor of asyncio would wait for a hanging tool when the interpreter exits.
"""

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_left: dict[threading.Thread, str] = {}


class Abandoned(asyncio.CancelledError):
    """Nobody waits for the thread any more, and nothing can stop it."""


@dataclass(frozen=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


async def run_in_thread(name: str, function: Callable[[], T]) -> T:
    """Call the function in a thread that sees this task's context variables.

    Raises:
        Abandoned: the caller was cancelled; the thread counts under `name` for as long as it runs.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[_Ended[T]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        ended = _ended(context, function)
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_deliver, waiting, ended)

    thread = threading.Thread(target=work, name=f"tool {name}", daemon=True)
    thread.start()
    try:
        ended = await waiting
    except asyncio.CancelledError as stop:
        _leave(thread, name)
        raise Abandoned(*stop.args) from stop
    if ended.error is not None:
        raise ended.error
    return ended.value  # type: ignore[return-value]


def abandoned() -> dict[str, int]:
    """How many threads that were given up still run, by the names they were given."""
    with _lock:
        _forget_ended()
        return dict(Counter(_left.values()))


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


def _forget_ended() -> None:
    for thread in [thread for thread in _left if not thread.is_alive()]:
        del _left[thread]
