"""Modes of one's own that are made of graphs of Segue's."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

import segue
from segue.core.errors import BlockingCall, ConfigurationError, UnknownMode
from segue.graphs.chat import build_chat
from tests.fakes import ScriptedChatModel, answer, call_tool, choose, plan_json
from tests.graphs.conftest import Make

QUESTION = "Where is my order 18?"
FOUND = "It is on its way."
Messages = dict[str, list[AnyMessage]]


def script() -> ScriptedChatModel:
    """What a model says as direct, which drafts, and then as react, which checks."""
    return ScriptedChatModel(["It is here.", call_tool(("look_up", {"order_id": 18})), answer(FOUND)])


def clerk(model: ScriptedChatModel | None = None, **fields: Any) -> segue.Agent:
    def look_up(order_id: int) -> str:
        """Look an order up."""
        return f"Order {order_id} is on its way."

    tools = fields.pop("tools", [look_up])
    return segue.Agent(agent_id="a", model=model or script(), protocol="json", tools=tools, mode="both", **fields)


def to_check(draft: AnyMessage) -> HumanMessage:
    return HumanMessage(f"{QUESTION} Check: {draft.text}")


def combined(first: Any, second: Any, way: str = "node") -> Any:
    """A graph of both: as its nodes, or called in one."""

    def ask_for_check(state: MessagesState) -> Messages:
        return {"messages": [to_check(state["messages"][-1])]}

    async def awaited(state: MessagesState) -> Messages:
        drafted = await first.ainvoke({"messages": state["messages"]})
        checked = await second.ainvoke({"messages": [to_check(drafted["messages"][-1])]})
        return {"messages": checked["messages"][-1:]}

    def called(state: MessagesState) -> Messages:
        drafted = first.invoke({"messages": state["messages"]})
        checked = second.invoke({"messages": [to_check(drafted["messages"][-1])]})
        return {"messages": checked["messages"][-1:]}

    async def blocking(state: MessagesState) -> Messages:
        return called(state)

    if way != "node":
        nodes: Mapping[str, Callable[..., Any]] = {"awaited": awaited, "called": called, "blocking": blocking}
        return one_node(nodes[way])
    builder = StateGraph(MessagesState)
    builder.add_sequence([("draft", first), ("ask_for_check", ask_for_check), ("check", second)])
    builder.add_edge(START, "draft")
    return builder.compile()


def one_node(node: Callable[..., Any]) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


def modes(way: str = "node") -> dict[str, Any]:
    return {"both": combined(segue.graph("direct"), segue.graph("react"), way)}


# In the app.


@pytest.mark.parametrize("way", ["node", "awaited", "called"])
async def test_direct_drafts_and_react_checks_within_one_task(way: str) -> None:
    model = script()
    async with segue.open(":memory:", agents=[clerk(model)], modes=modes(way)) as app:
        events = [event async for event in app.chat(QUESTION, agent="a", session_id="s")]
        (task,) = await app.tasks.list()
        trace = await app.trace(task.task_id)
    kinds = [event.type for event in events]
    assert {event.task_id for event in events if event.task_id} == {task.task_id}
    assert [kinds.count(kind) for kind in ("task_started", "mode_selected", "answer", "task_complete")] == [1] * 4
    assert "".join(event.content for event in events if event.type == "token") == FOUND
    assert "It is here." in "".join(event.content for event in events if event.type == "thinking")
    assert kinds.count("tool_call") == kinds.count("tool_result") == 1
    assert "attempt_restarted" not in kinds
    assert [call.name for call in trace.calls] == ["look_up"]
    assert task.result and (task.result["success"], task.result["usage"]["calls"]) == (True, 3)
    assert "Check: It is here." in model.calls[1][0].text


@pytest.mark.parametrize("name", ["plan", "plan_react", "lifecycle", "controller", "chat"])
async def test_every_graph_may_be_there_twice_and_repeats_no_call_of_the_other(name: str) -> None:
    refunds = []

    @segue.tool(keywords=["refund"])
    def refund(order_id: int) -> str:
        """Refund an order."""
        refunds.append(order_id)
        return f"Order {order_id} is refunded."

    agent = segue.Agent(agent_id="a", model="offline", tools=[refund])
    builder = StateGraph(MessagesState)
    builder.add_node("first", segue.graph(name))
    builder.add_node("other", lambda _: {"messages": [HumanMessage("Please refund order 18")]})
    builder.add_node("second", segue.graph(name))
    builder.add_edge(START, "first")
    builder.add_edge("first", "other")
    builder.add_edge("other", "second")
    async with segue.open(":memory:", agents=[agent], modes={"both": builder}) as app:
        events = [e async for e in app.chat("Please refund order 17", agent="a", mode="both")]
        result = (await app.tasks.list())[0].result
    assert refunds == [17, 18]
    assert result and result["answer"].startswith("Order 18 is refunded.")
    assert "".join(event.content for event in events if event.type == "token") == result["answer"]


async def test_two_plans_of_a_flows_branches_repeat_no_call_of_the_other() -> None:
    refunds = []

    def refund(order_id: int) -> str:
        """Refund an order."""
        refunds.append(order_id)
        return "refunded"

    def planned(order_id: int) -> list[str]:
        step = {"action": "refund", "params": {"order_id": order_id}, "description": "refund", "phase": "execution"}
        return [choose("work", goal=f"refund {order_id}"), plan_json("refund", [step]), "refunded"]

    replies = [*planned(17), *planned(18)]
    model = ScriptedChatModel([*replies, choose("final_answer", answer="both")])
    agent = segue.Agent(agent_id="a", model=model, tools=[refund], protocol="json")
    executor = {"tools": [], "branches": {"work": {"graph": segue.graph("plan"), "description": "works"}}}
    flow = segue.FlowConfig(subflows_config={"Executor": executor})
    async with segue.open(":memory:", agents=[agent], modes={"flow": flow}) as app:
        result = await app.ask("1. refund 17\n2. refund 18", agent="a", mode="flow")
    assert (result.answer, refunds) == ("both", [17, 18])


async def test_an_agent_that_a_graph_was_given_carries_it_also_within_a_task() -> None:
    checker = ScriptedChatModel([answer("checked")])
    own = segue.Agent(agent_id="checker", model=checker, protocol="json", tools=[])
    drafter = ScriptedChatModel(["It is here."])
    mode = combined(segue.graph("direct"), segue.graph("react", agents=[own]))
    async with segue.open(":memory:", agents=[clerk(drafter)], modes={"both": mode}) as app:
        result = await app.ask(QUESTION, agent="a")
    assert (result.answer, len(drafter.calls), len(checker.calls)) == ("checked", 1, 1)


@pytest.mark.parametrize("way", ["awaited", "called"])
@pytest.mark.parametrize("mode", ["react", "both"])
async def test_the_apps_graph_works_within_a_mode_of_it_and_does_not_enter_that_again(way: str, mode: str) -> None:
    asked = segue.RunContext(mode="react") if mode == "react" else None

    async def awaited(state: MessagesState) -> Messages:
        out = await app.get_graph("a").ainvoke({"messages": state["messages"]}, context=asked)
        return {"messages": out["messages"][-1:]}

    def called(state: MessagesState) -> Messages:
        return {"messages": app.get_graph("a").invoke({"messages": state["messages"]}, context=asked)["messages"][-1:]}

    model = ScriptedChatModel([call_tool(("look_up", {"order_id": 18})), answer(FOUND)])
    node = awaited if way == "awaited" else called
    async with segue.open(":memory:", agents=[clerk(model)], modes={"both": one_node(node)}) as app:
        if mode == "both":
            with pytest.raises(ConfigurationError, match="The mode both would enter itself: choose another one"):
                await app.ask(QUESTION, agent="a")
            (task,) = await app.tasks.list()
            assert task.error and task.error.startswith("The mode both would enter itself")
            return
        result = await app.ask(QUESTION, agent="a")
        (task,) = await app.tasks.list()
        trace = await app.trace(task.task_id)
    assert (result.answer, result.mode, result.task_id) == (FOUND, "both", task.task_id)
    assert [call.name for call in trace.calls] == ["look_up"]
    assert [event.type for event in trace.events].count("task_complete") == 1


async def test_what_is_wrong_with_a_mode_is_said_in_the_language_of_the_message() -> None:
    async def node(state: MessagesState) -> Messages:
        return await app.get_graph("a").ainvoke({"messages": state["messages"]})  # type: ignore[return-value]

    async with segue.open(":memory:", agents=[clerk()], modes={"both": one_node(node)}) as app:
        with pytest.raises(ConfigurationError):
            await app.ask("我的订单在哪里？", agent="a")
        assert (await app.tasks.list())[0].error == (
            '模式 both 会再次进入自己：请为其中的图选择另一种模式，例如 context=segue.RunContext(mode="react")。'
        )


async def test_a_graph_of_anybody_is_called_by_a_synchronous_node_and_refused_on_the_event_loop() -> None:
    shout = one_node(lambda state: {"messages": [AIMessage(state["messages"][-1].text.upper())]})
    async with segue.open(":memory:", modes={"both": combined(shout, shout, "called")}) as app:
        assert (await app.ask("hello", mode="both")).answer == to_check(AIMessage("HELLO")).text.upper()
    for first in (shout, segue.graph("direct")):
        async with segue.open(":memory:", modes={"both": combined(first, first, "blocking")}) as app:
            with pytest.raises(BlockingCall, match="await `ainvoke`"):
                await app.ask("hello", mode="both")


@pytest.mark.parametrize("way", ["awaited", "called"])
@pytest.mark.parametrize("whose", ["graph", "app"])
async def test_a_graph_that_a_tool_runs_is_a_part_of_the_task(way: str, whose: str) -> None:
    def graph() -> Any:
        return app.get_graph("inner") if whose == "app" else segue.graph("react", agents=[inner])

    async def awaited(order_id: int) -> str:
        """Find out where an order is."""
        return str((await graph().ainvoke({"messages": [("user", QUESTION)]}))["messages"][-1].text)

    def called(order_id: int) -> str:
        """Find out where an order is."""
        return str(graph().invoke({"messages": [("user", QUESTION)]})["messages"][-1].text)

    found = ScriptedChatModel([call_tool(("look_up", {"order_id": 18})), answer("It left.")])
    inner = clerk(found).model_copy(update={"agent_id": "inner", "mode": "react"})
    tool = awaited if way == "awaited" else called
    model = ScriptedChatModel([call_tool((tool.__name__, {"order_id": 18})), answer(FOUND)])
    async with segue.open(":memory:", agents=[clerk(model, tools=[tool]), inner]) as app:
        events = [event async for event in app.chat(QUESTION, agent="a", mode="react")]
        trace = await app.trace(events[0].task_id)
    assert [(call.name, call.outcome) for call in trace.calls if call.name == tool.__name__] == [
        (tool.__name__, {"success": "It left."})
    ]
    assert {call.name for call in trace.calls} == {tool.__name__, "look_up"}
    assert {event.task_id for event in events if event.task_id} == {trace.task.task_id}
    assert "".join(event.content for event in events if event.type == "token") == FOUND
    assert [event.answer for event in events if event.type == "answer"] == [FOUND]


# Stopped and continued.


@pytest.mark.parametrize("way", ["node", "awaited", "called"])
async def test_an_approval_within_it_is_answered_by_another_process(way: str, tmp_path: Path) -> None:
    sent = []

    @segue.tool(needs_approval=True)
    def look_up(order_id: int) -> str:
        """Look an order up."""
        sent.append(order_id)
        return "on its way"

    drafting = ScriptedChatModel(["It is here.", call_tool(("look_up", {"order_id": 18}))])
    async with segue.open(tmp_path / "a.db", agents=[clerk(drafting, tools=[look_up])], modes=modes(way)) as app:
        task = await app.ask(QUESTION, agent="a", session_id="s")
        assert (await app.question(task.task_id))["calls"][0]["name"] == "look_up"
        assert sent == []
    checking = ScriptedChatModel([answer(FOUND)])
    async with segue.open(tmp_path / "a.db", agents=[clerk(checking, tools=[look_up])], modes=modes(way)) as app:
        result = await app.answer(task.task_id, "approve")
        assert (result.answer, sent, result.usage["calls"]) == (FOUND, [18], 3)
        assert [call.name for call in (await app.trace(task.task_id)).calls] == ["look_up"]


@pytest.mark.parametrize("way", ["node", "awaited", "called"])
async def test_a_pause_within_it_repeats_nothing(way: str) -> None:
    calls = []

    async def look_up(order_id: int) -> str:
        """Look an order up."""
        calls.append(order_id)
        (running,) = await app.tasks.list()
        await app.pause(running.task_id)
        return "on its way"

    model = script()
    async with segue.open(":memory:", agents=[clerk(model, tools=[look_up])], modes=modes(way)) as app:
        paused = await app.ask(QUESTION, agent="a")
        assert paused.status == "paused" and len(model.calls) == 2
        assert (await app.resume(paused.task_id)).answer == FOUND
    assert (calls, len(model.calls)) == ([18], 3)


@pytest.mark.parametrize("way", ["node", "awaited", "called"])
async def test_a_call_that_was_stopped_within_it_is_not_made_again(way: str, tmp_path: Path) -> None:
    began = asyncio.Event()

    async def look_up(order_id: int) -> str:
        """Look an order up."""
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    model = script()
    async with segue.open(tmp_path / "a.db", agents=[clerk(model, tools=[look_up])], modes=modes(way)) as app:
        task = await app.start(QUESTION, agent="a")
        await began.wait()
        app.stop_now(task.task_id)
        async for _ in app.follow(task.task_id):
            pass
    began.clear()
    async with segue.open(tmp_path / "a.db", agents=[clerk(model, tools=[look_up])], modes=modes(way)) as app:
        result = await app.resume(task.task_id)
        assert [call["name"] for call in result.unknown_outcomes] == ["look_up"]
    assert not began.is_set() and len(model.calls) == 3


async def test_a_session_with_it_is_forked_at_every_snapshot_and_exported() -> None:
    calls = []

    def look_up(order_id: int) -> str:
        """Look an order up."""
        calls.append(order_id)
        return "It left."

    def write(messages: Sequence[AnyMessage]) -> str:
        text = "".join(message.text for message in messages)
        if "Check:" not in text:
            return "It is here."
        return answer(FOUND) if "It left." in text else call_tool(("look_up", {"order_id": 18}))

    agent = clerk(ScriptedChatModel(write), tools=[look_up])
    async with segue.open(":memory:", agents=[agent], modes=modes()) as app:
        await app.ask(QUESTION, agent="a", session_id="s")
        await app.sessions.import_(await app.sessions.export("s"), session_id="copy")
        assert await app.history("copy") == await app.history("s")
        for entry in await app.rewind.timeline("s"):
            before = len(calls)
            made = await app.rewind.fork("s", entry.checkpoint_id, f"fork-{entry.checkpoint_id}")
            if made and made.status != "done":
                assert (await app.resume(made.task_id)).answer == FOUND
            assert len(calls) - before == entry.effects_since, entry


# Without the app.


@pytest.mark.parametrize("way", ["node", "awaited", "called"])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("synchronous", [False, True])
async def test_bare_it_runs_as_any_graph(way: str, chat: bool, synchronous: bool) -> None:
    own = [clerk()]
    mode = combined(segue.graph("direct", agents=own), segue.graph("react", agents=own), way)
    graph = segue.graph("chat", agents=own, modes={"both": mode}) if chat else mode
    given = {"messages": [("user", QUESTION)]}
    if synchronous and way != "awaited":
        out = await asyncio.to_thread(graph.invoke, given)
    else:
        out = await graph.ainvoke(given)
    assert out["messages"][-1].text == FOUND
    assert not chat or (out["result"]["mode"], out["result"]["usage"]["calls"]) == ("both", 3)


@pytest.mark.parametrize("way", ["node", "called"])
def test_bare_it_waits_for_an_approval(way: str) -> None:
    @segue.tool(needs_approval=True)
    def look_up(order_id: int) -> str:
        """Look an order up."""
        return "on its way"

    own = [clerk(tools=[look_up])]
    mode = combined(segue.graph("direct", agents=own), segue.graph("react", agents=own), way)
    graph = segue.graph("chat", agents=own, modes={"both": mode}, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    out = graph.invoke({"messages": [("user", QUESTION)]}, thread)
    assert out["__interrupt__"][0].value["calls"][0]["name"] == "look_up"
    assert graph.invoke(Command(resume="approve"), thread)["messages"][-1].text == FOUND


# Modes over one thread, and what happens when one gives up.


@pytest.mark.parametrize("saver", ["memory", "sqlite"], indirect=True)
async def test_an_unknown_mode_lists_the_modes(bed: Make) -> None:
    with pytest.raises(UnknownMode, match="direct, react, plan, plan_react, lifecycle, controller, auto"):
        await bed(build_chat, []).send("go", mode="fast")


@pytest.mark.parametrize("saver", ["memory", "sqlite"], indirect=True)
async def test_what_a_plan_did_before_it_gave_up_is_known_to_react_and_counted(bed: Make) -> None:
    first = plan_json(
        "g", [{"action": "note", "params": {"text": "paid"}}, {"action": "fail", "params": {"reason": "x"}}]
    )
    test = bed(build_chat, [first, "x", "y", "z", answer("paid once")])
    out = await test.send("plan it")
    assert (out["result"]["mode"], out["result"]["usage"]["calls"]) == ("react", 5)
    assert [m.type for m in out["messages"]] == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert "noted paid" in str(test.model.calls[-1][2].content)
