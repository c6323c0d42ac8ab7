"""Idempotency keys over HTTP: the same request twice does one thing, also at once and across a restart."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.polling import wait_until

from .serving import Held, Json, Served, ServerSettings, chat
from .shop import refund, reply

ONCE = {"Idempotency-Key": "k"}


@pytest.fixture
def held() -> Held:
    return Held()


def serve(database: Path, held: Held) -> Served:
    return Served(database, ServerSettings(), agents=[held.agent("a", reply, tools=(refund,))])


@pytest.fixture
def client(database: Path, held: Held) -> Iterator[httpx.Client]:
    with serve(database, held) as served, served.client() as client:
        yield client
        held.go.set()


def post(client: httpx.Client, path: str, body: Any, headers: Json = ONCE) -> httpx.Response:
    return client.post(path, json=body, headers=headers)


def tasks(client: httpx.Client, session: str = "s") -> list[Json]:
    items: list[Json] = client.get(f"/api/sessions/{session}/tasks").json()["items"]
    return items


def sessions(client: httpx.Client) -> list[str]:
    return sorted(row["session_id"] for row in client.get("/api/sessions").json()["items"])


def waiting(client: httpx.Client) -> str:
    """A task that waits for approval."""
    assert chat(client, "please refund", agent_id="a", session_id="s")[-1]["result"]["status"] == "waiting"
    return str(tasks(client)[0]["task_id"])


def status(client: httpx.Client, task_id: str) -> str:
    return str(client.get(f"/api/tasks/{task_id}").json()["task"]["status"])


def test_an_answer_that_comes_again_after_a_restart_is_given_once(database: Path, held: Held) -> None:
    with serve(database, held) as served, served.client() as client:
        task_id = waiting(client)
        path = f"/api/tasks/{task_id}/answer"
        assert post(client, path, {"verdicts": "approve"}).status_code == 202
        wait_until(lambda: status(client, task_id) == "done")
    with serve(database, held) as served, served.client() as client:
        again = post(client, path, {"verdicts": "approve"})
        assert (again.status_code, again.json()["task_id"]) == (202, task_id)
        other = post(client, path, {"verdicts": "reject"})
        assert (other.status_code, other.json()["error"]["type"]) == (409, "KeyUsed")
        assert len(tasks(client)) == 1


def test_an_answer_that_comes_twice_at_once_is_given_once(client: httpx.Client) -> None:
    task_id = waiting(client)
    with ThreadPoolExecutor(4) as pool:
        approve = {"verdicts": "approve"}
        replies = [*pool.map(lambda _: post(client, f"/api/tasks/{task_id}/answer", approve), range(4))]
    assert {answered.status_code for answered in replies} == {202}
    wait_until(lambda: status(client, task_id) == "done")
    events = client.get(f"/api/tasks/{task_id}/events", params={"limit": 500}).json()["items"]
    assert [event["type"] for event in events].count("approval_given") == 1


def test_a_pause_is_ended_once(client: httpx.Client, held: Held) -> None:
    held.go.clear()
    with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a"}) as response:
        task_id = response.headers["x-task-id"]
        assert held.begun.wait(60)
        client.post(f"/api/tasks/{task_id}/pause").raise_for_status()
    held.go.set()
    wait_until(lambda: status(client, task_id) == "paused")
    for _ in range(2):
        assert post(client, f"/api/tasks/{task_id}/resume", {}).status_code == 202
        wait_until(lambda: status(client, task_id) == "done")


@pytest.mark.parametrize("name", [None, "twin"])
def test_a_fork_an_edit_an_import_and_a_session_are_made_once(client: httpx.Client, name: str | None) -> None:
    chat(client, "apples", agent_id="a", session_id="s")
    at = client.get("/api/sessions/s/snapshots").json()["items"][0]["checkpoint_id"]
    document = client.get("/api/sessions/s/export").json()
    named = {"session_id": name} if name else {}
    requests: list[tuple[str, Json, int]] = [
        ("/api/sessions/s/fork", {"checkpoint_id": at}, 201),
        ("/api/sessions/s/edit", {"checkpoint_id": at, "message": "pears"}, 202),
        ("/api/sessions/import", {"document": document}, 201),
        ("/api/sessions", {"agent_id": "a"}, 201),
    ]
    for number, (path, body, code) in enumerate(requests):
        key = {"Idempotency-Key": f"k-{number}"}
        own = {key: f"{value}-{number}" for key, value in named.items()}
        with ThreadPoolExecutor(2) as pool:
            replies = [*pool.map(lambda _, p=path, b=body, k=key, o=own: post(client, p, {**b, **o}, k), range(2))]
        assert [answered.status_code for answered in replies] == [code] * 2, [each.text for each in replies]
        first, second = (answered.json()["session_id"] for answered in replies)
        assert first == second
        branches = client.get("/api/sessions/s/branches").json()["items"]
        assert len(sessions(client)) + len(branches[1:]) == number + 2
        other = post(client, path, {**body, "session_id": "other"}, key)
        assert (other.status_code, other.json()["error"]["type"]) == (409, "KeyUsed")


def test_a_session_has_its_title_or_is_not_there(tmp_path: Path, held: Held) -> None:
    file = tmp_path / "segue.db"
    with serve(file, held) as served, served.client() as client:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TRIGGER t BEFORE INSERT ON titles BEGIN SELECT RAISE(ABORT, 'no'); END")
        body = {"title": "Rome in May", "agent_id": "a"}
        assert post(client, "/api/sessions", body).status_code >= 500
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("DROP TRIGGER t")
        assert sessions(client) == []
        for _ in range(2):
            assert post(client, "/api/sessions", body).json()["title"] == "Rome in May"


def test_a_steering_message_that_comes_again_is_added_once(client: httpx.Client, held: Held) -> None:
    with client.stream("POST", "/api/chat", json={"message": "please hold", "agent_id": "a", "session_id": "s"}):
        assert held.begun.wait(60)
    body = {"message": "and be quick", "agent_id": "a", "session_id": "s", "steer": True}

    def steered() -> list[str]:
        return [
            event["message"]
            for task in tasks(client)
            for event in client.get(f"/api/tasks/{task['task_id']}/events", params={"limit": 500}).json()["items"]
            if event["type"] == "steered"
        ]

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, client, "/api/chat", body)
        wait_until(steered)  # while the task is held: a message to one that has just ended begins the next
        held.go.set()
        streams = [first.result().text, post(client, "/api/chat", body).text]
    assert [text.count('"type":"done"') for text in streams] == [1, 1]
    assert [task["message"] for task in tasks(client)] == ["please hold"]
    assert steered() == ["and be quick"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/ag-ui/a"])
def test_other_protocols_take_the_header_as_well(client: httpx.Client, path: str) -> None:
    message = {"id": "m", "role": "user", "content": "apples"}
    body: Json = {"model": "a", "messages": [message]}
    if path == "/v1/responses":
        body = {"model": "a", "input": "apples"}
    elif path == "/ag-ui/a":
        body = {"threadId": "s", "runId": "r", "messages": [message]}
    first, again = (post(client, path, body) for _ in range(2))
    assert first.status_code == 200, first.text
    assert first.headers["x-task-id"] == again.headers["x-task-id"]
    other = post(client, path, {**body, "user": "ann"})
    assert (other.status_code, len(sessions(client))) == (409, 1)
