"""Reviews that a graph asks for as LangChain's middleware does: `respond` through every door of the service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from mcp import Client

import segue
from segue.core.agents import Agent
from segue.mcp import AgentServer
from segue.server.ag_ui import describe_approval
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer

from .serving import Json, Served, frames_of
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
