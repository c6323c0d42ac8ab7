"""Keys are nowhere but where they are needed: not in replies, logs, events or the database."""

import json
import logging
import os
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from segue.cli.commands.schedules import run_schedules
from segue.cli.commands.serve import work
from segue.cli.settings import Settings
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError
from segue.core.logs import configure_logs
from segue.core.variables import resolve
from segue.server import ServerSettings
from segue.server.settings import from_environment
from segue.server.tenants import hash_keys, parse_keys
from tests.cases import cases
from tests.fakes import ScriptedChatModel, call_tool
from tests.loopback import Html, LoopbackServer, Status
from tests.polling import wait_until

from .serving import Served, chat, frames_of

API, MODEL, WRONG, COOKIE = (f"canary-{name}-{'7' * 20}" for name in ("api", "model", "wrong", "cookie"))
CANARIES = (API, MODEL, WRONG, COOKIE)


@pytest.fixture
def logs() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What the service logs, as it would to standard error."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = StringIO()
    configure_logs(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("a2a").setLevel(logging.NOTSET)


def failing(_: Any) -> str:
    return call_tool(("explode", {}))


def explode() -> str:
    """Fail."""
    raise RuntimeError("a tool that explodes")


def quoting() -> Status:
    """An endpoint that says the key again that it refuses."""
    sentence = f"Incorrect API key provided: {MODEL}. Bearer {MODEL}"
    return Status(
        401, body={"error": {"message": sentence, "type": "invalid_request_error", "code": "invalid_api_key"}}
    )


def test_no_canary_comes_out_anywhere(tmp_path: Path, logs: Callable[[], list[dict[str, Any]]]) -> None:
    settings = ServerSettings(keys=parse_keys(hash_keys(f"alpha:{API}")), resume=False)
    said: list[str] = []
    with LoopbackServer(
        [quoting(), quoting(), Html(page=f"<p>{MODEL}</p>", code=401), Status(400), Status(400)]
    ) as endpoint:
        agents = [
            Agent(agent_id="m", model="openai:x", base_url=endpoint.base_url, api_key=SecretStr(MODEL)),
            Agent(agent_id="t", model=ScriptedChatModel(failing), tools=(explode,), max_iteration=4, mode="react"),
        ]
        with Served(tmp_path / "segue.db", settings, agents=agents) as served, served.client() as client:
            provoke(client, said)
            headers = {"Authorization": f"Bearer {API}", "Cookie": f"session={COOKIE}"}
            for agent_id, mode in (("m", "direct"), ("m", "react"), ("t", "react")):
                forms = chat(
                    client, "go", headers=headers, agent_id=agent_id, mode=mode, session_id=f"{agent_id}-{mode}"
                )
                said.append(json.dumps(forms))
                assert forms[-1]["result"]["success"] is False
                said.append(client.get(f"/api/tasks/{forms[0]['task_id']}", headers=headers).text)
            said.append(client.get("/api/agents", headers=headers).text)
    for text in (*said, json.dumps(logs())):
        assert not [canary for canary in CANARIES if canary in text], text
    for file in tmp_path.iterdir():
        assert not [canary for canary in CANARIES if canary.encode() in file.read_bytes()], file
    assert any(line["event"] == "request" for line in logs())


def provoke(client: httpx.Client, said: list[str]) -> None:
    """Requests that are refused, each with a key in it."""
    good, wrong = f"Bearer {API}", f"Bearer {WRONG}"
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/api/modes", {"headers": {"Authorization": wrong}}),
        ("GET", "/api/modes", {"headers": {"Authorization": f"Basic {API}"}}),
        ("GET", "/api/nothing", {"headers": {"Authorization": good}}),
        ("GET", f"/api/modes?key={WRONG}", {"headers": {"Authorization": good}}),
        ("GET", f"/api/tasks/x?after={WRONG}", {"headers": {"Authorization": good}}),
        ("POST", "/api/chat", {"headers": {"Authorization": good}, "json": {"message": "x", "api_key": WRONG}}),
        ("POST", "/api/chat", {"headers": {"Authorization": good}, "json": {"message": "x", "wait": WRONG}}),
        ("POST", "/api/chat", {"headers": {"Authorization": good}, "content": WRONG.encode() * 9}),
        ("POST", "/api/chat", {"headers": {"Authorization": good}, "content": b"x" * 300_000}),
        ("POST", "/healthz", {"headers": {"Authorization": good, "X-Request-Id": f"Bearer {WRONG}"}}),
    ]
    for method, path, options in cases:
        answered = client.request(method, path, **options)
        said.append(answered.text + str(answered.headers))


