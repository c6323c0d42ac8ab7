"""A Segue agent as the bot: its model, its tools and its session."""

import asyncio
import json
from typing import Any

import pytest

import segue
from segue import Agent
from segue.core.conversation import APIOutput, Conversation, ConversationConfig
from segue.core.errors import ModelUnreachable
from segue.testing.rehearsal import converse, start_conversation
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.loopback import Call, LoopbackServer, Text, ToolCalls
from tests.polling import until
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
        tasks = await app.tasks.list(session_id="talk.bot")
        session = await app.history("talk.bot")
        used, of_bot = (await app.tasks.usage_report(1)).total, await app.tasks.usage(session_id="talk.bot")

    bodies = [request.body for request in server.requests]
    assert {body["seed"] for body in bodies} == {7}
    assert all("look" in json.dumps(body["tools"]) and "calculate" not in json.dumps(body["tools"]) for body in bodies)
    assert [(u.action_input, u.status_code) for u in conversation.results] == [({"beside": 2}, 400), ({"at": 1}, 200)]
    results = [message["content"] for message in session if message["role"] == "tool"]
    assert "no" in results[0] and json.loads(results[1]) == {"seen": 1}
    assert [task.status for task in tasks] == ["done", "done"]
    assert conversation.utterances[-2].usage["calls"] == 1
    assert (used.tasks, used.calls, of_bot.calls) == (1, 4, 4)


def fails(messages: Any) -> str:
    raise ModelUnreachable("down")


@pytest.mark.parametrize("how", ["ends", "is cancelled", "fails"])
async def test_the_bots_agent_leaves_the_registry_when_its_conversation_ends(how: str) -> None:
    waiting, go = asyncio.Event(), asyncio.Event()

    async def hold(conversation: Conversation) -> APIOutput:
        waiting.set()
        await go.wait()
        return APIOutput(data=1)

    class Holds(Does):
        async def process(self, conversation: Conversation) -> Any:
            return await hold(conversation)

    model = ScriptedChatModel(fails if how == "fails" else [call_tool(("look", {"at": 1})), answer("I looked.")])
    async with segue.open(":memory:", agents=[Agent(agent_id="guide", model=model)]) as app:
        own = [*app.agents]
        app.agents.participants.apis.register("own", lambda setting: Holds(hold, [SPEC]))
        config = ConversationConfig(
            user_mode="scripted_user", script=["Look!"], bot_mode="segue:react", bot_agent="guide", api_mode="own"
        )
        task, run = await start_conversation(app, config, "talk")
        if how != "fails":
            await asyncio.wait_for(waiting.wait(), 60)
            assert len(app.agents) == len(own) + 1
        if how == "is cancelled":
            await app.cancel(task.task_id)
        go.set()
        if how == "fails":
            with pytest.raises(ModelUnreachable):
                await app.tasks.result(task, run)
        await until(lambda: [*app.agents] == own)
        bots = await app.tasks.list(session_id="talk.bot")

    assert [bot.status for bot in bots] == [{"ends": "done", "is cancelled": "cancelled", "fails": "error"}[how]]


async def test_a_bot_stays_for_the_other_conversation_that_has_it() -> None:
    model = ScriptedChatModel(lambda messages: answer("Yes."))
    async with segue.open(":memory:", agents=[Agent(agent_id="guide", model=model)]) as app:
        config = ConversationConfig(user_mode="input_user", bot_mode="segue:react", bot_agent="guide", language="en")
        one, two, own = ["Hello."], ["Hello.", "END"], [*app.agents]

        async def first(question: Any) -> str | None:
            return one.pop() if one else None

        async def second(question: Any) -> str:
            return two.pop(0)

        await converse(app, config, conversation_id="one", person=first)
        assert (await converse(app, config, conversation_id="two", person=second)).ending
        assert len(app.agents) == len(own) + 1
        one.append("END")
        assert (await converse(app, config, conversation_id="one", person=first)).ending
        assert [*app.agents] == own
