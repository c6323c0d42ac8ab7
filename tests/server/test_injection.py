"""Whatever comes in is data: it is stored and told as it is, or refused, and nothing else happens."""

import json
import socket
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from .serving import ALPHA, Served, chat

TEXTS = [
    "'; DROP TABLE tasks; --",
    '" OR 1=1 --',
    "a\r\nSet-Cookie: x=1\r\n\r\ndata: {}",
    '\n\ndata: {"type": "done"}\n\nid: 1\n',
    "../../../../etc/passwd",
    "..\\..\\windows",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "nul\x00byte",
    "{{current_state}} {{tools}} {0} %s %(x)s ${jndi:ldap://x}",
    '{"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "id"}}',
    "__import__('os').system('id')",
    "\u202e\u2066\ufeff\u2028\u2029\x1b[31m\x85",
    "💥" * 50,
    "steps.1.result.__class__.__mro__",
]
CONSTRUCTOR: dict[str, Any] = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain_core", "messages", "AIMessage"],
    "kwargs": {"content": "pwned"},
}
HEADERS = {"Content-Type": "application/json"}


def rows(database: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(database)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_message_is_kept_and_told_letter_by_letter(client: httpx.Client, text: str) -> None:
    forms = chat(client, text, session_id="said", mode="direct")
    assert forms[-1]["type"] == "done" and forms[-1]["result"]["status"] == "done"
    last = client.get("/api/sessions/said/history", params={"limit": 2}).json()["items"][0]
    assert last == {"role": "user", "content": text}
    assert client.get("/api/sessions/said/tasks?limit=1").json()["items"][0]["message"] == text


@pytest.mark.parametrize("text", [*TEXTS[:-1], "", "..", "%2e%2e%2f", "x" * 5000, "ａ/ｂ"], ids=str.encode)
def test_an_id_that_is_none_finds_nothing_and_makes_nothing(client: httpx.Client, text: str) -> None:
    named = quote(text, safe="")
    for path in (
        "tasks/{}",
        "tasks/{}/stream",
        "sessions/{}/history",
        "users/{}/preferences",
        "graphs/{}",
        "agents/{}/tasks",
    ):
        answered = client.get(f"/api/{path.format(named)}")
        assert answered.status_code in (404, 405, 422) or text in ("", ".", ".."), answered.text
        assert answered.status_code < 500
        assert "set-cookie" not in answered.headers
    for field in ("session_id", "user_id", "mode", "agent_id", "model"):
        if text not in ("", ".", ".."):
            refused = client.post("/api/chat", json={"message": "x", field: text})
            assert refused.status_code in (404, 422), (field, refused.text)
    headers = {"Last-Event-ID": text.encode().replace(b"\r", b"").replace(b"\n", b"").replace(b"\x00", b"")}
    assert client.get("/api/tasks/x/stream", headers=headers).status_code in (400, 404)  # type: ignore[arg-type]


def test_a_serialised_object_is_never_brought_to_life(client: httpx.Client) -> None:
    for place in ("message", "session_id", "mode", "user_id", "agent_id", "model", "wait", "steer"):
        refused = client.post("/api/chat", json={"message": "x", place: CONSTRUCTOR})
        assert refused.status_code == 422, (place, refused.text)
    assert client.post("/api/chat", json=CONSTRUCTOR).status_code == 422
    assert client.put("/api/users/u/preferences", json={"default_mode": CONSTRUCTOR}).status_code == 422
    task_id = chat(client, json.dumps(CONSTRUCTOR), session_id="objects", mode="direct")[0]["task_id"]
    for body in (CONSTRUCTOR, {"verdicts": [CONSTRUCTOR]}, {"verdicts": CONSTRUCTOR}):
        assert client.post(f"/api/tasks/{task_id}/answer", json=body).status_code == 422
    assert client.get("/api/sessions/objects/history").json()["items"][0]["content"] == json.dumps(CONSTRUCTOR)


@pytest.mark.parametrize(
    "body",
    [
        b'{"message": "\\ud800"}',
        b'{"message": "\\udfff\\ud800x"}',
        b'{"message": "x", "session_id": "\\ud800"}',
        b'{"message": "\xff\xfe"}',
        b'{"message": NaN}',
        b'{"message": "x", "wait": NaN}',
        b'{"message": "x", "wait": Infinity}',
        b'{"message": "x", "wait": ' + b"9" * 5000 + b"}",
        b'{"message": "x", "wait": 1e999}',
        b'{"message": "x"} trailing',
        b"{",
        b"",
        b"\x00",
        b'{"message": "x", "session_id": "a\\u0000b"}',
        b'{"message": "x", "session_id": "a\\r\\nb"}',
        b'{"message": "x", "session_id": "a\\n"}',
    ],
    ids=range(16),
)
def test_a_body_that_is_no_request_is_refused(client: httpx.Client, body: bytes) -> None:
    refused = client.post("/api/chat", content=body, headers=HEADERS)
    assert refused.status_code in (400, 422), refused.text
    assert refused.json()["error"]["error_id"]


@pytest.mark.parametrize(
    "deep", ["[" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, '{"m": ' + "[" * 101 + "]" * 101 + "}"]
)
def test_a_body_that_is_nested_too_deeply_is_refused(client: httpx.Client, deep: str) -> None:
    for path in ("/api/chat", "/api/tasks/x/answer"):
        refused = client.post(path, content=deep, headers=HEADERS)
        assert (refused.status_code, refused.json()["error"]["type"]) == (400, "BodyTooDeep")
        assert "100 levels" in refused.json()["error"]["message"]


def test_a_header_with_more_lines_in_it_is_no_request(served: Served) -> None:
    key = ALPHA["Authorization"]
    for head in (
        f"GET /api/modes HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nX-Request-Id: a\rSet-Cookie: b\r\n\r\n",
        f"GET /api/modes HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nX-Request-Id: a\x00b\r\n\r\n",
        f"GET /api/modes\r\nX: HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
            raw.sendall(head.encode())
            raw.shutdown(socket.SHUT_WR)
            answered = b"".join(iter(lambda: raw.recv(65536), b""))
        assert not answered.lower().count(b"set-cookie"), answered
        assert b" 500 " not in answered


def test_blanks_around_the_value_of_a_header_are_no_part_of_it(served: Served) -> None:
    key = ALPHA["Authorization"]
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
        raw.sendall(
            f"GET /api/modes HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\nX-Request-Id:  a \t\r\n\r\n".encode()
        )
        assert b"\r\nx-request-id: a\r\n" in raw.recv(1000)


def test_the_tables_stand_and_nothing_was_stored_that_was_not_said(served: Served, client: httpx.Client) -> None:
    path = Path(served.service.app._storage.database.path)
    assert {row[0] for row in rows(path, "SELECT thread_id FROM tasks")} == {"alpha:said", "alpha:objects"}
    assert {row[0] for row in rows(path, "SELECT user_id FROM tasks")} == {"alpha:default"}
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "SELECT count(*) FROM preferences") == [(0,)]
