"""JSON schemas of tools, as a model should see them."""

from collections.abc import Collection, Mapping
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
