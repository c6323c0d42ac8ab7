"""Links that show a conversation to whoever has them."""

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from langchain_core.messages import AIMessage

from segue.core.agents import Agent
from segue.server import ServerSettings
from tests.fakes import answer, call_tool
from tests.modes import native_call
from tests.polling import wait_until

from .serving import BETA, KEYS, Held, Json, Served, chat, ending, follow, start
from .shop import reply

BEFORE = AIMessage("I look.", tool_calls=native_call(("1", "note", {"name": "x"})).tool_calls)
"""A text and a call, with the native protocol."""


@pytest.fixture(scope="module")
def own_agents(held: Held) -> list[Agent]:
    native = [
        held.agent("native", [BEFORE, "It is *blue*."], protocol="native"),
        held.agent("stopped", [BEFORE, native_call(("2", "hold", {}))], protocol="native"),
    ]
    return [*native, held.agent("a", reply), held.agent("slow", [call_tool(("hold", {})), answer("A secret.")])]


@pytest.fixture
def stranger(served: Served) -> Iterator[httpx.Client]:
    """A client without a key."""
    with served.client() as client:
        yield client


def shared(client: httpx.Client, session: str, **body: object) -> Json:
    made = client.post(f"/api/sessions/{session}/share", json=body)
    assert made.status_code == 201, made.text
    form: Json = made.json()
    return form


def test_a_link_shows_what_was_said_until_it_was_made(client: httpx.Client, stranger: httpx.Client) -> None:
    chat(client, "apples", session_id="fruit", agent_id="a")
    link = shared(client, "fruit", hours=1)
    chat(client, "a secret", session_id="fruit", agent_id="a")
    shown = stranger.get(f"/api/shared/{link['token']}")
    assert shown.status_code == 200
    assert (shown.headers["x-robots-tag"], shown.headers["cache-control"]) == ("noindex", "no-store")
    document = shown.json()
    assert document.keys() == {"title", "expires_at", "items", "next"}
    (turn,) = document["items"]
    assert (turn["message"], turn["answer"]) == ("apples", "Heard apples.")
    assert turn["html"] == "<p>Heard apples.</p>\n"
    assert turn.keys() == {"task_id", "message", "files", "agent_id", "status", "answer", "html", "created_at"}
    assert link["path"] == f"/shared#{link['token']}" and len(link["token"]) == 32
    assert link["expires_at"] - link["created_at"] == pytest.approx(3600)


def test_an_answer_that_comes_later_is_not_shown(client: httpx.Client, stranger: httpx.Client, held: Held) -> None:
    held.go.clear()
    task = start(client, "wait", session_id="later", agent_id="slow")
    link = shared(client, "later")
    held.go.set()
    assert ending([form for _, form in follow(client, task)])["answer"] == "A secret."
    (turn,) = stranger.get(f"/api/shared/{link['token']}").json()["items"]
    assert (turn["message"], turn["answer"], turn["html"]) == ("wait", "", "")


@pytest.mark.parametrize("name", ["native", "stopped"])
def test_what_was_said_before_calls_is_not_shown(
    client: httpx.Client, stranger: httpx.Client, held: Held, name: str
) -> None:
    """The answer of a task begins with it, and says what of it that is; the page and a link show the rest."""
    held.go.clear()
    task = start(client, "look", session_id=name, agent_id=name)
    if name == "stopped":
        wait_until(lambda: "tool_result" in client.get(f"/api/tasks/{task}/events").text)
        client.post(f"/api/tasks/{task}/cancel").raise_for_status()
    held.go.set()
    follow(client, task)
    path = f"/api/tasks/{task}"
    wait_until(lambda: client.get(path).json()["task"]["status"] in ("done", "cancelled"))
    row = client.get(path, params={"html": True}).json()["task"]
    own, html = ("It is *blue*.", "<p>It is <em>blue</em>.</p>\n") if name == "native" else ("", None)
    assert (row["result"]["preamble"], row["result"]["answer"]) == ("I look.\n\n", f"I look.\n\n{own}")
    assert row["html"] == html
    (turn,) = stranger.get(f"/api/shared/{shared(client, name)['token']}").json()["items"]
    assert (turn["answer"], turn["html"]) == (own, html or "")


def test_what_configures_a_simulated_conversation_is_not_shown(client: httpx.Client, stranger: httpx.Client) -> None:
    config = {"user_mode": "scripted_user", "script": ["hello", "[END]"], "persona": "a secret"}
    task = client.post("/api/conversations", json={**config, "session_id": "talk"}).json()["task_id"]
    follow(client, task)
    shown = stranger.get(f"/api/shared/{shared(client, 'talk')['token']}")
    assert "a secret" not in shown.text
    (turn,) = shown.json()["items"]
    assert (shown.json()["title"], turn["message"]) == ("", "") and "[USER] hello" in turn["answer"]


