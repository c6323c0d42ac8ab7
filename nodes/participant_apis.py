"""APIs that offer tools or HTTP requests, and the check of a call against the functions that an API offers."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

import httpx

from segue.core.calls import Tool
from segue.core.conversation import APIOutput, Setting, Utterance, as_text
from segue.core.errors import ConfigurationError, listed
from segue.prompts.catalogue import task_text
from segue.tools.adapters.client import argument_validator
from segue.tools.bound_tool import Marked, Marks

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


def refused(
    specs: Sequence[Mapping[str, Any]], call: Utterance, language: str, *, simple: bool = False
) -> APIOutput | None:
    """Why a call does not fit the functions that are offered, as a result of status 400; None if it fits.

    `simple`: without references and patterns, for schemas that may come from elsewhere.
    """
    functions = {spec["function"]["name"]: spec["function"] for spec in specs}
    if call.action not in functions:
        return _bad_request(
            "no_api", language, tool=call.action, known=", ".join(functions) or task_text("no_tools", language)
        )
    schema = functions[call.action].get("parameters") or {}
    faults = dict.fromkeys(_faults(schema, call.action_input, language, simple=simple))
    if not faults:
        return None
    return _bad_request("api_misfit", language, tool=call.action, faults="; ".join(faults))


def _bad_request(name: str, language: str, **values: object) -> APIOutput:
    return APIOutput(status_code=BAD_REQUEST, data=task_text(name, language, **values))


def _faults(schema: Mapping[str, Any], arguments: Mapping[str, Any], language: str, *, simple: bool) -> Iterable[str]:
    from jsonschema import Draft202012Validator  # its import takes a quarter of a second

    validator = argument_validator() if simple else Draft202012Validator
    for error in validator(schema).iter_errors(dict(arguments)):
        where = ".".join(str(part) for part in error.absolute_path)
        said = _fault(error, language)
        yield f"{where}: {said}" if where else said


def _fault(error: Any, language: str) -> str:
    """What a `jsonschema.ValidationError` is about; of what there is no text for, what the validator says."""
    expected = error.validator_value
    match error.validator:
        case "required":
            names = ", ".join(name for name in expected if name not in error.instance)
            return task_text("schema_required", language, names=names)
        case "additionalProperties" if expected is False:
            names = ", ".join(name for name in error.instance if name not in error.schema.get("properties", {}))
            return task_text("schema_unknown", language, names=names)
        case "type" | "enum" as rule:
            values = ", ".join(map(as_text, expected)) if isinstance(expected, list) else as_text(expected)
            return task_text(f"schema_{rule}", language, expected=values)
    return str(error.message)


class ToolsAPI:
    """Offers tools. The graph runs their calls through the ledger, so a finished call never runs again."""

    def __init__(self, setting: Setting) -> None:
        self.tools: Mapping[str, Tool] = setting.tools

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]:
        return [_with_hiding(tool) for tool in self.tools.values()]

    def output(self, value: Any) -> APIOutput:
        """The result of a call that returned this value."""
        return APIOutput(data=value)


def _with_hiding(tool: Tool) -> Mapping[str, Any]:
    """The specification of a tool, which says whether its results are hidden."""
    return {**tool.spec, "segue": {**tool.spec.get("segue", {}), "hidden": tool.hidden}} if tool.hidden else tool.spec


MOST_BYTES = 1_000_000
"""Bytes of a response that are read."""
MOST_DECODED = 3
"""How often a path may be percent-encoded: a proxy decodes it, and then a server."""
_SLOT = re.compile(r"\{(\w+)\}")
_SAFE = ("GET", "HEAD", "OPTIONS")
_REPEATABLE = (*_SAFE, "PUT", "DELETE")


@dataclass(frozen=True)
class HttpTool(Marked):
    """One configured API as a tool: {name, url, method, parameters}; the URL may have {slots} for arguments."""

    api: Mapping[str, Any]
    timeout_seconds: float
    language: str
    marks: Marks = field(init=False)

    def __post_init__(self) -> None:
        marks = Marks(
            read_only=self.method in _SAFE, idempotent=self.method in _REPEATABLE, timeout=self.timeout_seconds
        )
        object.__setattr__(self, "marks", marks)

    @property
    def name(self) -> str:
        return str(self.api["name"])

    @property
    def method(self) -> str:
        return str(self.api.get("method", "POST")).upper()

    @property
    def spec(self) -> Mapping[str, Any]:
        return spec_of(self.api)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Send the request; {status_code, data} whatever the status."""
        slots = _SLOT.findall(str(self.api["url"]).partition("?")[0])
        if empty := next((name for name in slots if not str(arguments.get(name, ""))), None):
            raise ValueError(task_text("url_argument_empty", self.language, argument=empty))
        url = _SLOT.sub(lambda slot: quote(str(arguments.get(slot[1], "")), safe=""), str(self.api["url"]))
        if segment := _dot_segment(url):
            raise ValueError(task_text("url_other_path", self.language, segment=segment))
        left = {name: value for name, value in arguments.items() if name not in _SLOT.findall(str(self.api["url"]))}
        given: dict[str, Any] = {"params": left} if self.method in _SAFE else {"json": left}
        async with (
            httpx.AsyncClient(timeout=self.timeout_seconds, follow_redirects=False) as client,
            client.stream(self.method, url, **given) as response,
        ):
            return {"status_code": response.status_code, "data": _data(response, await self._body(response))}

    async def _body(self, response: httpx.Response) -> bytes:
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MOST_BYTES:
                raise ValueError(task_text("response_too_long", self.language, most=MOST_BYTES))
        return body


