"""Graphs that Segue did not write: `segue.Ledger` and `segue.with_ledger` repeat no call of their tools."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, Send, interrupt

import segue
from segue.core.errors import ConfigurationError, DatabaseUnavailable, LedgerClosed, MissingExtra
from segue.runtime import graph_calls
from tests.cases import cases
from tests.polling import wait_until

ANN: Any = {"configurable": {"thread_id": "ann"}}
ROOT = Path(__file__).parents[2]
PAY = ("pay", {"order": 7})


class Killed(BaseException):
    """As if the process ended: nothing handles it."""


class Script(BaseChatModel):
    """Makes the calls of one batch after the other, by the batches that have results, then answers with the results."""

    batches: list[list[tuple[str, dict[str, Any]]]]

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        turn = max(place for place, each in enumerate(messages) if isinstance(each, HumanMessage))
        made = sum(isinstance(message, AIMessage) for message in messages[turn:])
        reply = AIMessage(" | ".join(m.text for m in messages if isinstance(m, ToolMessage)))
        if made < len(self.batches):
            calls = [tool_call(name=n, args=a, id=f"call_{i}") for i, (n, a) in enumerate(self.batches[made])]
            reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def tool_graph(script: Script, tools: Sequence[Any], saver: Any = None, **options: Any) -> Any:
    """A loop of a model and a ToolNode, written by hand."""
    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [script.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, **options))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def nested_graph(script: Script, tools: Sequence[Any], saver: Any = None) -> Any:
    """The same as a subgraph."""
    graph = StateGraph(State)
    graph.add_node("inner", tool_graph(script, tools))
    graph.add_edge(START, "inner")
    return graph.compile(checkpointer=saver)


Build = Callable[..., Any]


def agent(ledger: Any, script: Script, tools: Sequence[Any], saver: Any = None) -> Any:
    return create_agent(script, tools, middleware=[ledger], checkpointer=saver)


def tool_node(ledger: Any, script: Script, tools: Sequence[Any], saver: Any = None) -> Any:
    return segue.with_ledger(tool_graph(script, tools, saver), ledger)


def subgraph(ledger: Any, script: Script, tools: Sequence[Any], saver: Any = None) -> Any:
    return segue.with_ledger(nested_graph(script, tools, saver), ledger)


@pytest.fixture(params=[agent, tool_node, subgraph], ids=lambda build: build.__name__)
def build(request: pytest.FixtureRequest) -> Build:
    built: Build = request.param
    return built


SYNC: Any = {"durability": "sync"}


async def invoked(graph: Any, given: Any, config: Any = ANN) -> Any:
    return await graph.ainvoke(given, config, **SYNC if graph.checkpointer else {})


async def invoked_synchronously(graph: Any, given: Any, config: Any = ANN) -> Any:
    return await asyncio.to_thread(graph.invoke, given, config, **SYNC if graph.checkpointer else {})


@pytest.fixture(params=[invoked, invoked_synchronously], ids=["async", "sync"])
def invoke(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "effects.db")


@pytest.fixture
def open_ledger(database: str) -> Iterator[Callable[..., segue.Ledger]]:
    opened: list[segue.Ledger] = []

    def open_one(**options: Any) -> segue.Ledger:
        opened.append(segue.Ledger(database, **options))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


class Bank:
    """What happened outside; the first payments die after it."""

    def __init__(self, deaths: int = 0) -> None:
        self.paid: list[int] = []
        self.keys: list[str] = []
        self.deaths = deaths

    def tools(self) -> list[Any]:
        def pay(order: int) -> str:
            """Pay an order."""
            self.paid.append(order)
            if len(self.paid) <= self.deaths:
                raise Killed
            return f"Order {order} is paid."

        return [pay]


def asking(text: str = "Pay order 7") -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


async def killed(invoke: Any, graph: Any, given: Any) -> None:
    """Run until the process would end."""
    with pytest.raises(Killed):
        await invoke(graph, given)


async def test_interrupted_call_is_reported_and_not_repeated(build: Build, invoke: Any, open_ledger: Any) -> None:
    bank, saver, script = Bank(deaths=1), InMemorySaver(), Script(batches=[[PAY]])
    graph = build(open_ledger(), script, bank.tools(), saver)
    await killed(invoke, graph, asking())
    state = await invoke(graph, None)
    (result,) = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    assert bank.paid == [7]
    assert result.status == "error" and "may or may not have taken effect" in result.text
    assert "may or may not have taken effect" in state["messages"][-1].text


def was_paid(order: int) -> object:
    return f"Order {order} was paid." if order == 7 else segue.NOT_DONE


def cannot_tell(order: int) -> object:
    raise ConnectionError


@cases(
    "options, order, paid, answer",
    [
        ({"check": {"pay": was_paid}}, 7, [7], "Order 7 was paid."),
        ({"check": {"pay": was_paid}}, 8, [8, 8], "Order 8 is paid."),
        ({"check": {"pay": cannot_tell}}, 7, [7], "unknown_outcome"),
        ({"idempotent": ["pay"]}, 7, [7, 7], "Order 7 is paid."),
        ({"language": "zh"}, 7, [7], "是否已经生效并不清楚"),
    ],
)
async def test_interrupted_call_is_decided(
    options: dict[str, Any], order: int, paid: list[int], answer: str, build: Build, invoke: Any, open_ledger: Any
) -> None:
    bank, script = Bank(deaths=1), Script(batches=[[("pay", {"order": order})]])
    graph = build(open_ledger(**options), script, bank.tools(), InMemorySaver())
    await killed(invoke, graph, asking())
    state = await invoke(graph, None)
    assert bank.paid == paid
    assert answer in state["messages"][-1].text


async def test_marks_of_a_tool_decide(build: Build, invoke: Any, open_ledger: Any) -> None:
    """A function that is marked, also through LangChain's own tool, gets its context."""
    contexts: list[segue.CallContext] = []

    async def was_noted(call: segue.CallContext) -> object:
        contexts.append(call)
        return segue.NOT_DONE

    @segue.tool(check=was_noted)
    def pay(order: int, call: segue.CallContext) -> str:
        """Pay an order."""
        contexts.append(call)
        if len(contexts) == 1:
            raise Killed
        return call.idempotency_key

    graph = build(open_ledger(), Script(batches=[[PAY]]), [pay], InMemorySaver())
    await killed(invoke, graph, asking())
    state = await invoke(graph, None)
    first, checked, again = contexts
    assert first.idempotency_key == checked.idempotency_key == again.idempotency_key == state["messages"][-1].text
    assert [each.attempt for each in contexts] == [1, 2, 2]
    assert first.session_id == "ann"


