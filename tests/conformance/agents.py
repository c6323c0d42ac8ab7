"""The agents that the suite calls as a server's tools and prompts, by its names."""

from typing import Any

from segue import Agent
from segue.core.errors import ModelUnreachable
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.server.shop import refund

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TWO_TEXTS = {
    "type": "object",
    "properties": {"arg1": {"type": "string"}, "arg2": {"type": "string"}},
    "required": ["arg1", "arg2"],
}
ADDRESS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}},
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def count() -> int:
    """Count something."""
    return 3


def fail(_: Any) -> str:
    raise ModelUnreachable("This agent fails for testing.")


def count_first(messages: Any) -> str:
    counted = any('"success": 3' in str(message.content) for message in messages)
    return answer("There are 3.") if counted else call_tool(("count", {}))


def ask_first(messages: Any) -> str:
    """Have a person approve first."""
    rejected = any("rejected" in str(message.content) for message in messages)
    return answer("Done.") if rejected else call_tool(("refund", {"amount": 5}))


def agent(name: str, reply: Any, **fields: Any) -> Agent:
    return Agent(agent_id=name, model=ScriptedChatModel(reply), mode="react", **fields)


def simple(_: Any) -> str:
    return answer("This is a simple text response for testing.")


AGENTS = [
    agent("test_simple_text", simple, arguments=NOTHING),
    agent("test_error_handling", fail, arguments=NOTHING),
    agent("test_tool_with_progress", count_first, arguments=NOTHING, tools=(count,)),
    agent("test_elicitation", ask_first, tools=(refund,)),
    agent("json_schema_2020_12_tool", simple, arguments=ADDRESS),
    agent("test_simple_prompt", simple, prompt="Help."),
    agent("test_prompt_with_arguments", simple, prompt="Compare the two texts.", arguments=TWO_TEXTS),
]
