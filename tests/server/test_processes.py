"""`segue serve` in processes of its own: stopped, killed, started again, and two of them at once."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from typer.testing import CliRunner

from segue.cli import app
from tests.cli.conftest import SECONDS, Shell, pages, shell
from tests.cli.process import begin as begin_command
from tests.polling import wait_until
from tests.ports import free_port
from tests.postgres import started

from .serving import KEY, Json, ending, follow, start

__all__ = ["pages", "shell"]

ONCE = {"Idempotency-Key": "k"}
ASKED = {"message": "please fetch it, then store it", "agent_id": "pages", "session_id": "s"}


class Process:
    """A `segue serve` under way."""

    def __init__(self, shell: Shell, *options: str, **environ: str) -> None:
        self._shell = shell
        self._log = f"serve-{len(shell.started)}.log"
        command = ("serve", "--port", "0", "--agents", "agents.toml", *options)
        forked = "--workers" not in options  # which are started anew, by name
        log = shell.folder / self._log
        self.process = begin_command(command, shell.folder, {**shell.environ, **environ}, log, forked=forked)
        shell.started.append(self.process)

    def client(self, **options: Any) -> httpx.Client:
        """A client of it, once it answers."""
        begun = re.compile(r"running on http://\S+:[1-9]")
        wait_until(lambda: self.process.poll() is not None or begun.search(self.log()))
        assert self.process.poll() is None, self.log()
        (url,) = re.findall(r"running on (http://[\w.]+:\d+)", self.log())
        wait_until(lambda: is_ready(url))
        return httpx.Client(base_url=url, timeout=SECONDS, trust_env=False, **options)

    def log(self) -> str:
        return self._shell.read(self._log)

    def entries(self) -> list[Json]:
        """The log, each line of which is JSON."""
        return [json.loads(line) for line in self.log().splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def serve(pages: Shell) -> Iterator[Callable[..., Process]]:
    """Starts services in the folder of the shell, which kills what is left of them."""
    yield lambda *options, **environ: Process(pages, *options, **environ)


def openai_client(http: httpx.Client) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{http.base_url}/v1".replace("//v1", "/v1"),
        api_key="none",
        http_client=httpx.Client(timeout=60, trust_env=False),
    )


def effects(shell: Shell) -> list[str]:
    return shell.read("effects").splitlines()


def begin(shell: Shell, client: httpx.Client) -> str:
    """A task that is in the middle of a tool call."""
    task_id = start(client, **ASKED)
    shell.until("effects", "fetch begun")
    return task_id


@pytest.mark.slow
def test_a_service_that_is_told_to_stop_loses_nothing_and_what_a_person_paused_stays_paused(
    pages: Shell, serve: Callable[..., Process]
) -> None:
    tell_of_the_key(pages)
    first = serve(SEGUE_API_KEY=KEY)
    headers = {"Authorization": f"Bearer {KEY}"}
    with first.client(headers=headers) as client, client.stream("POST", "/api/chat", json=ASKED) as response:
        going, paused = response.headers["x-task-id"], start(client, **{**ASKED, "session_id": "other"})
        wait_until(lambda: effects(pages).count("fetch begun") == 2)
        assert client.post(f"/api/tasks/{paused}/pause").json()["status"] == "pausing"
        first.process.send_signal(signal.SIGTERM)
        wait_until(lambda: '"draining"' in first.log())
        (pages.folder / "go").touch()
        forms = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: ")]
    assert ending(forms)["status"] == "paused"
    assert first.process.wait(SECONDS) == 0
    assert sorted(effects(pages)) == ["fetch begun"] * 2 + ["fetch done"] * 2
    assert "exception" not in first.log()

    second = serve(SEGUE_API_KEY=KEY)
    with second.client(headers=headers) as client:
        assert ending([form for _, form in follow(client, going)])["status"] == "done"
        assert ending([form for _, form in follow(client, paused)])["status"] == "paused"
        assert effects(pages)[4:] == ["key False", "store done"], "nothing ran twice, and nobody had to ask"
        assert client.post(f"/api/tasks/{paused}/resume").status_code == 202
        assert ending([form for _, form in follow(client, paused)])["status"] == "done"
    assert effects(pages)[4:] == ["key False", "store done"] * 2
    assert [entry["event"] for entry in second.entries()].count("resumed") == 1
    assert {"timestamp", "level", "event", "logger"} <= {*second.entries()[0]}
    assert second.stop() == 0
    for file in pages.folder.iterdir():
        assert file.is_dir() or KEY.encode() not in file.read_bytes(), file


@pytest.mark.slow
@pytest.mark.postgres
def test_a_service_waits_for_its_database_server(pages: Shell, serve: Callable[..., Process]) -> None:
    with started() as cluster, cluster.database() as url:
        cluster.stop()
        service = serve("--db", url)
        wait_until(lambda: service.process.poll() is not None or "cannot be reached" in service.log())
        assert [entry["level"] for entry in service.entries()] == ["warning"]
        cluster.start()
        with service.client() as client:
            assert client.get("/api/sessions").json()["items"] == []
        assert service.stop() == 0


def tell_of_the_key(pages: Shell) -> None:
    """Let a tool note whether it sees the service's key."""
    tools = (pages.folder / "page_tools.py").read_text(encoding="utf-8")
    seen = '    effect("key " + str("SEGUE_API_KEY" in os.environ))\n    effect("store done")'
    (pages.folder / "page_tools.py").write_text(tools.replace('    effect("store done")', seen), encoding="utf-8")


