"""What /metrics says: of the database, of this process, and of all processes of a service."""

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import segue
from segue.cli import app as cli
from segue.cli.settings import Settings
from segue.core.agents import Budget
from segue.core.errors import ConfigurationError
from segue.core.events import ModelCalled
from segue.telemetry.metrics import MOST_VALUES, OTHER, Metrics
from tests.cli.conftest import Shell, pages, shell
from tests.fakes import answer, call_tool
from tests.polling import wait_until
from tests.reference.blocks import ROOT
from tests.server.serving import ALPHA, BETA, KEYS, Held, Served, ServerSettings, chat, start
from tests.server.test_processes import Process

__all__ = ["pages", "shell"]

Labels = tuple[tuple[str, str], ...]


def samples(text: str) -> dict[tuple[str, Labels], float]:
    """The values of an exposition, by name and labels."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in found}


def value(text: str, name: str, **labels: str) -> float | None:
    return samples(text).get((name, tuple(sorted(labels.items()))))


@pytest.fixture
def served(tmp_path: Path, held: Held) -> Any:
    script = [call_tool(("note", {"name": "one"}), ("gone", {}), thought="t", observe="o"), answer("noted")]
    asking = [call_tool(("pay", {})), answer("paid")] * 2
    agents = [
        held.agent("noter", script * 2),
        held.agent("asker", asking, tools=[pay]),
        held.agent("holder", [call_tool(("hold", {})), answer("held")]),
        held.agent("slow", [call_tool(("stall", {})), answer("?")], tools=[stall], budget=Budget(tool_seconds=0.1)),
    ]
    with Served(tmp_path / "segue.db", ServerSettings(keys=KEYS), agents=agents) as served:
        yield served


@pytest.fixture
def held() -> Held:
    return Held()


@segue.tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@segue.tool
def stall() -> None:
    """Take longer than it may."""
    time.sleep(3)


def test_a_tasks_calls_are_counted_with_the_agent_and_the_tool_and_nothing_else_is_said_of_it(served: Served) -> None:
    with served.client(headers=ALPHA) as client:
        chat(client, "the secret message", agent_id="noter", session_id="private", user_id="ann")
        chat(client, "pay", agent_id="asker", session_id="asking")
        response = client.get("/metrics")
    text = response.text
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert value(text, "segue_tool_seconds_count", agent="noter", tool="note", outcome="success") == 1
    assert value(text, "segue_tool_seconds_count", agent="noter", tool="gone", outcome="error") == 1
    assert value(text, "segue_model_seconds_count", agent="noter", model="ScriptedChatModel") == 2
    assert value(text, "segue_tasks", status="done") == 1
    assert value(text, "segue_tasks", status="waiting") == 1
    assert value(text, "segue_tasks", status="error") == 0
    assert 0 < (value(text, "segue_oldest_task_seconds", status="waiting") or 0) < 60
    assert value(text, "segue_oldest_task_seconds", status="pending") == 0
    assert value(text, "segue_database_up") == 1
    assert [secret for secret in ("private", "secret", "ann", "alpha") if secret in text] == []


def test_a_stream_counts_while_it_is_open(served: Served, held: Held) -> None:
    with served.client(headers=ALPHA) as client:

        def open_streams() -> float | None:
            return value(client.get("/metrics").text, "segue_open_streams")

        assert open_streams() == 0
        with client.stream("POST", "/api/chat", json={"message": "hello", "agent_id": "holder"}) as response:
            frames = response.iter_raw()  # a generator that is dropped closes the stream
            assert next(frames) and open_streams() == 1
            held.go.set()
        wait_until(lambda: open_streams() == 0)


def test_the_metrics_need_a_key_unless_they_are_open(served: Served, tmp_path: Path) -> None:
    with served.client() as client:
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers=BETA).status_code == 200
    settings = ServerSettings(keys=KEYS, open_metrics=True)
    with Served(tmp_path / "open.db", settings) as served, served.client() as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/api/tasks").status_code == 401


def test_every_metric_is_in_the_guide_with_its_type_and_its_labels(served: Served, held: Held) -> None:
    with served.client(headers=ALPHA) as client:
        chat(client, "note it", agent_id="noter")
        cancel_in_the_middle(client, held)
        text = client.get("/metrics").text
    guide = (ROOT / "docs/guides/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(segue_\w+)` \| (\w+) \| ([^|]*)\|", guide, re.MULTILINE)
    families = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE)
    assert [(name, kind) for name, kind, _ in rows] != []
    assert {(name, kind) for name, kind, _ in rows} == {*families}
    labels = {name: set(re.findall(r"`(\w+)`", cell)) for name, _, cell in rows}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = re.sub(r"_(bucket|count|sum)$", "", sample.name)
            assert labels[name] == sample.labels.keys() - {"le"}, sample
    assert f"at most {MOST_VALUES} values" in guide and f"`{OTHER}`" in guide


async def test_a_label_that_clients_fill_with_ever_new_values_stays_bounded() -> None:
    async with segue.open(":memory:") as app:
        metrics, result = Metrics(app), await app.ask("What is 2+2?")
        task = await app.task(result.task_id)
        for number in range(MOST_VALUES + 50):
            called = ModelCalled(
                task_id=task.task_id, purpose="decide", model=f"m{number}", input=1, output=1, seconds=1
            )
            metrics.stored(task, called)
        text = (await metrics.exposition()).decode()
    assert value(text, "segue_model_seconds_count", agent="travel", model=OTHER) == 51, "with the one that answered"
    assert text.count("segue_model_seconds_count{") == MOST_VALUES + 1


async def test_a_database_that_cannot_be_read_is_told_and_the_rest_is_there(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        metrics = Metrics(app)
        (tmp_path / "segue.db").rename(tmp_path / "away.db")
        text = (await metrics.exposition()).decode()
        (tmp_path / "away.db").rename(tmp_path / "segue.db")
    assert value(text, "segue_database_up") == 0
    assert value(text, "segue_tasks", status="done") is None
    assert value(text, "segue_takeovers_total") == 0


async def test_a_process_without_a_service_answers_on_a_port_of_its_own() -> None:
    async with segue.open(":memory:") as app:
        await app.ask("What is 2+2?")
        with Metrics(app).serving(0) as port:
            async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
                text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
            with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1: Address already in use"):
                Metrics(app).serving(port).__enter__()
        assert value(text, "segue_tasks", status="done") == 1
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://127.0.0.1:{port}/metrics")


def test_a_worker_serves_metrics_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[str, int]] = []

    def work(settings: Settings, concurrency: int, grace: float, metrics_host: str, metrics_port: int) -> None:
        served.append((metrics_host, metrics_port))

    monkeypatch.setattr("segue.cli.commands.serve.work", work)
    for options in ([], ["--metrics-port", "9100"], ["--metrics-port", "9100", "--metrics-host", "0.0.0.0"]):
        assert CliRunner().invoke(cli, ["worker", *options]).exit_code == 0
    assert served == [("127.0.0.1", 0), ("127.0.0.1", 9100), ("0.0.0.0", 9100)]


async def test_a_session_whose_process_died_is_a_takeover_once(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    async with segue.open(path) as app:
        metrics = Metrics(app)
        await app.ask("What is 2+2?", session_id="s")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE leases SET owner = 'elsewhere:1:a', expires_at = 1")
        for _ in range(2):
            await app.ask("What is 2+3?", session_id="s")
        assert value((await metrics.exposition()).decode(), "segue_takeovers_total") == 1


def cancel_in_the_middle(client: httpx.Client, held: Held) -> None:
    """Cancel a task while its tool runs."""
    task_id = start(client, "hold it", agent_id="holder")
    assert held.begun.wait(60)
    assert client.post(f"/api/tasks/{task_id}/cancel").status_code == 200
    held.go.set()


def test_an_unknown_outcome_counts_once_also_where_its_task_was_cancelled(served: Served, held: Held) -> None:
    with served.client(headers=ALPHA) as client:
        chat(client, "send it", agent_id="slow")
        cancel_in_the_middle(client, held)
        text = client.get("/metrics").text
    assert value(text, "segue_unknown_outcomes_total", agent="slow", tool="stall") == 1
    assert value(text, "segue_tool_seconds_count", agent="slow", tool="stall", outcome="unknown") == 1
    assert value(text, "segue_unknown_outcomes_total", agent="holder", tool="hold") == 1


@pytest.mark.slow
async def test_the_tasks_of_a_postgresql_server_are_counted(postgres_url: str) -> None:
    async with segue.open(postgres_url) as app:
        metrics, result = Metrics(app), await app.ask("What is 2+2?")
        text = (await metrics.exposition()).decode()
    assert result.success
    assert (value(text, "segue_database_up"), value(text, "segue_tasks", status="done")) == (1, 1)


@pytest.mark.slow
def test_each_worker_answers_for_all_of_them(pages: Shell) -> None:
    pages.environ["TMPDIR"] = str(pages.folder)
    service = Process(pages, "--workers", "2")
    with service.client() as client:
        assert [*pages.folder.glob("segue-metrics-*")] != []
        (pages.folder / "go").touch()
        for number in range(8):
            with httpx.Client(base_url=client.base_url, timeout=60, trust_env=False) as own:
                chat(own, "please fetch it", agent_id="pages", session_id=f"s{number}")
        counts = set()
        for _ in range(10):
            text = httpx.get(f"{client.base_url}/metrics", timeout=60, trust_env=False).text
            counts.add(value(text, "segue_tool_seconds_count", agent="pages", tool="fetch", outcome="success"))
            assert value(text, "segue_tasks", status="done") == 8
        assert counts == {8.0}
    assert service.stop() == 0
    assert [*pages.folder.glob("segue-metrics-*")] == []
