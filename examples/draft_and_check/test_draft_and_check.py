"""Tests of the mode, without a key: pytest test_draft_and_check.py"""

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest
from draft_modes import graph
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

import segue

HERE = Path(__file__).parent
QUESTION = "Where is my order 18?"
CALL = {"id": "1", "name": "find_order", "args": {"order_id": 18}}
CHECKED = "Order 18 is on its way."


class Script(FakeMessagesListChatModel):
    """A model that replies what the test says, in order."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def clerk() -> segue.Agent:
    """The agent, with a draft that its tools do not confirm."""
    (agent,) = segue.load_agents(HERE / "agents.toml")
    replies = [AIMessage("It was delivered."), AIMessage("", tool_calls=[CALL]), AIMessage(CHECKED)]
    return agent.model_copy(update={"model": Script(responses=replies), "protocol": "native"})


def test_in_the_app_both_work_on_one_task() -> None:
    async def asked() -> tuple[segue.Result, list[str]]:
        async with segue.open(":memory:", agents=[clerk()], modes={"draft_and_check": graph}) as app:
            result = await app.ask(QUESTION, agent="clerk")
            return result, [call.name for call in (await app.trace(result.task_id)).calls]

    result, calls = asyncio.run(asked())
    assert (result.answer, result.mode, calls) == (CHECKED, "draft_and_check", ["find_order"])
    assert result.usage["calls"] == 3


def test_without_the_app_it_is_a_graph() -> None:
    out = graph.invoke({"messages": [("user", QUESTION)]}, context=segue.RunContext(agent=clerk()))
    assert out["messages"][-1].text == CHECKED


def test_studio_opens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_AGENTS", str(HERE / "agents.toml"))
    chat = importlib.reload(importlib.import_module("segue.studio")).chat  # what langgraph.json names
    out = chat.invoke({"messages": [("user", QUESTION)]}, context=segue.RunContext(mode="draft_and_check"))
    assert out["result"]["success"] and out["messages"][-1].text.startswith(CHECKED)
