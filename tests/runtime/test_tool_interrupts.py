"""Tools that ask a person with LangGraph's `interrupt`, in the app and in a bare graph."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import segue
from segue import Agent
from segue.app import App
from segue.tools.calls import SCRATCHPAD, SEND
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


def consulting(mode: str, inner: Agent, graph: str) -> Agent:
    """The agent `a`, whose tool runs a graph of Segue with the agent `inner`."""
    nested = segue.graph(graph, agents=[inner])

    @segue.tool
    async def consult(what: str) -> str:
        """Ask another agent."""
        return str((await nested.ainvoke({"messages": [("user", what)]}))["messages"][-1].text)

    call = ("consult", {"what": "x"})
    return agent_that(mode, call, plans=[[call]] * 2, tools=[consult])


@pytest.mark.parametrize("mode", CALLING)
async def test_what_a_graph_inside_a_tool_uses_counts_to_its_task(mode: str, database: Path) -> None:
    inner = Agent(agent_id="inner", model=ScriptedChatModel([AIMessage("well")]))
    async with segue.open(database, agents=[consulting(mode, inner, "direct")]) as app:
        task = await app.ask("go", agent="a", session_id="s")
        called = [event for event in await app.tasks.events(task.task_id) if event.type == "model_called"]
        assert task.usage["calls"] == (await app.tasks.usage(session_id="s")).calls == len(called)
        assert [call["outcome"]["success"] for call in await calls_of(app, task.task_id)] == ["well"]


@pytest.mark.parametrize("mode", CALLING)
async def test_a_stop_lets_a_tool_with_a_graph_inside_finish_and_its_effects_happen_once(
    mode: str, database: Path
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    charged: list[int] = []

    class Held(ScriptedChatModel):
        async def _astream(self, *args: Any, **options: Any) -> AsyncIterator[ChatGenerationChunk]:
            begun.set()
            await goes_on.wait()
            async for piece in super()._astream(*args, **options):
                yield piece

    letter = segue.graph("direct", agents=[Agent(agent_id="writer", model=Held(["dear", "dear"]))])

    @segue.tool
    async def pay(amount: int) -> str:
        """Pay, then write a letter."""
        charged.append(amount)
        return str((await letter.ainvoke({"messages": [("user", "write")]}))["messages"][-1].text)

    async with segue.open(database, agents=[agent_that(mode, ("pay", {"amount": 3}), tools=[pay])]) as app:
        task = await app.start("go", agent="a", session_id="s")
        await begun.wait()
        await app._control.pause(task.task_id, "stop")
        goes_on.set()
        async for _ in app.follow(task.task_id):
            pass
        result = await app.resume(task.task_id)
        (call,) = await calls_of(app, task.task_id)
    assert (charged, call["outcome"], result["success"]) == ([3], {"success": "dear"}, True)


@pytest.mark.parametrize("requested", ["pause", "stop"])
async def test_a_pause_lets_a_graph_of_several_steps_inside_a_tool_finish(requested: Any, database: Path) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def first(state: MessagesState) -> dict[str, list[AIMessage]]:
        begun.set()
        await goes_on.wait()
        done.append("first")
        return {"messages": [AIMessage("first")]}

    async def second(state: MessagesState) -> dict[str, list[AIMessage]]:
        done.append("second")
        return {"messages": [AIMessage("second")]}

    steps = StateGraph(MessagesState).add_node(first).add_node(second)
    steps.add_edge(START, "first").add_edge("first", "second").add_edge("second", END)
    inside = steps.compile()

    @segue.tool
    async def work() -> str:
        """Work in two steps."""
        return str((await inside.ainvoke({"messages": []}))["messages"][-1].text)

    async with segue.open(database, agents=[agent_that("react", ("work", {}), tools=[work])]) as app:
        task = await app.start("go", agent="a", session_id="s")
        await begun.wait()
        await app._control.pause(task.task_id, requested)
        goes_on.set()
        async for _ in app.follow(task.task_id):
            pass
        assert (await app.task(task.task_id)).status == "paused"
        await app.resume(task.task_id)
        (call,) = await calls_of(app, task.task_id)
    assert (done, call["outcome"]) == (["first", "second"], {"success": "second"})


@pytest.mark.parametrize("mode", CALLING)
async def test_a_graph_inside_a_tool_cannot_ask_for_approval(mode: str, database: Path) -> None:
    """It would start anew with the answer, and might make other calls then."""
    paid: list[int] = []

    @segue.tool(needs_approval=True)
    def pay(n: int) -> str:
        """Pay."""
        paid.append(n)
        return "paid"

    model = ScriptedChatModel(lambda messages: native_call(("p", "pay", {"n": 1})))
    inner = Agent(agent_id="inner", model=model, protocol="native", tools=[pay])
    async with segue.open(database, agents=[consulting(mode, inner, "react")]) as app:
        task = await app.ask("go", agent="a", session_id="s")
        calls = await calls_of(app, task.task_id)
    assert task.status != "waiting"
    assert calls[0]["outcome"]["error"].startswith("consult runs a graph that asks for approval of pay.")
    assert paid == []


def test_langgraph_keeps_the_answers_of_a_node_where_tools_are_given_theirs() -> None:
    moved = "LangGraph keeps answers to interrupts elsewhere: change `_with_answers` in tools/calls.py and its callers."
    places: dict[str, Any] = {}
    graph = StateGraph(MessagesState)
    graph.add_node("look", lambda state: places.update(get_config()["configurable"]))
    graph.add_edge(START, "look")
    graph.compile().invoke({"messages": []})
    assert {SCRATCHPAD, SEND} <= places.keys(), moved
    kept = {field.name for field in dataclasses.fields(places[SCRATCHPAD])}
    assert {"interrupt_counter", "get_null_resume", "resume"} <= kept, moved
