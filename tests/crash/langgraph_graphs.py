"""Graphs that are killed while clients read their runs: tools, a subgraph, a model that streams, and a question."""

import json
import operator
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from typing_extensions import TypedDict

import segue
from segue.testing.chaos.traps import append_line

EFFECTS = "SEGUE_TEST_EFFECTS"
"""The file where tools leave a line for each time that they ran."""
SECONDS = 0.02
"""How long a tool takes before its effect, and after it."""
BATCHES = ([("pay", "a")], [("pay", "b"), ("post", "c")], [("pay", "d")])
"""The calls of each of the model's messages."""


def _pass(point: str) -> None:
    """Nothing happens at a point."""


reach: Callable[[str], None] = _pass
"""What is called around each effect, with its point: the child replaces it."""


class State(TypedDict, total=False):
    order: str
    messages: Annotated[list[AnyMessage], add_messages]
    said: Annotated[list[str], operator.add]


def effects() -> list[str]:
    """The labels of all effects so far, in order."""
    file = Path(os.environ[EFFECTS])
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line)["label"] for line in lines]


def _effect(label: str) -> str:
    time.sleep(SECONDS)
    reach(f"tool:{label}:before")
    append_line(Path(os.environ[EFFECTS]), {"label": label})
    reach(f"tool:{label}:after")
    time.sleep(SECONDS)
    return f"{label} is done."


def pay(label: str) -> str:
    """Pay an order."""
    return _effect(label)


def was_done(label: str) -> Any:
    """Whether an order was paid."""
    return f"{label} is done." if label in effects() else segue.NOT_DONE


def post(label: str) -> str:
    """Post a letter."""
    return _effect(label)


def decide(state: State) -> State:
    made = sum(isinstance(message, AIMessage) for message in state["messages"])
    get_stream_writer()({"name": "progress", "made": made})
    if made == len(BATCHES):
        return {"messages": [AIMessage("All is paid.", id="paid")]}
    calls = [
        {"name": name, "args": {"label": f"{state['order']}-{label}"}, "id": f"call-{label}"}
        for name, label in BATCHES[made]
    ]
    return {"messages": [AIMessage("", id=f"decided-{made}", tool_calls=calls)]}


def needs_tools(state: State) -> str:
    return "tools" if state["messages"][-1].tool_calls else "report"  # type: ignore[union-attr]


async def speak(state: State) -> State:
    model = GenericFakeChatModel(messages=iter([AIMessage("It went very well indeed.", id="spoken")]))
    return {"messages": [await model.ainvoke(state["messages"])]}


def ask(state: State) -> State:
    return {"said": [str(interrupt({"question": "Is that all?"}))]}


def made_of(*tools: Any) -> Any:
    report = StateGraph(State).add_node("speak", speak).add_edge(START, "speak").compile()
    graph = StateGraph(State)
    graph.add_node("decide", decide)
    graph.add_node("tools", ToolNode([*tools]))
    graph.add_node("report", report)
    graph.add_node("ask", ask)
    graph.add_edge(START, "decide")
    graph.add_conditional_edges("decide", needs_tools, ["tools", "report"])
    graph.add_edge("tools", "decide")
    graph.add_edge("report", "ask")
    graph.add_edge("ask", END)
    return graph.compile()


checked = made_of(segue.tool(check=was_done)(pay), segue.tool(check=was_done)(post))
"""Its tools can tell what became of a call, so that it ends as if nothing had happened."""
unchecked = made_of(pay, post)
"""Where a call was interrupted, its outcome is unknown."""
