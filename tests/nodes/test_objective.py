"""What a turn is about, though something was added to it on the way."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from segue.core.errors import InvalidMessage
from segue.nodes.task import additions, before_objective, objective_of


def added(text: str) -> HumanMessage:
    return HumanMessage(text, additional_kwargs={"steer": True})


MESSAGES: list[AnyMessage] = [
    HumanMessage("a"), added("b"), AIMessage("c"), HumanMessage("d"), added("e"), AIMessage("f"), added("g"),
]  # fmt: skip


def test_an_addition_is_not_what_a_turn_begins_with() -> None:
    assert objective_of(MESSAGES) == "d"
    assert additions(MESSAGES) == ["e", "g"]
    assert [m.text for m in before_objective(MESSAGES)] == ["a", "b", "c"]


def test_a_turn_without_additions_has_none() -> None:
    assert additions([*MESSAGES, HumanMessage("h")]) == []


def test_additions_alone_are_no_request() -> None:
    with pytest.raises(InvalidMessage, match="no user message"):
        objective_of([added("b")])