@pytest.mark.slow
def test_what_reaches_no_boundary_in_time_and_what_is_killed_goes_on_as_well(
    pages: Shell, serve: Callable[..., Process]
) -> None:
    first = serve(SEGUE_DRAIN_SECONDS="1")
    with first.client() as client:
        stopped = begin(pages, client)
    assert first.stop(signal.SIGINT) == 0
    second = serve()
    with second.client() as client:
        result = ending([form for _, form in follow(client, stopped)])
        assert (result["status"], [call["name"] for call in result["unknown_outcomes"]]) == ("done", ["fetch"])
        assert effects(pages) == ["fetch begun", "store done"]
        killed = start(client, **ASKED)
        wait_until(lambda: effects(pages).count("fetch begun") == 2)
    second.stop(signal.SIGKILL)
    with serve().client() as client:
        result = ending([form for _, form in follow(client, killed)])
        assert (result["status"], [call["name"] for call in result["unknown_outcomes"]]) == ("done", ["fetch"])
    assert effects(pages) == ["fetch begun", "store done", "fetch begun", "store done"]


@pytest.mark.slow
def test_openais_client_goes_on_with_a_response_of_a_service_that_was_killed(
    pages: Shell, serve: Callable[..., Process]
) -> None:
    first = serve()
    with first.client() as http, openai_client(http) as client:
        response = client.responses.create(
            model="shop:plan", input="please fetch it, then refund it", background=True, stream=True
        )
        seen = []
        for event in response:
            seen.append(event)
            if event.type == "response.mcp_call.in_progress":
                break
        pages.until("effects", "fetch begun")
        first.stop(signal.SIGKILL)
    assert seen[0].type == "response.created"
    response_id, last = seen[0].response.id, seen[-1].sequence_number

    second = serve()
    with second.client() as http, openai_client(http) as client:
        rest = [*client.responses.retrieve(response_id, stream=True, starting_after=last)]
        whole = [*client.responses.retrieve(response_id, stream=True)]
        assert [(e.sequence_number, e.type) for e in (*seen, *rest)] == [(e.sequence_number, e.type) for e in whole]
        asked = client.responses.retrieve(response_id)
        assert asked.status == "completed"
        (request,) = [item for item in asked.output if item.type == "mcp_approval_request"]
        decision: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        done = client.responses.create(
            model="shop", input=[decision], previous_response_id=response_id, background=True, extra_headers=ONCE
        )
        second.stop(signal.SIGKILL)

    with serve().client() as http, openai_client(http) as client:
        again = client.responses.create(
            model="shop", input=[decision], previous_response_id=response_id, background=True, extra_headers=ONCE
        )
        assert again.id == done.id
        wait_until(lambda: client.responses.retrieve(done.id).status == "completed")
        (call,) = [item for item in client.responses.retrieve(done.id).output if item.type == "mcp_call"]
        assert call.approval_request_id == request.id
    assert effects(pages).count("fetch begun") == 1
    assert len([line for line in effects(pages) if line.startswith("refund")]) <= 1, "else its outcome is unknown"


