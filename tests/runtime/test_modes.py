"""Modes of one's own: from Python and from the agents file."""

import dataclasses
import re
from datetime import UTC, datetime
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, RootModel

import segue
from segue.core.agents import Agent, load_agents, load_modes
from segue.core.errors import ConfigurationError
from segue.core.flows import FlowConfig
from segue.tools.registry import tool
from tests.fakes import ScriptedChatModel, call_tool


async def shout(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(state["messages"][-1].text.upper())]}


@tool(needs_approval=True)
def drop() -> str:
    """Drop it."""
    return "dropped"


def graph() -> StateGraph[MessagesState]:
    own = StateGraph(MessagesState)
    own.add_node("shout", shout)
    own.add_edge(START, "shout")
    own.add_edge("shout", END)
    return own


@pytest.mark.parametrize("name", ["react", "auto", "FINISH", "a:b", "", "9"])
async def test_names_that_are_taken_or_odd_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be called"):
        async with segue.open(tmp_path / "a.db", modes={name: graph()}):
            pass
    assert not (tmp_path / "a.db").exists()


async def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a LangGraph graph"):
        async with segue.open(tmp_path / "a.db", modes={"own": shout}):
            pass


class Blind(TypedDict):
    text: str


async def test_a_graph_without_messages_is_refused(tmp_path: Path) -> None:
    own = StateGraph(Blind)
    own.add_node("write", lambda _: {"text": "a"})
    own.add_edge(START, "write")
    with pytest.raises(ConfigurationError, match="mode own has no messages"):
        async with segue.open(tmp_path / "a.db", modes={"own": own}):
            pass


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
async def test_a_graph_that_stops_without_a_question_is_refused(tmp_path: Path, where: str, nested: bool) -> None:
    own = graph().compile(**{where: ["shout"]})  # type: ignore[arg-type]
    if nested:
        outer = StateGraph(MessagesState)
        outer.add_node("inner", own)
        outer.add_edge(START, "inner")
        own = outer.compile()
    with pytest.raises(ConfigurationError, match="mode own is compiled with interrupt_before or interrupt_after"):
        async with segue.open(tmp_path / "a.db", modes={"own": own}):
            pass


def test_modes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(f'[modes]\nloud = "{__name__}:graph"\n', encoding="utf-8")
    assert load_modes(file) == {"loud": graph}
    assert load_agents(file) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[modes]\nloud = 3", "needs lines such as"),
        ('[modes]\nloud = "no_such_module:graph"', "cannot be imported"),
        ('[mode]\nloud = "x:y"', "'mode'"),
        ('[[agent]]\nagent_id = "a"\n[[agent]]\nagent_id = "a"', "more than one agent"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=says):
        load_agents(file)
        load_modes(file)


@pytest.mark.parametrize("mode", ["direct", "plan", "auto", "lifecycle", "flow"])
async def test_a_task_says_which_model_it_used_in_every_mode(mode: str) -> None:
    async with segue.open(":memory:", modes={"flow": FlowConfig()}) as app:
        result = await app.ask("What is 17 * 23?", mode=mode)
        assert result.model == "offline", result
        task = await app.task(result.task_id)
        assert (task.used_model, task.result and task.result["model"]) == ("offline", "offline")
        assert (await app.trace(result.task_id)).task.used_model == "offline"


async def test_a_task_says_which_model_it_used_after_a_resume_with_another_and_where_none_was_called() -> None:
    silent = Agent(agent_id="a", model=ScriptedChatModel([ValueError("gone")]), mode="react")
    async with segue.open(":memory:", agents=[silent], modes={"loud": graph()}) as app:
        with pytest.raises(ValueError, match="gone"):
            await app.ask("What is 17 * 23?", agent="a", session_id="s")
        (task,) = await app.tasks.list(agent_id="a")
        assert (await app.resume(task.task_id, model="offline")).model == "offline"
        (listed,) = await app.tasks.list(agent_id="a")
        assert listed.used_model == "offline"
        assert (await app.ask("hello", mode="loud", agent="a")).model == ""


