"""The agents that the suite calls as a server's tools and prompts, by its names."""

import asyncio
import json
import re
from typing import Any

from langgraph.types import interrupt

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
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


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


def text_of(messages: Any) -> str:
    return " ".join(str(message.content) for message in messages)


def agent(name: str, reply: Any, **fields: Any) -> Agent:
    return Agent(agent_id=name, model=ScriptedChatModel(reply), mode="react", **fields)


def simple(_: Any) -> str:
    return answer("This is a simple text response for testing.")


# Tools that ask.


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


DEFAULTS = form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
PLAIN = ["option1", "option2", "option3"]
ENUMS = form(
    untitledSingle={"type": "string", "enum": PLAIN},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": PLAIN}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)


def asking(name: str, *forms: dict[str, Any]) -> Agent:
    """An agent whose tool asks for one form after the other."""

    def ask() -> str:
        """Ask for what is missing."""
        given = [interrupt({"kind": "question", "question": "What is missing?", "form": each}) for each in forms]
        return f"given: {[each['answer'] for each in given]}"

    reply = lambda messages: answer("Done.") if "given:" in text_of(messages) else call_tool(("ask", {}))  # noqa: E731
    return agent(name, reply, arguments=NOTHING, tools=(ask,))


ASKING = [
    asking("test_elicitation_sep1034_defaults", DEFAULTS),
    asking("test_elicitation_sep1330_enums", ENUMS),
    asking("test_input_required_result_elicitation", form(name={"type": "string"})),
    asking("test_input_required_result_request_state", form(ok={"type": "boolean"})),
    asking("test_input_required_result_tampered_state", form(ok={"type": "boolean"})),
    asking("test_input_required_result_multi_round", form(name={"type": "string"}), form(color={"type": "string"})),
    asking("test_streaming_elicitation", form(name={"type": "string"})),
]


# The tools of the extension for tasks.

SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}, "label": {"type": "string"}}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FILE = {"type": "object", "properties": {"filename": {"type": "string"}}, "required": ["filename"]}


async def sleep(seconds: float) -> str:
    """Sleep for so many seconds."""
    await asyncio.sleep(seconds)
    return "slept"


async def ask_name() -> str:
    """Ask for a name, and take a second for it."""
    given = interrupt({"kind": "question", "question": "Who are you?", "form": NAME})
    await asyncio.sleep(1)
    return f"the name is {json.loads(given['answer'])['name']}"


def greet(messages: Any) -> str:
    found = re.search(r'"name": "([^"]*)"', text_of(messages))
    return answer(f"Hello, {found[1] if found else ''}!")


def sleep_first(messages: Any) -> str:
    said = text_of(messages)
    found = re.search(r'"seconds": ([0-9.]+)', said)
    return (
        answer("Computed.") if "slept" in said else call_tool(("sleep", {"seconds": float(found[1] if found else 1)}))
    )


def fail_later(messages: Any) -> str:
    return fail(messages) if "slept" in text_of(messages) else call_tool(("sleep", {"seconds": 1}))


def break_later(messages: Any) -> str:
    if "slept" in text_of(messages):
        raise ZeroDivisionError("This job breaks for testing.")
    return call_tool(("sleep", {"seconds": 1}))


def confirm(*amounts: int) -> Any:
    """Sleep, then have a person approve so many calls at once."""

    def reply(messages: Any) -> str:
        said = text_of(messages)
        if "slept" not in said:
            return call_tool(("sleep", {"seconds": 1}))
        return answer("Done.") if "rejected" in said else call_tool(*(("refund", {"amount": each}) for each in amounts))

    return reply


def name_first(messages: Any) -> str:
    found = re.search(r"the name is (\w+)", text_of(messages))
    return answer(f"Hello, {found[1]}!") if found else call_tool(("ask_name", {}))


AGENTS = [
    agent("greet", greet, arguments=NAME),
    agent("slow_compute", sleep_first, arguments=SECONDS, tools=(sleep,)),
    agent("failing_job", fail_later, arguments=NOTHING, tools=(sleep,), mcp_tasks="required"),
    agent("protocol_error_job", break_later, arguments=NOTHING, tools=(sleep,)),
    agent("confirm_delete", confirm(5), arguments=FILE, tools=(sleep, refund)),
    agent("multi_input", confirm(5, 6), arguments=NOTHING, tools=(sleep, refund)),
    agent("test_tool_with_task", name_first, arguments=NOTHING, tools=(ask_name,)),
    agent("test_simple_text", simple, arguments=NOTHING),
    agent("test_error_handling", fail, arguments=NOTHING),
    agent("test_tool_with_progress", count_first, arguments=NOTHING, tools=(count,)),
    agent("test_elicitation", ask_first, tools=(refund,)),
    agent("json_schema_2020_12_tool", simple, arguments=ADDRESS),
    agent("test_simple_prompt", simple, prompt="Help."),
    agent("test_prompt_with_arguments", simple, prompt="Compare the two texts.", arguments=TWO_TEXTS),
    agent("test_logging_tool", simple, arguments=NOTHING),
    agent("test_header", simple, arguments=REGION),
    *ASKING,
]
