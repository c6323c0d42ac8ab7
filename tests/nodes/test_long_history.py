"""A long history: what is written to it is put in the same place as in a short one, whatever was written before."""

import random
from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import add_messages

from segue.nodes.task import extend_messages


def long_history(name: str) -> list[BaseMessage]:
    return [HumanMessage(f"{name} {number}", id=f"{name}{number}") for number in range(300)]


def merged(history: Sequence[BaseMessage], write: list[AnyMessage]) -> list[BaseMessage]:
    return [*add_messages([*history], write)]  # type: ignore[arg-type, list-item]


@pytest.mark.parametrize("seed", range(8))
def test_branches_replays_and_edits_of_long_histories_give_what_add_messages_gives(seed: int) -> None:
    chance = random.Random(seed)
    states: list[list[BaseMessage]] = [long_history(chance.choice("ab")) for _ in range(2)]
    for step in range(120):
        history = chance.choice(states[-12:])
        ids = [str(message.id) for message in history]
        added = range(chance.randrange(3))
        write: list[AnyMessage] = [AIMessage(f"new {step} {n}", id=f"new{step}.{n}") for n in added]
        if chance.random() < 0.2:
            write.append(HumanMessage(f"edited {step}", id=chance.choice(ids)))
        if chance.random() < 0.1:
            write.append(RemoveMessage(id=chance.choice(ids)))
        if chance.random() < 0.2:
            history = [message.model_copy() if chance.random() < 0.02 else message for message in history]
        states.append(extend_messages(history, [write]))
        assert states[-1] == merged(history, write)


def test_what_another_branch_added_can_be_added_again() -> None:
    begin = long_history("a")
    added = AIMessage("one", id="x")
    first = extend_messages(begin, [[added], [AIMessage("two", id="y")]])
    other = extend_messages(begin, [[AIMessage("two", id="y")]])
    assert [message.id for message in first[300:]] == ["x", "y"]
    assert [message.id for message in other[300:]] == ["y"]
    assert extend_messages(other, [[added]]) == [*other, added]
    assert extend_messages(begin, [[added]]) == [*begin, added]


def test_a_message_without_an_id_takes_a_free_one_and_one_to_remove_must_be_there() -> None:
    grown = extend_messages(long_history("m"), [[AIMessage("one")]])
    assert grown[-1].id == "m300"
    with pytest.raises(ValueError, match="no message 'z'"):
        extend_messages(grown, [[RemoveMessage(id="z")]], strict=True)