def test_an_error_of_ours_is_told_by_an_id_that_leads_to_its_trace_in_the_log(
    tmp_path: Path, logs: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Served(tmp_path / "segue.db", ServerSettings()) as served, served.client() as client:

        async def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("the inside")

        monkeypatch.setattr(served.service.app.sessions, "list", broken)
        answered = client.get("/api/sessions", headers={"X-Request-Id": "find-me"})
    assert answered.status_code == 500
    error = answered.json()["error"]
    assert "error_id" in error["message"] and "ZeroDivision" not in answered.text and "Traceback" not in answered.text
    (entry,) = [line for line in logs() if line.get("error_id") == error["error_id"]]
    assert entry["request_id"] == "find-me" and entry["level"] == "error"
    assert "ZeroDivisionError: the inside" in entry["exception"]
    assert not [line for line in logs() if line["logger"] == "uvicorn.error" and "exception" in line]


def test_a_stream_that_breaks_ends_with_done_all_the_same(
    tmp_path: Path, logs: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Served(tmp_path / "segue.db", ServerSettings()) as served, served.client() as client:

        async def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("the inside")
            yield

        monkeypatch.setattr(served.service.app.tasks, "begin_and_follow", broken)
        with client.stream("POST", "/api/chat", json={"message": "hello"}) as response:
            ((_, form),) = [*frames_of(response)]
    assert form["type"] == "done" and form["result"]["success"] is False
    assert "ZeroDivision" not in json.dumps(form)
    (entry,) = [line for line in logs() if line.get("error_id") == form["result"]["error_id"]]
    assert "ZeroDivisionError: the inside" in entry["exception"]


def test_each_request_leaves_one_line_without_what_was_said(
    tmp_path: Path, logs: Callable[[], list[dict[str, Any]]]
) -> None:
    settings = ServerSettings(keys=parse_keys(hash_keys(f"alpha:{API}")))
    headers = {"Authorization": f"Bearer {API}"}
    with Served(tmp_path / "segue.db", settings) as served, served.client(headers=headers) as client:
        chat(client, "a private matter", session_id="private-session")
        client.get("/api/sessions/private-session/history")
        client.get("/healthz")
    entries = [line for line in logs() if line["event"] == "request"]
    assert [(line["method"], line["path"], line["status"], line["tenant"]) for line in entries] == [
        ("POST", "/api/chat", 200, "alpha"),
        ("GET", "/api/sessions/{session_id}/history", 200, "alpha"),
    ]
    assert all(line["seconds"] >= 0 and len(line["request_id"]) == 32 for line in entries)
    assert "private" not in json.dumps(logs())


def test_a_library_that_logs_a_key_is_not_let(logs: Callable[[], list[dict[str, Any]]]) -> None:
    logging.getLogger("library").warning(
        "sent Authorization: Bearer %s and api_key='%s' and sk-%s", MODEL, MODEL, MODEL
    )
    assert MODEL not in json.dumps(logs())


def test_a_message_is_not_logged_once_more_in_colours(logs: Callable[[], list[dict[str, Any]]]) -> None:
    coloured = {"color_message": "Started server process [\x1b[36m%d\x1b[0m]"}
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7, extra=coloured)
    (line,) = logs()
    assert line.keys() == {"event", "level", "logger", "timestamp"}
    assert line["event"] == "Started server process [7]"


def test_no_address_of_a_push_notification_is_logged(tmp_path: Path, logs: Callable[[], list[dict[str, Any]]]) -> None:
    agent = Agent(agent_id="m", model=ScriptedChatModel(lambda _: "Hello."), mode="direct")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    with Served(tmp_path / "a.db", ServerSettings(push_hosts=("127.0.0.1",)), agents=[agent]) as served:
        for address in (
            f"{served.url}/{API}",
            f"http://{WRONG}@127.0.0.1:9/",
            f"http://127.0.0.2/{API}",
            f"ftp://{API}",
        ):
            about = {"taskPushNotificationConfig": {"url": address}}
            form = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
            with served.client(headers={"A2A-Version": "1.0"}) as client:
                client.post("/a2a/m", json={**form, "params": {"message": message, "configuration": about}})
            message = {**message, "messageId": address}
        wait_until(lambda: sum("was not delivered" in line["event"] for line in logs()) >= 2)
    assert not [canary for canary in (API, WRONG) if canary in json.dumps(logs())]


def test_tools_and_processes_that_the_service_starts_see_no_key() -> None:
    environ = {"SEGUE_API_KEY": f"alpha:{API}"}
    from_environment(environ)
    assert API not in json.dumps(environ)


def test_a_log_goes_to_what_is_standard_error_when_it_is_written(
    logs: Callable[[], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = StringIO(), StringIO()
    monkeypatch.setattr("sys.stderr", first)
    configure_logs()
    first.close()
    monkeypatch.setattr("sys.stderr", second)
    logging.getLogger("segue.server").info("still here")
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["still here"]


class Screen(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@cases(
    "is_terminal, asked, is_json",
    [(True, "", False), (False, "", True), (True, "json", True), (False, "text", False)],
)
def test_logs_are_text_at_a_terminal_and_json_elsewhere_unless_a_setting_says_otherwise(
    is_terminal: bool, asked: str, is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_LOG_FORMAT", asked)
    monkeypatch.setenv("LOGGED_KEY", API)
    resolve({"api_key": "${LOGGED_KEY}"}, os.environ)
    root, stream = logging.getLogger(), Screen() if is_terminal else StringIO()
    handlers, level = root.handlers[:], root.level
    try:
        configure_logs(stream)
        logging.getLogger("segue.server").info("quoted %s and sk-%s", API, MODEL, extra={"task_id": "t1"})
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("{") is is_json
    assert "quoted ${LOGGED_KEY} and sk-***" in line and "t1" in line and API not in line


@pytest.mark.parametrize("asked", ["text", "json"])
def test_schedules_and_workers_log_as_the_service_does(
    asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEGUE_LOG_FORMAT", asked)
    monkeypatch.setenv("LOGGED_KEY", API)
    resolve({"api_key": "${LOGGED_KEY}"}, os.environ)

    async def log_instead(*_: Any) -> None:
        try:
            raise RuntimeError(f"Bearer {MODEL}")
        except RuntimeError:
            logging.getLogger("segue.runtime").exception("quoted %s", API, extra={"task_id": "t1"})
        logging.getLogger("elsewhere").info("not told")

    monkeypatch.setattr("segue.cli.commands.schedules._run", log_instead)
    monkeypatch.setattr("segue.cli.commands.serve._work", log_instead)
    for log in (lambda: run_schedules(Settings(":memory:")), lambda: work(Settings(":memory:"), 1, 0.0, "", 0)):
        log()
        written = capsys.readouterr().err
        assert written.startswith("{") is (asked == "json")
        assert "quoted ${LOGGED_KEY}" in written and "t1" in written and "RuntimeError: Bearer ***" in written
        assert MODEL not in written and "not told" not in written


def test_an_unknown_format_of_logs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_LOG_FORMAT", "yaml")
    with pytest.raises(ConfigurationError, match="SEGUE_LOG_FORMAT is 'yaml'"):
        configure_logs(StringIO())
