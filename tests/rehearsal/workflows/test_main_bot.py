"""Several workflows in one conversation: the main bot chooses, hands over, and comes back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import segue
from segue import Agent
from segue.cli import app as command_line
from segue.core.conversation import Conversation, Role
from segue.core.errors import ConfigurationError
from segue.testing.rehearsal import ConversationConfig, converse, differences, read_log, write_log
from tests.fakes import ScriptedChatModel
from tests.server.serving import Served

BOTH: dict[str, Any] = {"workflow": "travel_change", "workflows": ("device_return",)}


def calls(conversation: Conversation) -> list[str]:
    return [each.action for each in conversation.utterances if each.is_action]


async def talk(*lines: str, **more: Any) -> Conversation:
    async with segue.open(":memory:") as app:
        config = ConversationConfig(**BOTH, user_mode="scripted_user", script=lines, **more)
        return await converse(app, config)


async def test_it_asks_chooses_by_what_is_said_and_comes_back_to_where_it_was() -> None:
    conversation = await talk(
        "Hello.",
        "I want to change the flight of my booking.",
        "BD1190",
        "Sorry, first my headphones are defective, I want to return the order.",
        "R-1004",
        "Now back to the flight booking, please change it.",
        "Okafor",
    )
    said = [each.text for each in conversation.utterances if each.role is Role.BOT and not each.action]
    assert said[0].startswith("How can I help you? I can:\n- Change")
    assert said[1:4] == [
        "What is your booking reference?",
        "What is the surname in the booking?",
        "What is your order number?",
    ]
    names = [name for name, _ in conversation.state_of(Role.BOT)["segments"]]
    assert names == ["travel_change", "device_return", "travel_change"]
    assert calls(conversation)[0] == "find_booking"


async def test_the_persona_of_each_workflow_gets_what_it_wants_from_its_own_system() -> None:
    async with segue.open(":memory:") as app:
        conversation = await converse(app, ConversationConfig(**BOTH, seed=3))
    assert set(conversation.state_of(Role.API)) == {"travel_change", "device_return"}
    assert conversation.ending and conversation.ending.reason == "user_ended"
    assert "create_return" in calls(conversation)
    assert any(name in calls(conversation) for name in ("find_booking", "cancel_booking", "change_booking"))


async def test_a_model_chooses_where_it_follows_the_workflows() -> None:
    replies = [
        "device_return",
        "Thought: ask\nResponse: What is your order number?",
        "none of them: none",
        "Response: Bye.",
    ]
    with ScriptedChatModel(replies) as chat:
        async with segue.open(":memory:", agents=[Agent(agent_id="desk", model=chat)]) as app:
            script = ("My headphones are broken.", "17")
            who = {"user_mode": "scripted_user", "bot_mode": "main_bot:workflow_bot", "bot_agent": "desk"}
            conversation = await converse(app, ConversationConfig(**BOTH, **who, script=script))
    assert [name for name, _ in conversation.state_of(Role.BOT)["segments"]] == ["device_return"]
    assert "device_return: " in chat.calls[0][0].text and "It follows now: device_return" in chat.calls[2][0].text


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"workflow": "travel_change", "workflows": ("travel_change",)}, "both have the name travel_change"),
        ({"workflow": "travel_change", "workflows": ("clinic_appointment",)}, "different languages"),
        ({"workflows": ("travel_change",)}, "Name one workflow as `workflow`"),
        ({**BOTH, "bot_mode": "main_bot:dummy_bot"}, "main_bot:rule_bot or main_bot:workflow_bot"),
    ],
)
async def test_what_does_not_go_together_is_refused(given: dict[str, Any], why: str) -> None:
    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match=why):
            await converse(app, ConversationConfig(**given))


def test_over_http_only_the_workflows_of_the_service_may_be_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: mine", encoding="utf-8")
    with Served() as served, served.client() as client:
        config = {"workflow": "travel_change", "workflows": ["device_return"], "seed": 3}
        assert client.post("/api/conversations", json=config).status_code in (200, 201, 202)
        refused = client.post("/api/conversations", json={**config, "workflows": [str(mine)]})
        assert refused.status_code == 422 and "travel_change" in refused.text
        refused = client.post("/api/conversations", json={**config, "reference": str(mine)})
        assert refused.status_code == 422 and "segue simulate" in refused.text


# Turns that are forced to a reference conversation, and the differences that are reported.


COURSE = {"workflow": "travel_change", "scenario": "change_with_fee"}


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    file = tmp_path / "reference.jsonl"
    async with segue.open(":memory:") as app:
        write_log(await converse(app, ConversationConfig(**COURSE, seed=3)), file)
    return file


async def test_the_same_bot_does_the_same_and_another_is_compared_turn_by_turn(log: Path) -> None:
    async with segue.open(":memory:") as app:
        same = await converse(app, ConversationConfig(**COURSE, reference=str(log)))
        assert differences(same) == []
        other = await converse(app, ConversationConfig(**COURSE, reference=str(log), bot_mode="dummy_bot"))
    found = differences(other)
    assert [(each.text, each.action, each.data) for each in other.utterances] == [
        (each.text, each.action, each.data) for each in same.utterances
    ]
    assert len(found) == 11
    assert (found[1].turn, found[1].got) == (2, "dummy_action({})")
    assert found[1].expected.startswith("find_booking({")


async def test_what_cannot_be_forced_is_refused(log: Path, tmp_path: Path) -> None:
    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match="cannot be forced to a reference"):
            await converse(app, ConversationConfig(**COURSE, reference=str(log), bot_mode="segue:react"))
        with pytest.raises(ConfigurationError, match="cannot be read"):
            await converse(app, ConversationConfig(**COURSE, reference=str(tmp_path / "none.jsonl")))


async def test_a_log_that_ends_after_a_call_is_refused_before_anything_runs(log: Path, tmp_path: Path) -> None:
    whole = read_log(log)
    first = next(each.index for each in whole.utterances if each.is_action)
    cut, said = str(tmp_path / "cut.jsonl"), list[str]()
    async with segue.open(":memory:") as app:
        for rest in (), whole.utterances[first + 2 :]:
            write_log(replace(whole, utterances=(*whole.utterances[: first + 1], *rest)), cut)
            with pytest.raises(ConfigurationError, match="no result of the call 'find_booking' in turn 2"):
                await converse(
                    app, ConversationConfig(**COURSE, reference=cut), on_utterance=lambda each: said.append(each.text)
                )
    assert said == []


def test_the_terminal_shows_the_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def simulate(*more: str) -> str:
        course = ["simulate", "--workflow", "travel_change", "--scenario", "change_with_fee", "--seed", "3"]
        return CliRunner().invoke(command_line, [*course, *more]).output

    simulate("--log", "a.jsonl")
    assert "The bot does at each turn what the reference does." in simulate(
        "--reference", "a.jsonl", "--log", "b.jsonl"
    )
    shown = simulate("--reference", "a.jsonl", "--log", "c.jsonl", "--bot", "dummy_bot")
    assert "Differences from the reference: 11." in shown and "got      dummy_action({})" in shown
