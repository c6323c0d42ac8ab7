"""The text form of a bot's output."""

from typing import Any

import pytest

from segue.core.conversation import BotOutputType
from segue.core.errors import UnreadableReply
from segue.nodes.participants import read_output
from tests.cases import cases

CALL = 'Thought: t\nAction: look\nAction Input: {"a": 1}'


@cases(
    "text, thought, action, arguments",
    [
        (CALL, "t", "look", {"a": 1}),
        (f"```\n{CALL}\n```", "t", "look", {"a": 1}),
        (f"```text\n{CALL}\n```\n[END]", "t", "look", {"a": 1}),
        ('Action: API_look\nAction Input: {"a": {"b": [1, "}"]}}', "", "look", {"a": {"b": [1, "}"]}}),
        ('Thought: t\n**Action:** `look`\n**Action Input:**\n```json\n{"a": 1}\n```', "t", "look", {"a": 1}),
        ('Thought：想\nAction：look\nAction Input：{"城市": "北京"}', "想", "look", {"城市": "北京"}),
        (f"Thought: first\nResponse: no\n\n{CALL}", "t", "look", {"a": 1}),
        (f"{CALL}\nObservation: made up\nResponse: made up", "t", "look", {"a": 1}),
        ("Action: look\nAction Input: {}", "", "look", {}),
    ],
)
def test_actions(text: str, thought: str, action: str, arguments: dict[str, Any]) -> None:
    output = read_output(text)

    assert output.action_type is BotOutputType.ACTION
    assert (output.thought, output.action, output.action_input) == (thought, action, arguments)


@cases(
    "text, said",
    [
        ("Thought: t\nResponse: Hello.", "Hello."),
        ("Response: One.\n\nTwo: three.\n[END]", "One.\n\nTwo: three."),
        ("Just so.", "Just so."),
        ("Thought: a\nAction: look\nAction Input: {}\nThought: b\nResponse: Hello.", "Hello."),
        ("Thought: t\nAction: None\nResponse: Hello.", "Hello."),
    ],
)
def test_responses(text: str, said: str) -> None:
    output = read_output(text)

    assert (output.action_type, output.text, output.action) == (BotOutputType.RESPONSE, said, "")


@cases(
    "text, why",
    [
        ("", "empty"),
        ("[END]", "empty"),
        ("Thought: only", "neither a Response nor an Action"),
        ("Thought: t\nResponse: <your message to the user>", "placeholders"),
        ("Action: look", "missing"),
        ("Action: look\nAction Input:", "missing"),
        ("Action: look\nAction Input: {'a': 1}", "not valid JSON"),
        ('Action: look\nAction Input: {"a": NaN}', "not valid JSON"),
        ('Action: look\nAction Input: {"a": 1} and so on', "not valid JSON"),
        ("Action: look\nAction Input: [1]", "not a JSON object"),
    ],
)
def test_what_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(UnreadableReply, match=why):
        read_output(text)
