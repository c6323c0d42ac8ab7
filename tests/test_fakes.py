"""The scripted model and its script."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.fakes import ScriptedChatModel, ScriptLeftOver, ScriptRanDry


async def test_replies_come_in_order_and_calls_are_recorded() -> None:
    with ScriptedChatModel(["one", AIMessage("two"), lambda messages: f"{messages[-1].content}!"]) as model:
        said = [(await model.ainvoke(text)).content for text in ("a", "b", "c")]
    assert said == ["one", "two", "c!"]
    assert [call[-1] for call in model.calls] == [HumanMessage("a"), HumanMessage("b"), HumanMessage("c")]


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