def _dot_segment(url: str) -> str:
    """A segment of the URL's path that stands for a folder, as '..' does; empty where there is none."""
    path = re.split(r"[?#]", url, maxsplit=1)[0]
    for _ in range(MOST_DECODED):
        path = unquote(path)
    segments = (re.split("[;?#]", segment)[0] for segment in re.split(r"[/\\]", path))
    return next((segment for segment in segments if segment in (".", "..")), "")


def _data(response: httpx.Response, body: bytes) -> Any:
    text = body.decode(response.encoding or "utf-8", "replace")
    if "json" not in response.headers.get("content-type", ""):
        return text
    try:
        return httpx.Response(200, content=body).json()
    except ValueError:
        return text


class HttpAPI(ToolsAPI):
    """Sends each call to the URL of its API, if the host is one of `allowed_hosts`."""

    def __init__(self, setting: Setting) -> None:
        seconds = setting.config.api_timeout
        for api in setting.config.apis:
            _check(api, setting.config.allowed_hosts, setting.services.participants.restrictions.hosts)
        tools = {str(api["name"]): HttpTool(api, seconds, setting.language) for api in setting.config.apis}
        super().__init__(replace(setting, tools=tools))

    def output(self, value: Any) -> APIOutput:
        return APIOutput(status_code=value["status_code"], data=value["data"])


def _check(api: Mapping[str, Any], allowed: Collection[str], permitted: Collection[str] | None) -> None:
    """Refuse an API whose host is not allowed, or whose path is not as it is written."""
    try:
        url = httpx.URL(_SLOT.sub("x", str(api.get("url", "")).partition("?")[0]))
    except httpx.InvalidURL:
        url = httpx.URL()
    place = f"{url.host}:{url.port}" if url.port else url.host
    if url.scheme not in ("http", "https") or not {url.host, place} & set(allowed) or _SLOT.search(_host(api)):
        raise ConfigurationError(
            "The API {name} would call {place}: add the host to allowed_hosts, or correct its url.",
            name=api.get("name", "?"),
            place=place or "no host",
        )
    if permitted is not None and not {url.host, place} & set(permitted):
        raise ConfigurationError(
            "The API {name} would call {place}, which this service does not allow; it allows: {known}.",
            name=api.get("name", "?"),
            place=place,
            known=listed(sorted(permitted)) if permitted else "no host",
        )
    if segment := _dot_segment(_SLOT.sub("x", str(api["url"]))):
        raise ConfigurationError(
            "The URL of the API {name} has a segment '{segment}': write the path that it leads to.",
            name=api.get("name", "?"),
            segment=segment,
        )


def _host(api: Mapping[str, Any]) -> str:
    """The part of a URL that must have no slot."""
    return "/".join(str(api.get("url", "")).split("/", 3)[:3])