async def test_finished_calls_of_a_batch_are_not_repeated(build: Build, invoke: Any, open_ledger: Any) -> None:
    """Two calls are done when the process of the third one ends; one of them gave a Command."""
    ran: list[str] = []

    def look(order: int) -> str:
        """Look."""
        ran.append("look")
        return "Packed."

    def send(order: int) -> Command[Any]:
        """Send."""
        ran.append("send")
        return Command(update={"messages": [ToolMessage("Sent.", tool_call_id="call_1", name="send")]})

    @segue.tool(idempotent=True)
    def pay(order: int) -> str:
        """Pay."""
        ran.append("pay")
        if ran.count("pay") == 1:
            wait_until(lambda: {*ran} == {"look", "send", "pay"})
            time.sleep(0.2)  # they are also stored; if not, they are unknown, and the test fails
            raise Killed
        return "Late."

    script = Script(batches=[[(name, {"order": 1}) for name in ("look", "send", "pay")]])
    graph = build(open_ledger(), script, [look, send, pay], InMemorySaver())
    await killed(invoke, graph, asking())
    state = await invoke(graph, None)
    assert sorted(ran) == ["look", "pay", "pay", "send"]
    assert sorted(state["messages"][-1].text.split(" | ")) == ["Late.", "Packed.", "Sent."]


