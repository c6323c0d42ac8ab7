"""Lists as pages: what `next` leads to, over the routes of every list, and HEAD wherever GET is."""

import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from .serving import BETA, Json, chat

AT_ONCE = {"/api/agents", "/api/models", "/api/modes", "/api/workflows"}
"""Lists as long as what is configured: one page."""
PLACES: dict[str, Any] = {"session_id": "one"}


@pytest.fixture(scope="module")
def routes(client: httpx.Client) -> dict[str, Json]:
    """The GET routes that need no id of what is not there, by their path."""
    chat(client, "2+2", session_id="one")
    task = client.get("/api/sessions/one/tasks").json()["items"][0]["task_id"]
    filled = {"{session_id}": "one", "{task_id}": task, "{agent_id}": "travel", "{user_id}": "ann", "{name}": "react"}
    found = {}
    for template, methods in client.get("/openapi.json").json()["paths"].items():
        path = template
        for name, value in filled.items():
            path = path.replace(name, value)
        if "get" in methods and "{" not in path:
            found[path] = methods["get"]
    return found


def _walk(client: httpx.Client, path: str, limit: int) -> list[Json]:
    items, place = [], ""
    for _ in range(50):
        page = client.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{place}").json()
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next"] is None:
            return items
        place = f"&before={quote(str(page['next']))}"
    raise AssertionError("the pages do not end")


def test_every_session_is_reached_though_one_is_deleted_and_one_is_pinned_meanwhile(client: httpx.Client) -> None:
    names = [f"p{number}" for number in range(7)]
    for name in names:
        assert client.post("/api/sessions", json={"session_id": name, "title": "paged"}).status_code == 201
    chat(client, "2+2", session_id="p1")
    client.patch("/api/sessions/p3", json={"pinned": True})
    listed = [row["session_id"] for row in client.get("/api/sessions?q=paged").json()["items"]]
    assert listed[:2] == ["p3", "p1"] and sorted(listed) == names
    assert [row["session_id"] for row in _walk(client, "/api/sessions?q=paged", 2)] == listed
    first = client.get("/api/sessions?q=paged&limit=3").json()
    client.delete(f"/api/sessions/{listed[2]}")
    rest = client.get("/api/sessions", params={"q": "paged", "before": first["next"]}).json()["items"]
    assert [row["session_id"] for row in rest] == listed[3:]
    for name in names:
        client.delete(f"/api/sessions/{name}")


def test_a_page_holds_no_session_of_another_tenant(client: httpx.Client) -> None:
    for number in range(3):
        client.post("/api/sessions", json={"session_id": f"b{number}"}, headers=BETA)
    before = client.get("/api/sessions?limit=1", headers=BETA).json()["next"]
    mine = {row["session_id"] for row in _walk(client, "/api/sessions", 500)}
    assert {row["session_id"] for row in client.get("/api/sessions", params={"before": before}).json()["items"]} <= mine


def test_schedules_are_paged_in_their_order(client: httpx.Client) -> None:
    for seconds in (50, 20, 40, 10, 30):
        client.post("/api/schedules", json={"message": "hi", "at": time.time() + 3600 * seconds}).raise_for_status()
    whole = client.get("/api/schedules").json()["items"]
    assert len(whole) == 5 and _walk(client, "/api/schedules", 2) == whole


def test_every_list_is_a_page_and_refuses_what_is_none_of_its_pages(
    client: httpx.Client, routes: dict[str, Json]
) -> None:
    lists = 0
    for path, operation in routes.items():
        if not path.startswith("/api/") or "items" not in client.get(path, timeout=60).text[:20]:
            continue
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        if path not in AT_ONCE and not path.endswith("/timeline"):
            assert "limit" in names and names & {"before", "after"}, path
            lists += 1
    assert lists > 10
    for before in ("x", "[]", "[1]", '[0,1e999,"\\ud800"]', '[0,NaN,"a"]', "[" * 900):
        answered = client.get("/api/sessions", params={"before": before})
        assert answered.status_code in (200, 422), (before, answered.text)
    refused = client.get("/api/sessions", params={"before": "one"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (422, "NoSuchPage")


def test_head_answers_as_get_does_without_the_body(client: httpx.Client, routes: dict[str, Json]) -> None:
    paths = [*routes, "/", "/docs", "/page/app.js", "/openapi.json", "/.well-known/agent-card.json", "/nowhere"]
    assert {"/healthz", "/readyz", "/metrics", "/v1/models"} <= {*paths}
    assert any(path.endswith("/stream") for path in paths)
    for path in paths:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers.get("content-type") == got.headers.get("content-type"), path
