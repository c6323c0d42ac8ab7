"""Modes of one's own: from Python and from the agents file."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

import segue
from segue.core.agents import load_agents, load_modes
from segue.core.errors import ConfigurationError


async def shout(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [AIMessage(state["messages"][-1].text.upper())]}


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
