"""What a model is really sent, in both languages: every prompt as a snapshot."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, convert_to_openai_messages
from langgraph.graph import StateGraph
from syrupy.assertion import SnapshotAssertion

from segue.core.agents import Agent
from segue.core.context import AppContext
from segue.graphs.direct import build_direct
from segue.graphs.lifecycle import build_lifecycle
from segue.graphs.plan import build_plan
from segue.graphs.react import build_react
from segue.prompts.catalogue import FOLDER, fill, has_slot, render, template
from segue.registry import Registry, services_of
from tests.fakes import CountedIds, FixedClock, ScriptedChatModel, answer, call_tool, plan_json

MESSAGES = {"zh": "二的两倍是多少？", "en": "What is twice two?"}


def double(number: int) -> int:
    """Double a number."""
    return number * 2


def native_call() -> AIMessage:
    return AIMessage("", tool_calls=[{"id": "c", "name": "double", "args": {"number": 2}, "type": "tool_call"}])


STEPS = [{"action": "double", "params": {"number": 2}, "description": "double"}, {"action": "none"}]
TASKS = json.dumps(
    {"tasks": [{"id": "1", "description": "double two"}, {"id": "2", "description": "spell it", "dependencies": ["1"]}]}
)
CALL = call_tool(("double", {"number": 2}), thought="look")

Scenario = tuple[Callable[[], StateGraph[Any, Any, Any, Any]], list[Any], dict[str, Any]]
SCENARIOS: dict[str, Scenario] = {
    "react json": (build_react, [CALL, answer("4")], {}),
    "react system first": (build_react, [CALL, answer("4")], {"system_first": True}),
    "react state last": (build_react, [CALL, answer("4")], {"state": "last"}),
    "react native": (build_react, [native_call(), AIMessage("4")], {"protocol": "native"}),
    "direct": (build_direct, ["4"], {}),
    "plan": (build_plan, ["no plan", plan_json("four", STEPS), "4"], {}),
    "lifecycle": (build_lifecycle, ["no tasks", TASKS, answer("4"), answer("four")], {}),
}


@pytest.mark.parametrize("language", MESSAGES)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_what_is_sent(scenario: str, language: str, snapshot: SnapshotAssertion) -> None:
    build, script, fields = SCENARIOS[scenario]
    model = ScriptedChatModel(script)
    agent = Agent(agent_id="a", model=model, tools=(double,), **fields)
    services = services_of(Registry((agent,), environ={}), lambda _: None, ids=CountedIds(), clock=FixedClock())
    context = AppContext.carrying(services)
    await build().compile().ainvoke({"messages": [("user", MESSAGES[language])]}, context=context)
    model.assert_spent()
    sent = [convert_to_openai_messages(messages) for messages in model.calls]
    assert [[f"{m['role']}: {m.get('content')} {m.get('tool_calls', '')}" for m in call] for call in sent] == snapshot


def test_every_prompt_is_there_in_both_languages() -> None:
    names = {file.name.rsplit(".", 2)[0] for file in FOLDER.glob("*.md")}
    assert names
    for name in names:
        chinese, english = template(name, "zh"), template(name, "en")
        slots = (
            "agent_prompt",
            "tools",
            "current_state",
            "conversation",
            "results",
            "schema",
            "goal",
            "rules",
            "knowledge",
        )
        assert [has_slot(chinese, slot) for slot in slots] == [has_slot(english, slot) for slot in slots]


def test_values_are_never_read_as_templates() -> None:
    assert fill("{{a}} {{b}}", a="{{b}}", b="x") == "{{b}} x"
    shown = render("plan_answer", "en", agent_prompt="{{results}}", conversation="[]", results="r")
    assert shown.startswith("{{results}}")
