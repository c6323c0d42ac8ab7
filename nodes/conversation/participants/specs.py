"""The functions that an API offers, in OpenAI's format, and its refusals of calls that do not fit them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from segue.core.conversation import APIOutput, Utterance
from segue.core.errors import listed
from segue.core.participants import Setting

BAD_REQUEST = 400


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


def refused(specs: Sequence[Mapping[str, Any]], call: Utterance) -> APIOutput | None:
    """Why a call does not fit the functions that are offered, as a result of status 400; None if it fits."""
    functions = {spec["function"]["name"]: spec["function"] for spec in specs}
    if call.action not in functions:
        return APIOutput(
            status_code=BAD_REQUEST, data=f"There is no API {call.action}; the APIs are: {listed(functions)}."
        )
    faults = list(_faults(functions[call.action].get("parameters") or {}, call.action_input))
    if not faults:
        return None
    return APIOutput(status_code=BAD_REQUEST, data=f"The arguments of {call.action} do not fit: {'; '.join(faults)}.")


def _faults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterable[str]:
    from jsonschema import Draft202012Validator  # its import takes a quarter of a second

    for error in Draft202012Validator(schema).iter_errors(dict(arguments)):
        where = ".".join(str(part) for part in error.absolute_path)
        yield f"{where}: {error.message}" if where else error.message
