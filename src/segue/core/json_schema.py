"""JSON schemas of tools, as a model should see them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

NOISE = ("examples", "keywords", "aliases")
"""What in a schema only Segue reads."""

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("default", "enum", "const", "required")


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def plain_schema(schema: Any, noise: Collection[str] = NOISE) -> Any:
    """A schema without its noise; a parameter that is called `keywords` stays."""
    if isinstance(schema, list):
        return [plain_schema(item, noise) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: _part(key, part, noise) for key, part in schema.items() if key not in noise}


def _part(key: str, part: Any, noise: Collection[str]) -> Any:
    if key in _VALUES:
        return part
    if key in _NAMED and isinstance(part, Mapping):
        return {name: plain_schema(inner, noise) for name, inner in part.items()}
    return plain_schema(part, noise)


def plain_specs(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool specs in OpenAI's format: without the `segue` key, and without what in a schema only Segue reads."""
    return [{"type": "function", "function": _plain_function(tool["function"])} for tool in tools]


def _plain_function(function: Mapping[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {**function, "parameters": plain_schema(parameters, (*NOISE, "title"))}