async def test_replay_repeats_nothing_and_a_fork_that_decides_anew_calls_anew(
    build: Build, invoke: Any, open_ledger: Any
) -> None:
    bank, saver = Bank(), InMemorySaver()
    graph = build(open_ledger(), Script(batches=[[PAY]]), bank.tools(), saver)
    await invoke(graph, asking())
    assert bank.paid == [7]
    if build is subgraph:  # its steps are inside of one step of the parent
        return
    before_tools, before_model = [
        next(each.config for each in graph.get_state_history(ANN) if each.next == (node,))
        for node in ("tools", "model")
    ]
    await invoke(graph, None, before_tools)
    forked = graph.update_state(before_tools, {"messages": []})
    await invoke(graph, None, forked)
    assert bank.paid == [7], "the same call"
    first = [each for each in graph.get_state_history(ANN) if each.next == ("model",)][-1]
    await invoke(graph, None, first.config)
    assert bank.paid == [7, 7], "the model decided again"
    assert before_model


async def test_error_is_no_effect_and_an_unknown_outcome_is_one(build: Build, invoke: Any, open_ledger: Any) -> None:
    """A call that raised is made again where LangGraph does so; one that says that it may have had an effect is not."""
    errors: list[Exception] = [ConnectionError("no route"), segue.UnknownOutcome("the bank hung up")]
    ran: list[int] = []

    def pay(order: int) -> str:
        """Pay."""
        ran.append(order)
        raise errors[len(ran) - 1]

    graph = build(open_ledger(), Script(batches=[[PAY]]), [pay], InMemorySaver())
    with pytest.raises(ConnectionError):
        await invoke(graph, asking())
    state = await invoke(graph, None)
    assert ran == [7, 7]
    assert "pay: the bank hung up" in state["messages"][-1].text


async def test_tool_that_asks_a_person_runs_with_the_answer(build: Build, invoke: Any, open_ledger: Any) -> None:
    bank = Bank()

    def refund(order: int) -> str:
        """Refund."""
        answer = interrupt(f"Refund {order}?")
        bank.paid.append(order)
        return f"{answer}: {order}"

    graph = build(open_ledger(), Script(batches=[[("refund", {"order": 7})]]), [refund], InMemorySaver())
    state = await invoke(graph, asking())
    assert state["__interrupt__"][0].value == "Refund 7?"
    state = await invoke(graph, Command(resume="yes"))
    assert (bank.paid, state["messages"][-1].text) == ([7], "yes: 7")


