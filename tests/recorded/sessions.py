"""The recorded tasks of a json-protocol agent, as replies to serve and as what must come of them.

The recording holds parsed fields, so the envelopes are rebuilt from them; the raw text survives for the failed replies.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from segue.core.decision import SYNONYMS
from tests.fakes import envelope
from tests.recorded.tools import RecordedCall

Recorded = Callable[[str], Path]
Recursion = dict[str, Any]
Task = dict[str, Any]
PREFIX = "Failed to parse LLM response: "


def tasks(recorded: Recorded) -> list[Task]:
    lines = recorded("react-sessions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def recursions(recorded: Recorded) -> Iterator[Recursion]:
    for task in tasks(recorded):
        yield from task["recursions"]


def results_of(recursion: Recursion) -> list[dict[str, Any]]:
    """The recursion's calls with what came of them: {name, arguments, success, result | error}."""
    found: list[dict[str, Any]] = json.loads(recursion["tool_call_results"] or "[]")
    return found


def output_of(recursion: Recursion) -> dict[str, Any]:
    """The action's output; four CALL_TOOLs kept their calls only beside their results."""
    output: dict[str, Any] = json.loads(recursion["action_output"])
    if recursion["action_type"] == "CALL_TOOL" and not output:
        ran = results_of(recursion)
        output = {"tool_calls": [{"function": {"name": r["name"], "arguments": r["arguments"]}} for r in ran]}
    return output


def nested(recursion: Recursion) -> str:
    """The reply in the source's envelope."""
    return envelope(recursion["action_type"], output_of(recursion), recursion["thought"], recursion["observe"])


def reply_of(recursion: Recursion) -> str:
    """What the model wrote: rebuilt where it could be read, as it stands in the error_log where not."""
    return nested(recursion) if recursion["action_type"] else recursion["error_log"].removeprefix(PREFIX)


def action_of(recursion: Recursion) -> tuple[str, dict[str, Any]]:
    """The action's type and output as Segue has them."""
    kind = SYNONYMS.get(recursion["action_type"], recursion["action_type"])
    return kind, ({"notes": ""} if kind == "PLAN" else {}) | output_of(recursion)


def was_missing(result: dict[str, Any]) -> bool:
    """Whether the recording says that there is no such tool."""
    return "not found" in result.get("error", "")


def calls_of(task: Task) -> list[RecordedCall]:
    """The calls that reached a tool."""
    return [
        RecordedCall(result["name"], result["arguments"], result.get("result"), result.get("error", ""))
        for recursion in task["recursions"]
        for result in results_of(recursion)
        if not was_missing(result)
    ]
