"""Who is let in, how often, and with how much."""

import asyncio
import dataclasses
import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.core.json import DEEPEST, Outline
from segue.server import ServerSettings
from segue.server.tenants import Keys
from tests.polling import wait_until

from .serving import ALPHA, BETA, KEYS, READY, SECONDS, Held, Served, chat, start
from .test_streams import from_last

SMALL = ServerSettings(
    keys=KEYS, chats_a_minute=3, requests_a_minute=8, streams=1, body_bytes=2000, body_seconds=1, resume=False
)
ROOMY = dataclasses.replace(SMALL, import_bytes=4000, chats_a_minute=1000, requests_a_minute=1000)
ALONE = dataclasses.replace(ROOMY, keys=Keys())


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def serve(tmp_path: Path, held: Held) -> Iterator[Any]:
    """Start a service with these settings; it stops with the test."""
    running = []

    def begin(settings: ServerSettings) -> Served:
        running.append(Served(tmp_path / "segue.db", settings, agents=[held.agent("a", from_last)]).__enter__())
        return running[-1]

    yield begin
    held.go.set()
    for served in running:
        served.__exit__(None, None, None)


def problem(response: httpx.Response, status: int, kind: str) -> str:
    """The sentence of an error body, which has nothing but what it must."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert {*response.json()} == {"error"}
    error = response.json()["error"]
    assert {*error} == {"type", "message", "error_id"} and error["type"] == kind
    assert len(error["error_id"]) == 12
    return str(error["message"])


def test_a_body_that_is_too_long_or_never_arrives_is_refused(serve: Any) -> None:
    served = serve(ROOMY)
    with served.client(headers=ALPHA) as client:
        problem(client.post("/api/chat", json={"message": "x" * 2000}), 413, "BodyTooLong")
        chunked = client.post(
            "/api/chat", content=iter([b"x" * 500] * 10), headers={"Content-Type": "application/json"}
        )
        problem(chunked, 413, "BodyTooLong")
        assert chat(client, "x" * 1000)[-1]["type"] == "done"
        assert client.get("/api/sessions").json()["items"][0]["turns"] == 1, "what was refused was not stored"
        document = {"document": {"messages": "x" * 2000}}
        assert client.post("/api/sessions/import", json=document).status_code == 422
        long = client.post("/api/sessions/import", json={"document": {"messages": "x" * 4000}})
        assert "SEGUE_IMPORT_MB" in problem(long, 413, "FileTooLong")
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
        lines = ("POST /api/chat HTTP/1.1", "Host: x", f"Authorization: {ALPHA['Authorization']}", "Content-Length: 9")
        slow.sendall("\r\n".join([*lines, "", "{"]).encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")


def test_a_connection_without_a_whole_request_is_closed(serve: Any) -> None:
    served = serve(dataclasses.replace(ALONE, header_seconds=0.5))
    for sent in (b"", b"GET /healthz HTTP/1.1\r\nHost:"):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
            slow.sendall(sent)
            assert slow.recv(1000) == b""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answered = b""
        while b"alive" not in answered:
            answered += slow.recv(1000)
        slow.sendall(b"GET")
        assert slow.recv(1000) == b"", "neither is one that had an answer before"


def test_a_request_that_takes_longer_than_its_headers_may_is_answered(serve: Any, held: Held) -> None:
    served = serve(dataclasses.replace(ALONE, header_seconds=0.5, heartbeat_seconds=0.3))
    threading.Timer(1, held.go.set).start()
    with served.client(headers={"Connection": "close"}) as client:
        assert chat(client, "please hold", agent_id="a")[-1]["result"]["status"] == "done"
        task_id = start(client, "please hold", agent_id="a")
        wait_until(lambda: client.get(f"/api/tasks/{task_id}").json()["task"]["status"] == "done")


def test_connections_beyond_the_limit_are_turned_away(serve: Any) -> None:
    served = serve(dataclasses.replace(ALONE, connections=2))
    with socket.create_connection(("127.0.0.1", served.port)), served.client() as client:
        wait_until(lambda: client.get("/healthz").status_code == 503)
    with served.client() as client:
        wait_until(lambda: client.get("/healthz").status_code == 200)


@settings(max_examples=10)
@given(st.recursive(st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_the_depth_of_a_body_does_not_count_what_its_texts_hold(value: Any) -> None:
    def levels(part: Any) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
        return 0 if inner is None else 1 + max((levels(each) for each in inner), default=0)

    def values(part: Any) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return 1 + sum(map(values, inner))

    wrapped = [value, "[{" * DEEPEST, '\\"[' * DEEPEST]
    text = json.dumps(wrapped, ensure_ascii=False).encode("utf-8", "surrogatepass")
    outline = Outline.of(text, 10**6)
    assert outline.depth == levels(wrapped)
    assert values(wrapped) <= outline.values <= 2 * values(wrapped)
    assert Outline.of(text, outline.values - 1).values == outline.values


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_a_body_with_too_many_values_or_levels_is_refused_before_it_is_decoded(serve: Any, encoding: str) -> None:
    served = serve(dataclasses.replace(ROOMY, body_values=150, body_bytes=100_000))

    def send(client: httpx.Client, message: object) -> httpx.Response:
        content = json.dumps({"message": message}, ensure_ascii=False).encode(encoding)
        return client.post("/api/chat", content=content, headers={"Content-Type": "application/json"})

    quotes = "\u2222\u2200"  # their bytes in UTF-16 are those of quotation marks
    with served.client(headers=ALPHA) as client:
        assert "150 values" in problem(send(client, [quotes, *[0] * 200]), 413, "TooManyValues")
        deep = json.loads("[" * DEEPEST + "]" * DEEPEST)
        problem(send(client, [quotes, deep]), 400, "BodyTooDeep")
        assert send(client, quotes + "[," * 200).status_code == 200, "what a text holds is not counted"


def test_only_the_first_invalid_item_of_a_list_is_reported_and_not_every_unknown_field(serve: Any) -> None:
    served = serve(dataclasses.replace(ROOMY, body_bytes=100_000))
    with served.client(headers=ALPHA) as client:
        lists = problem(
            client.post("/api/chat", json={"message": "x", "attachments": [1, 2, 3]}), 422, "InvalidRequest"
        )
        assert lists.count("body.attachments") == 1
        fields = {"message": "x", **{f"field{n}": n for n in range(1100)}}
        assert problem(client.post("/api/chat", json=fields), 422, "InvalidRequest").endswith(
            "it has more than 1000 fields."
        )


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/conversations"])
def test_metadata_with_many_entries_is_one_error(serve: Any, path: str) -> None:
    served = serve(dataclasses.replace(ROOMY, body_bytes=100_000))
    about = {"model": "a", "input": "x", "messages": [{"role": "user", "content": "x"}]}
    wanted = {"/v1/chat/completions": ("model", "messages"), "/v1/responses": ("model", "input")}.get(path, ())
    body = {**{name: about[name] for name in wanted}, "metadata": {f"key{n}": n for n in range(1100)}}
    with served.client(headers=ALPHA) as client:
        refused = client.post(path, json=body)
    assert refused.status_code == 422
    assert refused.json()["error"]["message"].count("metadata") == 1, refused.text
    assert "more than 1000 fields" in refused.json()["error"]["message"]


def test_a_tenant_has_only_so_many_tasks_running(serve: Any, held: Held) -> None:
    served = serve(dataclasses.replace(ROOMY, tasks=1, streams=9))
    with served.client(headers=ALPHA) as client:
        resumable = start(client, "please hold", agent_id="a", session_id="s1")
        assert held.begun.wait(SECONDS)
        client.post(f"/api/tasks/{resumable}/pause")
        held.go.set()
        wait_until(lambda: client.get(f"/api/tasks/{resumable}").json()["task"]["status"] == "paused")
        held.go.clear()
        held.begun.clear()
        start(client, "please hold", agent_id="a", session_id="s2")
        assert held.begun.wait(SECONDS)
        for path, body in (("/api/chat", {"message": "x"}), (f"/api/tasks/{resumable}/resume", None)):
            refused = client.post(path, json=body)
            assert "limit of 1 running tasks is reached" in problem(refused, 429, "TooManyTasks")
            assert refused.headers["retry-after"] == "5"
        busy = client.post("/api/chat", json={"message": "x", "session_id": "s2"})
        assert (busy.status_code, busy.json()["error"]["type"]) == (409, "ThreadBusy")
        assert chat(client, headers=BETA)[-1]["type"] == "done", "each tenant has its own"
        held.go.set()
        wait_until(lambda: client.post("/api/chat", json={"message": "x"}).status_code == 200)


def test_probes_do_not_write_to_the_database_each_time(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(ROOMY)
    app, written = served.service.app, []
    check = app.tasks.check_writable

    async def counted() -> None:
        written.append(1)
        await check()

    monkeypatch.setattr(app.tasks, "check_writable", counted)
    with served.client() as client:
        began = time.monotonic()
        assert {client.get("/readyz").status_code for _ in range(30)} == {200}
        assert len(written) <= 1 + (time.monotonic() - began)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "message"),
        ({"message": ""}, "message"),
        ({"message": "  "}, "empty"),
        ({"message": None}, "message"),
        ({"message": ["x"]}, "message"),
        ({"message": "x", "sesion_id": "s"}, "sesion_id"),
        ({"message": "x", "session_id": "a b"}, "session_id"),
        ({"message": "x", "session_id": "s" * 96}, "session_id"),
        ({"message": "x", "session_id": ""}, "session_id"),
        ({"message": "x", "mode": "wild"}, "wild"),
        ({"message": "x", "agent_id": "nobody"}, "nobody"),
        ({"message": "x", "model": "local:/etc/passwd"}, "model"),
        ({"message": "x", "model": "openai:gpt"}, "OPENAI_API_KEY"),
        ({"message": "x", "wait": -1}, "wait"),
        ({"message": "x", "wait": 1e9}, "wait"),
        ({"message": "x", "user_id": "../x"}, "user_id"),
        ({"message": "x", "steer": "maybe"}, "steer"),
        ([], "body"),
        ("x", "body"),
        (None, "body"),
    ],
)  # fmt: skip
def test_a_request_that_does_not_fit_says_where(client: httpx.Client, body: Any, where: str) -> None:
    response = client.post("/api/chat", json=body)
    kind = response.json()["error"]["type"]
    assert where in problem(response, 422, kind)
    assert client.get("/api/sessions").json()["items"] == []


def test_a_message_beyond_the_agents_budget_is_refused(client: httpx.Client) -> None:
    assert "shorten it" in problem(client.post("/api/chat", json={"message": "京" * 11_000}), 422, "InvalidMessage")


def test_what_is_not_json_is_a_bad_request(client: httpx.Client) -> None:
    response = client.post("/api/chat", content=b'{"a":', headers={"Content-Type": "application/json"})
    assert problem(response, 400, "InvalidJson") == "The body is not valid JSON at character 5: Expecting value."


def test_only_json_is_accepted_which_another_sites_page_cannot_send_unasked(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        response = client.post("/api/chat", content=b'{"message": "x"}', headers={"Content-Type": kind})
        assert "sent with Content-Type: application/json" in problem(response, 422, "InvalidRequest")


def test_too_many_chats_and_too_many_requests_say_when_to_come_back(serve: Any) -> None:
    served = serve(SMALL)
    with served.client(headers=ALPHA) as client:
        for _ in range(3):
            chat(client)
        refused = client.post("/api/chat", json={"message": "x"})
        seconds = refused.headers["retry-after"]
        assert problem(refused, 429, "TooManyRequests") == f"Too many requests: wait {seconds} s."
        assert 1 <= int(seconds) <= 20
        statuses = [client.get("/api/modes").status_code for _ in range(6)]
        assert statuses == [200] * 4 + [429] * 2
        assert client.get("/api/modes", headers=BETA).status_code == 200, "each tenant has its own"
        assert client.get("/healthz").status_code == 200
        guesses = [client.get("/api/modes", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(10)]
        assert guesses == [401] * 8 + [429] * 2
        assert client.get("/api/modes", headers=BETA).status_code == 200, "only guessers are slowed down"


def test_streams_of_a_tenant_are_counted_and_a_refused_chat_starts_nothing(serve: Any, held: Held) -> None:
    served = serve(ROOMY)
    with served.client(headers=ALPHA) as client:
        with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a"}) as response:
            task_id = response.headers["x-task-id"]
            assert held.begun.wait(60)
            problem(client.post("/api/chat", json={"message": "more"}), 429, "TooManyStreams")
            problem(client.get(f"/api/tasks/{task_id}/stream"), 429, "TooManyStreams")
            problem(client.get("/api/tasks/nope/stream"), 404, "NotFound")
            assert len(client.get("/api/agents/travel/tasks").json()["items"]) == 0
            assert client.post("/api/chat", json={"message": "hi"}, headers=BETA).status_code == 200
        wait_until(lambda: not served.service.streams)
        assert client.post("/api/chat", json={"message": "x", "mode": "wild"}).status_code == 422
        assert client.post("/api/chat", json={"message": "more"}).status_code == 200, "a refused chat holds no place"


def test_without_a_key_nothing_below_api_answers(client: httpx.Client) -> None:
    for key in ("", "Bearer", "Bearer x", "Basic YTpi", "Bearer alpha"):
        for path in ("/api/modes", "/api/tasks/x", "/api/nothing", "/api/"):
            refused = client.get(path, headers={"Authorization": key})
            problem(refused, 401, "Unauthorized")
            assert refused.headers["www-authenticate"] == "Bearer"


def test_a_wrong_method_and_an_unknown_path_have_the_same_error_body(client: httpx.Client) -> None:
    refused = client.delete("/api/modes")
    problem(refused, 405, "MethodNotAllowed")
    assert refused.headers["allow"] == "GET"
    problem(client.get("/api/nothing"), 404, "NotFound")
    problem(client.get("/nothing"), 404, "NotFound")


def test_without_keys_only_this_machines_names_are_answered(alone: Served) -> None:
    with alone.client() as client:
        for host in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST"):
            assert client.get("/api/modes", headers={"Host": host}).status_code == 200, host
        for host in (
            *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil@localhost:x"),
            *("", "[", "0.0.0.0", "192.168.1.5"),
        ):
            problem(client.get("/api/modes", headers={"Host": host}), 421, "WrongHost")


def test_without_keys_another_sites_page_can_do_nothing(alone: Served) -> None:
    with alone.client() as client:
        for origin in ("https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"):
            for method, path in (("GET", "/api/modes"), ("POST", "/api/tasks/x/cancel"), ("OPTIONS", "/api/chat")):
                refused = client.request(method, path, headers={"Origin": origin})
                problem(refused, 403, "WrongOrigin")
                assert not [name for name in refused.headers if name.startswith("access-control")]
        assert client.get("/api/modes", headers={"Origin": alone.url}).status_code == 200, "its own page may"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service without keys."""
    with Served(tmp_path_factory.mktemp("alone") / "segue.db", ALONE) as served:
        yield served


