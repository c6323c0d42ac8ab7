"""Prometheus metrics and OpenTelemetry traces of tasks."""

import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..core.environment import need_extra
from ..core.errors import MissingExtra
from .environment import EXPORTER, HTTP, PROTOCOLS, exporter_name, wants_content

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from ..app import App

logger = logging.getLogger(__name__)


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
