"""The scripted model and its script."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

from segue.core.decision import ActionType, decode
from tests import fakes
from tests.fakes import CountedIds, FixedClock, ScriptedChatModel, ScriptLeftOver, ScriptRanDry


async def test_replies_come_in_order_and_calls_are_recorded() -> None:
    with ScriptedChatModel(["one", AIMessage("two"), lambda messages: f"{messages[-1].content}!"]) as model:
        said = [(await model.ainvoke(text)).content for text in ("a", "b", "c")]
    assert said == ["one", "two", "c!"]
    assert [call[-1] for call in model.calls] == [HumanMessage("a"), HumanMessage("b"), HumanMessage("c")]


async def test_a_reply_streams_in_pieces() -> None:
    model = ScriptedChatModel(["one two three"])
    chunks = [chunk async for chunk in model.astream("hi")]
    assert [chunk.text for chunk in chunks if chunk.text] == ["one two", " three"]
    assert chunks[-1].response_metadata["finish_reason"] == "stop"


async def test_a_tool_call_streams_its_arguments_in_pieces() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}
    reply = AIMessage("a moment", tool_calls=[call], usage_metadata=usage)
    model = ScriptedChatModel([reply])
    chunks = [chunk async for chunk in model.astream("hi")]
    whole = sum(chunks[1:], chunks[0])
    assert whole.tool_calls == [call | {"type": "tool_call"}]
    assert whole.usage_metadata == usage
    assert whole.response_metadata["finish_reason"] == "tool_calls"


def test_it_works_without_a_loop() -> None:
    with ScriptedChatModel(["one", "two"]) as model:
        assert model.invoke("hi").content == "one"
        assert "".join(str(chunk.content) for chunk in model.stream("hi")) == "two"


async def test_an_error_of_the_script_is_raised() -> None:
    with ScriptedChatModel([ConnectionError("gone"), "back"]) as model:
        with pytest.raises(ConnectionError, match="gone"):
            await model.ainvoke("hi")
        assert (await model.ainvoke("hi")).content == "back"


async def test_a_lone_function_answers_for_ever() -> None:
    with ScriptedChatModel(lambda messages: str(len(messages))) as model:
        assert [(await model.ainvoke("hi")).content for _ in range(3)] == ["1", "1", "1"]


async def test_one_call_too_many_is_no_model_fault_and_cannot_be_hidden() -> None:
    model = ScriptedChatModel(["only this"])
    await model.ainvoke("first")
    with pytest.raises(ScriptRanDry, match="call 2 finds a script of 1 replies; it ends with: 'second'"):
        await model.ainvoke("second")
    with pytest.raises(ScriptRanDry, match="call 2"):
        model.assert_spent()
    assert issubclass(ScriptRanDry, AssertionError)


def test_what_is_left_over_is_named() -> None:
    with (
        pytest.raises(ScriptLeftOver, match="1 of 1 replies were not asked for, next: 'unsaid'"),
        ScriptedChatModel(["unsaid"]),
    ):
        pass


def test_leaving_with_an_error_does_not_hide_it() -> None:
    with pytest.raises(KeyError), ScriptedChatModel(["unsaid"]):
        raise KeyError


async def test_what_is_bound_is_recorded() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    model = ScriptedChatModel(["one", "two"])
    await model.bind_tools([add], tool_choice="any").ainvoke("hi")
    await model.bind(response_format={"type": "json_object"}).ainvoke("hi")
    assert [spec["function"]["name"] for spec in model.bound_tools[0]] == ["add"]
    assert model.call_kwargs[0]["tools"] == model.bound_tools[0]
    assert model.call_kwargs[0]["tool_choice"] == "any"
    assert model.call_kwargs[1] == {"response_format": {"type": "json_object"}}


async def test_structured_output_comes_from_a_tool_call() -> None:
    class City(BaseModel):
        """A city."""

        name: str

    model = ScriptedChatModel([AIMessage("", tool_calls=[{"name": "City", "args": {"name": "杭州"}, "id": "c1"}])])
    assert await model.with_structured_output(City).ainvoke("hi") == City(name="杭州")


@pytest.mark.parametrize(
    ("written", "kind", "output"),
    [
        (
            fakes.call_tool(("power", {"base": 2})),
            ActionType.CALL_TOOL,
            {"tool_calls": [{"function": {"name": "power", "arguments": {"base": 2}}}]},
        ),
        (
            fakes.plan(["look", {"description": "tell", "status": "done"}], notes="short"),
            ActionType.PLAN,
            {
                "plan": [
                    {"step_id": "1", "description": "look", "status": "pending"},
                    {"step_id": "2", "description": "tell", "status": "done"},
                ],
                "notes": "short",
            },
        ),
        (
            fakes.remend("a typo", ("power", {"base": 3})),
            ActionType.REMEND,
            {"diagnosis": "a typo", "tool_calls": [{"function": {"name": "power", "arguments": {"base": 3}}}]},
        ),
        (
            fakes.remend("a dead end", steps=["turn"]),
            ActionType.REMEND,
            {"diagnosis": "a dead end", "plan": [{"step_id": "1", "description": "turn", "status": "pending"}]},
        ),
        (fakes.answer("42"), ActionType.ANSWER, {"answer": "42"}),
        (fakes.reflect("so far"), ActionType.REFLECT, {"summary": "so far"}),
    ],
)
def test_the_makers_write_what_decode_reads(written: str, kind: ActionType, output: dict[str, Any]) -> None:
    decision = decode(written)
    assert (decision.action_type, decision.output) == (kind, output)


def test_plan_json_numbers_its_steps() -> None:
    made = json.loads(fakes.plan_json("北京3日游", [{"action": "search_cities", "params": {}}, "write it up"]))
    assert made == {
        "goal": "北京3日游",
        "steps": [
            {"step": "1", "action": "search_cities", "params": {}},
            {"step": "2", "description": "write it up", "status": "pending"},
        ],
    }


def test_ids_count_each_kind_by_itself() -> None:
    ids = CountedIds()
    assert [ids.task(), ids.trace(), ids.trace(), ids.task(), ids.thread()] == [
        "task-1", "trace-1", "trace-2", "task-2", "thread-1",
    ]  # fmt: skip


def test_a_clock_stands_still_until_it_is_moved() -> None:
    clock = FixedClock(100.0)
    assert (clock(), clock()) == (100.0, 100.0)
    clock.advance(5)
    assert clock() == 105.0
    ticking = FixedClock(0.0, tick=0.5)
    assert [ticking(), ticking(), ticking()] == [0.0, 0.5, 1.0]
