"""Modes of one's own: from Python and from the agents file."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

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