async def test_a_cancelled_task_says_which_model_it_used() -> None:
    asking = Agent(agent_id="a", model=ScriptedChatModel([call_tool(("drop", {}))]), tools=[drop], mode="react")
    async with segue.open(":memory:", agents=[asking]) as app:
        waiting = await app.ask("Drop it.", agent="a")
        await app.cancel(waiting.task_id)
        assert (await app.task(waiting.task_id)).used_model == app.model_for("a").name


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("sure?", "sure?"),
        ({"question": "sure?", "order": 17}, "sure?"),
        ({"order": 17}, '{"order": 17}'),
        (["a", 1], '["a", 1]'),
    ],
)
async def test_an_interrupt_of_a_graph_is_a_question_that_a_text_answers(value: object, question: str) -> None:
    def ask(state: MessagesState) -> dict[str, list[AIMessage]]:
        return {"messages": [AIMessage(f"You said {interrupt(value)}.")]}

    own = StateGraph(MessagesState)
    own.add_node("ask", ask)
    own.add_edge(START, "ask")
    async with segue.open(":memory:", modes={"own": own}) as app:
        asked = await app.ask("hello", mode="own")
        (waiting,) = await app.waiting()
        assert (asked.status, waiting.question, waiting.calls) == ("waiting", question, [])
        assert (await app.answer(asked.task_id, "yes")).answer == "You said yes."


# The states of own modes: the types of their values, their limit of steps, and what they do to the history.


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


@dataclasses.dataclass
class Doubled:
    n: int
    twice: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.twice = 2 * self.n


class Numbers(RootModel[list[int]]):
    pass


class Place(Enum):
    HERE = (1, 2)


class Changing(MessagesState):
    value: Doubled | Numbers | Place


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


async def test_a_value_that_langgraph_restores_without_its_type_needs_no_name(database: Path) -> None:
    seen: list[dict[str, Any]] = []
    async with segue.open(database, modes={"own": asking(Anything, {"value": re.compile("a")}, seen)}) as app:
        asked = await app.ask("go", mode="own", session_id="s")
        assert (await app.answer(asked.task_id, "yes")).status == "done"
    assert seen == [{"value": re.compile("a")}]


@pytest.mark.parametrize("value", [Doubled(1), Numbers([1]), Place.HERE, [Numbers([1])]])
async def test_a_value_that_would_be_of_another_type_is_refused_though_the_state_names_it(
    database: Path, value: object
) -> None:
    async with segue.open(database, modes={"own": asking(Changing, {"value": value}, [])}) as app:
        with pytest.raises(ConfigurationError, match="which LangGraph does not restore as such"):
            await app.ask("go", mode="own", session_id="s")


@pytest.mark.parametrize("value", [Fraction(1, 2), object(), 2**70, lambda: 1, [{"a": complex(1)}]])
async def test_a_value_that_cannot_be_stored_is_refused(database: Path, value: object) -> None:
    asks = StateGraph(MessagesState)
    asks.add_node("ask", lambda _: {"messages": [AIMessage(interrupt(value))]})
    asks.add_edge(START, "ask")
    modes = {"own": asking(Anything, {"value": value}, []), "asks": asks}
    async with segue.open(database, modes=modes) as app:
        for mode in modes:
            with pytest.raises(ConfigurationError, match="has a value that cannot be stored"):
                await app.ask("go", mode=mode, session_id=mode)


# The context.


@dataclasses.dataclass
class OwnContext:
    user_id: str
    address: str = "here"


class ContextKeys(TypedDict, total=False):
    user_id: str
    address: str


class OtherKeys(TypedDict, total=False):
    address: str


class ContextModel(BaseModel):
    user_id: str
    address: str = "here"


class Needing(BaseModel):
    address: str


def reading(schema: Any) -> StateGraph[Any, Any]:
    """A graph that says what its context is, beside one of Segue's."""

    def read(state: MessagesState, runtime: Runtime[Any]) -> dict[str, list[AIMessage]]:
        return {"messages": [AIMessage(f"{type(runtime.context).__name__} {runtime.context}")]}

    own = StateGraph(MessagesState, context_schema=schema)
    own.add_node("first", segue.graph("direct"))
    own.add_node("read", read)
    own.add_edge(START, "first")
    own.add_edge("first", "read")
    return own


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (OwnContext, "OwnContext OwnContext(user_id='ann', address='here')"),
        (ContextModel, "ContextModel user_id='ann' address='here'"),
        (ContextKeys, "dict {'user_id': 'ann'}"),
        (OtherKeys, "dict {}"),
    ],
)
async def test_a_context_of_the_modes_own_has_what_segue_knows(database: Path, schema: Any, said: str) -> None:
    async with segue.open(database, modes={"own": reading(schema)}) as app:
        assert (await app.ask("hello", mode="own", user_id="ann")).answer == said


async def test_a_context_that_segue_cannot_fill_is_refused(database: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"context of the mode own cannot be made from Segue"):
        async with segue.open(database, modes={"own": reading(Needing)}):
            pass


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
