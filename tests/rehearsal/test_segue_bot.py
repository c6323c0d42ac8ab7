"""A Segue agent as the bot: its model, its tools and its session."""

import json

import segue
from segue import Agent
from segue.core.conversation import APIOutput, Conversation, ConversationConfig
from segue.rehearsal import converse
from tests.loopback import Call, LoopbackServer, Text, ToolCalls
from tests.rehearsal.participants import Does

LOOK = {"name": "look", "description": "Look", "parameters": {"type": "object", "properties": {"at": {}}}}
SPEC = {"type": "function", "function": LOOK}


def called(name: str, arguments: object) -> ToolCalls:
    return ToolCalls([Call("id", name, json.dumps(arguments))])


async def test_the_agent_sees_the_apis_functions_and_their_errors_and_its_model_the_seed() -> None:
    def api(conversation: Conversation) -> APIOutput:
        last = conversation.utterances[-1]
        return APIOutput(data={"seen": 1}) if last.action_input == {"at": 1} else APIOutput(status_code=400, data="no")

    script = [called("look", {"beside": 2}), called("look", {"at": 1}), Text("I looked."), Text("Bye.")]
    async with LoopbackServer(script) as server, segue.open(":memory:") as app:
        fields = {"model": "openai:x", "base_url": server.base_url, "api_key": "k", "protocol": "native"}
        app.register(Agent(agent_id="guide", tools=["calculator"], prompt="You are a guide.", **fields))
        app.agents.participants.apis.register("own", lambda setting: Does(api, [SPEC]))
        config = ConversationConfig(
            user_mode="scripted_user", script=["Look!", "Thanks"], bot_mode="segue:react", bot_agent="guide",
            api_mode="own", seed=7,
        )  # fmt: skip
        conversation = await converse(app, config, conversation_id="talk")
        server.assert_spent()
        tasks = await app.tasks(session_id="talk.bot")
        session = await app.history("talk.bot")

    bodies = [request.body for request in server.requests]
    assert {body["seed"] for body in bodies} == {7}
    assert all("look" in json.dumps(body["tools"]) and "calculate" not in json.dumps(body["tools"]) for body in bodies)
    assert [(u.action_input, u.status_code) for u in conversation.results] == [({"beside": 2}, 400), ({"at": 1}, 200)]
    results = [message["content"] for message in session if message["role"] == "tool"]
    assert "no" in results[0] and json.loads(results[1]) == {"seen": 1}
    assert [task["status"] for task in tasks] == ["done", "done"]
    assert conversation.utterances[-2].usage["calls"] == 1