def test_with_keys_other_names_are_answered_and_other_pages_still_may_not_read(client: httpx.Client) -> None:
    answered = client.get("/api/modes", headers={"Host": "segue.example", "Origin": "https://page.example"})
    assert answered.status_code == 200
    assert not [name for name in answered.headers if name.startswith("access-control")]


def test_pages_that_are_named_may_read(serve: Any) -> None:
    page = "https://page.example"
    served = serve(dataclasses.replace(ALONE, origins=(page,)))
    with served.client(headers={"Origin": page}) as client:
        answered = client.get("/api/modes")
        assert answered.headers["access-control-allow-origin"] == page
        wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "idempotency-key"}
        asked = client.options("/api/chat", headers=wanted)
        assert asked.status_code == 200 and asked.headers["access-control-allow-origin"] == page
        refused = client.get("/api/modes", headers={"Origin": "https://other.example"})
        problem(refused, 403, "WrongOrigin")


def test_a_service_that_stops_takes_on_nothing_new_and_says_so(serve: Any, held: Held) -> None:
    served = serve(ROOMY)
    with served.client(headers=ALPHA) as client:
        assert client.get("/readyz").json() == READY
        task_id = chat(client)[0]["task_id"]
        served.service.drained = served.do(a_task())
        for method, path, body in (
            ("GET", "/readyz", None),
            ("POST", "/api/chat", {"message": "x"}),
            ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
            ("POST", f"/api/tasks/{task_id}/resume", None),
            ("POST", f"/api/tasks/{task_id}/answer", {"verdicts": "approve"}),
        ):
            refused = client.request(method, path, json=body)
            problem(refused, 503, "Stopping")
            assert refused.headers["retry-after"] == "5"
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get(f"/api/tasks/{task_id}").status_code == 200, "what there is can be read"
        served.service.drained = None