async def test_call_that_is_made_again_by_its_graph_runs_again(invoke: Any, open_ledger: Any) -> None:
    """A loop that goes back to its tools without the model: the first result is in the state."""
    bank = Bank()
    graph = StateGraph(State)
    message = AIMessage("", id="fixed", tool_calls=[tool_call(name="pay", args={"order": 7}, id="call_0")])
    graph.add_node("model", lambda state: {"messages": [message]})
    graph.add_node("tools", ToolNode(bank.tools()))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_conditional_edges("tools", lambda state: "tools" if len(state["messages"]) < 5 else END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    await invoke(segue.with_ledger(compiled, open_ledger()), asking())
    assert bank.paid == [7, 7, 7]


async def test_doubtful_call_waits_for_a_new_message(build: Build, invoke: Any, open_ledger: Any) -> None:
    """The model makes the call again whose outcome it was told to be unknown; so does the user, later."""
    bank = Bank(deaths=1)
    graph = build(open_ledger(), Script(batches=[[PAY], [PAY]]), bank.tools(), InMemorySaver())
    await killed(invoke, graph, asking())
    state = await invoke(graph, None)
    assert bank.paid == [7]
    assert "an earlier call of pay with the same arguments" in state["messages"][-1].text
    await invoke(graph, asking("Do it again"))
    assert bank.paid == [7, 7, 7]


async def test_it_works_without_a_checkpointer(build: Build, invoke: Any, open_ledger: Any) -> None:
    bank = Bank()
    graph = build(open_ledger(), Script(batches=[[PAY, PAY], [PAY]]), bank.tools())
    for _ in range(2):
        state = await invoke(graph, asking(), {})
        assert state["messages"][-1].text == " | ".join(["Order 7 is paid."] * 3)
    assert bank.paid == [7] * 6


async def test_result_that_cannot_be_stored_is_the_graphs_all_the_same(invoke: Any, open_ledger: Any) -> None:
    ran: list[int] = []

    def pay(order: int) -> Any:
        """Pay."""
        ran.append(order)
        return ToolMessage("Paid.", tool_call_id="call_0", artifact=threading.Lock())

    state = await invoke(agent(open_ledger(), Script(batches=[[PAY]]), [pay]), asking(), {})
    assert (ran, state["messages"][-1].text) == ([7], "Paid.")


async def test_state_is_injected_and_a_bad_argument_is_reported(build: Build, invoke: Any, open_ledger: Any) -> None:
    def count(order: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Count."""
        return f"{len(state['messages'])} messages"

    script = Script(batches=[[("count", {"order": 1}), ("count", {"order": "no"}), ("missing", {})]])
    state = await invoke(build(open_ledger(), script, [count], InMemorySaver()), asking())
    good, bad, missing = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    assert (good.text, bad.status, missing.status) == ("2 messages", "error", "error")


async def test_cancelled_call_is_interrupted(open_ledger: Any) -> None:
    began, ran = asyncio.Event(), []

    async def pay(order: int) -> str:
        """Pay."""
        ran.append(order)
        began.set()
        await asyncio.Event().wait()
        return ""

    graph = agent(open_ledger(), Script(batches=[[PAY]]), [pay], InMemorySaver())
    running = asyncio.create_task(graph.ainvoke(asking(), ANN, durability="sync"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    state = await graph.ainvoke(None, ANN)
    assert ran == [7]
    assert "may or may not have taken effect" in state["messages"][-1].text


async def test_claim_of_a_cancelled_call_is_withdrawn_before_another_may_run(
    open_ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, happened = threading.Event(), threading.Event(), []
    claim, withdraw = graph_calls.ToolLedger.claim, graph_calls.ToolLedger.withdraw
    release = graph_calls.LeaseHolder.release

    async def slow_claim(*given: Any, **options: Any) -> Any:
        began.set()
        await asyncio.to_thread(go_on.wait)
        return await claim(*given, **options)

    async def noted_withdraw(*given: Any) -> None:
        await withdraw(*given)
        happened.append("withdrawn")

    async def noted_release(*given: Any) -> None:
        happened.append("released")
        await release(*given)

    monkeypatch.setattr(graph_calls.ToolLedger, "claim", slow_claim)
    monkeypatch.setattr(graph_calls.ToolLedger, "withdraw", noted_withdraw)
    monkeypatch.setattr(graph_calls.LeaseHolder, "release", noted_release)
    bank = Bank()
    graph = agent(open_ledger(), Script(batches=[[PAY]]), bank.tools(), InMemorySaver())
    running = asyncio.create_task(graph.ainvoke(asking(), ANN, durability="sync"))
    await asyncio.to_thread(began.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()
    wait_until(lambda: len(happened) == 2)
    assert happened == ["withdrawn", "released"]
    assert (await graph.ainvoke(None, ANN))["messages"][-1].text == "Order 7 is paid."
    assert bank.paid == [7]


async def test_it_stands_beside_other_middleware(invoke: Any, open_ledger: Any) -> None:
    """A person approves the call; it is tried again after an error; both ledgers around it are one."""
    ran: list[int] = []

    def pay(order: int) -> str:
        """Pay."""
        ran.append(order)
        if len(ran) == 1:
            raise ConnectionError
        return "Paid."

    ledger = open_ledger()
    middleware: list[AgentMiddleware[Any, Any, Any]] = [
        HumanInTheLoopMiddleware(interrupt_on={"pay": True}),
        ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
        ledger,
    ]
    made = create_agent(Script(batches=[[PAY]]), [pay], middleware=middleware, checkpointer=InMemorySaver())
    graph = segue.with_ledger(made, ledger)
    state = await invoke(graph, asking())
    assert ran == [] and state["__interrupt__"]
    state = await invoke(graph, Command(resume={"decisions": [{"type": "approve"}]}))
    assert (ran, state["messages"][-1].text) == ([7, 7], "Paid.")


async def test_agent_inside_a_tool_keeps_its_own_calls(invoke: Any, open_ledger: Any) -> None:
    """An agent that is a tool runs again, its finished calls do not; both share a thread and a database."""
    bank, deaths = Bank(), [1]

    def finish(order: int) -> str:
        """Finish."""
        if deaths.pop() if deaths else 0:
            raise Killed
        return "Done."

    inner = create_agent(
        Script(batches=[[PAY], [("finish", {"order": 7})]]),
        [*bank.tools(), finish],
        middleware=[open_ledger(idempotent=["finish"])],
    )

    @segue.tool(idempotent=True)
    def clerk(task: str) -> str:
        """Ask the clerk."""
        return str(inner.invoke(asking(task))["messages"][-1].text)

    script = Script(batches=[[("clerk", {"task": "Pay order 7"})]])
    graph = create_agent(script, [clerk], middleware=[open_ledger()], checkpointer=InMemorySaver())
    await killed(invoke, graph, asking())
    state = await invoke(graph, None)
    assert bank.paid == [7]
    assert state["messages"][-1].text == "Order 7 is paid. | Done."


async def test_given_graph_stays_as_it_is(open_ledger: Any) -> None:
    bank, script = Bank(deaths=1), Script(batches=[[PAY]])
    given = nested_graph(script, bank.tools(), InMemorySaver())
    drawn = segue.with_ledger(given, open_ledger()).get_graph(xray=True).draw_mermaid()
    assert drawn == given.get_graph(xray=True).draw_mermaid()
    await killed(invoked, given, asking())
    await invoked(given, None)
    assert bank.paid == [7, 7], "without a ledger it is repeated"


async def test_own_wrapper_of_a_tool_node_comes_first(invoke: Any, open_ledger: Any) -> None:
    bank = Bank()

    def double(request: Any, execute: Any) -> Any:
        order = request.tool_call["args"]["order"] * 2
        return execute(request.override(tool_call={**request.tool_call, "args": {"order": order}}))

    async def double_later(request: Any, execute: Any) -> Any:
        order = request.tool_call["args"]["order"] * 2
        return await execute(request.override(tool_call={**request.tool_call, "args": {"order": order}}))

    for wrappers in ({"wrap_tool_call": double}, {"wrap_tool_call": double, "awrap_tool_call": double_later}):
        graph = tool_graph(Script(batches=[[PAY]]), bank.tools(), None, **wrappers)
        await invoke(segue.with_ledger(graph, open_ledger()), asking(), {})
    assert bank.paid == [14, 14]


async def test_each_call_of_a_tool_node_gets_its_own_answer(invoke: Any, open_ledger: Any) -> None:
    """Both ask at once; the finished one is not run again and asks no more."""
    answers: list[tuple[int, str]] = []

    def pay(order: int) -> str:
        """Pay."""
        answers.append((order, interrupt(order)))
        return "Asked."

    script = Script(batches=[[("pay", {"order": order}) for order in (1, 2, 3)]])
    graph = tool_node(open_ledger(), script, [pay], InMemorySaver())
    state = await invoke(graph, asking())
    while "__interrupt__" in state:
        (question,) = state["__interrupt__"]
        state = await invoke(graph, Command(resume={question.id: f"answer {question.value}"}))
    assert sorted(answers) == [(1, "answer 1"), (2, "answer 2"), (3, "answer 3")]
    answers.clear()
    state = await invoke(graph, asking())
    while "__interrupt__" in state:
        (question,) = state["__interrupt__"]
        state = await invoke(graph, Command(resume=f"answer {question.value}"))
    assert sorted(answers) == [(1, "answer 1"), (2, "answer 2"), (3, "answer 3")]


async def test_call_of_a_cancelled_run_ends_with_its_thread(build: Build, open_ledger: Any) -> None:
    began, go_on, ran = threading.Event(), threading.Event(), []

    def pay(order: int) -> str:
        """Pay."""
        began.set()
        go_on.wait()
        ran.append(order)
        return "Paid."

    ledger = open_ledger(check={"pay": lambda: "Was paid." if ran else segue.NOT_DONE})
    graph = build(ledger, Script(batches=[[PAY]]), [pay], InMemorySaver())
    running = asyncio.create_task(graph.ainvoke(asking(), ANN, durability="sync"))
    await asyncio.to_thread(began.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    resumed = asyncio.create_task(graph.ainvoke(None, ANN))
    await asyncio.sleep(0)
    go_on.set()
    assert (await resumed)["messages"][-1].text == "Paid."
    assert ran == [7]


async def test_handled_errors_hide_no_unknown_outcome(invoke: Any, database: str, open_ledger: Any) -> None:
    """A ToolNode that handles errors still reports an unknown outcome, also of a result that came too late."""
    ran: list[int] = []

    def pay(order: int) -> str:
        """Pay."""
        ran.append(order)
        if order == 8:
            with sqlite3.connect(database) as connection:
                connection.execute("UPDATE leases SET fence = fence + 1")
            return "Paid."
        raise segue.UnknownOutcome("the bank hung up")

    for batches, why in (
        ([[PAY], [PAY]], "the bank hung up"),
        ([[("pay", {"order": 8})]], "Another process took over"),
    ):
        graph = tool_graph(Script(batches=batches), [pay], InMemorySaver(), handle_tool_errors=True)
        state = await invoke(segue.with_ledger(graph, open_ledger()), asking())
        assert f"unknown_outcome: pay: {why}" in state["messages"][-1].text
    assert ran == [7, 8]


@cases(
    "wrap",
    [
        lambda node: node.with_config(tags=["paid"]),
        lambda node: node.with_retry(stop_after_attempt=1),
        lambda node: node.with_fallbacks([RunnableLambda(lambda state: state)]),
        lambda node: RunnableLambda(lambda state: state) | node.with_config(tags=["paid"]),
    ],
)
async def test_tool_node_is_found_inside_of_others(wrap: Any, invoke: Any, open_ledger: Any) -> None:
    bank = Bank(deaths=1)
    graph = StateGraph(State)
    script = Script(batches=[[PAY]])
    graph.add_node("model", lambda state: {"messages": [script.invoke(state["messages"])]})
    graph.add_node("tools", wrap(ToolNode(bank.tools())))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    compiled = segue.with_ledger(graph.compile(checkpointer=InMemorySaver()), open_ledger())
    await killed(invoke, compiled, asking())
    state = await invoke(compiled, None)
    assert bank.paid == [7]
    assert "may or may not have taken effect" in state["messages"][-1].text


class Veiled(JsonPlusSerializer):
    """Stands for an encrypted one."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = super().dumps_typed(obj)
        return kind, bytes(255 - each for each in data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return super().loads_typed((data[0], bytes(255 - each for each in data[1])))


async def test_result_is_stored_as_the_checkpointer_does_alone(invoke: Any, database: str, open_ledger: Any) -> None:
    bank = Bank()
    await invoke(agent(open_ledger(), Script(batches=[[PAY]]), bank.tools(), InMemorySaver(serde=Veiled())), asking())
    with sqlite3.connect(database) as connection:
        ((outcome,),) = connection.execute("SELECT outcome FROM calls").fetchall()
    assert "response" in outcome and "is paid" not in outcome


async def test_closed_ledger_ends_its_calls_and_takes_no_more(invoke: Any, open_ledger: Any, database: str) -> None:
    began, go_on, bank = threading.Event(), threading.Event(), Bank()

    def pay(order: int) -> str:
        """Pay."""
        began.set()
        go_on.wait()
        bank.paid.append(order)
        return "Paid."

    ledger, saver = open_ledger(), InMemorySaver()
    graph = agent(ledger, Script(batches=[[PAY]]), [pay], saver)
    running = asyncio.create_task(invoke(graph, asking()))
    await asyncio.to_thread(began.wait)
    ledger.close()
    go_on.set()
    assert (await running)["messages"][-1].text == "Paid."
    with pytest.raises(LedgerClosed, match=r"The ledger is closed, and the tool did not run"):
        await invoke(graph, asking("Pay again"))
    assert bank.paid == [7]
    wait_until(lambda: not any(url == database for _, url in graph_calls._opened))


async def test_event_loop_goes_on_while_a_database_is_opened_or_closed(
    open_ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, go_on, went_on, closed_in = threading.Event(), threading.Event(), list[bool](), list[threading.Thread]()
    close = graph_calls._OpenLedger.close

    def open_another() -> None:
        with graph_calls._opening:
            held.set()
            went_on.append(go_on.wait(5))

    async def run_meanwhile(request: Any, execute: Any) -> Any:
        opening = asyncio.create_task(asyncio.to_thread(open_another))
        await asyncio.to_thread(held.wait)
        asyncio.get_running_loop().call_soon(go_on.set)
        answer = await execute(request)
        await opening
        return answer

    async def pay(order: int) -> str:
        """Pay."""
        ledger.close()
        return "Paid."

    def noted_close(opened: Any) -> None:
        closed_in.append(threading.current_thread())
        close(opened)

    monkeypatch.setattr(graph_calls._OpenLedger, "close", noted_close)
    ledger = open_ledger()
    graph = tool_graph(Script(batches=[[PAY]]), [pay], awrap_tool_call=run_meanwhile)
    state = await segue.with_ledger(graph, ledger).ainvoke(asking())
    assert state["messages"][-1].text == "Paid."
    assert went_on == [True]
    assert closed_in and threading.current_thread() not in closed_in


def currency_was_paid(order: int, currency: str) -> object:
    return f"Paid in {currency}."


async def test_check_gets_defaults(build: Build, invoke: Any, open_ledger: Any) -> None:
    def pay(order: int, currency: str = "EUR") -> str:
        """Pay."""
        raise Killed

    script = Script(batches=[[PAY]])
    graph = build(open_ledger(check={"pay": currency_was_paid}), script, [pay], InMemorySaver())
    await killed(invoke, graph, asking())
    assert (await invoke(graph, None))["messages"][-1].text == "Paid in EUR."


async def test_calls_that_are_sent_without_a_message_are_apart(invoke: Any, open_ledger: Any) -> None:
    bank, call = Bank(), tool_call(name="pay", args={"order": 7}, id="call_0")
    graph = StateGraph(State)
    graph.add_node("tools", ToolNode(bank.tools()))
    graph.add_conditional_edges(START, lambda state: [Send("tools", [{**call}, {**call}]), Send("tools", [call])])
    await invoke(segue.with_ledger(graph.compile(checkpointer=InMemorySaver()), open_ledger()), asking())
    assert bank.paid == [7, 7, 7]


CHILD = """
import asyncio, os, sys
from tests.runtime.test_graph_calls import *
from langgraph.checkpoint.sqlite import SqliteSaver

database, folder, role = sys.argv[1:]
bank = os.path.join(folder, "bank.txt")

def pay(order: int) -> str:
    "Pay."
    with open(bank, "a") as file:
        file.write(role + chr(10))
    if role == "dies":
        os.kill(os.getpid(), 9)
    if role == "first":
        print("began", flush=True)
        sys.stdin.readline()
    return f"paid by {role}"

with SqliteSaver.from_conn_string(os.path.join(folder, "state.db")) as saver:
    graph = create_agent(Script(batches=[[PAY]]), [pay], middleware=[segue.Ledger(database)], checkpointer=saver)
    given = None if role in ("second", "resumes") else asking()
    print(graph.invoke(given, ANN, durability="sync")["messages"][-1].text, flush=True)
"""


def start(database: str, folder: Path, role: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CHILD, database, str(folder), role]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.slow
def test_killed_process_and_two_at_once(tmp_path: Path) -> None:
    _try_processes(str(tmp_path / "effects.db"), tmp_path)


def test_killed_process_and_two_at_once_in_postgres(postgres_url: str, tmp_path: Path) -> None:
    _try_processes(postgres_url, tmp_path)


def _try_processes(database: str, tmp_path: Path) -> None:
    """A killed call is unknown; one that another process still runs is waited for, and its result is taken."""
    dying, racing = tmp_path / "dying", tmp_path / "racing"
    for folder in (dying, racing):
        folder.mkdir()
    with start(database, dying, "dies") as process:
        assert process.wait() == -9
    with start(database, dying, "resumes") as process:
        assert "may or may not have taken effect" in process.communicate()[0]
    assert (dying / "bank.txt").read_text() == "dies\n"
    with start(database, racing, "first") as first, start(database, racing, "second") as second:
        assert first.stdout and first.stdout.readline() == "began\n"
        first.communicate("go on\n")
        second.communicate()
    assert (racing / "bank.txt").read_text() == "first\n"


def test_bad_input_is_refused(tmp_path: Path, open_ledger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bank, script = Bank(), Script(batches=[[PAY]])
    graph = tool_graph(script, bank.tools())
    with pytest.raises(DatabaseUnavailable, match=r"missing does not exist: create it"):
        segue.Ledger(tmp_path / "missing" / "effects.db")
    with pytest.raises(ConfigurationError, match=r"names a tool payy that the graph does not have; use one of: pay"):
        segue.with_ledger(graph, str(tmp_path / "a.db"), check={"payy": was_paid})
    with pytest.raises(ConfigurationError, match=r"names a tool payy that the graph does not have; use one of: pay"):
        agent(open_ledger(idempotent=["payy"]), script, bank.tools()).invoke(asking())
    with pytest.raises(ConfigurationError, match=r"takes amount, which is not a parameter of the tool"):
        segue.with_ledger(graph, str(tmp_path / "a.db"), check={"pay": lacks_amount})
    with pytest.raises(ConfigurationError, match=r"The graph LangGraph has no ToolNode: make one"):
        empty = StateGraph(State).add_node("a", lambda state: {}).add_edge(START, "a").compile()
        segue.with_ledger(empty, str(tmp_path / "a.db"))
    with pytest.raises(ConfigurationError, match=r"takes a compiled graph and got StateGraph"):
        segue.with_ledger(StateGraph(State), str(tmp_path / "a.db"))  # type: ignore[type-var]
    with pytest.raises(ConfigurationError, match=r"of the Ledger, or give with_ledger a database"):
        segue.with_ledger(graph, open_ledger(), idempotent=["pay"])
    assert bank.paid == []
    monkeypatch.setitem(sys.modules, "langchain.agents", None)
    with pytest.raises(MissingExtra, match=r"pip install 'segue\[langchain\]'"):
        segue.Ledger(tmp_path / "b.db")


def lacks_amount(amount: int) -> object:
    return None
