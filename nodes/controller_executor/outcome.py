"""The outcome of a branch, for the controller and for the logs."""

import re
from collections.abc import Mapping
from typing import Any

from segue.core.calls import CallResult
from segue.prompts.catalogue import phrase

from ..shared.prompt_budget import as_json, as_text, truncate
from .state import FlowState

ARGUMENT_CHARS = 300
RESULT_CHARS = 700
"""Characters of arguments and of a result in a summary."""
MOST_INLINE = 100
"""Characters of arguments or a result that stay on a line of the log."""


def outcome_of(
    branch: str,
    kind: str,
    arguments: Mapping[str, Any],
    result: Mapping[str, Any],
    state: FlowState,
    summary: str = "",
) -> dict[str, Any]:
    """{branch, kind, arguments, result, summary}; the summary is written here where the branch has none."""
    text = summary or summary_of(branch, arguments, result, state["language"])
    return {"branch": branch, "kind": kind, "arguments": {**arguments}, "result": {**result}, "summary": text}


def rounds_of(state: FlowState) -> list[list[dict[str, Any]]]:
    """The outcome of each round as those of a call, oldest first."""
    return [[{**record, "name": record["branch"]}] for record in state["records"]]


def summary_of(branch: str, arguments: Mapping[str, Any], result: Mapping[str, Any], language: str) -> str:
    """A line on what was done and what came of it."""
    shown = truncate(as_text(CallResult.of(result).content), RESULT_CHARS)
    given = truncate(as_json(arguments), ARGUMENT_CHARS)
    return phrase(_text_of(result), language, branch=branch, arguments=given, result=shown)


def log_of(outcome: Mapping[str, Any], language: str) -> str:
    """What a round leaves in its memory file: of a tool, the arguments and the result as people read them."""
    if outcome["kind"] != "tool":
        return str(outcome["summary"])
    result = _shown(CallResult.of(outcome["result"]).content, RESULT_CHARS)
    parts = {"arguments": _shown(outcome["arguments"], ARGUMENT_CHARS), "result": result}
    line = phrase(
        _text_of(outcome["result"]), language, branch=outcome["branch"], arguments="{arguments}", result="{result}"
    )
    return re.sub(r"( ?)\{(\w+)\}( ?)", lambda slot: _placed(parts[slot[2]], slot[1], slot[3]), line).strip()


def _text_of(result: Mapping[str, Any]) -> str:
    return "flow_success" if CallResult.of(result).success else "flow_error"


def _placed(text: str, before: str, after: str) -> str:
    """A text of several lines is a paragraph of its own."""
    return f"\n\n{text}\n\n" if "\n" in text else f"{before}{text}{after}"


def _shown(value: Any, most: int) -> str:
    """A short value as it is; else a list of its fields, with texts of several lines as they are."""
    text = as_text(value)
    if not isinstance(value, Mapping) or (len(text) <= MOST_INLINE and "\\n" not in text):
        return _fenced(truncate(text, most)) if "\n" in text else truncate(text, most)
    return "\n".join(_field(name, each, most) for name, each in value.items()).strip()


def _field(name: str, value: Any, most: int) -> str:
    text = truncate(as_text(value), most)
    return f"- {name}:\n\n{_fenced(text)}\n" if "\n" in text.strip() else f"- {name}: {text.strip()}"


def _fenced(text: str) -> str:
    """The text between fences that are longer than any in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`{3,}", text)), default=0))
    body = text.strip("\n")
    return f"{fence}\n{body}\n{fence}"
