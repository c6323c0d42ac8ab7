"""Prometheus metrics and OpenTelemetry traces of tasks."""
