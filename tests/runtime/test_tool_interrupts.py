"""Tools that ask a person with LangGraph's `interrupt`, in the app and in a bare graph."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import segue
from segue.app import App
from tests.fakes import ScriptedChatModel
from tests.modes import CALLING, agent_that, native_call

ROOM = ("book", {"room": "A1"})
booked: list[str] = []
entered: list[str] = []


@pytest.fixture(autouse=True)
def none_booked() -> None:
    booked.clear()
    entered.clear()


@tool
def book(room: str) -> str:
    """Book a room."""
    entered.append(room)
    sure, hours = interrupt({"question": f"Really book {room}?", "room": room}), interrupt(f"For how long, {room}?")
    booked.append(f"{room}: {sure}, {hours}")
    return booked[-1]


@tool
async def tour(room: str) -> str:
    """Show a room."""
    return str((await below.ainvoke({"messages": [("user", room)]}))["messages"][-1].content)


def _guide(state: MessagesState) -> dict[str, list[AIMessage]]:
    (room,) = (message.text for message in state["messages"])
    first, second = interrupt(f"Enter {room}?"), interrupt(f"Leave {room}?")
    return {"messages": [AIMessage(f"{first}, {second}")]}


_below = StateGraph(MessagesState)
_below.add_node("guide", _guide)
_below.add_edge(START, "guide")
_below.add_edge("guide", END)
below = _below.compile()


async def calls_of(app: App, task_id: str) -> list[dict[str, Any]]:
    return [call.json() for call in (await app.tasks.trace(task_id)).calls]


@pytest.mark.parametrize("mode", CALLING)
async def test_the_answers_of_a_person_return_from_the_tools_interrupts(mode: str, database: Path) -> None:
    agent = agent_that(mode, ROOM, tools=[book])
    async with segue.open(database, agents=[agent]) as app:
        asked = await app.ask("go", agent="a", session_id="s")
        assert asked.status == "waiting"
        assert (await app.question(asked.task_id))["question"] == "Really book A1?"
        assert await calls_of(app, asked.task_id) == []
    async with segue.open(database, agents=[agent]) as app:  # another process
        (waiting,) = await app.waiting()
        assert waiting.question == "Really book A1?"
        again = await app.answer(asked.task_id, "yes")
        assert again.status == "waiting"
    async with segue.open(database, agents=[agent]) as app:
        result = await app.answer(asked.task_id, "2 h")
        (call,) = await calls_of(app, asked.task_id)
        assert call["outcome"]["success"] == "A1: yes, 2 h"
        assert result.success
        assert booked == ["A1: yes, 2 h"]
        assert entered == ["A1"] * 3  # at first, and once after each answer


@pytest.mark.parametrize("mode", ["react", "native", "plan", "plan_react"])
def test_a_bare_graph_is_resumed_with_any_value(mode: str) -> None:
    agent = agent_that(mode, ROOM, tools=[book])
    graph = segue.graph("react" if mode == "native" else mode, agents=[agent], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    out = graph.invoke({"messages": [("user", "go")]}, config)
    assert out["__interrupt__"][0].value == {"question": "Really book A1?", "room": "A1"}
    out = graph.invoke(Command(resume={"sure": True}), config)
    assert out["__interrupt__"][0].value == "For how long, A1?"
    out = graph.invoke(Command(resume=[2]), config)
    assert (out["messages"][-1].text, booked) == ("done", ["A1: {'sure': True}, [2]"])
    assert entered == ["A1"] * 3


async def test_calls_at_once_each_get_their_own_answers(database: Path) -> None:
    finished: list[str] = []

    @segue.tool(read_only=True)
    async def look(room: str) -> str:
        """Look at a room."""
        if room == "C":
            finished.append(room)
            return "C is free"
        await asyncio.sleep(0)
        return f"{room}: {interrupt(f'See {room}?')}, {interrupt(f'All of {room}?')}"

    script = [native_call(*((room, "look", {"room": room}) for room in "ABC")), AIMessage("done")]
    agent = segue.Agent(agent_id="a", model=ScriptedChatModel(script), protocol="native", tools=[look])
    async with segue.open(database, agents=[agent]) as app:
        task = await app.ask("go", agent="a", mode="react", session_id="s")
        seen: list[str] = []
        while task.status == "waiting":
            seen.append((await app.question(task.task_id))["question"])
            task = await app.answer(task.task_id, seen[-1][-2])
        assert sorted(seen) == ["All of A?", "All of B?", "See A?", "See B?"]
        results = [call["outcome"]["success"] for call in await calls_of(app, task.task_id)]
        assert sorted(results) == ["A: A, A", "B: B, B", "C is free"]
        assert finished == ["C"]


async def test_a_tool_that_is_approved_asks_after_that_and_one_may_run_a_graph_that_asks(database: Path) -> None:
    paid: list[str] = []

    @segue.tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(f"{amount} {interrupt('From which account?')}")
        return paid[-1]

    agent = agent_that("react", ("pay", {"amount": 3}), ("tour", {"room": "A1"}), tools=[pay, tour])
    async with segue.open(database, agents=[agent]) as app:
        task = await app.ask("go", agent="a", session_id="s")
        for answer in ("approve", "mine", "in", "out"):
            task = await app.answer(task.task_id, answer)
        assert [call["outcome"]["success"] for call in await calls_of(app, task.task_id)] == ["3 mine", "in, out"]
        assert (task.success, paid) == (True, ["3 mine"])


async def test_a_call_that_was_stopped_after_its_answer_is_not_made_again(database: Path) -> None:
    runs: list[str] = []
    stop: list[Callable[[], None]] = []

    @tool
    async def send(text: str) -> str:
        """Send."""
        runs.append(interrupt("Send?"))
        stop[0]()
        waits: Awaitable[Any] = asyncio.Event().wait()
        await waits
        return "sent"

    agent = agent_that("react", ("send", {"text": "x"}), tools=[send])
    async with segue.open(database, agents=[agent]) as app:
        task = await app.ask("go", agent="a", session_id="s")
        stop.append(lambda: app.stop_now(task.task_id))
        stopped = await app.answer(task.task_id, "yes")
        assert stopped.status == "paused"
        await app.resume(task.task_id)
        (call,) = await calls_of(app, task.task_id)
        assert (runs, call["outcome"].get("unknown_outcome")) == (["yes"], True)


async def test_a_task_that_is_cancelled_while_its_tool_asks_has_made_no_call(app: App) -> None:
    app.register(agent_that("react", ROOM, tools=[book]))
    task = await app.ask("go", agent="a", session_id="s")
    await app.cancel(task.task_id)
    assert (await calls_of(app, task.task_id), booked) == ([], [])
