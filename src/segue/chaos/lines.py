"""The lines of the user's own code that a call runs, and what befalls them."""

import ast
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_FOREIGN = tuple(
    os.path.realpath(path) + os.sep
    for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), Path(__file__).parents[1])
)
_HARMLESS = (
    *("close", "aclose", "print", "debug", "info", "warning", "error", "exception", "log", "getLogger"),
    *("str", "repr", "len", "list", "dict", "tuple", "set", "sorted", "sum", "round", "isinstance"),
    *("format", "join", "strip", "lower", "upper", "split", "replace", "get", "append", "items", "values"),
    *("dumps", "isoformat", "strftime", "time", "now", "today"),
)
"""Calls that raise nothing in practice: they build a text, write a log, or close."""


class Unexpected(ValueError, LookupError, TypeError, OSError, RuntimeError):
    """An exception of each of the usual families, so that a tool that expects any of them catches it."""


def fail(place: str) -> None:
    """Raise an exception in the tool."""
    raise Unexpected(f"raised by segue chaos at {place}")


class Lines:
    """Before each of the lines `at` (the first is 1) `act` is called, with the file and the number of the line.

    `calling` are the lines of the tool itself, without what it calls, that call something which may fail.
    """

    def __init__(self, at: Container[int] = (), act: Callable[[str], None] = lambda place: None) -> None:
        self.count = 0
        self.calling: list[int] = []
        self._at = at
        self._act = act
        self._tool: FrameType | None = None
        self._seen: set[int] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch what runs in this thread, and in those that begin meanwhile."""
        sys.settrace(self._frame)
        threading.settrace(self._frame)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self._tool = None  # a frame holds all that its function does

    def _frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        own = not name.startswith("<") and not os.path.realpath(name).startswith(_FOREIGN)
        if not own or _is_of_segue(frame):
            return None
        self._tool = self._tool or frame
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if frame is self._tool:
                self._look(frame)
            if self.count in self._at:
                self._act(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return self._line

    def _look(self, frame: FrameType) -> None:
        """Note a line that calls something, the first time: the end of a `with` comes back to its line."""
        if frame.f_lineno not in self._seen and frame.f_lineno in _calling(frame.f_code):
            self.calling.append(self.count)
        self._seen.add(frame.f_lineno)


def _is_of_segue(frame: FrameType) -> bool:
    """Whether it is one of Segue's modules that lie elsewhere."""
    return str(frame.f_globals.get("__name__", "")).startswith("segue.")


@lru_cache
def _calling(code: CodeType) -> frozenset[int]:
    """The lines of the file at which a call begins that may fail, apart from what tidies up or raises an error."""
    try:
        tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return frozenset()
    tidying = {
        id(inner)
        for node in ast.walk(tree)
        for part in (node.finalbody if isinstance(node, ast.Try) else [node] if isinstance(node, ast.Raise) else [])
        for inner in ast.walk(part)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in tidying)
    return frozenset(call.lineno for call in calls if _name(call.func) not in _HARMLESS)


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
