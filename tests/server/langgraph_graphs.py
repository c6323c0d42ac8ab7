"""Graphs of LangGraph that Segue did not write, for the tests of its server API."""

import asyncio
import operator
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from typing_extensions import TypedDict

EFFECTS = "SEGUE_TEST_EFFECTS"
"""Where tools leave a line for each time that they ran."""


class Steps(TypedDict, total=False):
    text: str
    events: Annotated[list[str], operator.add]
    """A name that Segue's own graphs use for something else."""


def first(state: Steps) -> Steps:
    get_stream_writer()({"name": "progress", "step": "first"})
    return {"text": state["text"].upper(), "events": ["first"]}


def ask(state: Steps) -> Steps:
    answer = interrupt({"question": f"Send {state['text']}?"})
    return {"events": [f"answered {answer}"]}


def last(state: Steps) -> Steps:
    return {"events": ["last"]}


asking = StateGraph(Steps)
for node in (first, ask, last):
    asking.add_node(node.__name__, node)
asking.add_edge(START, "first")
asking.add_edge("first", "ask")
asking.add_edge("ask", "last")


async def rest(state: Steps) -> Steps:
    await asyncio.sleep(60)
    return {"events": ["rested"]}


slow = StateGraph(Steps)
slow.add_node("first", first)
slow.add_node("rest", rest)
slow.add_edge(START, "first")
slow.add_edge("first", "rest")


def fail(state: Steps) -> Steps:
    raise ValueError("no such order")


failing = StateGraph(Steps).add_node("fail", fail).add_edge(START, "fail").compile()


class Talk(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def speak(state: Talk) -> Talk:
    model = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    return {"messages": [await model.ainvoke(state["messages"])]}


talking = StateGraph(Talk).add_node("speak", speak).add_edge(START, "speak").compile()


def pay(order: int) -> str:
    """Pay an order."""
    with Path(os.environ[EFFECTS]).open("a", encoding="utf-8") as effects:
        effects.write(f"{order}\n")
    return f"Order {order} is paid."


def was_paid(order: int) -> str | None:
    """Nothing can tell."""
    return None


def decide(state: Talk) -> Talk:
    made = sum(message.type == "tool" for message in state["messages"])
    if made == 5:
        return {"messages": [AIMessage("All are paid.", id="end")]}
    call = {"name": "pay", "args": {"order": made}, "id": f"call-{made}"}
    return {"messages": [AIMessage("", id=f"decided-{made}", tool_calls=[call])]}


def needs_tools(state: Talk) -> str:
    return "tools" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]


paying = StateGraph(Talk)
paying.add_node("decide", decide)
paying.add_node("tools", ToolNode([pay]))
paying.add_edge(START, "decide")
paying.add_conditional_edges("decide", needs_tools, ["tools", END])
paying.add_edge("tools", "decide")


class Note(TypedDict, total=False):
    text: str
    known: list[str]


async def remember(state: Note) -> Note:
    store = get_store()
    await store.aput(("notes", "own"), state["text"], {"text": state["text"]})
    return {"known": sorted(item.key for item in await store.asearch(("notes",)))}


noting = StateGraph(Note).add_node("remember", remember).add_edge(START, "remember").compile()


@asynccontextmanager
async def make(config: Any, runtime: Any) -> AsyncIterator[Any]:
    """A graph that says what its factory was given."""
    access, who = runtime.access_context, config["configurable"].get("who", "")
    if who == "nobody":
        raise LookupError("nobody is no user")

    def tell(state: Steps) -> Steps:
        return {"text": f"{access} {who}"}

    yield StateGraph(Steps).add_node("tell", tell).add_edge(START, "tell").compile()


GRAPHS = {
    name: f"tests.server.langgraph_graphs:{name}"
    for name in ("asking", "slow", "failing", "talking", "paying", "noting", "make")
}
