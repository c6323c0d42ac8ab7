"""What LangGraph Studio asks a server for, from its own origin on the internet."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from segue.server import ServerSettings
from tests.cases import cases

from .langgraph_graphs import GRAPHS
from .serving import Served

Json = dict[str, Any]
STUDIO = "https://smith.langchain.com"
HEADERS = "content-type,x-api-key,x-auth-scheme,x-request-id"
"""What its requests have that a browser asks about first."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("studio")
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": GRAPHS}), encoding="utf-8")
    settings = ServerSettings(graphs=file, origins=(STUDIO,), chats_a_minute=10_000, requests_a_minute=100_000)
    headers = {"Origin": STUDIO, "X-Auth-Scheme": "langsmith"}
    with Served(folder / "segue.db", settings) as served, served.client(headers=headers) as opened:
        yield opened


@pytest.fixture(scope="module")
def ids(client: httpx.Client) -> Json:
    """The ids of an assistant, a thread that waits with a question, its run and its checkpoint."""
    assistants = client.post("/assistants/search", json={"graph_id": "asking"}).json()
    thread = client.post("/threads", json={"metadata": {"graph_id": "asking"}}).json()["thread_id"]
    given = {"assistant_id": assistants[0]["assistant_id"], "input": {"text": "a letter"}}
    client.post(f"/threads/{thread}/runs/wait", json=given).raise_for_status()
    run = client.get(f"/threads/{thread}/runs").json()[0]["run_id"]
    state = client.get(f"/threads/{thread}/state").json()
    found = {"assistant": given["assistant_id"], "thread": thread, "run": run}
    return {**found, "checkpoint": state["checkpoint"]["checkpoint_id"]}


CALLS: dict[str, tuple[str, str, Json | None]] = {
    "it asks what the server is": ("GET", "/info", None),
    "it asks whether it is up": ("GET", "/ok", None),
    "it lists assistants": ("POST", "/assistants/search", {"limit": 100, "offset": 0, "sort_by": "updated_at"}),
    "it counts assistants": ("POST", "/assistants/count", {}),
    "it opens an assistant": ("GET", "/assistants/{assistant}", None),
    "it lists the versions of one": ("POST", "/assistants/{assistant}/versions", {"limit": 10}),
    "it draws the graph": ("GET", "/assistants/{assistant}/graph?xray=true", None),
    "it draws the graph to a depth": ("GET", "/assistants/{assistant}/graph?xray=2", None),
    "it asks for schemas": ("GET", "/assistants/{assistant}/schemas", None),
    "it asks for subgraphs": ("GET", "/assistants/{assistant}/subgraphs?recurse=true", None),
    "it lists threads": (
        "POST",
        "/threads/search",
        {"metadata": {"graph_id": "asking"}, "limit": 20, "offset": 0, "sort_by": "updated_at", "sort_order": "desc"},
    ),
    "it lists threads that wait": ("POST", "/threads/search", {"status": "interrupted", "select": ["thread_id"]}),
    "it counts threads": ("POST", "/threads/count", {"metadata": {"graph_id": "asking"}}),
    "it opens a thread": ("GET", "/threads/{thread}", None),
    "it changes the name of a thread": ("PATCH", "/threads/{thread}", {"metadata": {"name": "Letters"}}),
    "it copies a thread": ("POST", "/threads/{thread}/copy", None),
    "it reads the state": ("GET", "/threads/{thread}/state?subgraphs=true", None),
    "it reads an earlier state": ("GET", "/threads/{thread}/state/{checkpoint}", None),
    "it reads a state of a subgraph": (
        "POST",
        "/threads/{thread}/state/checkpoint",
        {"checkpoint": {"checkpoint_id": "{checkpoint}", "checkpoint_ns": ""}, "subgraphs": True},
    ),
    "it reads the history": ("POST", "/threads/{thread}/history", {"limit": 1000}),
    "it reads the history of a form": ("GET", "/threads/{thread}/history?limit=10", None),
    "it lists the runs of a thread": ("GET", "/threads/{thread}/runs?limit=10", None),
    "it opens a run": ("GET", "/threads/{thread}/runs/{run}", None),
    "it joins a run": ("GET", "/threads/{thread}/runs/{run}/join", None),
    "it lists namespaces": ("POST", "/store/namespaces", {"max_depth": 3, "limit": 100}),
    "it searches the store": ("POST", "/store/items/search", {"namespace_prefix": [], "limit": 20}),
    "it stores an item": ("PUT", "/store/items", {"namespace": ["notes"], "key": "one", "value": {"text": "a"}}),
    "it reads an item": ("GET", "/store/items?namespace=notes&key=one", None),
    "it lists crons": ("POST", "/runs/crons/search", {"limit": 20}),
    "it counts crons": ("POST", "/runs/crons/count", {}),
}


