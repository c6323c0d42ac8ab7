"""Conversations over HTTP: started, followed, paused, answered, and kept to what the service allows."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import segue
from segue.core.agents import Agent, Budget
from segue.core.conversation import Restrictions, Role, Utterance
from segue.core.errors import ConfigurationError
from segue.nodes.participant_apis import refused, spec_of
from segue.testing.rehearsal import ConversationConfig, Setting, converse
from segue.testing.rehearsal.segue_bot import bot_session
from tests.nodes.conversation.test_apis import place as place
from tests.polling import wait_until
from tests.rehearsal.participants import Does, calls, helpful, says

from .serving import ALPHA, BETA, Held, Json, Served, ServerSettings, chat, ending, follow, types
from .shop import refund, reply

DOCS = Path(__file__).parents[2] / "docs/rehearsal.md"
AGENT = {"bot_mode": "segue:react", "bot_agent": "shop", "api_mode": "tools"}
SCRIPTED = {"user_mode": "scripted_user", **AGENT}


@pytest.fixture(scope="module")
def own_agents(held: Held) -> list[Agent]:
    return [held.agent("shop", reply, tools=(refund,))]


def started(client: httpx.Client, **config: Any) -> Json:
    answer = client.post("/api/conversations", json=config)
    assert answer.status_code == 201, answer.text
    form: Json = answer.json()
    return form


def settled(client: httpx.Client, conversation: Json) -> Json:
    """The conversation once it waits, is paused or has ended."""
    follow(client, conversation["task_id"])
    form: Json = client.get(f"/api/conversations/{conversation['session_id']}").json()
    return form


def answered(client: httpx.Client, conversation: Json, **answer: Any) -> Json:
    client.post(f"/api/tasks/{conversation['task_id']}/answer", json=answer).raise_for_status()
    return settled(client, conversation)


def said(conversation: Json) -> list[tuple[str, str]]:
    return [(u["role"], u.get("text") or u.get("action") or "") for u in conversation["utterances"]]


def test_a_workflow_is_followed_to_its_end_and_read_as_it_was_streamed(client: httpx.Client) -> None:
    config = {"session_id": "change", "workflow": "travel_change", "scenario": "change_with_fee", "seed": 7}
    begun = started(client, **config)
    assert (begun["session_id"], begun["language"], begun["ending"]) == ("change", "en", None)
    assert begun["config"]["bot_mode"] == "rule_bot" and begun["config"]["scenario"] == "change_with_fee"
    streamed = [form for _, form in follow(client, begun["task_id"])]
    over = client.get("/api/conversations/change").json()
    assert [form["utterance"] for form in streamed if form["type"] == "utterance"] == over["utterances"]
    assert types(streamed)[-1] == "done" and over["status"] == "done" and over["ending"]["reason"] == "user_ended"
    again = client.post("/api/conversations", json=config)
    assert again.status_code == 409 and again.json()["error"]["type"] == "ThreadExists"


def test_one_key_starts_one_conversation(client: httpx.Client) -> None:
    first, second = (
        client.post("/api/conversations", json={}, headers={"Idempotency-Key": "talk-once"}) for _ in range(2)
    )
    assert first.status_code == second.status_code == 201
    assert first.json()["task_id"] == second.json()["task_id"]


def test_a_person_is_the_user_and_ends_it(client: httpx.Client) -> None:
    talk = settled(client, started(client, user_mode="input_user", **AGENT))
    assert talk["status"] == "waiting" and talk["question"]["kind"] == "question"
    talk = answered(client, talk, answer="apples")
    assert talk["question"]["question"] == "Heard apples."
    talk = answered(client, talk, answer="END")
    assert talk["status"] == "done" and talk["ending"]["turns"] == 1
    assert said(talk) == [("USER", "apples"), ("BOT", "Heard apples."), ("USER", "")]


def test_no_configuration_runs_a_real_tool_unasked(client: httpx.Client) -> None:
    config = {"script": ["please refund"], **SCRIPTED}
    talk = settled(client, started(client, **config))
    assert (talk["status"], talk["question"]["kind"]) == ("waiting", "approval")
    assert talk["task_id"] in [each["task_id"] for each in client.get("/api/waiting").json()["items"]]
    approving = {**config, "approvals": "approve"}
    for path, body in (
        ("/api/conversations", approving),
        ("/api/chat", {"mode": "conversation", "message": json.dumps(approving), "session_id": "approving"}),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 422 and "auto_approve_conversations" in refused.text, path
    client.post(f"/api/tasks/{talk['task_id']}/cancel").raise_for_status()


@pytest.mark.parametrize(("verdict", "status"), [("approve", 200), ("reject", 403)])
def test_an_approval_is_asked_for_and_decided(client: httpx.Client, verdict: str, status: int) -> None:
    talk = settled(client, started(client, script=["please refund"], approvals="ask", **SCRIPTED))
    assert talk["question"]["kind"] == "approval" and talk["question"]["calls"][0]["name"] == "refund"
    talk = answered(client, talk, verdicts=verdict)
    (result,) = (u for u in talk["utterances"] if u["role"] == "API")
    assert (result["status_code"], talk["status"]) == (status, "done")


def test_a_pause_stops_the_bot_and_it_goes_on_without_repeating_a_call(client: httpx.Client, held: Held) -> None:
    held.begun.clear(), held.go.clear(), held.effects.clear()
    talk = started(client, script=["please hold"], **SCRIPTED)
    assert held.begun.wait(30)
    assert client.post(f"/api/tasks/{talk['task_id']}/pause").status_code == 202
    held.go.set()
    assert settled(client, talk)["status"] == "paused"
    client.post(f"/api/tasks/{talk['task_id']}/resume").raise_for_status()
    talk = settled(client, talk)
    assert talk["status"] == "done" and said(talk)[-2] == ("BOT", "Settled, 好的.")
    assert held.effects == ["one"]


def test_the_session_of_its_bot_is_listed_where_it_is_asked_for(client: httpx.Client, served: Served) -> None:
    talk = settled(client, started(client, session_id="beside", script=["hello"], **SCRIPTED))
    assert talk["status"] == "done"

    def listed(**query: Any) -> list[str]:
        items = client.get("/api/sessions", params={"limit": 200, **query}).json()["items"]
        return [item["session_id"] for item in items if item["session_id"].startswith("beside")]

    assert (listed(), sorted(listed(bots=True))) == (["beside"], ["beside", "beside.bot"])
    assert client.get("/api/sessions/beside.bot").status_code == 200
    client.post("/api/sessions", json={"session_id": "besides.bot"}).raise_for_status()
    assert sorted(listed()) == ["beside", "besides.bot"]


def test_the_question_of_a_bot_whose_user_leaves_is_cancelled(served: Served, client: httpx.Client) -> None:
    config = {"user_mode": "scripted_user", "script": ["Paint it."], "bot_agent": "shop", "api_mode": "tools"}
    talk = settled(client, started(client, bot_mode="segue:controller", **config))
    assert said(talk) == [("USER", "Paint it."), ("BOT", "Which colour?"), ("USER", "")]
    app, session = served.service.app, bot_session(f"alpha:{talk['session_id']}")

    def bots() -> list[Json]:
        tasks: list[Json] = served.do(app.tasks.list(session_id=session))
        return tasks

    wait_until(lambda: bots()[0].status == "cancelled")
    assert bots()[0].user_id == "alpha:default", "the bot's memory is its tenant's"


def test_chat_starts_one_and_answers_the_one_that_waits(client: httpx.Client) -> None:
    asked = chat(client, json.dumps({"user_mode": "input_user"}), mode="conversation", session_id="by-chat")
    assert ending(asked)["question"]["role"] == "USER"
    heard = chat(client, "hello there", mode="conversation", session_id="by-chat")
    assert next(form["utterance"]["text"] for form in heard if form["type"] == "utterance") == "hello there"
    over = chat(client, "END", mode="conversation", session_id="by-chat")
    assert "conversation_end" in types(over) and ending(over)["status"] == "done"


def test_a_chat_message_decides_nothing_in_a_conversation(client: httpx.Client) -> None:
    talk = settled(client, started(client, script=["please refund"], approvals="ask", **SCRIPTED))
    told = chat(client, "ok", mode="conversation", session_id=talk["session_id"])
    assert ending(told)["question"]["calls"] == talk["question"]["calls"]
    assert ending(told)["status"] == "waiting"
    assert answered(client, talk, verdicts="approve")["status"] == "done"


def test_the_tokens_of_a_conversation_are_its_transcript(client: httpx.Client) -> None:
    heard = chat(client, json.dumps({"script": ["apples", "pears"], **SCRIPTED}), mode="conversation")
    written = "".join(form["content"] for form in heard if form["type"] == "token")
    assert written == ending(heard)["answer"]
    assert written.startswith("[USER] apples\n[BOT] Heard apples.\n[USER] pears\n[BOT] Heard")


def test_a_chat_message_is_the_goal_of_a_user_whom_a_model_plays(client: httpx.Client) -> None:
    sent = {"message": "I want to change my flight", "mode": "conversation", "agent_id": "shop"}
    refused = client.post("/api/chat", json=sent)
    assert refused.status_code == 422 and "needs a language model" in refused.json()["error"]["message"]
    refused = client.post("/api/chat", json={**sent, "attachments": ["x"]})
    assert refused.status_code == 422 and "accepts no files" in refused.json()["error"]["message"]
    refused = client.post("/api/chat", json={**sent, "message": '{"user_mode": 1}'})
    assert refused.status_code == 422 and "body.message.user_mode" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({"user_mode": "nobody"}, "dummy_user, input_user"),
        ({"bot_mode": "os:system"}, "dummy_bot, input_bot"),
        ({"api_mode": "subprocess:Popen"}, "dummy_api, llm"),
        ({"controllers": ["builtins:print"]}, "api_duplication, node_dependency"),
        ({"tools": ["os:system"], "api_mode": "tools"}, "data, travel"),
        ({"tools": ["shell"], "api_mode": "tools"}, "data, travel"),
        ({"workflow": "/etc/hosts"}, "clinic_appointment, device_return, travel_change"),
        ({"workflow": str(DOCS)}, "clinic_appointment, device_return, travel_change"),
        ({"workflow": "travel_change", "scenario": "none"}, "change_with_fee"),
        ({"bot_mode": "segue:react", "bot_agent": "nobody"}, "shop"),
        ({"bot_mode": "segue:nothing"}, "react"),
        ({"api_mode": "request", "apis": [{"name": "a", "url": "http://127.0.0.1:1/"}]}, "allowed_hosts"),
        ({"bot_model": "local:/etc/passwd"}, "does not load model files"),
        ({"conversation_turn_limit": 201}, "allows at most 200"),
        ({"api_timeout": 1e9}, "allows at most 300"),
        ({"session_length": 10**30}, "session_length: must be at most 1000000000"),
        ({"bot": "x"}, ".bot: unknown field"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_with_what_there_is(
    client: httpx.Client, config: Json, known: str
) -> None:
    for path, body in (
        ("/api/conversations", config),
        ("/api/chat", {"message": json.dumps(config), "mode": "conversation"}),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 422 and known in refused.json()["error"]["message"], refused.text


def test_only_the_operators_hosts_are_called(tmp_path: Path, place: str) -> None:
    api = {"name": "it", "url": f"http://{place}/orders", "method": "GET", "parameters": {"type": "object"}}
    bot = Does(lambda c: says("ok") if c.actions else calls("it"))
    config = {
        "bot_mode": "own",
        "api_mode": "request",
        "apis": [api],
        "allowed_hosts": [place],
        "conversation_turn_limit": 1,
    }
    for hosts in ((), (place,)):
        settings = ServerSettings(api_hosts=hosts)
        with Served(tmp_path / "segue.db", settings) as served, served.client() as client:
            served.service.app.agents.participants.bots.register("own", lambda setting: bot)
            answer = client.post("/api/conversations", json=config)
            if not hosts:
                assert answer.status_code == 422 and "this service does not allow" in answer.json()["error"]["message"]
                continue
            talk = settled(client, answer.json())
            assert [u["status_code"] for u in talk["utterances"] if u["role"] == "API"] == [200]


def helpful_bot(_: Setting) -> Does:
    return Does(helpful)


async def test_a_conversation_that_was_begun_elsewhere_imports_nothing_here(tmp_path: Path) -> None:
    config = ConversationConfig(user_mode="input_user", bot_mode="tests.server.test_conversations:helpful_bot")
    async with segue.open(tmp_path / "segue.db") as app:
        await converse(app, config, conversation_id="talk")
    with Served(tmp_path / "segue.db") as served, served.client() as client:
        talk = client.get("/api/conversations/talk").json()
        client.post(f"/api/tasks/{talk['task_id']}/answer", json={"answer": "hi"}).raise_for_status()
        talk = settled(client, talk)
    assert talk["status"] == "error" and "There is no bot" in talk["error"]


def test_tenants_are_apart(served: Served, client: httpx.Client) -> None:
    started(client, session_id="mine")
    with served.client(headers=BETA) as other:
        assert other.get("/api/conversations/mine").status_code == 404
        assert other.post("/api/conversations", json={"session_id": "mine"}).status_code == 201
    assert chat(client, "apples", agent_id="shop", session_id="no-conversation", headers=ALPHA)
    assert client.get("/api/conversations/no-conversation").json()["error"]["message"] == (
        "There is no conversation 'no-conversation'."
    )


def documented() -> list[Json]:
    section = DOCS.read_text(encoding="utf-8").split("## Over HTTP\n")[1].split("\n## ")[0]
    return [json.loads(body) for body in re.findall(r"-d '(\{.*\})'", section)]


@pytest.mark.parametrize("config", documented(), ids=lambda config: config["session_id"])
def test_what_the_documentation_posts_starts_a_conversation(client: httpx.Client, config: Json) -> None:
    assert settled(client, started(client, **config))["status"] in ("done", "waiting")


def test_an_api_of_the_client_reads_no_files_and_needs_a_name(client: httpx.Client, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"const": "s3cret"}), encoding="utf-8")
    looked_up = {"type": "object", "properties": {"x": {"$ref": secret.as_uri()}}}
    api = {"name": "look", "description": "looks", "parameters": looked_up}
    call = Utterance(role=Role.BOT, turn=0, index=0, action="look", action_input={"x": 1})
    assert refused([spec_of(api)], call, "en", simple=True) is None
    for wrong in ({}, {"name": 1}, {"name": "a", "parameters": []}):
        answer = client.post("/api/conversations", json={"api_mode": "llm", "apis": [wrong]})
        assert answer.status_code == 422, answer.text
    odd = {"name": "a", "url": "http://[::1"}
    assert client.post("/api/conversations", json={"api_mode": "request", "apis": [odd]}).status_code == 422


def test_a_bot_is_no_agent_of_the_service(client: httpx.Client) -> None:
    begun = started(client, **SCRIPTED, script=["hello"])
    settled(client, begun)
    agents = [agent["agent_id"] for agent in client.get("/api/agents").raise_for_status().json()["items"]]
    models = [model["id"] for model in client.get("/v1/models").json()["data"]]
    assert "shop" in agents and not [name for name in (*agents, *models) if name.startswith("shop.")]


def test_a_stored_configuration_is_not_edited_and_names_no_files(client: httpx.Client) -> None:
    begun = started(client, **SCRIPTED, script=["hello"])
    settled(client, begun)
    changed = {"state": {"config": {**begun["config"], "workflow": "/etc/passwd"}}}
    assert client.post(f"/api/sessions/{begun['session_id']}/edit", json=changed).status_code == 422
    limits = Restrictions(workflows=frozenset({"travel_change"}), local_models=False)
    for fields in ({"workflow": "/etc/passwd"}, {"bot_model": "local:/srv/model.gguf"}):
        with pytest.raises(ConfigurationError):
            limits.check(ConversationConfig(**fields))
    limits.check(ConversationConfig(workflow="travel_change", bot_model="offline"))


async def test_limits_hold_for_an_imported_conversation(tmp_path: Path) -> None:
    long, script = {"conversation_turn_limit": 201}, {"script": ["x" * 40_000]}
    documents = []
    async with segue.open(tmp_path / "segue.db") as app:
        app.register(Agent(agent_id="roomy", model="offline", budget=Budget(message_bytes=100_000)))
        for fields in (long, script):
            config = ConversationConfig(user_mode="input_user", bot_agent="roomy", **fields)
            made = await converse(app, config)
            documents.append(await app.sessions.export(made.conversation_id))
    with Served(":memory:", agents=[Agent(agent_id="roomy", model="offline")]) as served, served.client() as client:
        for document, why in zip(documents, ("at most 200", "the limit is 32768"), strict=True):
            made = client.post("/api/sessions/import", json={"document": document}).raise_for_status().json()
            client.post(f"/api/tasks/{made['task_id']}/answer", json={"answer": "hi"}).raise_for_status()
            talk = settled(client, made)
            assert talk["status"] == "error" and why in talk["error"]


def test_the_same_key_at_once_starts_one_conversation(served: Served) -> None:
    def post(body: Json) -> httpx.Response:
        with served.client(headers={**ALPHA, "Idempotency-Key": body["session_id"]}) as client:
            return client.post("/api/conversations", json=body)

    with ThreadPoolExecutor(4) as pool:
        alike = [*pool.map(post, [{"session_id": "at-once", **SCRIPTED, "script": ["apples"]}] * 4)]
        other = post({"session_id": "at-once", **SCRIPTED, "script": ["pears"]})
    assert {answer.status_code for answer in alike} == {201}, [answer.text for answer in alike]
    assert len({answer.json()["task_id"] for answer in alike}) == 1
    assert other.json()["error"]["type"] == "KeyUsed"


def test_a_cancelled_conversation_stops_its_bot(served: Served, client: httpx.Client, held: Held) -> None:
    held.begun.clear(), held.go.clear()
    talk = started(client, user_mode="scripted_user", script=["please hold"], **{**AGENT, "bot_mode": "segue:react"})
    assert held.begun.wait(30)
    client.post(f"/api/tasks/{talk['task_id']}/cancel").raise_for_status()
    held.go.set()
    app, session = served.service.app, bot_session(f"alpha:{talk['session_id']}")
    wait_until(lambda: served.do(app.tasks.list(session_id=session))[0].status == "cancelled")
    wait_until(lambda: not [name for name in app.agents if name.startswith("shop.")])
