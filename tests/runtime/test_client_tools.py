"""Tools that the caller of a task carries out: a call waits, and its answer is the result, in every mode with tools."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import segue
from segue import tool
from segue.core.agents import Agent
from segue.core.calls import CLIENT_CALLS
from segue.core.errors import InvalidAnswer, InvalidMessage
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
        (call,) = asked["question"][CLIENT_CALLS]
        assert (asked["status"], call["name"], call["arguments"]) == ("waiting", "show", CALL)
        assert await app.waiting() == []  # the client decides
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        assert (await app.question(asked["task_id"]))[CLIENT_CALLS] == [call]
        answered = {"results": {call["id"]: "shown the cart"}} if mode == "react" else "shown the cart"
        done = await app.answer(asked["task_id"], answered)
        trace = await app.trace(asked["task_id"])
        assert not any(event.type == "question_answered" for event in await app.events(asked["task_id"]))
    assert (done["status"], done["answer"]) == ("done", "Done.")
    assert [made.outcome for made in trace.calls] == [{"success": "shown the cart"}]
    assert "shown the cart" in str(model.calls[-1])


async def test_one_that_a_person_ends_is_an_error(tmp_path: Path) -> None:
    model = ScriptedChatModel([call_tool(("show", CALL)), answer("Done.")])
    async with segue.open(tmp_path / "segue.db", agents=[Agent(agent_id="a", model=model, mode="react")]) as app:
        asked = await app.ask("show me the cart", agent="a", client_tools=[SHOW])
        await app.answer(asked["task_id"], {"manual_finish": True})
        (call,) = (await app.trace(asked["task_id"])).calls
    assert call.outcome == {"error": "The client did not run this call."}


@tool(read_only=True, secret=True)
def read_vault() -> str:
    """Read a password."""
    return "hunter2-blue"


async def test_a_call_that_a_person_rejects_is_not_sent_to_the_client() -> None:
    leak = {"page": "hunter2-blue"}
    model = ScriptedChatModel([call_tool(("read_vault", {})), call_tool(("show", leak)), answer("Done.")])
    agent = Agent(agent_id="a", model=model, mode="react", tools=[read_vault])
    async with segue.open(":memory:", agents=[agent]) as app:
        asked = await app.ask("show it", agent="a", client_tools=[SHOW])
        assert [call["reason"] for call in asked["question"]["calls"]] == ["secret"]
        done = await app.answer(asked["task_id"], "reject")
        assert (done["status"], done["answer"]) == ("done", "Done.")
        last = [event for event in await app.events(asked["task_id"]) if event.type == "tool_result"][-1]
    assert (last.data["name"], last.data["result"].get("rejected")) == ("show", True)


async def test_what_cannot_be_offered_is_refused_before_anything_is_stored() -> None:
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=ScriptedChatModel([]))]) as app:
        with pytest.raises(InvalidMessage, match="the limit is 64"):
            await app.ask("hi", agent="a", client_tools=[{"name": f"t{n}"} for n in range(65)])
        for description, why in (("x" * 262_144, "the limit is 262144"), ("\ud800", "show cannot be stored")):
            with pytest.raises(InvalidMessage, match=why):
                await app.ask("hi", agent="a", client_tools=[{**SHOW, "description": description}])
        wide = {"type": "object", "properties": {f"p{n}": {} for n in range(3000)}}
        with pytest.raises(InvalidMessage, match="more than 5000 values"):
            await app.ask("hi", agent="a", client_tools=[{**SHOW, "parameters": wide}])
        endless = {"type": "object", "properties": {"page": {"pattern": "a{99999999999999999999}"}}}
        with pytest.raises(InvalidMessage, match="not a JSON schema"):
            await app.ask("hi", agent="a", client_tools=[{**SHOW, "parameters": endless}])
        assert await app.tasks.list() == []


def shows(*pages: str) -> Any:
    return call_tool(*(("show", {"page": page}) for page in pages))


@segue.tool
def note() -> str:
    """Note something."""
    return "noted"


async def test_calls_of_one_batch_wait_together_and_their_results_may_come_apart(tmp_path: Path) -> None:
    batch = call_tool(*(("show", {"page": page}) for page in "abc"), ("note", {}), ("show", {"page": "d"}))
    model = ScriptedChatModel([batch, answer("Done.")])
    agent = Agent(agent_id="a", model=model, mode="react", tools=(note,))
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        asked = await app.ask("show all", agent="a", client_tools=[SHOW])
        a, b, c = asked["question"][CLIENT_CALLS]
        assert [call["arguments"]["page"] for call in (a, b, c)] == ["a", "b", "c"]
        with pytest.raises(InvalidAnswer, match="do not match the waiting calls"):
            await app.answer(asked["task_id"], {"results": {"none": "x"}})
        asked = await app.answer(asked["task_id"], {"results": {c["id"]: "page c", a["id"]: "page a"}})
        assert asked["question"][CLIENT_CALLS] == [b]
    async with segue.open(tmp_path / "segue.db", agents=[agent]) as app:
        asked = await app.answer(asked["task_id"], "page b")
        (d,) = asked["question"][CLIENT_CALLS]
        done = await app.answer(asked["task_id"], {"results": {d["id"]: "page d"}})
        calls = (await app.trace(asked["task_id"])).calls
    assert done["answer"] == "Done."
    assert [made.outcome["success"] for made in calls] == ["page a", "page b", "page c", "noted", "page d"]


async def test_calls_that_must_not_wait_together_wait_one_by_one(tmp_path: Path) -> None:
    model = ScriptedChatModel([shows("a", "b"), answer("Done.")])
    async with segue.open(tmp_path / "segue.db", agents=[Agent(agent_id="a", model=model, mode="react")]) as app:
        asked = await app.ask("show both", agent="a", client_tools=[{**SHOW, "parallel": False}])
        assert [call["arguments"] for call in asked["question"][CLIENT_CALLS]] == [{"page": "a"}]
        asked = await app.answer(asked["task_id"], "page a")
        assert [call["arguments"] for call in asked["question"][CLIENT_CALLS]] == [{"page": "b"}]


@pytest.mark.parametrize(
    ("parameters", "arguments", "why"),
    [
        ({"properties": {"page": {"type": "integer"}}}, {"page": "a"}, "'a' is not of type 'integer'"),
        ({"properties": {"page": {}}, "required": ["page", "mark"]}, {"page": "a"}, "'mark' is a required property"),
        ({"properties": {"page": {"items": {"enum": ["a", "b"]}}}}, {"page": ["a", "c"]}, "'c' is not one of"),
    ],
)
async def test_arguments_that_do_not_fit_are_for_the_model_to_correct(
    tmp_path: Path, parameters: Any, arguments: Any, why: str
) -> None:
    model = ScriptedChatModel([call_tool(("show", arguments)), answer("Done.")])
    async with segue.open(tmp_path / "segue.db", agents=[Agent(agent_id="a", model=model, mode="react")]) as app:
        done = await app.ask("show it", agent="a", client_tools=[{**SHOW, "parameters": parameters}])
        (call,) = (await app.trace(done["task_id"])).calls
    assert done["status"] == "done" and why in call.outcome["error"]


async def test_arguments_that_are_near_to_the_schema_are_sent_in_its_types() -> None:
    pages = {"type": "array", "items": {"type": "string"}}
    given = {"pages": '["cart", "home"]', "zoom": None}
    model = ScriptedChatModel([call_tool(("show", given)), answer("Done.")])
    shown = {**SHOW, "parameters": {"properties": {"pages": pages, "zoom": {"type": "integer", "default": 1}}}}
    async with segue.open(":memory:", agents=[Agent(agent_id="a", model=model, mode="react")]) as app:
        asked = await app.ask("show them", agent="a", client_tools=[shown])
    assert [call["arguments"] for call in asked["question"][CLIENT_CALLS]] == [{"pages": ["cart", "home"]}]


async def test_a_schema_of_the_client_is_neither_fetched_nor_run(tmp_path: Path) -> None:
    endless = {"page": {"$ref": "#/properties/page"}, "mark": {"pattern": "(a+)+$", "$ref": "http://127.0.0.1:9/none"}}
    model = ScriptedChatModel([call_tool(("show", {"page": 1, "mark": "a" * 64 + "!"})), answer("Done.")])
    async with segue.open(tmp_path / "segue.db", agents=[Agent(agent_id="a", model=model, mode="react")]) as app:
        asked = await app.ask("show it", agent="a", client_tools=[{**SHOW, "parameters": {"properties": endless}}])
    assert asked["status"] == "waiting"
