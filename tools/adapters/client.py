"""Tools that the client of a task carries out, and limits of replies."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from langchain_core.messages import ToolMessage

from segue.core.calls import CLIENT_CALLS
from segue.core.decision import check_storable, storable_text
from segue.core.errors import Clause, InvalidMessage
from segue.core.json import DEEPEST, Outline
from segue.core.plan import NO_TOOL
from segue.prompts.catalogue import Language
from segue.prompts.protocols import client_call_notice, not_carried_out

from ..bound_tool import BadArguments, Marked, Marks, current_call, fit_arguments

MOST = 64
"""Tools that a client may offer with one message."""
MOST_SPEC_BYTES = 256 * 1024
"""Of their specifications, which each model call sends."""
MOST_SPEC_VALUES = 5000
"""In their specifications: checking each takes half a millisecond."""
MOST_SHOWN = 500
"""Characters of an error that the model is shown."""
Results = Mapping[str, str | None]
"""The results of calls by their ids; None for a call that the client did not carry out."""
_CHECKED = ("type", "properties", "required", "items", "enum", "const")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARKS = Marks(idempotent=True)
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class ClientTool(Marked):
    """A tool of the client: a call waits as a question before it runs, and the answer is its result.

    With `parallel` it may wait together with others.
    """

    spec: Mapping[str, Any]
    language: Language
    parallel: bool = True
    results: Results = field(default_factory=dict)
    """Those that the client has sent."""
    marks: Marks = _MARKS

    @property
    def name(self) -> str:
        return str(self.spec["function"]["name"])

    @property
    def foreign_text(self) -> str:
        """What the client says of the tool, which may come from a server that it uses."""
        return json.dumps(self.spec["function"], ensure_ascii=False)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Give the result that the client has sent."""
        self.check(arguments)
        result = self.results[current_call.get().idempotency_key]
        return (
            ToolMessage(not_carried_out(self.language), tool_call_id="", status="error") if result is None else result
        )

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Check the arguments as far as neither a regular expression nor a reference of the client's has to be read."""
        if why := misfit(self.spec, self.fit(arguments)):
            raise BadArguments(why)

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the types of the schema, where what a model wrote is near to them."""
        return fit_arguments(self.spec["function"]["parameters"], arguments)


def misfit(spec: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Why arguments do not fit the schema of a tool from elsewhere, in a line; empty if they do."""
    from jsonschema.exceptions import best_match

    error = best_match(argument_validator()(spec["function"]["parameters"]).iter_errors(dict(arguments)))
    return f"{error.json_path}: {error.message[:MOST_SHOWN]}" if error else ""


@lru_cache(maxsize=1)
def argument_validator() -> Any:
    """A validator for schemas from elsewhere: it follows no references and matches no patterns."""
    from jsonschema import Draft202012Validator, validators

    rules = {keyword: Draft202012Validator.VALIDATORS[keyword] for keyword in _CHECKED}
    return validators.create({}, rules, type_checker=Draft202012Validator.TYPE_CHECKER)


