"""Prometheus metrics and OpenTelemetry traces of tasks."""

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.environment import need_extra
from ..core.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from ..app import App

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"

logger = logging.getLogger(__name__)


def exporter_name(environ: Mapping[str, str]) -> str:
    """OTEL_TRACES_EXPORTER; without it otlp, where an endpoint is named. Empty for no export."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    default = "otlp" if any(environ.get(name, "").strip() for name in ENDPOINTS) else "none"
    name = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or default
    return "" if name == "none" else name


def wants_content(environ: Mapping[str, str]) -> bool:
    """Whether spans may hold messages, arguments and results."""
    chosen = environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    return chosen in ("true", "span_only", "span_and_event")


def start_export(app: "App", environ: Mapping[str, str]) -> None:
    """Export the traces of the app's tasks, where the environment says so; what is wrong with it is a warning."""
    name = exporter_name(environ)
    if not name:
        return
    try:
        need_extra("The export of traces", "otel", EXPORTER)
    except MissingExtra as error:
        logger.warning("%s Traces are not exported.", error)
        return
    exporter = _exporter(name, environ)
    if exporter:
        from .trace_export import TraceExport

        TraceExport(app, exporter, content=wants_content(environ))


def _exporter(name: str, environ: Mapping[str, str]) -> "SpanExporter | None":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), HTTP)
    if name == "console":
        return ConsoleSpanExporter(out=sys.stderr)
    if name == "otlp" and protocol == HTTP:
        return OTLPSpanExporter()
    wrong = f"OTEL_TRACES_EXPORTER={name}" if name != "otlp" else f"the protocol {protocol}"
    logger.warning("Traces are not exported with %s: choose otlp with %s, console or none.", wrong, HTTP)
    return None
