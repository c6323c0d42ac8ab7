"""Traces on their way to a collector that is there, is not, or hangs."""

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segue
from segue.cli import app as cli
from segue.telemetry import exporter_name, trace_export, wants_content
from segue.telemetry.trace_export import TraceExport, trace_id_of
from tests.cli.conftest import Shell, pages, shell
from tests.polling import until

from .collector import Collector, attributes

__all__ = ["pages", "shell"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


async def ask() -> segue.Result:
    async with segue.open(":memory:") as app:
        return await app.ask("What is 17*23?")


async def test_the_standard_variables_export_to_a_collector(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    result = await ask()
    assert [span.name for span in collector.spans] == [
        *("invoke_agent travel", "chat offline", "execute_tool calculate", "chat offline")
    ]
    assert {span.trace_id for span in collector.spans} == {trace_id_of(result.task_id).to_bytes(16)}
    assert collector.headers[0]["x-key"] == "abc"
    origin = attributes(collector.requests[0].resource_spans[0].resource)
    assert (origin["service.name"], origin["deployment.environment.name"]) == ("segue", "test")
    assert b"17*23" not in collector.requests[0].SerializeToString()


async def test_content_and_the_name_of_the_service_are_chosen_by_variables(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "planner")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    await ask()
    assert attributes(collector.requests[0].resource_spans[0].resource)["service.name"] == "planner"
    assert b"17*23" in collector.requests[0].SerializeToString()


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
    ],
)
def test_traces_are_exported_where_the_environment_says_so(environ: dict[str, str], name: str) -> None:
    assert exporter_name(environ) == name


def test_content_needs_a_yes() -> None:
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    assert [value for value in ("true", "SPAN_ONLY", "false", "no_content", "") if wants_content({name: value})] == [
        *("true", "SPAN_ONLY")
    ]


async def test_what_cannot_be_used_is_a_warning_and_nothing_is_exported(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert (await ask()).success
    assert "the protocol grpc" in caplog.text and collector.spans == []


async def test_a_collector_that_comes_back_gets_every_trace_and_there_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_export, "RETRY_SECONDS", 0.05)
    with Collector() as gone:
        port = int(gone.url.rpartition(":")[2])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", gone.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    caplog.set_level(logging.INFO, "segue")
    async with segue.open(":memory:") as app:
        ids = {(await app.ask("What is 17*23?")).task_id for _ in range(3)}
        await until(lambda: caplog.records)
        with Collector(port) as collector:
            await until(lambda: len(collector.requests) == 3)
    assert {span.trace_id for span in collector.spans} == {trace_id_of(task_id).to_bytes(16) for task_id in ids}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"], caplog.text


async def test_a_collector_that_hangs_delays_no_task_and_closing_only_a_little(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_export, "CLOSE_SECONDS", 0.2)
    with Collector(hangs=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        async with segue.open(":memory:") as app:
            assert [(await app.ask("What is 2+2?")).success for _ in range(3)] == [True] * 3
            await until(collector.asked.is_set)
            begun = time.monotonic()
        assert time.monotonic() - begun < 40, "the collector answers after 60 seconds"
    assert "Traces that were not exported: 3." in caplog.text


async def test_no_more_tasks_wait_for_the_collector_than_may(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_export, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(trace_export, "MOST_WAITING", 2)
    with Collector(hangs=True) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        async with segue.open(":memory:") as app:
            for _ in range(6):
                await app.ask("What is 2+2?")
    assert "Traces that were not exported: 3." in caplog.text, "two that wait, and the one under way"


async def test_an_exporter_that_raises_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    class Broken(InMemorySpanExporter):
        def export(self, spans: object) -> None:  # type: ignore[override]
            raise ValueError("broken")

    async with segue.open(":memory:") as app:
        TraceExport(app, Broken())
        assert (await app.ask("What is 2+2?")).success
        await until(lambda: caplog.records)
    assert "ValueError: broken." in caplog.text


def printed(shell: Shell, task_id: str) -> list[dict[str, str]]:
    """The spans that `segue trace --otel` prints."""
    found = shell("trace", task_id, "--otel")
    assert found.returncode == 0, found.stderr
    (resource,) = json.loads(found.stdout)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    spans: list[dict[str, str]] = scope["spans"]
    return spans


@pytest.mark.slow
def test_a_task_that_is_killed_in_a_call_and_goes_on_in_another_process_is_one_trace(
    pages: Shell, collector: Collector
) -> None:
    pages.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    asked = ("chat", "please fetch it, then store it", "--agents", "agents.toml", "--agent", "pages", "--session", "s")
    killed = pages.begin(*asked)
    pages.until("effects", "fetch begun")
    killed.kill()
    killed.wait()
    assert collector.spans == [], "it had no time to export anything"
    (pages.folder / "go").touch()
    assert pages.begin("resume", "--last").wait(60) == 0, pages.read("err")
    spans = collector.spans
    (root,) = [span for span in spans if not span.parent_span_id]
    assert {span.trace_id for span in spans} == {root.trace_id} and len({span.span_id for span in spans}) == len(spans)
    assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}
    errors = {span.name: attributes(span).get("error.type") for span in spans}
    assert (errors["execute_tool fetch"], errors["execute_tool store"]) == ("unknown_outcome", None)
    assert "segue.resumed" in [event.name for event in root.events]
    again = printed(pages, root.trace_id.hex()[:8])
    assert [(span["traceId"], span["spanId"]) for span in again] == [
        (span.trace_id.hex(), span.span_id.hex()) for span in spans
    ]


def test_the_command_prints_otlp_as_a_collector_takes_it(tmp_path: Path) -> None:
    result = segue.ask("What is 17*23?", db=tmp_path / "segue.db")
    (root, *children) = printed(Shell(tmp_path, {}), result.task_id)
    assert (root["traceId"], root["kind"]) == (result.task_id.replace("-", ""), 1)
    assert len(root["spanId"]) == 16 and {span["parentSpanId"] for span in children} == {root["spanId"]}


def test_without_the_extra_the_command_names_it_and_tasks_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    result = segue.ask("What is 17*23?", db=tmp_path / "segue.db")
    assert result.success and "segue[otel]" in caplog.text
    found = CliRunner().invoke(cli, ["trace", result.task_id, "--otel", "--db", str(tmp_path / "segue.db")])
    assert (found.exit_code, "segue[otel]" in found.stderr) == (1, True)
