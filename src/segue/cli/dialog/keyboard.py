"""What is typed while a task runs: a line steers it."""

import asyncio
import codecs
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
