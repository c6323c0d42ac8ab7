"""Going back over HTTP: what the app does is in the tests of the documents."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

import segue
from segue.core.agents import Agent
from segue.core.timeline import Branch
from segue.testing.cassette.cassette import load
from tests.fakes import ScriptedChatModel, answer, call_tool

from .serving import BETA, Served, chat, follow

Json = dict[str, Any]


@segue.tool(undo=lambda: "brought back")
def send() -> str:
    """Send a parcel."""
    return "sent"


@segue.tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@pytest.fixture(scope="module")
def own_agents() -> list[Agent]:
    script = [call_tool(("send", {})), answer("sent"), answer("hello"), *map(answer, "abc")]
    sending = [call_tool(("send", {})), answer("first"), answer("next"), answer("second"), answer("third")]
    paying = [call_tool(("pay", {})), answer("paid"), call_tool(("pay", {}))]
    return [
        Agent(agent_id="post", model=ScriptedChatModel(script), mode="react", tools=(send,)),
        Agent(agent_id="sender", model=ScriptedChatModel(sending), mode="react", tools=(send,)),
        Agent(agent_id="payer", model=ScriptedChatModel(paying), mode="react", tools=(pay,)),
    ]


@pytest.fixture(scope="module")
def timeline(client: httpx.Client) -> Sequence[Json]:
    """That of a session which has sent a parcel."""
    chat(client, "send a parcel", session_id="s", agent_id="post")
    items: list[Json] = client.get("/api/sessions/s/timeline").json()["items"]
    return items


def test_the_timeline_and_the_difference(client: httpx.Client, timeline: Sequence[Json], served: Served) -> None:
    assert [entry["effects_since"] for entry in timeline] == [1, 1, 0, 0]
    path = "/api/sessions/s/timeline"
    assert client.get(path, params={"limit": 3}).json() == {"items": timeline[-3:], "more": True}
    assert client.get(path, params={"limit": 4}).json() == {"items": timeline, "more": False}
    assert client.get(path, params={"limit": 0}).status_code == 422
    found = client.get("/api/sessions/s/diff", params={"a": timeline[0]["id"], "b": timeline[-1]["id"]}).json()
    assert (found["a"]["session_id"], found["results"]["b"][0]["name"]) == ("s", "send")
    assert client.get("/api/sessions/s/diff", params={"a": "ffffff", "b": "ffffff"}).status_code == 422
    with served.client(headers=BETA) as stranger:
        assert stranger.get("/api/sessions/s/timeline").status_code == 404


def test_a_fork_names_the_effects_and_they_are_undone_once(client: httpx.Client, timeline: Sequence[Json]) -> None:
    body = {"checkpoint_id": timeline[0]["id"]}
    forked = client.post("/api/sessions/s/fork", json={**body, "session_id": "f"}).json()
    assert [(effect["name"], effect["undo"]) for effect in forked["effects"]] == [("send", "available")]
    undone = client.post("/api/sessions/s/undo", json=body).json()
    assert undone["undone"][0]["result"] == {"success": "brought back"} and undone["effects"] == []
    assert client.post("/api/sessions/s/undo", json=body).json() == {"undone": [], "effects": []}


def test_a_forks_timeline_names_its_origin(client: httpx.Client, timeline: Sequence[Json]) -> None:
    assert not any(entry["forked_from"] for entry in timeline)
    origin = {"session_id": "s", "checkpoint_id": timeline[0]["checkpoint_id"]}
    made = client.post("/api/sessions/s/fork", json={"checkpoint_id": origin["checkpoint_id"]}).json()
    entries = client.get(f"/api/sessions/{made['session_id']}/timeline").json()["items"]
    assert entries[-1]["forked_from"] == origin


def test_a_fork_is_marked_in_the_list_of_sessions(client: httpx.Client, timeline: Sequence[Json]) -> None:
    def forked(session: str, name: str) -> str:
        place = client.get(f"/api/sessions/{session}/timeline").json()["items"][-1]["id"]
        client.post(f"/api/sessions/{session}/fork", json={"checkpoint_id": place, "session_id": name})
        rows = client.get("/api/sessions").json()["items"]
        return str(next(row["title"] for row in rows if row["session_id"] == name))

    assert forked("s", "m") == "↳ send a parcel"
    client.patch("/api/sessions/m", json={"title": "my parcel"})
    assert forked("m", "m2") == "↳ my parcel"
    assert forked("m2", "m3") == "↳ my parcel"


def test_an_edit_starts_a_task(client: httpx.Client, timeline: Sequence[Json]) -> None:
    body = {"checkpoint_id": timeline[0]["id"], "session_id": "e", "message": "hello"}
    task = client.post("/api/sessions/s/edit", json=body)
    assert (task.status_code, task.json()["session_id"], task.json()["message"]) == (202, "e", "hello")
    assert follow(client, task.json()["task_id"])[-1][1]["result"]["answer"] == "hello"
    assert client.post("/api/sessions/s/edit", json={"checkpoint_id": timeline[0]["id"]}).status_code == 422


def test_a_turn_is_begun_again_in_branches_of_one_conversation(client: httpx.Client, served: Served) -> None:
    first = chat(client, "begin", session_id="b", agent_id="sender")[0]["task_id"]
    chat(client, "go on", session_id="b", agent_id="sender")
    path = f"/api/tasks/{first}/branch"
    place = client.get(f"{path}-preview").json()
    assert [(effect["name"], effect["undo"]) for effect in place["effects"]] == [("send", "available")]
    client.post("/api/sessions/b/undo", json={"checkpoint_id": place["checkpoint_id"]})
    assert client.get(f"{path}-preview").json()["effects"] == []
    client.patch("/api/sessions/b", json={"title": "mine"})
    again = client.post(path, json={"session_id": "b2"})
    assert (again.status_code, again.json()["message"]) == (202, "begin")
    follow(client, again.json()["task_id"])
    (latest,) = client.get("/api/sessions/b/tasks?limit=1").json()["items"]
    edited = client.post(f"/api/tasks/{latest['task_id']}/branch", json={"session_id": "b3", "message": "stop"})
    assert follow(client, edited.json()["task_id"])[-1][1]["result"]["answer"] == "third"
    branches = client.get("/api/sessions/b2/branches").json()["items"]
    assert [(each["session_id"], each["parent"], each["turn"], each["turns"]) for each in branches] == [
        ("b", None, 1, 2),
        ("b2", "b", 1, 1),
        ("b3", "b", 2, 2),
    ]
    client.patch("/api/sessions/b3", json={"title": "ours"})
    listed = [row for row in client.get("/api/sessions").json()["items"] if row["root"] == "b"]
    assert [(row["session_id"], row["title"]) for row in listed] == [("b3", "ours")]
    assert client.get("/api/sessions/b").json()["title"] == "ours"
    with served.client(headers=BETA) as stranger:
        assert stranger.get(f"{path}-preview").status_code == stranger.post(path, json={}).status_code == 404
        assert stranger.get("/api/sessions/b/branches").status_code == 404
    assert client.delete("/api/sessions/b3").status_code == 204
    assert {client.get(f"/api/sessions/{name}").status_code for name in ("b", "b2", "b3")} == {404}


def test_a_branch_is_whole_or_none_though_its_turn_was_not_begun(client: httpx.Client, served: Served) -> None:
    first, second = (chat(client, text, session_id="w", agent_id="post")[0]["task_id"] for text in ("hi", "and"))
    sessions = served.service.app.sessions
    for task in (first, second):
        refused = client.post(f"/api/tasks/{task}/branch", json={"session_id": "w2", "message": "x" * 60_000})
        assert (refused.status_code, client.get("/api/sessions/w2").status_code) == (422, 404)
        assert client.get("/api/sessions/w/branches").json()["items"] == []
    # What a service leaves that is killed before the turn is begun.
    root = served.do(served.service.app.task(second)).session_id
    name = root.removesuffix("w") + "w3"
    place = served.do(served.service.app.rewind.before_turn(second)).checkpoint_id
    served.do(sessions.fork(root, place, name, branch=Branch(name, root, root, 2)))
    (row,) = [row for row in client.get("/api/sessions").json()["items"] if row["root"] == "w"]
    assert (row["session_id"], row["turns"]) == ("w", 2)
    again = client.post(f"/api/tasks/{second}/branch", json={"session_id": "w3"})
    assert again.status_code == 202
    follow(client, again.json()["task_id"])
    (row,) = [row for row in client.get("/api/sessions").json()["items"] if row["root"] == "w"]
    assert (row["session_id"], row["turns"]) == ("w3", 2)


def test_a_second_answer_to_a_question_is_a_conflict(client: httpx.Client) -> None:
    chat(client, "pay", session_id="p", agent_id="payer")
    (waiting,) = client.get("/api/waiting").json()["items"]
    path = f"/api/tasks/{waiting['task_id']}/answer"
    body = {"verdicts": "approve", "interrupt_id": waiting["interrupt_id"]}
    assert client.post(path, json=body).status_code == 202
    follow(client, waiting["task_id"])
    again = client.post(path, json={**body, "verdicts": "reject"})
    assert (again.status_code, again.json()["error"]["type"]) == (409, "QuestionClosed")
    assert "is no longer open: the task is done" in again.json()["error"]["message"]


def test_a_session_is_exported_and_imported(client: httpx.Client, timeline: Sequence[Json]) -> None:
    document = client.get("/api/sessions/s/export").json()
    assert "alpha:" not in str(document["tasks"]) and document["thread"]["thread_id"] == "s"
    imported = client.post("/api/sessions/import", json={"document": document, "session_id": "i"})
    assert (imported.status_code, imported.json()["session_id"]) == (201, "i")
    assert client.get("/api/sessions/i/history").json() == client.get("/api/sessions/s/history").json()
    assert client.post("/api/sessions/import", json={"document": {}}).status_code == 422
    assert client.post("/api/sessions/import", json=document).status_code == 201, "the document by itself"


def test_a_dry_run_says_what_a_pruning_then_removes(client: httpx.Client, served: Served) -> None:
    chat(client, "hello", session_id="p", mode="react")
    asked = {"retention": "1"}
    expected = client.post("/api/sessions/p/prune", json={**asked, "dry_run": True}).json()["snapshots"]
    assert expected > 0 and len(client.get("/api/sessions/p/timeline").json()["items"]) > 1
    assert client.post("/api/sessions/p/prune", json=asked).json() == {"snapshots": expected}
    assert len(client.get("/api/sessions/p/timeline").json()["items"]) == 1
    for body in ({}, {"retention": "soon"}, {"retention": "0"}):
        assert client.post("/api/sessions/p/prune", json=body).status_code == 422
    with served.client(headers=BETA) as stranger:
        assert stranger.post("/api/sessions/p/prune", json=asked).status_code == 404


def test_a_timeline_says_what_each_call_did_outside(client: httpx.Client, timeline: Sequence[Json]) -> None:
    happened = [each for entry in timeline for each in entry["happened"]]
    assert [each["type"] for each in happened if each["type"] in ("message", "call", "answer")] == [
        "message",
        "call",
        "answer",
    ]
    assert {each["task_id"] for each in happened} == {timeline[0]["task_id"]}
    assert [each["at"] for each in happened] == sorted(each["at"] for each in happened)
    client.post("/api/sessions/s/undo", json={"checkpoint_id": timeline[0]["id"]})
    calls = [
        each
        for entry in client.get("/api/sessions/s/timeline").json()["items"]
        for each in entry["happened"]
        if each["type"] == "call"
    ]
    assert [(each["name"], each["kind"]) for each in calls] == [("send", "undone")]


def test_a_timeline_ends_with_what_waits(client: httpx.Client) -> None:
    chat(client, "pay", session_id="q", agent_id="payer")
    entries = client.get("/api/sessions/q/timeline").json()["items"]
    assert [(each["type"], each["text"]) for each in entries[-1]["happened_since"]] == [("approval", "pay")]
    assert not any(entry["happened_since"] for entry in entries[:-1])


def test_what_a_snapshot_holds(client: httpx.Client, timeline: Sequence[Json], served: Served) -> None:
    first, last = (
        client.get(f"/api/sessions/s/snapshots/{entry['id']}").json() for entry in (timeline[1], timeline[-1])
    )
    assert first["messages"] == [{"role": "user", "content": "send a parcel"}]
    assert first["place"]["session_id"] == "s" and "send a parcel" in first["prompt"] and first["next"]
    assert "iteration" in first["editable"]
    assert last["messages"][-1] == {"role": "assistant", "content": "sent"}
    assert (last["next"], last["editable"], last["prompt"]) == ([], [], "")
    assert [each["name"] for each in last["results"]] == ["send"]
    assert client.get("/api/sessions/s/snapshots/ffffff").status_code == 422
    with served.client(headers=BETA) as stranger:
        assert stranger.get(f"/api/sessions/s/snapshots/{timeline[0]['id']}").status_code == 404


def test_a_session_is_a_cassette(client: httpx.Client, timeline: Sequence[Json], served: Served) -> None:
    found = client.get("/api/sessions/s/cassette")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/yaml")
    cassette = load(found.text)
    assert (cassette.session, [turn.message for turn in cassette.turns]) == ("s", ["send a parcel"])
    assert "alpha" not in found.text and [call.name for call in cassette.turns[0].tool_calls] == ["send"]
    refused = client.get("/api/sessions/s/cassette", params={"redact": "nothing"})
    assert refused.status_code == 422 and "nothing to redact" in refused.json()["error"]["message"]
    with served.client(headers=BETA) as stranger:
        assert stranger.get("/api/sessions/s/cassette").status_code == 404
