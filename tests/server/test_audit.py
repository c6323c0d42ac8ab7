"""The audit log over HTTP: each key sees what was decided in its own sessions, and by whom."""

import httpx

from .serving import BETA, Served, chat


def test_each_key_reads_who_decided_what_in_its_own_sessions(client: httpx.Client, served: Served) -> None:
    chat(client, "before", session_id="unlogged")
    assert client.get("/api/audit").json() == {"items": [], "next": None}
    served.do(served.service.app.audit.begin())
    task_id = chat(client, "hello", session_id="s1")[-1]["task_id"]
    assert client.post(f"/api/tasks/{task_id}/rating", json={"rating": 5}).status_code < 300
    place = client.get("/api/sessions/s1/timeline").json()["items"][-1]["id"]
    assert client.post("/api/sessions/s1/fork", json={"checkpoint_id": place, "session_id": "f1"}).status_code < 300
    assert client.delete("/api/sessions/f1").status_code < 300
    found = client.get("/api/audit", params={"limit": 3}).json()
    told = [(entry["actor"], entry["action"], entry["session_id"]) for entry in found["items"]]
    assert told == [("key:alpha", "deleted", "f1"), ("key:alpha", "forked", "f1"), ("key:alpha", "rated", "s1")]
    assert found["items"][1]["details"]["from"] == "s1"
    rest = client.get("/api/audit", params={"before": found["next"]}).json()
    assert [entry["action"] for entry in rest["items"]] == ["done", "sealed"]
    assert [entry["action"] for entry in client.get("/api/audit?action=rated").json()["items"]] == ["rated"]
    assert len(client.get("/api/audit?user_id=default&session_id=s1").json()["items"]) == 2
    with served.client(headers=BETA) as stranger:
        assert stranger.get("/api/audit").json()["items"] == []
        assert stranger.get("/api/audit?session_id=s1&actor=key:alpha").json()["items"] == []
