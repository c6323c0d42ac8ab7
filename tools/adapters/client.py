"""Tools that the client of a task carries out."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from segue.core.decision import check_storable
from segue.core.errors import InvalidMessage
from segue.core.plan import NO_TOOL
from segue.core.question import CLIENT_CALL
from segue.prompts.clients import client_call_notice, not_carried_out
from segue.prompts.language import Language

from ..calls.context import current_call

MOST = 64
"""Tools that a client may offer with one message."""
MOST_BYTES = 256 * 1024
"""Of their specifications, which each model call sends."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class ClientTool:
    """A tool of the client: a call waits as a question, whose answer is its result.

    It is idempotent: run again after a crash, it waits for the same answer.
    """

    spec: Mapping[str, Any]
    language: Language
    read_only: bool = False
    idempotent: bool = True
    needs_approval: bool = False
    timeout: float | None = None

    @property
    def name(self) -> str:
        return str(self.spec["function"]["name"])

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Give the result once the client has sent it."""
        call = {"id": current_call.get().idempotency_key, "name": self.name, "arguments": dict(arguments)}
        notice = client_call_notice(self.name, arguments, self.language)
        given = interrupt({"kind": "question", "question": notice, CLIENT_CALL: call})
        if given["manual_finish"]:
            return ToolMessage(not_carried_out(self.language), tool_call_id="", status="error")
        return given["answer"]


def client_tool_specs(given: Sequence[Mapping[str, Any]], taken: Collection[str]) -> list[dict[str, Any]]:
    """The specifications {"name", "description", "parameters"} in the form that is stored and that models see.

    Raises:
        InvalidMessage: they are too many or too large, a name is not allowed or is `taken`, or a tool is not valid.
    """
    if len(given) > MOST:
        raise InvalidMessage("The client offers {count} tools; the limit is {most}.", count=len(given), most=MOST)
    specs: dict[str, dict[str, Any]] = {}
    for tool in given:
        function = _function(tool)
        name = function["name"]
        if name in specs or name in taken:
            raise InvalidMessage("There are two tools called {name}: rename that of the client.", name=name)
        specs[name] = {"type": "function", "function": function}
    if (size := len(json.dumps([*specs.values()], ensure_ascii=False).encode())) > MOST_BYTES:
        raise InvalidMessage(
            "The client's tools have {size} bytes; the limit is {most}: shorten them.", size=size, most=MOST_BYTES
        )
    return [*specs.values()]


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    name = str(tool.get("name") or "")
    if not _NAME.fullmatch(name) or name.lower() in NO_TOOL:
        raise InvalidMessage(
            "A tool of the client cannot be called '{name}': use up to 64 letters, digits, - or _.", name=name[:100]
        )
    parameters = tool.get("parameters") or _NO_PARAMETERS
    if not _is_object_schema(parameters):
        raise InvalidMessage(
            "The parameters of the client's tool {name} are not a JSON schema of an object.", name=name
        )
    function = {
        "name": name,
        "description": str(tool.get("description") or name),
        "parameters": {**_NO_PARAMETERS, **parameters},
    }
    try:
        check_storable(function)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage("The client's tool {name} cannot be stored: {error}.", name=name, error=error) from error
    return function


def _is_object_schema(parameters: Any) -> bool:
    from jsonschema import Draft202012Validator, SchemaError  # its import takes a quarter of a second

    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        return False
    try:
        Draft202012Validator.check_schema(parameters)
    except (SchemaError, RecursionError):
        return False
    return True


def client_tools(specs: Sequence[Mapping[str, Any]], language: Language) -> dict[str, ClientTool]:
    """The tools of stored specifications, by name."""
    shown = {"keywords": [], "read_only": False}
    tools = [ClientTool({**spec, "segue": {**shown, "title": spec["function"]["name"]}}, language) for spec in specs]
    return {tool.name: tool for tool in tools}
