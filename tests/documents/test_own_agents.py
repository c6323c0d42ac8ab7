"""Graphs with agents of one's own, from asynchronous and from synchronous code, without an app."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command

import segue
from segue import Agent, RunContext
from segue.core.errors import UnknownMode, UnknownTool
from segue.graphs.react import build_react
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}
GO: Any = {"messages": [HumanMessage("go")]}


@segue.tool(needs_approval=True)
def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


def own(*script: Any, **fields: Any) -> Agent:
    return Agent(**{"agent_id": "own", "model": ScriptedChatModel(script), "tools": (send,), **fields})


SENT = plan_json("g", [{"action": "send", "params": {"text": "hi"}, "description": "send"}])
SCRIPTS = {
    "direct": ["fine"],
    "react": [call_tool(("send", {"text": "hi"})), answer("fine")],
    "plan": [SENT, "fine"],
    "plan_react": [SENT, call_tool(("send", {"text": "hi"})), answer("fine")],
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("nested", [False, True], ids=["mode", "chat"])
def test_a_graph_is_invoked_interrupted_and_resumed_by_synchronous_code(
    name: str, nested: bool, tmp_path: Path
) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "g.db")) as saver:
        graph = segue.graph("chat" if nested else name, agents=[own(*SCRIPTS[name], mode=name)], checkpointer=saver)
        out = graph.invoke(GO, CONFIG)
        if name != "direct":
            assert graph.get_state(CONFIG).interrupts[0].value["calls"][0]["name"] == "send"
            out = graph.invoke(Command(resume="approve"), CONFIG)
        assert out["result"]["answer"] == "fine"
        assert out["messages"][-1].text == "fine"


def test_a_synchronous_stream_has_tokens_and_updates_of_nested_graphs() -> None:
    graph = segue.graph(agents=[own(answer("fine"), mode="react")])
    parts = list(graph.stream(GO, stream_mode=["custom", "updates"], subgraphs=True))
    tokens = [data["data"]["content"] for _, mode, data in parts if mode == "custom" and data["type"] == "token"]
    assert "".join(tokens) == "fine"
    assert {"INIT", "CALL_LLM", "ANSWER"} <= {node for _, mode, data in parts if mode == "updates" for node in data}


def test_a_synchronous_run_drains_and_goes_on(tmp_path: Path) -> None:
    control = RunControl()

    @segue.tool(read_only=True)
    def look() -> str:
        """Look."""
        control.request_drain("pause")
        return "seen"

    agent = own(call_tool(("look", {})), answer("fine"), tools=(look,), mode="react")
    with SqliteSaver.from_conn_string(str(tmp_path / "g.db")) as saver:
        graph = segue.graph(agents=[agent], checkpointer=saver)
        with pytest.raises(GraphDrained):
            graph.invoke(GO, CONFIG, control=control)
        assert graph.invoke(None, CONFIG)["result"]["answer"] == "fine"


def test_a_graph_is_a_node_of_a_synchronous_graph() -> None:
    outer = StateGraph(MessagesState)
    outer.add_node("segue", segue.graph("react", agents=[own(answer("fine"))]))
    outer.add_edge(START, "segue")
    outer.add_edge("segue", END)
    assert outer.compile().invoke(GO)["messages"][-1].text == "fine"


@pytest.mark.parametrize("form", [dict, RunContext])
async def test_a_bare_graph_takes_an_agent_in_its_context(form: Any) -> None:
    graph = build_react().compile()
    out = await graph.ainvoke(GO, context=form(agent=own(answer("fine"))))
    assert out["result"]["answer"] == "fine"
    again = await graph.ainvoke(GO, context=form(agent=own(answer("of another"))))
    assert again["result"]["answer"] == "of another"


async def test_the_context_names_one_of_several_agents_and_the_form_lists_them() -> None:
    graph = segue.graph("react", agents=[own(answer("one")), own(answer("two"), agent_id="other")])
    assert (await graph.ainvoke(GO))["result"]["answer"] == "one"
    assert (await graph.ainvoke(GO, context={"agent": "other"}))["result"]["answer"] == "two"  # type: ignore[arg-type]
    assert graph.get_context_jsonschema()["properties"]["agent"]["enum"] == ["", "own", "other"]


def test_modes_of_ones_own_are_in_the_chat_graph() -> None:
    shout = StateGraph(MessagesState)
    shout.add_node("SHOUT", lambda state: {"messages": [("ai", state["messages"][-1].text.upper())]})
    shout.add_edge(START, "SHOUT")
    graph = segue.graph(agents=[own(mode="shout")], modes={"shout": shout})
    assert graph.invoke(GO)["result"]["answer"] == "GO"


def test_a_wrong_name_or_tool_is_refused_at_once() -> None:
    with pytest.raises(UnknownMode):
        segue.graph("nonsense")
    with pytest.raises(UnknownTool):
        segue.graph("react", agents=[own(tools=("nonsense",))])
