"""Tasks that wait for an event, over HTTP."""

import httpx
import pytest

import segue
from segue.core.agents import Agent
from tests.fakes import answer, call_tool
from tests.polling import wait_until

from .serving import BETA, Held, Served, chat


@segue.tool
def sell(amount: int) -> str:
    """Sell something, and wait until it is paid."""
    raise segue.Wait("paid")


@pytest.fixture(scope="module")
def own_agents(held: Held) -> list[Agent]:
    return [held.agent("a", [call_tool(("sell", {"amount": 5})), answer("Thanks.")], tools=(sell,))]


def test_an_event_continues_the_task_that_waits_for_it(client: httpx.Client, served: Served) -> None:
    ended = chat(client, "sell", agent_id="a", session_id="shop")[-1]["result"]
    assert (ended["status"], ended["question"]["kind"]) == ("waiting", "wait")
    path = f"/api/tasks/{ended['task_id']}"
    assert client.get("/api/waiting").json()["items"] == []
    refused = client.post(f"{path}/answer", json={"answer": "yes"})
    assert refused.status_code == 422 and "Waiting for the event paid" in refused.json()["error"]["message"]
    with served.client(headers=BETA) as stranger:
        assert stranger.post(f"{path}/events", json={"name": "paid"}).status_code == 404
    assert client.post(f"{path}/events", json={"name": "not a name"}).status_code == 422
    once = {"Idempotency-Key": "payment-1"}
    for _ in range(2):
        sent = client.post(f"{path}/events", json={"name": "paid", "data": {"amount": 5}}, headers=once)
        assert sent.status_code == 202, sent.text
    wait_until(lambda: client.get(path).json()["task"]["status"] == "done")
    (result,) = [each for each in client.get(path).json()["events"] if each["type"] == "tool_result"]
    assert result["result"] == {"success": {"event": "paid", "data": {"amount": 5}}}
