"""What users say of themselves: remembered over sessions, in their words, and theirs to change."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from typer.testing import CliRunner, Result

import segue
from segue import Agent
from segue.app import App
from segue.cli import app as command_line
from segue.core.errors import InvalidMemory, UnknownFact
from segue.memory.statements import find_statements
from segue.testing.rehearsal import ConversationConfig, converse
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.server.serving import Served

from .statements import STATED, UNSTATED

ALLERGIC = "I'm allergic to peanuts. What is in satay?"


async def texts(app: App, user_id: str = "ann") -> list[str]:
    return [fact.text for fact in await app.memory.facts(user_id=user_id)]


def prompt(messages: list[BaseMessage]) -> str:
    return "\n".join(message.text for message in messages)


def replying(*modes: str) -> ScriptedChatModel:
    return ScriptedChatModel(["Fine." if mode == "direct" else answer("Fine.") for mode in modes])


async def test_later_sessions_of_the_user_know_what_was_said_and_those_of_others_have_the_same_prompts_as_before() -> (
    None
):
    with replying("react", "react", "react", "direct") as chat:
        async with segue.open(":memory:", agents=[Agent(agent_id="cook", model=chat)]) as app:
            said = await app.ask(ALLERGIC, user_id="ann", mode="react", agent="cook")
            for user_id, mode in (("bob", "react"), ("ann", "react"), ("ann", "direct")):
                await app.ask("What shall I eat?", user_id=user_id, mode=mode, agent="cook")
            (fact,) = await app.memory.facts(user_id="ann")
            assert (fact.text, fact.task_id) == ("I'm allergic to peanuts", said["task_id"])
    first, of_bob, *of_ann = map(prompt, chat.calls)
    assert "# Memory" not in first + of_bob
    assert all("# Memory\nThe user said of themselves before:\n- I'm allergic to peanuts" in each for each in of_ann)


async def test_a_newer_statement_replaces_the_older_one_and_keeps_it_as_history() -> None:
    async with segue.open(":memory:") as app:
        for message in ("I live in Berlin.", "我喜欢安静的酒店", "I moved to Munich.", "我不再喜欢安静的酒店了"):
            await app.ask(message, user_id="ann", mode="direct")
        home, likes = await app.memory.facts(user_id="ann")
        assert [home.text, *(before.text for before in home.earlier)] == ["I moved to Munich", "I live in Berlin"]
        assert [likes.text, likes.earlier[0].text] == ["我不再喜欢安静的酒店了", "我喜欢安静的酒店"]
        task = await app.ask("hello", user_id="ann", mode="direct")
        known = (await app.task(task["task_id"])).reply_options["known"]
        assert known == ["I moved to Munich", "我不再喜欢安静的酒店了"]
        await app.memory.forget_fact(home.key, user_id="ann")
        assert await texts(app) == ["我不再喜欢安静的酒店了"]  # not that she lives in Berlin


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"remember": "off"}, {"user_id": "ann"}),
        ({}, {"user_id": "ann", "remember": False}),
        ({}, {}),
        ({}, {"user_id": "ann", "origin": "a2a"}),
    ],
)
async def test_nothing_is_remembered(fields: dict[str, str], options: dict[str, object]) -> None:
    async with segue.open(":memory:", agents=[Agent(agent_id="cook", model="offline", **fields)]) as app:
        await app.ask(ALLERGIC, mode="direct", agent="cook", **options)
        assert await texts(app) == await texts(app, "default") == []


async def test_what_tools_and_simulated_users_say_is_never_the_users_word() -> None:
    def look() -> str:
        """Look."""
        return "I'm allergic to gold. I live in Rome."

    with ScriptedChatModel([call_tool(("look", {})), answer("I'm a vegetarian. I live in Oslo.")]) as chat:
        async with segue.open(":memory:", agents=[Agent(agent_id="cook", model=chat, tools=[look])]) as app:
            await app.ask("Look.", user_id="ann", mode="react", agent="cook")
            assert await texts(app) == []
    with ScriptedChatModel([call_tool(("other", {"message": "I'm allergic to gold."})), answer("Done.")]) as chat:
        agents = [
            Agent(agent_id="cook", model=chat, tools=["agent:other"]),
            Agent(agent_id="other", model=ScriptedChatModel([answer("I live in Oslo.")])),
        ]
        async with segue.open(":memory:", agents=agents) as app:
            await app.ask("Ask the other one.", user_id="ann", mode="react", agent="cook")
            assert await texts(app) == []
    async with segue.open(":memory:") as app:
        config = ConversationConfig(user_mode="input_user", bot_mode="segue:direct")
        said = iter(["I'm allergic to peanuts.", None])

        async def person(question: object) -> str | None:
            return next(said)

        await converse(app, config, person=person)
        assert await texts(app, "default") == []


async def test_a_model_picks_among_the_users_own_words_after_the_task_and_is_counted(tmp_path: Path) -> None:
    picked = {
        "facts": [
            {"subject": "Night shifts", "text": "nights suit me"},
            {"subject": "diet", "text": "She is a vegan"},
        ]
    }
    with ScriptedChatModel([answer("Fine."), json.dumps(picked)]) as chat:
        agents = [Agent(agent_id="cook", model=chat, remember="model", prices={"input": 1, "output": 1})]
        async with segue.open(tmp_path / "segue.db", agents=agents) as app:
            message = 'I work odd hours, nights suit me. "She is a vegan"'
            result = await app.ask(message, user_id="ann", mode="react", agent="cook")
        async with segue.open(tmp_path / "segue.db", agents=agents) as app:
            assert await texts(app) == ["nights suit me"]
            stored = (await app.task(result["task_id"])).result
            assert stored and stored["usage"]["calls"] == result["usage"]["calls"] + 1 == 2
    assert "She is a vegan" not in prompt(chat.calls[-1])


async def test_a_model_that_never_says_what_to_remember_is_given_up_and_the_app_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Silent(ScriptedChatModel):
        async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
            if self.calls:
                await asyncio.Event().wait()
            async for piece in super()._astream(*args, **options):
                yield piece

    agents = [Agent(agent_id="cook", model=Silent(["Fine."]), remember="model", read_timeout=0.05)]
    async with segue.open(":memory:", agents=agents) as app:
        result = await app.ask(ALLERGIC, user_id="ann", mode="direct", agent="cook")
    assert f"A call after task {result.task_id} took longer than 0.05 s and was cancelled." in caplog.text


async def test_where_facts_cannot_be_read_no_model_is_asked_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedChatModel(["Fine.", "Fine."]) as chat:
        agents = [Agent(agent_id="cook", model=chat), Agent(agent_id="maid", model=chat, remember="model")]
        async with segue.open(tmp_path / "segue.db", agents=agents) as app:
            await app.ask(ALLERGIC, user_id="ann", mode="direct", agent="cook")
            (kept,) = [each for each in (tmp_path / "segue.db.memory").rglob("*") if b"peanuts" in _content(each)]
            kept.write_bytes(b"\0")
            result = await app.ask(ALLERGIC, user_id="ann", mode="direct", agent="maid")
    assert f"What task {result.task_id} says of its user was not remembered" in caplog.text


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


async def test_facts_are_edited_and_deleted_by_their_user_only() -> None:
    async with segue.open(":memory:") as app:
        await app.ask(ALLERGIC, user_id="ann", mode="direct", session_id="s")
        (fact,) = await app.memory.facts(user_id="ann")
        with pytest.raises(UnknownFact, match="Nothing is remembered under the key"):
            await app.memory.edit_fact(fact.key, "x", user_id="bob")
        for text in (" ", "x" * 501):
            with pytest.raises(InvalidMemory, match="1 to 500 characters"):
                await app.memory.edit_fact(fact.key, text, user_id="ann")
        await app.memory.edit_fact(fact.key, "I'm allergic\nto soy", user_id="ann")
        assert await texts(app) == ["I'm allergic to soy"]
        with pytest.raises(UnknownFact):
            await app.memory.forget_fact("gone", user_id="ann")
        await app.sessions.delete("s")
        assert await texts(app) == []
        with pytest.raises(InvalidMemory, match=r"user\.md"):
            await app.memory.of("ann").append("user.md", fact)  # type: ignore[arg-type]


async def test_facts_leave_with_all_that_is_remembered_of_the_user() -> None:
    async with segue.open(":memory:") as app:
        await app.ask(ALLERGIC, user_id="ann", mode="direct")
        await app.memory.clear(user_id="ann")
        assert await texts(app) == []


def test_facts_over_http() -> None:
    with Served() as served, served.client() as client:
        for message in ("I live in Berlin.", ALLERGIC):
            client.post("/api/chat", json={"message": message, "user_id": "ann", "mode": "direct"})
        client.post("/api/chat", json={"message": "I love jazz", "user_id": "ann", "mode": "direct", "remember": False})
        home, allergy = client.get("/api/users/ann/facts").json()["items"]
        assert (home["text"], allergy["subject"]) == ("I live in Berlin", "allergy: peanut")
        edited = client.put(f"/api/users/ann/facts/{home['key']}", json={"text": "I live in Bern"}).json()["items"]
        assert edited[0]["text"] == "I live in Bern"
        assert client.delete(f"/api/users/ann/facts/{home['key']}").status_code == 204
        gone = client.delete(f"/api/users/ann/facts/{home['key']}", headers={"Accept-Language": "zh"})
        assert gone.status_code == 404 and "没有键为" in gone.text
        assert [fact["text"] for fact in client.get("/api/users/ann/facts").json()["items"]] == [allergy["text"]]


def run(*arguments: str, **options: object) -> Result:
    return CliRunner().invoke(command_line, [*arguments], **options)  # type: ignore[arg-type]


def test_facts_in_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("chat", "hello", "--mode", "direct").exit_code == 0
    assert run("memory", "facts").stdout == "Nothing is remembered of the user default.\n"
    assert run("chat", "I live in Berlin.", "--mode", "direct").exit_code == 0
    assert run("chat", "I love jazz.", "--mode", "direct", "--no-remember").exit_code == 0
    (fact,) = json.loads(run("memory", "facts", "--json").stdout)
    assert "I live in Berlin" in run("memory", "facts").stdout
    assert run("memory", "edit", fact["key"], "I live in Bern").stdout == "The fact was changed.\n"
    assert run("memory", "forget", "--fact", fact["key"]).stdout == "Entries removed: 1.\n"
    missing = run("memory", "forget", "--fact", fact["key"])
    assert missing.exit_code == 1 and missing.stderr.startswith("Nothing is remembered under the key")
    assert run("memory", "forget", "--fact", "x", "--file", "y").exit_code == 2


# Statements of a person in a message, by the rules.


def statements_texts(message: str) -> list[str]:
    return [statement.text for statement in find_statements(message)]


def share(stated: list[tuple[str, list[str]]], unstated: list[str]) -> tuple[float, int]:
    """The share of messages with exactly their statements, and how many of those without one have some."""
    right = [statements_texts(message) == expected for message, expected in stated]
    return sum(right) / len(right), sum(bool(statements_texts(message)) for message in unstated)


def test_the_rules_find_what_they_were_written_for() -> None:
    assert [(message, statements_texts(message)) for message, _ in STATED[:20]] == STATED[:20]
    assert [message for message in UNSTATED[:20] if statements_texts(message)] == []


@pytest.mark.parametrize(
    "message",
    [
        "As the patient wrote, I'm diabetic.",
        "As Ms Lee's patient said yesterday, I'm diabetic.",
        "The patient wrote, I'm diabetic.",
        "According to the patient, I'm diabetic.",
        "正如病人所说，我有糖尿病。",
        "I am a teacher's pet.",
        "I'm living in a hotel this week.",
        "我对这件事过敏感",
        "我住在酒店三天",
        "我住在希尔顿酒店",
        "我住在上海三天",
    ],
)
def test_what_others_say_and_what_passes_is_no_statement(message: str) -> None:
    assert statements_texts(message) == []


def test_what_resembles_it_is_a_statement() -> None:
    for message in (
        "As I said, I'm diabetic",
        "I'm a teacher",
        "I live in Rome",
        "我对花生过敏",
        "我住上海",
        "我住在酒店附近",
    ):
        assert len(statements_texts(message)) == 1, message


def test_a_name_is_another_subject_than_how_its_bearer_is() -> None:
    for message in (
        "My wife's name is Eva. My wife is a vegetarian.",
        "My wife is called Eva. My wife is ninety.",
        "我妻子叫小美。我妻子是素食者。",
    ):
        assert len({statement.subject for statement in find_statements(message)}) == 2, message
    assert statements_texts("My wife's name is Eva. My wife is called Ann.") == ["My wife is called Ann"]


def test_the_rules_find_most_of_what_was_kept_aside() -> None:
    found, wrong = share(STATED[20:], UNSTATED[20:])
    assert found >= 0.8 and wrong <= 1