def client_call(call_id: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A call as the client is asked for it."""
    return {"id": call_id, "name": name, "arguments": dict(arguments)}


def client_question(calls: Sequence[Mapping[str, Any]], language: Language) -> dict[str, Any]:
    """The question with which the client is asked for the results of these calls."""
    notice = "\n".join(client_call_notice(call["name"], call["arguments"], language) for call in calls)
    return {"kind": "question", "question": notice, CLIENT_CALLS: list(calls)}


def client_tool_specs(given: Sequence[Mapping[str, Any]], taken: Collection[str]) -> list[dict[str, Any]]:
    """The specifications {"name", "description", "parameters", "parallel"} in the form that is stored."""
    if len(given) > MOST:
        raise InvalidMessage("The client offers {count} tools; the limit is {most}.", count=len(given), most=MOST)
    _check_size(given)
    specs: dict[str, dict[str, Any]] = {}
    for tool in given:
        function = _function(tool)
        name = function["name"]
        if name in specs or name in taken:
            raise InvalidMessage("There are two tools called {name}: rename the client's tool.", name=name)
        specs[name] = {"type": "function", "function": function, "parallel": bool(tool.get("parallel", True))}
    return [*specs.values()]


def _check_size(given: Sequence[Mapping[str, Any]]) -> None:
    try:
        text = json.dumps([*given], ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return  # the tool that cannot be stored is named when it is read
    if len(text) > MOST_SPEC_BYTES:
        raise InvalidMessage(
            "The client's tools have {size} bytes; the limit is {most}: shorten them.",
            size=len(text),
            most=MOST_SPEC_BYTES,
        )
    if Outline.of(text, MOST_SPEC_VALUES).values > MOST_SPEC_VALUES:
        raise InvalidMessage(
            "The schemas of the client's tools have more than {most} values: simplify them.", most=MOST_SPEC_VALUES
        )


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    name = str(tool.get("name") or "")
    if not _NAME.fullmatch(name) or name.lower() in NO_TOOL:
        raise InvalidMessage(
            "The client's tool name '{name}' is not valid: use up to 64 letters, digits, - or _.", name=name[:100]
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
    except (SchemaError, RecursionError, OverflowError):  # the last by a regular expression
        return False
    return True


def client_tools(specs: Sequence[Mapping[str, Any]], language: Language) -> dict[str, ClientTool]:
    """The tools of stored specifications, by name."""
    return {spec["function"]["name"]: _client_tool(spec, language) for spec in specs}


def _client_tool(spec: Mapping[str, Any], language: Language) -> ClientTool:
    function = spec["function"]
    shown = _MARKS.shown(function["name"])
    parallel = spec.get("parallel", True)  # a task of an earlier version says nothing of it
    return ClientTool({"type": "function", "function": function, "segue": shown}, language, parallel)


# Limits on what MCP servers and A2A agents send, which hold before it is decoded.

MOST_BYTES = 20_000_000
"""Of one message."""
MOST_VALUES = 100_000
"""JSON values in one message: each takes up to a kilobyte once it is decoded."""
_FIRST_LOOK = 250_000
"""Bytes of a message after which its values are counted first; then each time that it is twice as long."""
_REFUSALS = (
    Clause("it sent a message of more than {most} bytes, which is the limit", most=f"{MOST_BYTES:,}"),
    Clause("it sent a message of more than {most} JSON values, which is the limit", most=f"{MOST_VALUES:,}"),
    Clause("it sent a message of more than {most} levels of JSON values, which is the limit", most=DEEPEST),
    Clause("it sent a compressed message: have it send plain ones, as it was asked to"),
)
TOO_LONG, TOO_MANY, TOO_DEEP, COMPRESSED = map(str, _REFUSALS)
REFUSALS = {str(clause): clause for clause in _REFUSALS}
"""The clauses by their texts, which the clients' own errors carry."""


def over_limit(message: bytes | bytearray) -> str:
    """What a message, or the beginning of one, has too much of; empty where it may be decoded."""
    if len(message) > MOST_BYTES:
        return TOO_LONG
    outline = Outline.of(message, MOST_VALUES)
    return TOO_MANY if outline.values > MOST_VALUES else TOO_DEEP if outline.depth > DEEPEST else ""


class Received:
    """What has been received of a message."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._next_look = _FIRST_LOOK

    def add(self, piece: bytes) -> str:
        """Why the message is refused; empty as long as it is not."""
        self._received += piece
        if len(self._received) <= min(self._next_look, MOST_BYTES):
            return ""
        self._next_look *= 2
        return over_limit(self._received)

    def end(self) -> tuple[bytes, str]:
        """The whole message, and why it is refused; then another one begins."""
        whole, self._received, self._next_look = bytes(self._received), bytearray(), _FIRST_LOOK
        over = over_limit(whole)
        return whole if over else storable_json(whole), over


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def storable_json(message: bytes) -> bytes:
    """The message with U+FFFD in the place of half a character, of which the SDKs make nothing at all.

    A server in JavaScript escapes one where it cuts a text.
    """
    if not _SURROGATE.search(message):
        return message
    try:
        text = json.dumps(json.loads(message), ensure_ascii=False)
    except ValueError:
        return message
    return message if (whole := storable_text(text)) == text else whole.encode()
