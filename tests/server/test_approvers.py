"""Calls that need a role or two persons, over HTTP: whose key it is decides, whatever a request says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from segue import tool
from segue.core.agents import Agent
from segue.server.settings import ServerSettings
from segue.server.tenants import hash_keys, parse_keys
from tests.fakes import ScriptedChatModel, answer, call_tool

from .serving import Json, Served, chat, ending

HOLDERS = ("max@acme", "eve@acme+ops", "ann@acme+finance", "bob@acme+finance", "beta+finance")
KEYS = {name.partition("@")[0].partition("+")[0]: f"key-of-{name}".ljust(24, "0") for name in HOLDERS}
HEADERS = {name: {"Authorization": f"Bearer {key}"} for name, key in KEYS.items()}
NAMED = ",".join(f"{name}:{key}" for name, key in zip(HOLDERS, KEYS.values(), strict=True))
SETTINGS = ServerSettings(keys=parse_keys(hash_keys(NAMED)))
paid: list[int] = []


@tool(approvers=("finance",), approvals=2, not_by_asker=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    paid.clear()
    model = ScriptedChatModel([call_tool(("pay", {"amount": 5})), answer("Paid.")])
    agent = Agent(agent_id="a", model=model, tools=(pay,), mode="react")
    with Served(tmp_path / "segue.db", SETTINGS, agents=[agent]) as served, served.client() as client:
        yield client


def asked_for(client: httpx.Client, by: str = "max", **fields: Any) -> str:
    return str(ending(chat(client, "pay", HEADERS[by], agent_id="a", session_id="s", **fields))["task_id"])


def decide(client: httpx.Client, task_id: str, by: str, verdicts: Any = "approve", **fields: Any) -> httpx.Response:
    body = {"verdicts": verdicts, **fields}
    return client.post(f"/api/tasks/{task_id}/answer", json=body, headers=HEADERS[by])


def test_two_keys_with_the_role_approve_and_the_inbox_says_to_each_what_they_may(client: httpx.Client) -> None:
    task_id = asked_for(client)
    refused = decide(client, task_id, "eve")
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "NotAnApprover")
    assert "needs the role finance" in refused.json()["error"]["message"]
    assert decide(client, task_id, "ann").json()["status"] == "waiting"
    assert decide(client, task_id, "ann").status_code == 403
    inbox = {
        name: client.get("/api/waiting", headers=HEADERS[name]).json()["items"]
        for name in ("eve", "ann", "bob", "beta")
    }
    assert inbox["beta"] == []
    assert [name for name in ("eve", "ann", "bob") if "refused" in inbox[name][0]["calls"][0]] == ["eve", "ann"]
    assert inbox["bob"][0]["problem"] == "Approved by ann; one more person must approve."
    question = client.get(f"/api/tasks/{task_id}", headers=HEADERS["bob"]).json()["question"]
    assert question["calls"][0]["approved_by"][0]["by"] == "key:ann@acme"
    assert paid == []
    assert decide(client, task_id, "bob", interrupt_id=question["interrupt_id"]).status_code == 202
    events = follow_all(client, task_id, "bob")
    (given,) = [event["verdicts"] for event in events if event["type"] == "approval_given"]
    assert ([each["by"] for each in given[0]["by"]], paid) == (["key:ann@acme", "key:bob@acme"], [5])


def follow_all(client: httpx.Client, task_id: str, by: str) -> list[Json]:
    from .serving import follow

    return [form for _, form in follow(client, task_id, HEADERS[by])]


@pytest.mark.parametrize(
    "claim",
    [
        {"by": [{"by": "key:ann@acme", "at": 1, "shown": "", "verdict": "approve"}]},
        {"roles": ["finance"], "approvals": 1, "approvers": []},
    ],
)
def test_a_body_claims_no_role_and_no_person(client: httpx.Client, claim: Json) -> None:
    task_id = asked_for(client)
    verdict = {"index": 0, "verdict": "approve", **claim}
    assert decide(client, task_id, "eve", [verdict]).status_code == 403
    for field in ({"roles": ["finance"]}, {"by": "ann"}, {"user_id": "ann"}):
        body = {"verdicts": "approve", **field}
        response = client.post(f"/api/tasks/{task_id}/answer", json=body, headers=HEADERS["eve"])
        assert response.status_code in (403, 422), response.text
    assert decide(client, task_id, "ann", [verdict]).json()["status"] == "waiting", "her own approval alone counts"
    assert decide(client, task_id, "ann", [verdict]).status_code == 403
    assert decide(client, task_id, "beta").status_code == 404, "a role is its tenant's"
    assert paid == []


def test_who_sent_the_message_or_is_its_user_cannot_approve(client: httpx.Client) -> None:
    task_id = asked_for(client, "ann")
    refused = decide(client, task_id, "ann")
    assert refused.status_code == 403 and "requested by" in refused.json()["error"]["message"]
    other = ending(chat(client, "pay", HEADERS["max"], agent_id="a", session_id="t", user_id="bob"))
    if other["status"] == "waiting":
        assert decide(client, str(other["task_id"]), "bob").status_code == 403
    assert paid == []


def test_the_sentence_is_in_the_language_of_the_request(client: httpx.Client) -> None:
    task_id = asked_for(client)
    headers = {**HEADERS["eve"], "Accept-Language": "zh"}
    body = {"verdicts": "approve"}
    response = client.post(f"/api/tasks/{task_id}/answer", json=body, headers=headers)
    assert "需要角色 finance" in response.json()["error"]["message"]


def test_an_openai_client_without_the_role_is_refused(client: httpx.Client) -> None:
    messages: Any = [{"role": "user", "content": "pay"}]
    served = f"{client.base_url}/v1"
    with openai.OpenAI(base_url=served, api_key=KEYS["max"], max_retries=0) as asker:
        asked = asker.chat.completions.create(model="a", messages=messages).choices[0].message.content
    messages += [{"role": "assistant", "content": asked}, {"role": "user", "content": "approve"}]
    with (
        openai.OpenAI(base_url=served, api_key=KEYS["max"], max_retries=0) as asker,
        pytest.raises(openai.PermissionDeniedError, match="needs the role finance"),
    ):
        asker.chat.completions.create(model="a", messages=messages)
    with openai.OpenAI(base_url=served, api_key=KEYS["ann"], max_retries=0) as ann:
        told = ann.chat.completions.create(model="a", messages=messages).choices[0].message.content
    assert told is not None and "Approved by ann" not in told, "a conversation belongs to the person who began it"
    assert paid == []