@pytest.mark.slow
def test_two_workers_are_one_service(pages: Shell, serve: Callable[..., Process]) -> None:
    service = serve("--workers", "2", SEGUE_API_KEY=f"alpha:{KEY}")
    headers = {"Authorization": f"Bearer {KEY}", "Connection": "close"}  # each request to whichever worker takes it
    with service.client(headers=headers) as client:

        def send(_: int) -> int:
            with client.stream("POST", "/api/chat", json=ASKED) as response:
                return response.status_code

        with ThreadPoolExecutor(2) as at_once:
            assert sorted(at_once.map(send, range(2))) == [200, 409], "one owner a session, whichever worker asks"
        pages.until("effects", "fetch begun")
        (task,) = client.get("/api/sessions/s/tasks").json()["items"]
        path = f"/api/tasks/{task['task_id']}"
        assert {client.post("/api/chat", json=ASKED).status_code for _ in range(8)} == {409}
        with ThreadPoolExecutor(6) as at_once:
            followed = [at_once.submit(follow, client, task["task_id"]) for _ in range(6)]
            time.sleep(0.2)
            assert client.post(f"{path}/pause").status_code == 202
            (pages.folder / "go").touch()
            for stream in followed:
                forms = [form for _, form in stream.result()]
                assert ending(forms)["status"] == "paused"
                seqs = [form["seq"] for form in forms if "seq" in form]
                assert seqs == [*range(1, len(seqs) + 1)]
        assert client.post(f"{path}/resume").status_code == 202
        wait_until(lambda: client.get(path).json()["task"]["status"] == "done")
    assert effects(pages) == ["fetch begun", "fetch done", "store done"]
    assert service.stop() == 0
    assert KEY not in service.log()
    assert len({entry["event"] for entry in service.entries() if "Started server process" in entry["event"]}) == 2


def refusal(*arguments: str, **environ: str) -> str:
    """What a service that does not start says: one sentence."""
    said = CliRunner().invoke(app, ["serve", "--port", "0", *arguments], env=environ)
    assert said.exit_code == 2, said.output
    assert "Traceback" not in said.output and said.stdout == ""
    return " ".join(said.stderr.split())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_another_address_is_refused_without_a_key(host: str) -> None:
    assert "set SEGUE_API_KEY" in refusal("--host", host)


def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    assert "hunter2" not in refusal(SEGUE_API_KEY="hunter2")
    assert "SEGUE_RATE_CHATS" in refusal(SEGUE_RATE_CHATS="many")
    assert "name a file with --db" in refusal("--workers", "2", "--db", ":memory:")
    (tmp_path / "agents.toml").write_text("[[agent]]\nagent_id = 3\n", encoding="utf-8")
    assert "agents.toml" in refusal("--agents", str(tmp_path / "agents.toml"), "--workers", "2")


@pytest.mark.slow
def test_at_a_terminal_the_address_of_the_page_is_said_at_once(pages: Shell) -> None:
    port = str(free_port())
    terminal = pages.at_terminal("serve", "--port", port, "--agents", "agents.toml")
    terminal.until(f"Starting at http://127.0.0.1:{port}. Open it in a browser; Ctrl-C stops.")
    terminal.until("Uvicorn running on")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
