"""A transport that checks every object and event of OpenAI's surfaces against the published types."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openresponses_types.types as open_responses
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseItem, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter, ValidationError

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)
_OPEN_EVENTS = {
    str(next(iter(event.model_fields["type"].annotation))): event  # type: ignore[arg-type, call-overload]
    for name, event in vars(open_responses).items()
    if name.endswith("StreamingEvent") and isinstance(event, type) and issubclass(event, BaseModel)
}
"""The events of Open Responses by type."""


def _of_open_responses(response: dict[str, Any]) -> dict[str, Any]:
    """The response as Open Responses has it.

    It has no items for tools that the service runs, no status `cancelled`, and takes no schema but null.
    """
    status = "incomplete" if response["status"] == "cancelled" else response["status"]
    kept = [item for item in response["output"] if not item["type"].startswith("mcp_")]
    form = {**response["text"]["format"], **({"schema": None} if "schema" in response["text"]["format"] else {})}
    return {**response, "status": status, "output": kept, "text": {**response["text"], "format": form}}


def check_response(form: dict[str, Any]) -> None:
    reason = (form.get("incomplete_details") or {}).get("reason")
    if reason in ("paused", "steered"):  # reasons of Segue's own
        form = {**form, "incomplete_details": None}
    Response.model_validate(form)
    open_responses.ResponseResource.model_validate(_of_open_responses(form))


def check_event(form: dict[str, Any]) -> None:
    kind = form["type"]
    if "response" in form:
        check_response(form["response"])
        return
    _EVENT.validate_python(form)
    item = form.get("item") or {}
    if kind.startswith("response.mcp_") or str(item.get("type", "")).startswith("mcp_"):
        return
    _OPEN_EVENTS[kind].model_validate(form)


def _check_body(path: str, form: dict[str, Any]) -> None:
    if path.endswith("/chat/completions"):
        ChatCompletion.model_validate(form)
    elif path.endswith("/input_items"):
        for item in form["data"]:
            _ITEM.validate_python(item)
    elif form.get("object") == "response" and "output" in form:
        check_response(form)


def _check_frame(path: str, frame: str) -> None:
    data = "".join(line.removeprefix("data: ") for line in frame.split("\n") if line.startswith("data: "))
    if not data or data == "[DONE]":
        return
    form = json.loads(data)
    if path.endswith("/chat/completions"):
        if "error" not in form:
            ChatCompletionChunk.model_validate(form)
    else:
        check_event(form)


class _CheckedStream(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, path: str) -> None:
        self._stream = stream
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        rest = ""
        for chunk in self._stream:
            *frames, rest = (rest + chunk.decode()).split("\n\n")
            for frame in frames:
                _checked(_check_frame, self._path, frame)
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _checked(check: Any, path: str, given: Any) -> None:
    try:
        check(path, given)
    except (ValidationError, KeyError) as error:
        raise AssertionError(f"{path} sent what is not of the published schema: {error!r}\n{given}") from error


class CheckedTransport(httpx.HTTPTransport):
    """Raises AssertionError where the service sends what is not of the published schemas."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer, path = super().handle_request(request), request.url.path
        if answer.status_code != 200 or not path.startswith(("/v1/responses", "/v1/chat/completions")):
            return answer
        if "text/event-stream" in answer.headers["content-type"]:
            assert isinstance(answer.stream, httpx.SyncByteStream)
            answer.stream = _CheckedStream(answer.stream, path)
        else:
            _checked(_check_body, path, json.loads(answer.read()))
        return answer
