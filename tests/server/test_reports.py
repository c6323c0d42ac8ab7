"""Reports over HTTP: the audit log, and limits of spending."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage

from segue.core.agents import Agent, Prices
from segue.server import ServerSettings
from tests.fakes import ScriptedChatModel
from tests.polling import wait_until

from .serving import ALPHA, BETA, KEYS, Served, chat


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


# Limits of spending over HTTP.


LIMIT = 0.3
USAGE = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}


def agent() -> Agent:
    """An agent whose calls cost 0.2 dollars each."""
    model = ScriptedChatModel(lambda _: AIMessage("done", usage_metadata=USAGE))
    return Agent(agent_id="a", model=model, mode="direct", max_tokens=200, prices=Prices(input=100, output=1000))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with two tenants, each with a limit a day for itself."""
    file = tmp_path_factory.mktemp("spend") / "segue.db"
    with Served(file, ServerSettings(keys=KEYS), agents=[agent()], spend={"per_day": LIMIT}) as served:
        yield served


def status(client: httpx.Client, task_id: str) -> str:
    return str(client.get(f"/api/tasks/{task_id}").json()["task"]["status"])


def ask(client: httpx.Client, session: str) -> dict[str, Any]:
    """The result of a message."""
    result: dict[str, Any] = chat(client, "go", session_id=session, agent_id="a")[-1]["result"]
    return result


def test_a_limit_is_shown_raised_and_counted_for_each_tenant(limited: Served) -> None:
    with limited.client(headers=ALPHA) as client, limited.client(headers=BETA) as other:
        assert ask(client, "s1")["status"] == "done"
        waiting = [ask(client, name)["task_id"] for name in ("s2", "s3", "s4")]
        rows = client.get("/api/waiting").json()["items"]
        assert {row["task_id"] for row in rows} == {*waiting} and {row["kind"] for row in rows} == {"spend"}
        assert {"limit_name": "per_day", "limit": LIMIT, "unit": "USD"}.items() <= rows[0]["spend"].items()
        assert ask(other, "s1")["status"] == "done" and other.get("/api/waiting").json()["items"] == []
        address = f"/api/tasks/{waiting[1]}/answer"
        for wrong in ({"limit": LIMIT}, {"answer": "more"}, {"limit": 0}, {"limit": True}, {"limit": 5, "answer": "5"}):
            assert client.post(address, json=wrong).status_code in (409, 422)
        assert client.post(f"/api/tasks/{waiting[2]}/answer", json={"answer": "cancel"}).status_code == 202
        assert status(client, waiting[2]) == "cancelled"
        assert client.post(address, json={"limit": 5.0}).status_code == 202
        wait_until(lambda: [status(client, each) for each in waiting[:2]] == ["done", "done"])
        found = client.get("/api/usage").json()
        assert [(use["limit_name"], use["limit"], use["used"]) for use in found["limits"]] == [
            ("per_day", 5.0, pytest.approx(0.6))
        ]
        assert [(row["user"], row["tasks"]) for row in found["by_user"]] == [("default", 4)]
        (use,) = other.get("/api/usage").json()["limits"]
        assert (use["limit"], use["used"]) == (LIMIT, pytest.approx(0.2))


def test_clients_can_be_kept_from_raising_limits(tmp_path: Path) -> None:
    spend = {"per_day": 0.1, "raise_over_http": False}
    with Served(tmp_path / "segue.db", agents=[agent()], spend=spend) as served, served.client() as client:
        task_id = ask(client, "s")["task_id"]
        refused = client.post(f"/api/tasks/{task_id}/answer", json={"limit": 5})
        assert refused.status_code == 422 and "Only the operators of this service" in refused.text
        assert client.post(f"/api/tasks/{task_id}/answer", json={"manual_finish": True}).status_code == 202
        assert status(client, task_id) == "cancelled"
