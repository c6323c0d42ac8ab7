"""The functions that an API offers, in OpenAI's format."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.participants import Setting


def offered(setting: Setting) -> Sequence[Mapping[str, Any]]:
    """The configuration's own APIs, or else the tools."""
    if setting.config.apis:
        return [spec_of(api) for api in setting.config.apis]
    return [tool.spec for tool in setting.tools.values()]


def spec_of(api: Mapping[str, Any]) -> Mapping[str, Any]:
    """The specification of an API that is given as {name, description, parameters}."""
    function = {
        "name": api["name"],
        "description": api.get("description", ""),
        "parameters": api.get("parameters") or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}
