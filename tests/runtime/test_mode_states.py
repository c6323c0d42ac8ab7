"""The states of own modes: the types of their values, their limit of steps, and what they do to the history."""

import dataclasses
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt
from pydantic import BaseModel

import segue
from segue.core.errors import ConfigurationError


class Color(Enum):
    RED = "red"


@dataclasses.dataclass
class Money:
    cents: int


class Shape(BaseModel):
    name: str


class Circle(Shape):
    """Of a kind that the annotation does not name."""

    color: Color
    price: Money


class Point(NamedTuple):
    x: int
    y: int


class Undeclared(BaseModel):
    n: int


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


class Kept(MessagesState):
    color: Color
    money: list[Money]
    shape: Shape | None
    points: dict[str, Point]
    moment: datetime
    some: set[str]


class Anything(MessagesState):
    value: Any


VALUES: dict[str, Any] = {
    "color": Color.RED,
    "money": [Money(5)],
    "shape": Circle(name="c", color=Color.RED, price=Money(3)),
    "points": {"a": Point(1, 2)},
    "moment": MOMENT,
    "some": {"x"},
}


def asking(schema: Any, values: dict[str, Any], seen: list[dict[str, Any]]) -> StateGraph[Any]:
    """A graph that writes values, asks, and says what it has of them then."""

    def ask(state: dict[str, Any]) -> dict[str, list[AIMessage]]:
        answer = interrupt("sure?")
        seen.append({name: state[name] for name in values})
        return {"messages": [AIMessage(answer)]}

    graph = StateGraph(schema)
    graph.add_node("write", lambda state: values)
    graph.add_node("ask", ask)
    graph.add_edge(START, "write")
    graph.add_edge("write", "ask")
    graph.add_edge("ask", END)
    return graph


@pytest.mark.parametrize("nested", [False, True])
async def test_values_keep_their_types_over_an_interrupt_and_in_another_process(database: Path, nested: bool) -> None:
    seen: list[dict[str, Any]] = []
    graph = asking(Kept, VALUES, seen)
    if nested:
        outer = StateGraph(MessagesState)
        outer.add_node("inner", graph.compile())
        outer.add_edge(START, "inner")
        outer.add_edge("inner", END)
        graph = outer
    async with segue.open(database, modes={"own": graph}) as app:
        asked = await app.ask("go", mode="own", session_id="s")
    async with segue.open(database, modes={"own": graph}) as app:
        assert (await app.answer(asked.task_id, "yes")).answer == "yes"
    assert seen == [VALUES]
    assert type(seen[0]["shape"]) is Circle
    assert type(seen[0]["points"]["a"]) is Point


async def test_a_type_that_no_other_process_finds_is_refused_by_name_when_the_mode_is_registered(
    database: Path,
) -> None:
    class Local(BaseModel):
        n: int

    class State(MessagesState):
        value: list[Local]

    with pytest.raises(ConfigurationError, match=r"mode own .*Local, which no other process can find"):
        async with segue.open(database, modes={"own": asking(State, {"value": [Local(n=1)]}, [])}):
            pass


async def test_a_value_of_a_type_that_the_state_does_not_name_is_refused_by_name(database: Path) -> None:
    value = {"value": [Money(Undeclared(n=1))]}  # type: ignore[arg-type]
    modes = {"own": asking(Anything, value, []), "other": asking(Kept, VALUES, [])}
    async with segue.open(database, modes=modes) as app:
        with pytest.raises(ConfigurationError, match=r"value of the type .*\.Undeclared"):
            await app.ask("go", mode="own", session_id="s")


# Steps.


def counting(until: int) -> StateGraph[Any]:
    class State(MessagesState):
        n: int

    graph = StateGraph(State)
    graph.add_node("count", lambda state: {"n": state.get("n", 0) + 1})
    graph.add_node("say", lambda state: {"messages": [AIMessage(str(state["n"]))]})
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: "say" if state["n"] >= until else "count", ["say", "count"])
    graph.add_edge("say", END)
    return graph


async def test_a_mode_has_a_limit_of_steps_of_its_own_which_its_error_names() -> None:
    limited = counting(50).compile().with_config(recursion_limit=20)
    async with segue.open(":memory:", modes={"long": counting(400), "limited": limited}) as app:
        assert (await app.ask("go", mode="long")).answer == "400"
        with pytest.raises(ConfigurationError, match=r"mode limited took 20 steps .*recursion_limit=200"):
            await app.ask("go", mode="limited")


# The history.


async def _summarize(state: MessagesState) -> dict[str, list[AnyMessage]]:
    kept = state["messages"][-1]
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("a summary"), kept, AIMessage("so it is")]}


async def test_what_a_mode_removes_stays_in_the_history() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("summarize", _summarize)
    graph.add_edge(START, "summarize")
    graph.add_edge("summarize", END)
    async with segue.open(":memory:", modes={"own": graph}) as app:
        given = [(await app.ask(text, mode="own", session_id="s")).answer for text in ("one", "two")]
        assert given == ["so it is"] * 2
        assert [each["content"] for each in await app.history("s")] == ["one", "so it is", "two", "so it is"]