def test_a_token_opens_nothing_else(client: httpx.Client, stranger: httpx.Client) -> None:
    task = chat(client, "pears", session_id="pears", agent_id="a")[0]["task_id"]
    token = shared(client, "pears")["token"]
    for path in (f"/api/tasks/{task}", "/api/sessions/pears", "/api/sessions/pears/share", "/api/memory"):
        for headers in ({}, {"Authorization": f"Bearer {token}"}):
            assert stranger.get(path, headers=headers).status_code == 401, path
    assert stranger.post(f"/api/shared/{token}").status_code == 405
    assert stranger.get(f"/api/shared/{token}/x").status_code == 404


def test_a_link_ends_when_it_is_revoked_or_its_session_is_deleted(client: httpx.Client, stranger: httpx.Client) -> None:
    chat(client, "plums", session_id="plums", agent_id="a")
    first, second, third = (shared(client, "plums") for _ in range(3))
    listed = client.get("/api/sessions/plums/share").json()["items"]
    assert [each["share_id"] for each in listed] == [each["share_id"] for each in (first, second, third)]
    assert all(each.keys() == {"share_id", "created_at", "expires_at"} for each in listed)
    path = "/api/sessions/plums/share"
    assert client.delete(path, params={"share_id": first["share_id"]}).json() == {"revoked": 1}
    status = [stranger.get(f"/api/shared/{each['token']}").status_code for each in (first, second, third)]
    assert status == [404, 200, 200]
    assert client.delete(path).json() == {"revoked": 2}
    assert stranger.get(f"/api/shared/{second['token']}").status_code == 404
    last = shared(client, "plums")
    client.delete("/api/sessions/plums").raise_for_status()
    chat(client, "plums again", session_id="plums", agent_id="a")
    gone = stranger.get(f"/api/shared/{last['token']}", headers={"Accept-Language": "zh"})
    assert gone.status_code == 404 and "过期" in gone.json()["error"]["message"]
    assert client.get(path).json()["items"] == []


def test_a_link_ends_at_its_expiry(served: Served, client: httpx.Client, stranger: httpx.Client) -> None:
    chat(client, "figs", session_id="figs", agent_id="a")
    link = shared(client, "figs", hours=1)
    shares = served.service.app.sessions.shares
    now = shares._clock
    shares._clock = lambda: now() + 3601
    try:
        assert stranger.get(f"/api/shared/{link['token']}").status_code == 404
        assert client.get("/api/sessions/figs/share").json()["items"] == []
    finally:
        shares._clock = now
    assert stranger.get(f"/api/shared/{link['token']}").status_code == 200


def test_only_ones_own_session_is_shared_and_for_a_year_at_most(client: httpx.Client) -> None:
    chat(client, "dates", session_id="dates", agent_id="a")
    for method in ("POST", "GET", "DELETE"):
        body = {"json": {}} if method == "POST" else {}
        assert client.request(method, "/api/sessions/dates/share", headers=BETA, **body).status_code == 404  # type: ignore[arg-type]
    for hours in (0, -1, 8761):
        assert client.post("/api/sessions/dates/share", json={"hours": hours}).status_code == 422
    client.post("/api/sessions", json={"session_id": "unused"}).raise_for_status()
    assert client.post("/api/sessions/unused/share", json={}).status_code == 404


@pytest.mark.slow
def test_long_conversations_are_shown_page_by_page(client: httpx.Client, stranger: httpx.Client) -> None:
    chat(client, "m0", session_id="long", agent_id="a")
    early = shared(client, "long")["token"]
    for n in range(1, 52):
        chat(client, f"m{n}", session_id="long", agent_id="a")
    first = stranger.get(f"/api/shared/{early}").json()
    assert ([turn["message"] for turn in first["items"]], first["next"]) == (["m0"], None)
    path = f"/api/shared/{shared(client, 'long')['token']}"
    newest = stranger.get(path).json()
    oldest = stranger.get(path, params={"before": newest["next"]}).json()
    said = [turn["message"] for turn in oldest["items"] + newest["items"]]
    assert said == [f"m{n}" for n in range(52)] and oldest["next"] is None
    elsewhere = chat(client, "nuts", session_id="nuts", agent_id="a")[0]["task_id"]
    for before in (elsewhere, "no-such-id"):
        assert stranger.get(path, params={"before": before}).status_code == 404


def test_the_token_is_not_stored_and_strangers_are_held_to_a_rate(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    with Served(file, ServerSettings(keys=KEYS, requests_a_minute=5)) as served, served.client() as stranger:
        headers = {"Authorization": "Bearer key-of-alpha-0123456789"}
        with served.client(headers=headers) as owner:
            chat(owner, "hello", session_id="s")
            token = shared(owner, "s")["token"]
        answered = [stranger.get(f"/api/shared/{token}").status_code for _ in range(6)]
        assert answered == [200] * 5 + [429]
    with sqlite3.connect(file) as connection:
        (row,) = connection.execute("SELECT share_id, thread_id FROM shares").fetchall()
    assert row == (hashlib.sha256(token.encode()).hexdigest(), "alpha:s")
    assert all(token.encode() not in path.read_bytes() for path in tmp_path.iterdir())
