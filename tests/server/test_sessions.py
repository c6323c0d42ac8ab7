"""Sessions over HTTP: created without a message, with an agent and a model that their messages use."""

import httpx
import pytest

from segue.core.agents import Agent

from .serving import BETA, Held, chat
from .shop import reply


@pytest.fixture(scope="module")
def own_agents(held: Held) -> list[Agent]:
    return [held.agent("a", reply)]


def test_a_session_without_a_message_is_listed_renamed_used_and_deleted(client: httpx.Client) -> None:
    created = client.post("/api/sessions", json={"agent_id": "a", "title": "fruit"})
    assert created.status_code == 201
    session_id = created.json()["session_id"]
    listed = client.get("/api/sessions", params={"q": "fruit"}).json()["items"]
    assert listed == [created.json()] == [client.get(f"/api/sessions/{session_id}").json()]
    assert [listed[0][name] for name in ("title", "turns", "status", "default_agent")] == ["fruit", 0, "done", "a"]
    assert client.get(f"/api/sessions/{session_id}/history").json() == {"items": [], "next": None}
    assert client.patch(f"/api/sessions/{session_id}", json={"title": "apples"}).status_code == 204
    assert chat(client, "apples", session_id=session_id)[-1]["result"]["answer"] == "Heard apples."
    shown = client.get(f"/api/sessions/{session_id}").json()
    assert [shown[name] for name in ("title", "turns", "agent_id")] == ["apples", 1, "a"]
    assert client.delete(f"/api/sessions/{session_id}").status_code == 204
    assert client.get(f"/api/sessions/{session_id}").status_code == 404


def test_a_session_that_was_never_used_is_deleted(client: httpx.Client) -> None:
    assert client.post("/api/sessions", json={"session_id": "empty"}).status_code == 201
    assert client.post("/api/sessions", json={"session_id": "empty"}).status_code == 409
    assert client.delete("/api/sessions/empty").status_code == 204
    assert client.get("/api/sessions/empty").status_code == 404


def test_what_is_chosen_for_a_session_serves_messages_that_name_nothing(client: httpx.Client) -> None:
    assert "Heard" not in chat(client, "apples", session_id="s")[-1]["result"]["answer"]
    assert client.patch("/api/sessions/s", json={"agent_id": "a"}).status_code == 204
    assert chat(client, "apples", session_id="s")[-1]["result"]["answer"] == "Heard apples."
    assert "Heard" not in chat(client, "pears", session_id="s", agent_id="travel")[-1]["result"]["answer"]
    assert client.patch("/api/sessions/s", json={"agent_id": "", "model": "offline"}).status_code == 204
    shown = client.get("/api/sessions/s").json()
    assert [shown[name] for name in ("default_agent", "default_model")] == ["", "offline"]
    assert "Heard" not in chat(client, "plums", session_id="s")[-1]["result"]["answer"]


def test_what_cannot_be_chosen_is_refused(client: httpx.Client) -> None:
    unknown = client.post("/api/sessions", json={"agent_id": "nobody", "session_id": "x"})
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (422, "UnknownAgent")
    assert client.post("/api/sessions", json={"model": "gpt", "session_id": "x"}).status_code == 422
    assert client.get("/api/sessions/x").status_code == 404


def test_another_tenants_session_is_not_there(client: httpx.Client) -> None:
    assert client.post("/api/sessions", json={"session_id": "mine"}).status_code == 201
    for answered in (
        client.get("/api/sessions/mine", headers=BETA),
        client.patch("/api/sessions/mine", json={"title": "x"}, headers=BETA),
        client.delete("/api/sessions/mine", headers=BETA),
    ):
        assert answered.status_code == 404
    assert client.post("/api/sessions", json={"session_id": "mine"}, headers=BETA).status_code == 201


def listed(client: httpx.Client, **query: object) -> list[str]:
    items = client.get("/api/sessions", params={"limit": 200, **query}).json()["items"]  # type: ignore[dict-item]
    return [item["session_id"] for item in items if item["session_id"].startswith("filed")]


def test_a_pinned_session_is_listed_first_and_an_archived_one_where_it_is_asked_for(client: httpx.Client) -> None:
    for name in ("filed-1", "filed-2", "filed-3"):
        chat(client, "apples", session_id=name)
    assert client.patch("/api/sessions/filed-1", json={"pinned": True}).status_code == 204
    assert client.patch("/api/sessions/filed-2", json={"archived": True}).status_code == 204
    assert (listed(client), listed(client, archived=True)) == (["filed-1", "filed-3"], ["filed-2"])
    shown = client.get("/api/sessions/filed-1").json()
    assert (shown["pinned"], shown["archived"]) == (True, False)
    assert client.patch("/api/sessions/filed-1", json={"pinned": False, "title": "x"}).status_code == 204
    assert client.patch("/api/sessions/filed-2", json={"archived": False}).status_code == 204
    assert listed(client) == ["filed-3", "filed-2", "filed-1"]
    assert client.patch("/api/sessions/filed-1", json={"pinned": True}, headers=BETA).status_code == 404


def test_a_branch_is_filed_with_its_conversation(client: httpx.Client) -> None:
    task_id = chat(client, "apples", session_id="filed-root")[0]["task_id"]
    client.patch("/api/sessions/filed-root", json={"archived": True}).raise_for_status()
    body = {"message": "pears", "session_id": "filed-branch"}
    client.post(f"/api/tasks/{task_id}/branch", json=body).raise_for_status()
    assert client.get("/api/sessions/filed-branch").json()["archived"]
    client.patch("/api/sessions/filed-branch", json={"archived": False}).raise_for_status()
    assert not client.get("/api/sessions/filed-root").json()["archived"]


def test_what_programs_began_is_listed_apart_from_what_people_wrote(client: httpx.Client) -> None:
    chat(client, "apples", session_id="filed-page", origin="page")
    chat(client, "apples", session_id="filed-api")
    people, programs = listed(client, sender="people"), listed(client, sender="programs")
    assert "filed-page" in people and "filed-page" not in programs
    assert "filed-api" in programs and "filed-api" not in people
    origins = [client.get(f"/api/sessions/{name}").json()["origin"] for name in ("filed-page", "filed-api")]
    assert origins == ["page", "api"]


def test_a_search_finds_what_was_said_in_the_tenants_own_sessions(client: httpx.Client) -> None:
    for name in ("found-1", "found-2"):
        chat(client, "kumquats", session_id=name, agent_id="a")
    chat(client, "kumquats", session_id="found-3", agent_id="a", headers=BETA)

    def hits(**query: object) -> dict[str, list[dict[str, str]]]:
        return client.get("/api/search", params=query).json()  # type: ignore[arg-type, no-any-return]

    page = hits(q="KUMQ", limit=1)
    assert [hit["session_id"] for hit in page["items"]] == ["found-2"]
    assert (page["items"][0]["role"], page["items"][0]["snippet"]) == ("user", "kumquats")
    rest = hits(q="KUMQ", limit=9, before=page["next"])
    assert ([hit["session_id"] for hit in rest["items"]], rest["next"]) == (["found-1"], None)
    assert [hit["session_id"] for hit in hits(q="kumquats", session_id="found-1")["items"]] == ["found-1"]
    other = client.get("/api/search", params={"q": "kumquats", "before": page["next"]}, headers=BETA)
    assert other.status_code == 404
    assert client.get("/api/search", params={"q": "x" * 201}).status_code == 422
