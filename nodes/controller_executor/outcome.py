"""What a branch came to, for the controller and for the logs."""

from collections.abc import Mapping
from typing import Any

from segue.prompts.phrases import phrase

from ..shared.prompt_budget import as_json, truncate
from .state import FlowState

ARGUMENT_CHARS = 300
RESULT_CHARS = 700
"""Characters of arguments and of a result in a summary."""


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


def summary_of(branch: str, arguments: Mapping[str, Any], result: Mapping[str, Any], language: str) -> str:
    """A line on what was done and what came of it."""
    kind = "error" if "error" in result else "success"
    value = result[kind]
    said = truncate(value if isinstance(value, str) else as_json(value), RESULT_CHARS)
    given = truncate(as_json(arguments), ARGUMENT_CHARS)
    return phrase(f"flow_{kind}", language, branch=branch, arguments=given, result=said)
