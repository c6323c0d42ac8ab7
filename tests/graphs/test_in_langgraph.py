"""Graphs as LangGraph's users compose them: below a graph of theirs, and with its means to change a thread."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.types import Command, Overwrite
from typing_extensions import TypedDict

import segue
from segue.tools.bound_tool import CallContext
from tests.fakes import ScriptedChatModel, answer
from tests.modes import script_of

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


# A context of the parent's own.


class Typed(TypedDict):
    user_id: str
    language: str


@dataclass(slots=True)
class Slotted:
    user_id: str
    language: str = "German"
    agent: int = 3


class Derived(segue.RunContext):
    tenant: str = ""


@pytest.mark.parametrize("name", ["react", "chat"])
@pytest.mark.parametrize("way", ["node", "invoke", "stream"])
@pytest.mark.parametrize(
    ("schema", "context", "user_id"),
    [
        (None, None, "default"),
        (None, {"user_id": "ann", "model": "theirs"}, "ann"),
        (Typed, {"user_id": "ann", "language": "en"}, "ann"),
        (Slotted, Slotted("ann"), "ann"),
        (Derived, Derived(user_id="ann", tenant="north"), "ann"),
    ],
)
def test_a_graph_below_one_with_a_context_of_its_own(
    name: str, way: str, schema: Any, context: Any, user_id: str
) -> None:
    refunds: list[str] = []

    @segue.tool(keywords=["refund"], needs_approval=True)
    def refund(order_id: int, call: CallContext) -> str:
        """Refund an order."""
        refunds.append(f"{order_id} for {call.user_id}")
        return f"Order {order_id} is refunded."

    agent = segue.graph(name, agents=[segue.Agent(agent_id="support", model="offline", tools=[refund])])

    def node(state: MessagesState) -> dict[str, list[AnyMessage]]:
        given = {"messages": state["messages"]}
        out = agent.invoke(given) if way == "invoke" else [*agent.stream(given, stream_mode="values")][-1]
        return {"messages": out["messages"]}

    parent = StateGraph(MessagesState, context_schema=schema)
    parent.add_node("agent", agent if way == "node" else node)
    parent.add_edge(START, "agent")
    parent.add_edge("agent", END)
    graph = parent.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "Please refund order 17")]}, THREAD, context=context)
    graph.invoke(Command(resume="approve"), THREAD, context=context)
    assert refunds == [f"17 for {user_id}"]


# Messages that are replaced and removed.


def _texts(messages: list[AnyMessage]) -> list[str]:
    return [message.text for message in messages]


def _two_turns(messages: list[AnyMessage]) -> list[Any]:
    """Changes of a history, one after the other, that `add_messages` knows."""
    first, second = (message.id or "" for message in messages[:2])
    return [
        [HumanMessage("replaced", id=first)],
        [RemoveMessage(second), ("user", "added")],
        ("user", "alone"),
        [RemoveMessage(first), HumanMessage("again", id=first)],
        [HumanMessage("gone"), RemoveMessage(REMOVE_ALL_MESSAGES), {"role": "user", "content": "left"}],
    ]


@pytest.mark.parametrize("name", ["direct", "react", "plan", "plan_react", "lifecycle", "controller", "chat"])
def test_messages_are_replaced_and_removed_as_add_messages_does(name: str, tmp_path: Path) -> None:
    def built(saver: SqliteSaver) -> Any:
        agent = segue.Agent(agent_id="a", model="offline", tools=[])
        return segue.graph(name, agents=[agent], checkpointer=saver)

    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        graph = built(saver)
        expected: list[AnyMessage] = graph.invoke({"messages": [("user", "hello")]}, THREAD)["messages"]
        known = {message.id for message in expected}
        for change in _two_turns(expected):
            expected = add_messages(expected, change)  # type: ignore[assignment, arg-type]
            graph.update_state(THREAD, {"messages": change})
            assert _texts(graph.get_state(THREAD).values["messages"]) == _texts(expected)
        (left,) = graph.get_state(THREAD).values["messages"]
        assert left.id not in known
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as saver:  # another process
        graph = built(saver)
        assert graph.get_state(THREAD).values["messages"] == [left]
        graph.update_state(THREAD, {"messages": Overwrite([("user", "over"), ("user", "written")])})
        out = graph.invoke({"messages": "hello"}, THREAD)["messages"]
        assert _texts(out)[:3] == ["over", "written", "hello"]
        assert not {message.id for message in out} & {*known, left.id}


def test_a_removed_message_is_removed_from_earlier_states_neither_and_an_unknown_one_is_named() -> None:
    model = ScriptedChatModel([answer("one"), answer("two"), answer("three")])
    agent = segue.Agent(agent_id="a", model=model, protocol="json", tools=[])
    graph = segue.graph("react", agents=[agent], checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "my secret is 4711")]}, THREAD)
    before = graph.get_state(THREAD)
    secret = before.values["messages"][0]
    with pytest.raises(ValueError, match="no message 'other' to remove"):
        graph.update_state(THREAD, {"messages": [RemoveMessage("other")]})
    graph.update_state(THREAD, {"messages": [RemoveMessage(secret.id)]})
    graph.invoke({"messages": [("user", "second")]}, THREAD)
    assert not any("4711" in message.text for message in model.calls[-1])
    assert graph.get_state(before.config).values["messages"][0] == secret  # a fork from there has it
    graph.invoke({"messages": [("user", "third")]}, before.config)
    assert any("4711" in message.text for message in model.calls[-1])


# Streams of messages.

ANSWER = "Your order 17 is on its way and arrives on Friday, as far as anybody knows. " * 4
LOOK_UP = ("look_up", {"order_id": 17})


@segue.tool(read_only=True)
def look_up(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} is on its way."


def answering(mode: str, name: str) -> Any:
    """The graph of a mode, or the chat graph in that mode, whose model calls a tool and answers."""
    script: list[Any] = [ANSWER] if mode == "direct" else [*script_of(mode, [LOOK_UP])][:-1]
    if mode != "direct":
        script.append(AIMessage(ANSWER) if mode in ("native", "plan") else answer(ANSWER))
    own: dict[str, Any] = {"protocol": "native" if mode == "native" else "json"}
    agent = segue.Agent(agent_id="a", model=ScriptedChatModel(script), tools=[look_up], mode=graph_of(mode), **own)
    return segue.graph(name or graph_of(mode), agents=[agent], checkpointer=InMemorySaver())


def graph_of(mode: str) -> str:
    return "react" if mode == "native" else mode


def shown(messages: list[Any]) -> list[str]:
    """The texts of assistants as a page shows them: pieces with one id together."""
    texts: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AIMessage) and message.text:
            texts[message.id or ""] = texts.get(message.id or "", "") + message.text
    return [*texts.values()]


MODES = ("direct", "react", "native", "plan", "plan_react")
GIVEN = {"messages": [("user", "where is order 17")]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["", "chat"])
@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_stream_of_messages_has_each_answer_once(mode: str, name: str, subgraphs: bool) -> None:
    graph = answering(mode, name)
    chunks = [*graph.stream(GIVEN, THREAD, stream_mode=["messages", "updates"], subgraphs=subgraphs)]
    messages = [data[0] for *_, kind, data in chunks if kind == "messages"]
    assert shown(messages) == [ANSWER]
    in_state = graph.get_state(THREAD).values["messages"][-1]
    (streamed_id,) = {message.id for message in messages if isinstance(message, AIMessage) and message.text}
    assert (in_state.text, in_state.id) == (ANSWER, streamed_id)
    if subgraphs or not (name or mode == "plan_react"):  # tokens of a graph below come with subgraphs, as in LangGraph
        pieces = [message for message in messages if isinstance(message, AIMessageChunk)]
        assert len(pieces) > 3


@pytest.mark.parametrize("mode", MODES)
async def test_events_and_the_newer_form_of_a_stream_have_it_once(mode: str) -> None:
    stream = answering(mode, "").astream(GIVEN, THREAD, stream_mode="messages", version="v2", subgraphs=True)
    parts = [part async for part in stream]
    assert {part["type"] for part in parts} == {"messages"}
    assert shown([part["data"][0] for part in parts]) == [ANSWER]
    events = [event async for event in answering(mode, "").astream_events(GIVEN, THREAD, version="v2")]
    pieces = [event["data"]["chunk"] for event in events if event["event"] == "on_chat_model_stream"]
    assert shown(pieces) == [ANSWER]
