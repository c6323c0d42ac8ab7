"""Tools that the caller of a task carries out: a call waits, and its answer is the result, in every mode with tools."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import segue
from segue.core.agents import Agent
from segue.core.errors import InvalidMessage
from segue.core.question import CLIENT_CALL
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

SHOW: dict[str, Any] = {"name": "show", "description": "Show a page.", "parameters": {"properties": {"page": {}}}}
CALL = {"page": "cart"}
PLAN = plan_json("g", [{"action": "show", "params": CALL, "description": "show it"}])
NATIVE = AIMessage("", tool_calls=[{"id": "c", "name": "show", "args": CALL, "type": "tool_call"}])


@pytest.mark.parametrize(
    ("mode", "protocol", "script"),
    [
        ("react", "json", [call_tool(("show", CALL)), answer("Done.")]),
        ("react", "native", [NATIVE, AIMessage("Done.")]),
        ("plan", "json", [PLAN, "Done."]),
        ("plan_react", "json", [PLAN, call_tool(("show", CALL)), answer("Done.")]),
    ],
)
async def test_a_call_waits_across_a_restart_and_is_not_made_twice(
    tmp_path: Path, mode: str, protocol: Any, script: list[Any]
) -> None:
    model = ScriptedChatModel(script)
    agent = Agent(agent_id="a", model=model, mode=mode, protocol=protocol)
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        asked = await app.ask("show me the cart", session_id="s", agent="a", client_tools=[SHOW])
        call = asked["question"][CLIENT_CALL]
        assert (asked["status"], call["name"], call["arguments"]) == ("waiting", "show", CALL)
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        assert (await app.question(asked["task_id"]))[CLIENT_CALL] == call
        done = await app.answer(asked["task_id"], "shown the cart")
        trace = await app.trace(asked["task_id"])
    assert (done["status"], done["answer"]) == ("done", "Done.")
    assert [made["outcome"] for made in trace["calls"]] == [{"success": "shown the cart"}]
    assert "shown the cart" in str(model.calls[-1])


async def test_one_that_a_person_ends_is_an_error(tmp_path: Path) -> None:
    model = ScriptedChatModel([call_tool(("show", CALL)), answer("Done.")])
    async with segue.open(tmp_path / "segue.db", agents=[Agent(agent_id="a", model=model, mode="react")]) as app:
        asked = await app.ask("show me the cart", agent="a", client_tools=[SHOW])
        await app.answer(asked["task_id"], {"manual_finish": True})
        (call,) = (await app.trace(asked["task_id"]))["calls"]
    assert call["outcome"] == {"error": "The client did not carry out this call."}


async def test_what_cannot_be_offered_is_refused_before_anything_is_stored() -> None:
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=ScriptedChatModel([]))]) as app:
        with pytest.raises(InvalidMessage, match="the limit is 64"):
            await app.ask("hi", agent="a", client_tools=[{"name": f"t{n}"} for n in range(65)])
        for description, why in (("x" * 262_144, "the limit is 262144"), ("\ud800", "show cannot be stored")):
            with pytest.raises(InvalidMessage, match=why):
                await app.ask("hi", agent="a", client_tools=[{**SHOW, "description": description}])
        assert await app.tasks() == []
