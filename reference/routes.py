"""The routes of the service and their schemas, from its OpenAPI document."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from segue.server import create_app

from .tables import code, table

Json = Mapping[str, Any]


@cache
def openapi() -> Json:
    """The OpenAPI document of the service."""
    return create_app().openapi()


def describe_routes() -> str:
    routes = [
        _route(method.upper(), path, operation)
        for path, item in openapi()["paths"].items()
        for method, operation in item.items()
    ]
    return "\n\n".join(routes)


def describe_schemas() -> str:
    schemas = openapi()["components"]["schemas"]
    return "\n\n".join(_schema(name, schema) for name, schema in schemas.items())


def describe_statuses() -> str:
    """Every status that a route answers with, and its meaning."""
    found = {
        (status, response["description"])
        for item in openapi()["paths"].values()
        for operation in item.values()
        for status, response in operation["responses"].items()
        if status >= "400"
    }
    return table(("status", "meaning"), ((code(status), meaning) for status, meaning in sorted(found)))


def _route(method: str, path: str, operation: Json) -> str:
    parts = [f"### {method} {path}", operation.get("description", "")]
    parameters = [
        (code(each["name"]), each["in"], _type(each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    if parameters:
        parts.append(table(("parameter", "in", "type", "meaning"), parameters))
    if body := operation.get("requestBody"):
        parts.append(f"Body: {_content(body)}.")
    answers = [
        f"{code(status)} {_content(response) or response['description']}"
        for status, response in operation["responses"].items()
        if status < "400"
    ]
    return "\n\n".join([*parts, f"Answer: {'; '.join(answers)}."])


def _content(carrier: Json) -> str:
    return ", ".join(
        _type(media["schema"]) if "schema" in media else code(kind)
        for kind, media in carrier.get("content", {}).items()
    )


def _schema(name: str, schema: Json) -> str:
    required = schema.get("required", ())
    rows = [
        (code(field), _type(value), "yes" if field in required else "", value.get("description", ""))
        for field, value in schema.get("properties", {}).items()
    ]
    heading = f"### {name} {{ #{name.lower()} }}"
    return "\n\n".join([heading, schema.get("description", ""), table(("field", "type", "required", "meaning"), rows)])


def _type(schema: Json) -> str:
    """A schema in a few words; one with a name is a link to its table."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(_type, options))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    if "enum" in schema or "const" in schema:
        return ", ".join(map(code, schema.get("enum", [schema.get("const")])))
    limits = [f"{word} {schema[key]}" for key, word in _LIMITS.items() if key in schema]
    return " ".join([schema.get("type", "any"), *([f"({', '.join(limits)})"] if limits else [])])


_LIMITS = {"minimum": "≥", "maximum": "≤", "minLength": "min length", "maxLength": "max length", "default": "default"}
