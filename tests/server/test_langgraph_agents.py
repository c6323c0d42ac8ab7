"""Segue's agents in LangGraph's server API: their runs are tasks of the app."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import segue
from segue import Agent
from segue.checkpoints.rows import SERDE
from segue.runtime.graph_runs import Graph
from segue.server import ServerSettings
from segue.server.langgraph.graphs import GraphCatalogue
from tests.fakes import ScriptedChatModel
from tests.polling import wait_until

from .langgraph_graphs import GRAPHS, talking
from .serving import ALPHA, BETA, KEYS, SECONDS, Held, Served
from .shop import refund, reply

Json = dict[str, Any]
HELD = Held()


async def hold(name: str = "one") -> str:
    """Wait until it is let go."""
    HELD.begun.set()
    while not await asyncio.to_thread(HELD.go.wait, 0.01):
        pass
    return f"held {name}"


def serving(folder: Path, **options: Any) -> Served:
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": {"talking": GRAPHS["talking"]}}), encoding="utf-8")
    settings = ServerSettings(graphs=file, chats_a_minute=10_000, requests_a_minute=100_000, **options)
    shop = Agent(agent_id="shop", model=ScriptedChatModel(reply), tools=(refund,), mode="react")
    tools = (segue.tool(idempotent=True)(hold),)
    held = Agent(agent_id="held", model=ScriptedChatModel(reply), tools=tools, mode="react")
    return Served(folder / "segue.db", settings, agents=[shop, held])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("agents")) as running:
        yield running


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as opened:
        yield opened


def new_thread(client: httpx.Client, **options: Any) -> str:
    return str(client.post("/threads", json={}, **options).json()["thread_id"])


def said(text: str) -> Json:
    return {"input": {"messages": [{"role": "user", "content": text}]}}


def run(client: httpx.Client, thread_id: str, headers: Json | None = None, **given: Any) -> Json:
    answer = client.post(f"/threads/{thread_id}/runs/wait", json={"assistant_id": "shop", **given}, headers=headers)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()
    return result


def tasks_of(client: httpx.Client, thread_id: str, headers: Json | None = None) -> list[Json]:
    found: list[Json] = client.get(f"/api/sessions/langgraph.{thread_id}/tasks", headers=headers).json()["items"]
    return found


def test_a_message_is_a_task_of_a_session(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    answers = [run(client, thread_id, **said(text))["messages"][-1]["content"] for text in ("apples", "pears")]
    tasks = tasks_of(client, thread_id)
    assert [task["message"] for task in tasks] == ["pears", "apples"]
    assert [task["result"]["answer"] for task in reversed(tasks)] == answers
    assert {task["status"] for task in tasks} == {"done"}
    assert client.get(f"/api/sessions/langgraph.{thread_id}").json()["origin"] == "langgraph"


def test_an_approval_is_a_question_of_the_thread_and_of_the_inbox(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    asked = run(client, thread_id, **said("please refund"))["__interrupt__"][0]["value"]
    assert (asked["kind"], asked["calls"][0]["name"]) == ("approval", "refund")
    waiting = client.get("/api/waiting").json()["items"]
    assert asked["interrupt_id"] in json.dumps(waiting)
    wrong = run(client, thread_id, command={"resume": {"verdicts": []}})["__interrupt__"][0]["value"]
    assert wrong["error"] and wrong["interrupt_id"] == asked["interrupt_id"]
    done = run(client, thread_id, command={"resume": {"decisions": [{"type": "approve"}]}})
    assert "__interrupt__" not in done
    (task,) = tasks_of(client, thread_id)
    assert task["status"] == "done" and done["messages"][-1]["content"] == task["result"]["answer"]
    types = [each["type"] for each in client.get(f"/api/tasks/{task['task_id']}/events?limit=500").json()["items"]]
    assert types.count("tool_result") == 1 and "approval_given" in types


def test_what_is_answered_elsewhere_is_not_asked_again(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    run(client, thread_id, **said("please refund"))
    (task,) = tasks_of(client, thread_id)
    client.post(f"/api/tasks/{task['task_id']}/answer", json={"verdicts": "reject"}).raise_for_status()
    wait_until(lambda: tasks_of(client, thread_id)[0]["status"] == "done")
    done = run(client, thread_id, command={"resume": "approve"})
    assert done["messages"][-1]["content"] == tasks_of(client, thread_id)[0]["result"]["answer"]


@pytest.mark.parametrize("mode", ["messages", "messages-tuple"])
def test_an_answer_is_streamed_with_the_events_of_its_task(client: httpx.Client, mode: str) -> None:
    thread_id = new_thread(client)
    given = {"assistant_id": "shop", **said("apples"), "stream_mode": [mode, "custom"], "stream_subgraphs": True}
    text = client.post(f"/threads/{thread_id}/runs/stream", json=given).text
    (task,) = tasks_of(client, thread_id)
    told = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    events = [each["event"]["seq"] for each in told if isinstance(each, dict) and each.get("name") == "segue"]
    assert events == [*range(1, len(events) + 1)] and events
    if mode == "messages":
        assert told[-1][0]["content"] == task["result"]["answer"]
    else:
        pieces = [each[0]["content"] for each in told if isinstance(each, list) and each[0]["type"] == "AIMessageChunk"]
        assert "".join(pieces) == task["result"]["answer"]


def test_an_edited_message_goes_on_in_a_branch_of_the_session(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    for text in ("apples", "pears"):
        run(client, thread_id, **said(text))
    history = client.post(f"/threads/{thread_id}/history", json={"limit": 100}).json()
    between = next(each for each in history if not each["next"] and len(each["values"]["messages"]) == 2)
    edited = run(client, thread_id, **said("plums"), checkpoint=between["checkpoint"])
    assert [each["content"] for each in edited["messages"] if each["type"] == "human"] == ["apples", "plums"]
    state = client.get(f"/threads/{thread_id}/state").json()["values"]
    branch = client.get(f"/api/sessions/{state['session_id']}/tasks").json()["items"]
    assert [task["message"] for task in reversed(branch)] == ["apples", "plums"]
    assert [task["message"] for task in tasks_of(client, thread_id)] == ["pears", "apples"]


def test_a_run_that_is_cancelled_cancels_its_task(client: httpx.Client) -> None:
    HELD.begun.clear()
    thread_id = new_thread(client)
    begun = client.post(f"/threads/{thread_id}/runs", json={"assistant_id": "held", **said("please hold")}).json()
    assert HELD.begun.wait(SECONDS)
    client.post(f"/threads/{thread_id}/runs/{begun['run_id']}/cancel?wait=true").raise_for_status()
    wait_until(lambda: tasks_of(client, thread_id)[0]["status"] == "cancelled")
    assert client.get(f"/threads/{thread_id}").json()["status"] != "busy"
    HELD.go.set()


def test_a_task_that_fails_ends_its_run_with_the_error(client: httpx.Client) -> None:
    thread_id = new_thread(client)
    assert "the endpoint is down" in run(client, thread_id, **said("please fail"))["__error__"]["message"]
    assert client.get(f"/threads/{thread_id}").json()["status"] == "error"
    assert tasks_of(client, thread_id)[0]["status"] == "error"


def test_a_run_goes_on_with_its_task_after_a_restart(tmp_path: Path) -> None:
    HELD.begun.clear()
    HELD.go.clear()
    with serving(tmp_path, drain_seconds=0.1) as served, served.client() as client:
        thread_id = new_thread(client)
        begun = client.post(f"/threads/{thread_id}/runs", json={"assistant_id": "held", **said("please hold")}).json()
        assert HELD.begun.wait(SECONDS)
    HELD.go.set()
    with serving(tmp_path) as served, served.client() as client:
        joined = client.get(f"/threads/{thread_id}/runs/{begun['run_id']}/join").json()
        (task,) = tasks_of(client, thread_id)
        assert task["status"] == "done" and joined["messages"][-1]["content"] == task["result"]["answer"]


def test_tenants_have_their_own_sessions(tmp_path: Path) -> None:
    with serving(tmp_path, keys=KEYS) as served, served.client() as client:
        thread_id = new_thread(client, headers=ALPHA)
        run(client, thread_id, headers=ALPHA, **said("apples"))
        assert len(tasks_of(client, thread_id, ALPHA)) == 1
        assert client.get(f"/api/sessions/langgraph.{thread_id}", headers=BETA).status_code == 404


async def test_the_graph_of_an_agent_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    unused: Any = None

    def make(agent_id: str) -> Graph:
        made.append(agent_id)
        return talking

    monkeypatch.setattr(SERDE, "keep", lambda types, _: made.append("types"))
    catalogue = GraphCatalogue({}, make, unused)
    for _ in range(2):
        async with catalogue.opened("shop", "threads.read", {}, None, unused) as graph:
            assert graph.nodes.keys() == talking.nodes.keys()
    assert made == ["shop", "types"]
