"""What happens in a run of a LangGraph graph, as the events that clients of its server API get."""

import base64
import dataclasses
import math
import time
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import aclosing
from datetime import date
from enum import Enum
from typing import Any

from langchain_core._api import suppress_langchain_beta_warning
from langchain_core.messages import BaseMessage
from langgraph.pregel import Pregel
from langgraph.stream import StreamTransformer
from langgraph.types import Interrupt
from pydantic import BaseModel

from ..core.records import Json

DEEPEST = 200
"""Levels of a value that are kept; JSON of more is read by no client."""
MESSAGE = "message"
"""The method of an event with a message, or a piece of one, and its metadata, as `messages-tuple` streams it."""


def as_json(value: Any, levels: int = DEEPEST) -> Any:
    """A value of a graph's state as JSON: messages and models as objects, what has no form as text."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if levels == 0:
        return "…"
    if (fields := _fields(value)) is not None:
        return {str(key): as_json(each, levels - 1) for key, each in fields.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [as_json(each, levels - 1) for each in value]
    return _scalar(value)


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """What a value consists of by name; None where it has no names."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Interrupt):
        return {"value": value.value, "id": value.id}
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return None


def _scalar(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, date) else str(value)


def new_event(method: str, data: Any, namespace: Sequence[str] = (), **more: Any) -> Json:
    """An event as it is stored."""
    return {"method": method, "namespace": [*namespace], "timestamp": int(time.time() * 1000), "data": data, **more}


def lifecycle(event: str, graph_id: str, error: str = "") -> Json:
    """What became of the run as a whole."""
    failed = {"error": error} if error else {}
    return new_event("lifecycle", {"event": event, "graph_name": graph_id, **failed})


def input_requested(interrupt: Mapping[str, Any]) -> Json:
    """The question that a run waits with; SDKs read either name of its value."""
    value = interrupt.get("value")
    return new_event("input.requested", {"interrupt_id": interrupt.get("id"), "payload": value, "value": value})


class _Channels(StreamTransformer):
    """Has a graph stream what the protocol has channels for."""

    required_stream_modes = ("values", "updates", "messages", "custom", "checkpoints", "tools")

    def init(self) -> Json:
        return {}

    def process(self, event: Any) -> bool:
        return True


async def protocol_events(
    graph: Pregel[Any, Any, Any, Any], given: Any, config: Any, **options: Any
) -> AsyncGenerator[Json, None]:
    """Run a graph, and give the events of the protocol with channels."""
    with suppress_langchain_beta_warning():
        stream = await graph.astream_events(given, config, version="v3", transformers=[_Channels], **options)
    async with stream:
        async for part in stream:
            for event in _of_protocol(part["method"], part["params"]):
                yield event
        if (error := stream._mux._events._error) is not None:
            raise error


def _of_protocol(method: str, params: Mapping[str, Any]) -> list[Json]:
    data, namespace = params["data"], params["namespace"]
    if method == "messages":
        piece, metadata = data
        if not isinstance(piece, Mapping):  # a whole message, which the values have, too
            return []
        about = {"run_id": str(metadata["run_id"])} if metadata.get("run_id") else {}
        return [new_event(method, as_json(piece), namespace, **about)]
    if method == "lifecycle":
        return [new_event(method, as_json(data), data["namespace"])]
    if method == "checkpoints":
        return [checkpoint_saved(data, namespace)]
    if method == "tasks":
        return []
    return [new_event(method, as_json(data), namespace, **_interrupts(params))]


def _interrupts(part: Mapping[str, Any]) -> Json:
    return {"interrupts": as_json(part["interrupts"])} if part.get("interrupts") else {}


def checkpoint_saved(data: Mapping[str, Any], namespace: Sequence[str] = ()) -> Json:
    """That a checkpoint was saved, which `data` has the configuration, the metadata and the parent of."""
    metadata, parent = data.get("metadata") or {}, data.get("parent_config") or {}
    about = {
        "id": data["config"]["configurable"].get("checkpoint_id"),
        **({"parent_id": parent["configurable"].get("checkpoint_id")} if parent else {}),
        "step": metadata.get("step"),
        "source": metadata.get("source"),
    }
    return new_event("checkpoints", about, namespace)


async def stream_events(
    graph: Pregel[Any, Any, Any, Any], given: Any, config: Any, modes: Sequence[str], **options: Any
) -> AsyncGenerator[Json, None]:
    """Run a graph, and give the events of LangGraph's stream modes; those of subgraphs have their namespaces."""
    wanted = sorted({"messages" if mode == "messages-tuple" else mode for mode in (*modes, "values")})
    parts = graph.astream(given, config, stream_mode=wanted, subgraphs=True, version="v2", **options)  # type: ignore[call-overload]
    async with aclosing(parts):
        async for part in parts:
            if part["type"] == "messages":
                message, metadata = part["data"]
                if isinstance(message, BaseMessage):
                    yield new_event(MESSAGE, [as_json(message), as_json(metadata)], part["ns"])
                continue
            yield new_event(part["type"], as_json(part["data"]), part["ns"], **_interrupts(part))
