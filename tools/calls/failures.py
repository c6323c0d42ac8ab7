"""The exception of a tool as an outcome: the error in a line, and its stack from the tool's own frame on."""

import asyncio
import inspect
import os
import traceback
from pathlib import Path
from typing import Any

import langchain_core

STACK_CHARS = 2_000
"""Characters of a stack trace that are kept; its end says most."""
PART_CHARS = 400
"""Characters of one frame or message in it, so that a long message leaves room for the frames."""
MESSAGE_CHARS = 10_000
"""Characters of the error itself."""

_TOOLS = Path(__file__).parents[1]
_MACHINERY = (
    *(str(_TOOLS / f"{name}.py") for name in ("bound_tool", "calls/run", "calls/threads")),
    *(str(_TOOLS / "adapters" / f"{name}.py") for name in ("functions", "langchain")),
    *(os.path.dirname(inspect.getfile(package)) + os.sep for package in (asyncio, langchain_core)),
)


def failure(error: BaseException) -> dict[str, Any]:
    """{"error", "stack"}, both bounded, even for an exception that cannot say what it is."""
    report = traceback.TracebackException.from_exception(error)
    _trim(report)
    stack = "".join(_cut(part, PART_CHARS, "…\n") for part in report.format())
    said = f"{type(error).__name__}: {report}".removesuffix(": ")
    return {
        "error": _cut(said, MESSAGE_CHARS, "…"),
        "stack": stack if len(stack) <= STACK_CHARS else "…" + stack[1 - STACK_CHARS :],
    }


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
