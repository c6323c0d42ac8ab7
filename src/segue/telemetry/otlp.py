"""A task's trace as a document of OTLP in JSON."""

import base64
import os
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from ..core.records import Json, TaskTrace
from .environment import wants_content
from .spans import spans_of
from .trace_export import resource

_IDS = ("traceId", "spanId", "parentSpanId")


def otlp_json(trace: TaskTrace) -> Json:
    """The body that a collector takes at /v1/traces; messages are in it where the environment asks for content."""
    spans = spans_of(trace, resource(), content=wants_content(os.environ))
    document: Json = _with_hexadecimal_ids(MessageToDict(encode_spans(spans), use_integers_for_enums=True))
    return document


def _with_hexadecimal_ids(value: Any) -> Any:
    """OTLP writes ids in hexadecimal, unlike the other bytes of protobuf's JSON."""
    if isinstance(value, list):
        return [_with_hexadecimal_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(item).hex() if name in _IDS else _with_hexadecimal_ids(item)
        for name, item in value.items()
    }