async def a_task() -> Any:
    return asyncio.current_task()


async def query_only(served: Served, on: bool) -> None:
    """Let the service's database be written no more, or again."""
    served.service.app._storage.database._session._connection.execute(f"PRAGMA query_only = {int(on)}")


def test_a_database_that_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    settings = dataclasses.replace(ROOMY, ready_seconds=0)
    with Served(path, settings) as served, served.client(headers=ALPHA) as client:
        assert client.get("/readyz").status_code == 200
        served.begin(query_only(served, True)).result()
        told = problem(client.get("/readyz"), 503, "DatabaseUnavailable")
        assert "read-only" in told and str(path) not in told, "clients are not told where the database is"
        assert client.get("/healthz").status_code == 200
        served.begin(query_only(served, False)).result()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] > 0
    connection.close()


def test_a_request_can_be_found_in_the_log_by_the_id_that_it_names(client: httpx.Client) -> None:
    assert client.get("/api/modes", headers={"X-Request-Id": "abc-123"}).headers["x-request-id"] == "abc-123"
    for wrong in ("a b", "x" * 65, "é"):
        made = client.get("/api/modes", headers={"X-Request-Id": wrong.encode("latin-1")}).headers["x-request-id"]  # type: ignore[dict-item]
        assert len(made) == 32


def test_what_is_exported_can_be_imported_or_the_export_says_so() -> None:
    with Served(settings=ServerSettings(import_bytes=60_000)) as served, served.client() as client:
        assert chat(client, "2+2", session_id="short")
        short = client.get("/api/sessions/short/export")
        as_json = {"Content-Type": "application/json"}
        assert client.post("/api/sessions/import", content=short.content, headers=as_json).status_code == 201
        assert chat(client, "word " * 6000, session_id="long")
        assert "any_size=true" in problem(client.get("/api/sessions/long/export"), 413, "ExportTooLong")
        whole = client.get("/api/sessions/long/export?any_size=true")
        assert whole.status_code == 200 and len(whole.content) > 60_000
        problem(client.post("/api/sessions/import", content=whole.content, headers=as_json), 413, "FileTooLong")