def filled(text: str, ids: Json) -> str:
    for name, value in ids.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def ask(client: httpx.Client, ids: Json, call: tuple[str, str, Json | None]) -> httpx.Response:
    method, path, body = call
    given = None if body is None else json.loads(filled(json.dumps(body), ids))
    return client.request(method, filled(path, ids), json=given)


@pytest.mark.parametrize("name", CALLS)
def test_each_call_is_answered_to_its_origin(client: httpx.Client, ids: Json, name: str) -> None:
    answer = ask(client, ids, CALLS[name])
    assert answer.is_success, answer.text
    assert answer.headers["access-control-allow-origin"] == STUDIO


@pytest.mark.parametrize("name", CALLS)
def test_a_browser_may_ask_from_the_internet(client: httpx.Client, ids: Json, name: str) -> None:
    method, path, _ = CALLS[name]
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": HEADERS}
    asked["Access-Control-Request-Private-Network"] = "true"
    answer = client.options(filled(path, ids), headers=asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["access-control-allow-private-network"] == "true"
    assert method in answer.headers["access-control-allow-methods"]
    assert {*HEADERS.split(",")} <= {
        *answer.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
    }


@pytest.mark.parametrize("modes", [["debug", "messages"], ["values", "updates", "messages-tuple", "custom", "tools"]])
def test_a_run_is_streamed_with_its_steps(client: httpx.Client, ids: Json, modes: list[str]) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]
    given = {"assistant_id": ids["assistant"], "input": {"text": "a letter"}, "stream_mode": modes}
    given |= {
        "stream_subgraphs": True,
        "stream_resumable": True,
        "on_disconnect": "continue",
        "if_not_exists": "create",
    }
    answer = client.post(f"/threads/{thread}/runs/stream", json=given)
    assert answer.status_code == 200
    assert answer.headers["access-control-expose-headers"].lower().count("location")
    events = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events[0] == "metadata" and modes[0] in events and "error" not in events


def test_a_state_is_changed_and_the_run_goes_on_from_there(client: httpx.Client, ids: Json) -> None:
    thread = client.post(f"/threads/{ids['thread']}/copy").json()["thread_id"]
    first = client.post(f"/threads/{thread}/history", json={"limit": 1000}).json()[-1]["checkpoint"]
    given = {"values": {"text": "b"}, "as_node": "first", "checkpoint": {**first, "thread_id": thread}}
    changed = client.post(f"/threads/{thread}/state", json=given).json()["checkpoint"]
    run = {"assistant_id": ids["assistant"], "input": None, "checkpoint": changed, "stream_mode": ["values"]}
    assert "Send b?" in client.post(f"/threads/{thread}/runs/stream", json=run).text


@cases(
    "method, path, body",
    [
        ("GET", "/threads/{thread}/storage", None),
        ("GET", "/threads/{thread}/stream", None),
        ("POST", "/ui/asking", {}),
        ("POST", "/store/items/search", {"namespace_prefix": [], "query": "letters"}),
        ("POST", "/threads/{thread}/runs/stream", {"assistant_id": "{assistant}", "stream_mode": ["events"]}),
    ],
)
def test_what_is_not_supported_says_so(
    client: httpx.Client, ids: Json, method: str, path: str, body: Json | None
) -> None:
    answer = ask(client, ids, (method, path, body))
    assert answer.status_code == 501
    assert answer.json()["detail"].endswith("is not supported by Segue.")


def test_another_origin_is_refused(client: httpx.Client) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Private-Network"] = "true"
    assert client.options("/assistants/search", headers=asked).status_code >= 400
