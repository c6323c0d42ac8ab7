"""The specs of tools, as models are given them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.json_schema import NOISE, plain_schema

_NOISE = (*NOISE, "title")


def plain_specs(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool specs in OpenAI's format: without the `segue` key, and without what in a schema only Segue reads."""
    return [{"type": "function", "function": _plain_function(tool["function"])} for tool in tools]


def _plain_function(function: Mapping[str, Any]) -> dict[str, Any]:
    return dict(function) | {
        "parameters": plain_schema(function.get("parameters") or {"type": "object", "properties": {}}, _NOISE)
    }
