"""OpenTelemetry's environment variables: whether traces are exported, where, and with what content."""

from collections.abc import Mapping

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
HTTP = "http/protobuf"
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


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
