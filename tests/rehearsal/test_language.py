"""One language for all of a conversation's texts."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import segue
from segue import Agent
from segue.cli import app as command_line
from segue.core.conversation import Conversation, ConversationConfig, transcript
from segue.core.errors import ConfigurationError, UnknownTool
from segue.testing.rehearsal import converse, load_conversation
from tests.fakes import ScriptedChatModel

FOREIGN = {
    "en": re.compile(r"[\u4e00-\u9fff]"),
    "zh": re.compile(r"[A-Za-z']+(?:,? [A-Za-z']+){3,}"),
}
"""What no sentence of a conversation in the other language has: a Chinese character, or four English words in a row."""
GOAL = {"en": "Book a seat", "zh": "预订一个座位"}
SAID = {"en": "A seat, please.", "zh": "请给我一个座位。"}
DONE = {"en": "It is booked.", "zh": "已经订好了。"}
BOOK = {
    "name": "book",
    "description": "…",
    "parameters": {
        "type": "object",
        "properties": {"seat": {"type": "integer"}},
        "required": ["seat"],
        "additionalProperties": False,
    },
}


def call(name: str, arguments: str) -> str:
    return f"Action: {name}\nAction Input: {arguments}"


def everything(conversation: Conversation, *models: ScriptedChatModel) -> list[str]:
    """The transcript with its errors, and all that the models were sent."""
    sent = [str(message.content) for model in models for messages in model.calls for message in messages]
    return [*transcript(conversation).splitlines(), *(u.error for u in conversation.utterances), *sent]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_no_sentence_is_in_the_other_language(language: str) -> None:
    bot = [
        *("Thought: …", "Action: book\nAction Input: [", "Action: book", call("find", "{}"), call("book", "{}")),
        *(call("book", '{"seat": "A", "x": 1}'), call("book", '{"seat": 7}'), call("book", '{"seat": 7}')),
        *(call("book", '{"seat": 7}'), call("book", '{"seat": 8}'), *["Thought: …"] * 3),
    ]
    user, api = ["", SAID[language], "…", "[END]"], ["…", '{"status_code": 1}', '{"status_code": 200, "data": 7}'] * 2
    users, bots, apis = ScriptedChatModel(user), ScriptedChatModel(bot), ScriptedChatModel(api)
    async with segue.open(":memory:") as app:
        for name, model in (("users", users), ("bots", bots), ("apis", apis)):
            app.register(Agent(agent_id=name, model=model, prompt="…"))
        config = ConversationConfig(
            user_mode="llm_profile", user_agent="users", goal=GOAL[language], bot_mode="react_bot", bot_agent="bots",
            api_mode="llm", api_agent="apis", apis=[BOOK], controllers=["api_duplication"], bot_action_limit=6,
        )  # fmt: skip
        conversation = await converse(app, config, conversation_id="talk")
        stored = await load_conversation(app, "talk")

    refusals = [u.status_code for u in conversation.results]
    assert refusals == [400, 400, 400, 200, 200, 409] and conversation.ending and conversation.ending.turns == 2
    assert sum(bool(u.error) for u in conversation.utterances) == 2
    assert (conversation.language, stored.language) == (language, language)
    texts = everything(conversation, users, bots, apis)
    assert [text for text in texts if FOREIGN[language].search(text)] == []


@pytest.mark.parametrize(("first", "language"), [("Hello there.", "en"), ("你好，请帮我。", "zh")])
async def test_the_first_message_decides_where_nothing_else_does(first: str, language: str) -> None:
    said = [first, "END"]

    async def person(question: dict[str, Any]) -> str:
        languages.append((await load_conversation(app, "talk")).language)
        return said.pop(0)

    languages: list[str] = []
    async with segue.open(
        ":memory:", agents=[Agent(agent_id="bots", model=ScriptedChatModel(["Thought: …"] * 3))]
    ) as app:
        config = ConversationConfig(user_mode="input_user", bot_mode="react_bot", bot_agent="bots")
        conversation = await converse(app, config, conversation_id="talk", person=person)

    assert languages == ["en", language] and conversation.language == language
    assert not FOREIGN[language].search(conversation.utterances[1].text + conversation.utterances[1].error)


async def test_a_failure_is_in_the_language_that_the_first_message_decided() -> None:
    async def person(question: dict[str, Any]) -> str:
        return "你好，请帮我。"

    def fail(messages: Any) -> Any:
        raise UnknownTool("book", ["call"])

    async with segue.open(":memory:", agents=[Agent(agent_id="bots", model=ScriptedChatModel(fail))]) as app:
        config = ConversationConfig(user_mode="input_user", bot_mode="react_bot", bot_agent="bots")
        with pytest.raises(UnknownTool):
            await converse(app, config, conversation_id="talk", person=person)
        task = await app.tasks.newest("talk")
    assert task is not None and not FOREIGN["zh"].search(task.error or "There is no error")


async def test_the_configured_language_is_the_bots_too() -> None:
    bot = ScriptedChatModel(['{"action": {"action_type": "ANSWER", "output": {"answer": "…"}}}'])
    async with segue.open(":memory:", agents=[Agent(agent_id="bots", model=bot, language="en")]) as app:
        config = ConversationConfig(
            user_mode="scripted_user", script=["…"], bot_mode="segue:react", bot_agent="bots", language="zh"
        )
        conversation = await converse(app, config, conversation_id="talk")
        (task,) = await app.tasks.list(session_id="talk.bot")
        again = await converse(app, config, conversation_id="talk")

    assert (conversation.language, task.language) == ("zh", "zh") and again == conversation
    assert "用中文回答" in str(bot.calls[0])


async def test_a_workflow_is_not_followed_in_another_language() -> None:
    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match="travel_change is in en, but the conversation is in zh"):
            await converse(app, ConversationConfig(workflow="travel_change", language="zh"))


def test_a_terminal_shows_the_conversation_in_its_language(tmp_path: Path) -> None:
    given = ["--user", "scripted_user", "--say", "请算 2+3", "--bot", "segue:react", "--api", "tools"]
    options = [*given, "--agent", "data", "--db", ":memory:", "--log", str(tmp_path / "log")]
    shown = CliRunner().invoke(command_line, ["simulate", *options], env={"LANG": "en_US.UTF-8"})
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert [line for line in lines if line.startswith("[BOT]") and FOREIGN["zh"].search(line)] == []
