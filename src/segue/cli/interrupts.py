"""Ctrl-C and SIGTERM: while tasks run the first one pauses them and the second one stops them.

While an answer is written the first one stops it: the model's call is made again when the task is resumed.
"""

import asyncio
import codecs
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..core.errors import SegueError

if TYPE_CHECKING:
    pass


SIGNALS = (signal.SIGINT, signal.SIGTERM)
T = TypeVar("T")


class Stoppable(Protocol):
    """What runs the tasks: the app, or several."""

    async def pause(self, task_id: str) -> None: ...

    def stop_now(self, task_id: str) -> None: ...


class Interrupts:
    """Counts the signals that came while tasks run, and passes them on to the app."""

    def __init__(
        self, app: Stoppable, task_ids: Collection[str], say: Callable[[str], None], is_writing: Callable[[], bool]
    ) -> None:
        self._app = app
        self._task_ids = task_ids
        self._say = say
        self._is_writing = is_writing
        self._asking: asyncio.Task[None] | None = None
        self.count = 0

    @property
    def stopped(self) -> bool:
        """Whether the tasks were stopped without waiting for a boundary."""
        return self.count > 1

    def __call__(self) -> None:
        self.count += 1
        if self.count == 1 and not self._is_writing():
            self._say("pausing")
            self._asking = asyncio.get_running_loop().create_task(self._pause())
        elif self.count <= 2:  # a third one must not interrupt how the second one is written down
            self._stop()

    def stop_answer(self) -> None:
        """Stop an answer that begins to be written after a pause was asked for."""
        if self.count == 1 and self._asking and self._is_writing():
            self._asking = None
            self._stop()

    def _stop(self) -> None:
        self._say("stopping")
        for task_id in tuple(self._task_ids):
            self._app.stop_now(task_id)

    async def _pause(self) -> None:
        for task_id in tuple(self._task_ids):
            with suppress(SegueError):  # it ended before it could be asked, or says itself what is wrong
                await self._app.pause(task_id)


@contextmanager
def listening(
    app: Stoppable,
    task_ids: Collection[str],
    say: Callable[[str], None],
    is_writing: Callable[[], bool] = lambda: False,
) -> Iterator[Interrupts]:
    """Take the signals over while the tasks run; `say` takes the name of a sentence."""
    interrupts = Interrupts(app, task_ids, say, is_writing)
    with handling_signals(interrupts):
        yield interrupts


@contextmanager
def handling_signals(act: Callable[[], None]) -> Iterator[None]:
    """Have the signals call `act`; where that is not possible they keep their usual effect."""
    loop = asyncio.get_running_loop()
    taken = []
    for number in SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, act)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


async def run_interruptible(doing: Coroutine[Any, Any, T], patience: float, on_delay: Callable[[], None]) -> T | None:
    """Do something, or None if a signal came before its end; `on_delay` is called after `patience` seconds."""
    work = asyncio.ensure_future(doing)
    interrupted = False

    def leave() -> None:
        nonlocal interrupted
        interrupted = True
        work.cancel()

    with handling_signals(leave):
        done, _ = await asyncio.wait({work}, timeout=patience)
        if not done:
            on_delay()
            await asyncio.wait({work})
    return None if interrupted and work.cancelled() else work.result()


_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
ERASE, ERASE_LINE = "\b\x7f", "\x15"


class Keyboard:
    """The line under way; each whole one is handed on."""

    def __init__(self, on_line: Callable[[str], None], on_change: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._on_change = on_change
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.text = ""

    def take(self, typed: bytes) -> None:
        """Take what was typed or pasted: a paste of several lines is one."""
        keys = _ESCAPES.sub("", self._decode(typed)).replace("\r", "\n")
        sends = keys.endswith("\n")
        for key in " ".join(keys.rstrip("\n").split("\n")):
            if key in ERASE:
                self.text = self.text[:-1]
            elif key == ERASE_LINE:
                self.text = ""
            elif key.isprintable():
                self.text += key
        if sends and self.text.strip():
            line, self.text = self.text.strip(), ""
            self._on_line(line)
        self._on_change(self.text)


@contextmanager
def typing(on_line: Callable[[str], None], on_change: Callable[[str], None]) -> Iterator[None]:
    """Hand on the lines that are typed at the terminal meanwhile; Ctrl-C stays a signal."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    keyboard = Keyboard(on_line, on_change)
    usual = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSANOW)
    loop.add_reader(descriptor, lambda: keyboard.take(os.read(descriptor, 65536)))
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSANOW, usual)
