"""Several workflows in one conversation: the main bot chooses, hands over, and comes back."""

from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent
from segue.core.conversation import Conversation, Role
from segue.core.errors import ConfigurationError
from segue.testing.rehearsal import ConversationConfig, converse
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
