"""The text of a request: everything that decides the reply is part of it, and no secret is."""

from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from segue.core.agents import Agent
from segue.core.models import ModelRequest
from segue.models.transcript import digest, request_text
from tests.cases import cases

AGENT = Agent(agent_id="a", api_key="sk-secret", base_url="http://secret", extra_body={"key": "sk-secret"})
CALL = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
ASKED = [SystemMessage("Be brief."), HumanMessage("1+1?")]
MESSAGES = [*ASKED, AIMessage("", tool_calls=[CALL]), ToolMessage("2", tool_call_id="c1")]


def spec(description: str = "Add.", **parameters: Any) -> dict[str, Any]:
    function = {"name": "add", "description": description, "parameters": {"type": "object", "properties": parameters}}
    return {"type": "function", "function": function, "segue": {"keywords": []}}


TOOLS = [spec(a={"type": "integer"})]
REQUEST = ModelRequest(purpose="decide", messages=MESSAGES, schema={"type": "object"}, tools=TOOLS)


def changed(place: int, **update: Any) -> ModelRequest:
    messages = [*MESSAGES]
    messages[place] = messages[place].model_copy(update=update)
    return replace(REQUEST, messages=messages)


OTHERS: dict[str, tuple[ModelRequest, str, Agent]] = {
    "prompt": (changed(0, content="Be kind."), "m", AGENT),
    "arguments of a call": (changed(2, tool_calls=[{**CALL, "args": {"a": 2}}]), "m", AGENT),
    "id of a result": (changed(3, tool_call_id="c2"), "m", AGENT),
    "description of a tool": (replace(REQUEST, tools=[spec("Sum.", a={"type": "integer"})]), "m", AGENT),
    "schema of a tool": (replace(REQUEST, tools=[spec(a={"type": "number"})]), "m", AGENT),
    "schema of the reply": (replace(REQUEST, schema={"type": "array"}), "m", AGENT),
    "tools as calls": (replace(REQUEST, native=True), "m", AGENT),
    "nudge": (replace(REQUEST, nudge="Go on."), "m", AGENT),
    "seed": (replace(REQUEST, seed=7), "m", AGENT),
    "model": (REQUEST, "n", AGENT),
    "temperature": (REQUEST, "m", AGENT.model_copy(update={"temperature": 0.0})),
    "extra body": (REQUEST, "m", AGENT.model_copy(update={"extra_body": {"top_p": 1}})),
}


@cases("name", OTHERS)
def test_what_decides_the_reply_changes_the_digest(name: str) -> None:
    assert digest(request_text(*OTHERS[name])) != digest(request_text(REQUEST, "m", AGENT))


def test_keys_and_addresses_are_no_part_of_it() -> None:
    assert "secret" not in request_text(REQUEST, "m", AGENT)
