"""Reviews and approvals over HTTP: `respond` through every door, and who may decide."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from mcp import Client

import segue
from segue import tool
from segue.core.agents import Agent
from segue.mcp import AgentServer
from segue.server.ag_ui import describe_approval
from segue.server.settings import ServerSettings
from segue.server.tenants import hash_keys, parse_keys
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer, call_tool

from .serving import Json, Served, chat, ending, frames_of
from .test_mcp import Person, said


def review(state: MessagesState) -> dict[str, list[AIMessage]]:
    """Ask about a mail: what is allowed is the message, as in "approve respond"."""
    allowed = state["messages"][-1].text.split()
    configs = [{"action_name": "mail", "allowed_decisions": allowed}]
    given = interrupt({"action_requests": [{"name": "mail", "args": {"to": "ann"}}], "review_configs": configs})
    (decision,) = given["decisions"]
    return {"messages": [AIMessage(f"{decision['type']}: {decision.get('message', '')}")]}


def mode() -> StateGraph[MessagesState]:
    graph = StateGraph(MessagesState)
    graph.add_node("review", review)
    graph.add_edge(START, "review")
    return graph


def agent() -> Agent:
    return Agent(agent_id="shop", model=ScriptedChatModel(lambda _: answer("no")), mode="reviews")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    path = tmp_path_factory.mktemp("reviews") / "segue.db"
    with Served(path, agents=[agent()], modes={"reviews": mode()}) as served, served.client() as client:
        yield client


def _a2a(client: httpx.Client, about: Json, part: Json) -> Json:
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [part], **about}
    body = {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": {"message": message}}
    response = client.post("/a2a/shop", json=body, headers={"A2A-Version": "1.0"}).json()
    assert "result" in response, response
    task: Json = response["result"]["task"]
    return task


@pytest.mark.parametrize(
    ("allowed", "part", "decided"),
    [
        ("approve reject respond", {"data": {"verdict": "respond", "reason": "sent"}}, "respond: sent"),
        (
            "approve edit reject respond",
            {"data": {"verdicts": [{"index": 0, "verdict": "respond", "reason": "by hand"}]}},
            "respond: by hand",
        ),
        ("approve reject respond", {"text": "no"}, "reject: no"),
        ("approve respond", {"text": "sent by hand"}, "respond: sent by hand"),
        ("approve respond", {"text": "yes"}, "approve: "),
        ("respond", {"text": "yes"}, "respond: yes"),
    ],
)
def test_a2a(client: httpx.Client, allowed: str, part: Json, decided: str) -> None:
    waiting = _a2a(client, {}, {"text": allowed})
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    asked = waiting["status"]["message"]["parts"][0]["text"]
    if "reject" not in allowed:
        assert "given to the agent as the result" in asked
    if allowed == "respond":
        assert '"yes"' not in asked
    about = {"taskId": waiting["id"], "contextId": waiting["contextId"]}
    assert _a2a(client, about, part)["artifacts"][0]["parts"][0]["text"].strip() == decided.strip()


@cases(
    "allowed, named, refused",
    [
        (["respond"], {"response"}, [{}, {"approved": True}]),
        (["approve", "respond"], {"approved", "response"}, [{}, {"approved": False}]),
        (["approve", "edit"], {"approved", "editedArgs"}, [{}, {"response": "sent"}]),
        (["approve", "edit", "reject"], {"approved", "editedArgs", "reason"}, [{}]),
    ],
)
def test_ag_ui_describes_what_is_allowed(allowed: list[str], named: set[str], refused: list[Json]) -> None:
    schema = describe_approval({"decisions": allowed})
    assert schema["properties"].keys() == named
    validator = Draft202012Validator(schema)
    assert not [payload for payload in refused if validator.is_valid(payload)]
    fitting = {"response": "sent"} if "respond" in allowed else {"approved": True}
    assert validator.is_valid(fitting)


def test_ag_ui(client: httpx.Client) -> None:
    body: Json = {"threadId": "t", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    message = {"id": "m", "role": "user", "content": "approve respond"}
    with client.stream("POST", "/ag-ui/shop", json={**body, "messages": [message]}) as response:
        *_, (_, ended) = frames_of(response)
    (asked,) = ended["outcome"]["interrupts"]
    assert "response" in asked["responseSchema"]["properties"]
    resume = [{"interruptId": asked["id"], "status": "resolved", "payload": {"response": "sent"}}]
    with client.stream(
        "POST", "/ag-ui/shop", json={**body, "runId": "r2", "messages": [], "resume": resume}
    ) as response:
        text = "".join(event["delta"] for _, event in frames_of(response) if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert "respond: sent" in text


def test_chat_completions(client: httpx.Client) -> None:
    messages: list[Json] = [{"role": "user", "content": "approve respond"}]
    for content in ("sent by hand", None):
        made = client.post("/v1/chat/completions", json={"model": "shop", "messages": messages}).json()
        said = made["choices"][0]["message"]["content"]
        if content:
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": content}]
    assert said == "respond: sent by hand"


async def test_mcp_elicitation() -> None:
    person = Person(verdict="respond", reason="sent")
    schemas: list[Any] = []

    async def note(context: Any, params: Any) -> Any:
        schemas.append(params.requested_schema["properties"]["verdict"]["enum"])
        return await person(context, params)

    async with segue.open(":memory:", agents=[agent()], modes={"reviews": mode()}) as app:
        async with Client(AgentServer(app).server, elicitation_callback=note) as client:
            assert said(await client.call_tool("shop", {"message": "approve respond"})) == "respond: sent"
        async with Client(AgentServer(app).server) as client:
            asked = await client.call_tool("shop", {"message": "approve respond"})
            assert "given to the agent as the result" in said(asked)
            about = {key: asked.structured_content[key] for key in ("session_id", "interrupt_id")}
            assert said(await client.call_tool("shop", {"message": "by hand", **about})) == "respond: by hand"
    assert schemas == [["approve", "respond"]]


def test_http_says_what_may_be_decided(client: httpx.Client, tmp_path: Path) -> None:
    client.post("/api/chat", json={"message": "approve respond", "agent_id": "shop", "session_id": "http"})
    (waiting,) = [each for each in client.get("/api/waiting").json()["items"] if each["session_id"] == "http"]
    assert waiting["calls"][0]["decisions"] == ["approve", "respond"]
    url = f"/api/tasks/{waiting['task_id']}/answer"
    refused = client.post(url, json={"verdicts": "reject"})
    assert (refused.status_code, "use approve, respond" in refused.text) == (422, True)
    verdicts = [{"index": 0, "verdict": "respond", "reason": "sent"}]
    assert client.post(url, json={"verdicts": verdicts}).status_code == 202


# Calls that need a role or two persons, over HTTP: whose key it is decides, whatever a request says.


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
def keyed(tmp_path: Path) -> Iterator[httpx.Client]:
    paid.clear()
    model = ScriptedChatModel([call_tool(("pay", {"amount": 5})), answer("Paid.")])
    agent = Agent(agent_id="a", model=model, tools=(pay,), mode="react")
    with Served(tmp_path / "segue.db", SETTINGS, agents=[agent]) as served, served.client() as keyed:
        yield keyed


def asked_for(keyed: httpx.Client, by: str = "max", **fields: Any) -> str:
    return str(ending(chat(keyed, "pay", HEADERS[by], agent_id="a", session_id="s", **fields))["task_id"])


def decide(keyed: httpx.Client, task_id: str, by: str, verdicts: Any = "approve", **fields: Any) -> httpx.Response:
    body = {"verdicts": verdicts, **fields}
    return keyed.post(f"/api/tasks/{task_id}/answer", json=body, headers=HEADERS[by])


def test_two_keys_with_the_role_approve_and_the_inbox_says_to_each_what_they_may(keyed: httpx.Client) -> None:
    task_id = asked_for(keyed)
    refused = decide(keyed, task_id, "eve")
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "NotAnApprover")
    assert "needs the role finance" in refused.json()["error"]["message"]
    assert decide(keyed, task_id, "ann").json()["status"] == "waiting"
    assert decide(keyed, task_id, "ann").status_code == 403
    inbox = {
        name: keyed.get("/api/waiting", headers=HEADERS[name]).json()["items"] for name in ("eve", "ann", "bob", "beta")
    }
    assert inbox["beta"] == []
    assert [name for name in ("eve", "ann", "bob") if "refused" in inbox[name][0]["calls"][0]] == ["eve", "ann"]
    assert inbox["bob"][0]["problem"] == "Approved by ann; one more person must approve."
    question = keyed.get(f"/api/tasks/{task_id}", headers=HEADERS["bob"]).json()["question"]
    assert question["calls"][0]["approved_by"][0]["by"] == "key:ann@acme"
    assert paid == []
    assert decide(keyed, task_id, "bob", interrupt_id=question["interrupt_id"]).status_code == 202
    events = follow_all(keyed, task_id, "bob")
    (given,) = [event["verdicts"] for event in events if event["type"] == "approval_given"]
    assert ([each["by"] for each in given[0]["by"]], paid) == (["key:ann@acme", "key:bob@acme"], [5])


def follow_all(keyed: httpx.Client, task_id: str, by: str) -> list[Json]:
    from .serving import follow

    return [form for _, form in follow(keyed, task_id, HEADERS[by])]


@pytest.mark.parametrize(
    "claim",
    [
        {"by": [{"by": "key:ann@acme", "at": 1, "shown": "", "verdict": "approve"}]},
        {"roles": ["finance"], "approvals": 1, "approvers": []},
    ],
)
def test_a_body_claims_no_role_and_no_person(keyed: httpx.Client, claim: Json) -> None:
    task_id = asked_for(keyed)
    verdict = {"index": 0, "verdict": "approve", **claim}
    assert decide(keyed, task_id, "eve", [verdict]).status_code == 403
    for field in ({"roles": ["finance"]}, {"by": "ann"}, {"user_id": "ann"}):
        body = {"verdicts": "approve", **field}
        response = keyed.post(f"/api/tasks/{task_id}/answer", json=body, headers=HEADERS["eve"])
        assert response.status_code in (403, 422), response.text
    assert decide(keyed, task_id, "ann", [verdict]).json()["status"] == "waiting", "her own approval alone counts"
    assert decide(keyed, task_id, "ann", [verdict]).status_code == 403
    assert decide(keyed, task_id, "beta").status_code == 404, "a role is its tenant's"
    assert paid == []


def test_who_sent_the_message_or_is_its_user_cannot_approve(keyed: httpx.Client) -> None:
    task_id = asked_for(keyed, "ann")
    refused = decide(keyed, task_id, "ann")
    assert refused.status_code == 403 and "requested by" in refused.json()["error"]["message"]
    other = ending(chat(keyed, "pay", HEADERS["max"], agent_id="a", session_id="t", user_id="bob"))
    if other["status"] == "waiting":
        assert decide(keyed, str(other["task_id"]), "bob").status_code == 403
    assert paid == []


def test_the_sentence_is_in_the_language_of_the_request(keyed: httpx.Client) -> None:
    task_id = asked_for(keyed)
    headers = {**HEADERS["eve"], "Accept-Language": "zh"}
    body = {"verdicts": "approve"}
    response = keyed.post(f"/api/tasks/{task_id}/answer", json=body, headers=headers)
    assert "需要角色 finance" in response.json()["error"]["message"]


def test_an_openai_client_without_the_role_is_refused(keyed: httpx.Client) -> None:
    messages: Any = [{"role": "user", "content": "pay"}]
    served = f"{keyed.base_url}/v1"
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
