"""Modes whose graph asks for a review of its calls as LangChain's middleware does, streams and has a store."""

import asyncio
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.cache.memory import InMemoryCache
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Send, interrupt

import segue
from segue.core.calls import CallResult
from segue.core.errors import InvalidAnswer
from segue.core.events import (
    ApprovalGiven,
    AttemptRestarted,
    Event,
    QuestionAnswered,
    Token,
    ToolCall,
    ToolResult,
)
from tests.fakes import ScriptedChatModel
from tests.modes import native_call

ANSWER = "It is all done, as you decided, and you will hear from them soon. " * 5
REQUESTS = [
    {"name": "pay", "args": {"n": 1}, "description": "Pay?"},
    *({"name": "mail", "args": {"n": n}} for n in (2, 3, 4)),
]
ASKED = {
    "action_requests": REQUESTS,
    "review_configs": [
        {"action_name": "pay", "allowed_decisions": ["approve", "reject"]},
        {"action_name": "mail", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
    ],
}
VERDICTS = [
    {"index": 0, "verdict": "approve"},
    {"index": 1, "verdict": "edit", "arguments": {"n": 9}},
    {"index": 2, "verdict": "reject", "reason": "too late"},
    {"index": 3, "verdict": "respond", "reason": "sent by hand"},
]
DECISIONS = [
    {"type": "approve"},
    {"type": "edit", "edited_action": {"name": "mail", "args": {"n": 9}}},
    {"type": "reject", "message": "too late"},
    {"type": "respond", "message": "sent by hand"},
]


def reviewed(given: list[Any], value: Mapping[str, Any] = ASKED) -> StateGraph[MessagesState]:
    def ask(state: MessagesState) -> dict[str, list[AIMessage]]:
        given.append(interrupt(value))
        return {"messages": [AIMessage("done")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph


@pytest.mark.parametrize("answer", [{"verdicts": VERDICTS}, {"decisions": DECISIONS}])
async def test_decisions_reach_the_graph_in_the_form_of_its_middleware(database: Path, answer: Any) -> None:
    given: list[Any] = []
    async with segue.open(database, modes={"own": reviewed(given)}) as app:
        task_id = (await app.ask("go", mode="own", session_id="s")).task_id
    async with segue.open(database, modes={"own": reviewed(given)}) as app:
        (waiting,) = await app.waiting()
        assert [(call["name"], call["arguments"]) for call in waiting.calls] == [
            (each["name"], each["args"]) for each in REQUESTS
        ]
        assert (await app.answer(task_id, answer)).answer == "done"
        (told,) = [event for event in await app.tasks.events(task_id) if isinstance(event, ApprovalGiven)]
    assert given == [{"decisions": DECISIONS}]
    assert [{name: row[name] for name in row if name not in ("by", "original")} for row in told.verdicts] == VERDICTS
    assert told.verdicts[1]["original"] == {"n": 2}
    assert [[each["by"] for each in verdict["by"]] for verdict in told.verdicts] == [["python"]] * 4


@pytest.mark.parametrize(("word", "kind"), [("approve", "approve"), ("reject", "reject")])
async def test_one_word_decides_about_all(word: str, kind: str) -> None:
    given: list[Any] = []
    async with segue.open(":memory:", modes={"own": reviewed(given)}) as app:
        task = await app.ask("go", mode="own", session_id="s")
        await app.answer(task.task_id, word)
    assert given == [{"decisions": [{"type": kind}] * 4}]


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ({"verdict": "edit", "arguments": {"n": 2}}, "call 0: edit is not possible: use approve, reject"),
        ({"verdict": "respond", "reason": "x"}, "call 0: respond is not possible"),
        ({"verdict": "approve", "always": "session"}, "call 0: its tool cannot be always allowed"),
        ({"verdict": "respond", "index": 3}, "call 3: a response needs its text as the reason"),
    ],
)
async def test_a_decision_that_the_graph_does_not_take_is_refused(verdict: dict[str, Any], says: str) -> None:
    given: list[Any] = []
    changed = {"index": 0, **verdict}
    verdicts = [changed if each["index"] == changed["index"] else each for each in VERDICTS]
    async with segue.open(":memory:", modes={"own": reviewed(given)}) as app:
        task = await app.ask("go", mode="own", session_id="s")
        with pytest.raises(InvalidAnswer, match=says):
            await app.answer(task.task_id, verdicts)
        assert (await app.task(task.task_id)).status == "waiting"
    assert given == []


async def test_respond_is_refused_for_calls_of_segues_own() -> None:
    @segue.tool(needs_approval=True)
    def pay(n: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedChatModel([native_call(("c", "pay", {"n": 1}))])
    agent = segue.Agent(agent_id="a", model=model, protocol="native", tools=[pay])
    async with segue.open(":memory:", agents=[agent]) as app:
        task = await app.ask("go", agent="a", mode="react", session_id="s")
        with pytest.raises(InvalidAnswer, match="respond is not possible: use approve, edit, reject"):
            await app.answer(task.task_id, [{"index": 0, "verdict": "respond", "reason": "x"}])


async def test_calls_that_are_reviewed_one_by_one_each_get_one_decision() -> None:
    given: dict[int, Any] = {}

    def ask(each: Mapping[str, Any]) -> dict[str, list[AIMessage]]:
        n = each["args"]["n"]
        given[n] = interrupt({"type": "tool_approval", "tool_call_id": f"c{n}", **each})
        return {"messages": [AIMessage("done")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_conditional_edges(START, lambda state: [Send("ask", each) for each in REQUESTS], ["ask"])
    graph.add_edge("ask", END)
    async with segue.open(":memory:", modes={"own": graph}) as app:
        task = await app.ask("go", mode="own", session_id="s")
        for _ in REQUESTS:
            (call,) = (await app.question(task.task_id))["calls"]
            verdict = VERDICTS[call["arguments"]["n"] - 1]
            task = await app.answer(task.task_id, [{**verdict, "index": 0}])
    assert given == dict(zip((1, 2, 3, 4), DECISIONS, strict=True))


@tool
def remember(what: str) -> str:
    """Remember something."""
    get_store().put(("notes",), what, {"text": what})
    return f"remembered {what}"


def calling(model: ScriptedChatModel, tools: BaseTool = remember) -> StateGraph[MessagesState]:
    """The loop of an agent, as people write it."""

    async def think(state: MessagesState) -> dict[str, list[Any]]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([tools]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "think")
    return graph


async def events_of(graph: Any) -> tuple[list[Event], Any]:
    async with segue.open(":memory:", modes={"own": graph}) as app:
        events = [event async for event in app.chat("go", mode="own", session_id="s")]
        return events, await app.task(events[-1].task_id)


async def test_tokens_stream_calls_are_events_and_the_store_is_there() -> None:
    calls = native_call(("a", "remember", {"what": "x"}), ("b", "remember", {"what": "y"}))
    model, store = ScriptedChatModel([calls, AIMessage(ANSWER)]), InMemoryStore()
    events, task = await events_of(calling(model).compile(store=store))
    tokens = [event.content for event in events if isinstance(event, Token)]
    assert len(tokens) > 5
    assert "".join(tokens) == task.result["answer"] == ANSWER
    assert not any(isinstance(event, AttemptRestarted) for event in events)
    called = [(event.name, event.arguments) for event in events if isinstance(event, ToolCall)]
    assert called == [("remember", {"what": "x"}), ("remember", {"what": "y"})]
    results = [event.result for event in events if isinstance(event, ToolResult)]
    assert results == [{"success": "remembered x"}, {"success": "remembered y"}]
    assert [each["action"] for each in task.result["history"]] == ["remember", "remember"]
    assert [item.key for item in store.search(("notes",))] == ["x", "y"]


async def test_calls_are_events_when_they_start_and_end(database: Path) -> None:
    """Also once where a person was asked in between; a model may use an id again."""
    seen: list[tuple[str, ...]] = []

    @tool
    async def look(n: int) -> str:
        """Look at something, and at the log."""
        task = await app.tasks.newest("s")
        assert task is not None
        log = await app.tasks.events(task.task_id)
        seen.append(tuple(event.type for event in log if event.type.startswith("tool_")))
        return f"saw {n}, {interrupt('Sure?') if n == 2 else 'surely'}"

    calls = [native_call(("a", "look", {"n": n})) for n in (1, 2, 3)]
    model = ScriptedChatModel([*calls, AIMessage("done")])
    async with segue.open(database, modes={"own": calling(model, look)}) as app:
        task_id = (await app.ask("go", mode="own", session_id="s")).task_id
    async with segue.open(database, modes={"own": calling(model, look)}) as app:
        assert (await app.answer(task_id, "yes")).answer == "done"
        events = await app.tasks.events(task_id)
    called, ended = "tool_call", "tool_result"
    assert seen == [
        (called,),
        (called, ended, called),
        (called, ended, called),
        (called, ended, called, ended, called),
    ]
    told = [(event.index, event.arguments["n"]) for event in events if isinstance(event, ToolCall)]
    assert told == [(0, 1), (1, 2), (2, 3)]
    results = [event.result["success"] for event in events if isinstance(event, ToolResult)]
    assert results == ["saw 1, surely", "saw 2, yes", "saw 3, surely"]


async def test_the_log_says_once_what_a_person_answered(database: Path) -> None:
    """Also where the answer is stored and the run that took it failed."""
    tries: list[str] = []

    def ask(state: MessagesState) -> dict[str, list[AIMessage]]:
        tries.append(interrupt({"question": "Which one?", "from": [1, 2]}))
        if len(tries) == 1:
            raise ConnectionError("no network")
        return {"messages": [AIMessage(tries[-1])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    async with segue.open(database, modes={"own": graph}) as app:
        task_id = (await app.ask("go", mode="own", session_id="s")).task_id
        with pytest.raises(ConnectionError):
            await app.answer(task_id, "the second")
        assert (await app.resume(task_id)).answer == "the second"
        events = await app.tasks.events(task_id)
    told = [(event.question, event.answer) for event in events if isinstance(event, QuestionAnswered)]
    assert told == [("Which one?", "the second")]


@pytest.mark.parametrize("end", ["cancelled while it waits", "cancelled", "failed"])
async def test_a_call_that_never_ends_has_an_outcome_once_its_task_has(database: Path, end: str) -> None:
    begun = asyncio.Event()

    @tool
    async def send(n: int) -> str:
        """Send something."""
        if end == "cancelled while it waits":
            interrupt("Sure?")
        if end == "failed":
            raise ConnectionError("no network")
        begun.set()
        waits: Awaitable[Any] = asyncio.Event().wait()
        return str(await waits)

    model = ScriptedChatModel([native_call(("a", "send", {"n": 1}))])
    async with segue.open(database, modes={"own": calling(model, send)}) as app:
        asking = asyncio.create_task(app.ask("go", mode="own", session_id="s"))
        if end == "failed":
            with pytest.raises(ConnectionError):
                await asking
        else:
            await (begun.wait() if end == "cancelled" else asking)
        (row,) = await app.tasks.list(session_id="s")
        if end != "failed":
            await app.cancel(row.task_id)
            await asking
        events = await app.tasks.events(row.task_id)
    ended = [
        (event.index, event.name, event.arguments, CallResult.of(event.result).unknown)
        for event in events
        if isinstance(event, ToolResult)
    ]
    assert ended == [(0, "send", {"n": 1}, True)]


async def test_a_mode_has_the_cache_that_it_was_compiled_with(database: Path) -> None:
    runs: list[str] = []

    def look_up(state: MessagesState) -> dict[str, list[AIMessage]]:
        runs.append(state["messages"][-1].text)
        return {"messages": [AIMessage("found")]}

    graph = StateGraph(MessagesState)
    policy = CachePolicy(key_func=lambda state: state["messages"][-1].text.encode())
    graph.add_node("look_up", look_up, cache_policy=policy)
    graph.add_edge(START, "look_up")
    async with segue.open(database, modes={"own": graph.compile(cache=InMemoryCache())}) as app:
        for n, message in enumerate(("one", "one", "two")):
            assert (await app.ask(message, mode="own", session_id=f"s{n}")).answer == "found"
    assert runs == ["one", "two"]


async def test_a_text_that_is_not_the_answer_is_discarded_once_another_follows() -> None:
    draft, final = ScriptedChatModel([AIMessage("A draft. " * 40)]), ScriptedChatModel([AIMessage(ANSWER)])

    def writer(model: ScriptedChatModel) -> Any:
        async def write(state: MessagesState) -> dict[str, list[Any]]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        return write

    graph = StateGraph(MessagesState)
    graph.add_node("draft", writer(draft))
    graph.add_node("final", writer(final))
    graph.add_edge(START, "draft")
    graph.add_edge("draft", "final")
    graph.add_edge("final", END)
    events, task = await events_of(graph)
    (place,) = (place for place, event in enumerate(events) if isinstance(event, AttemptRestarted))
    assert "".join(e.content for e in events[place:] if isinstance(e, Token)) == task.result["answer"] == ANSWER


async def test_langchains_own_middleware(database: Path) -> None:
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed")
    middleware = pytest.importorskip("langchain.agents.middleware")
    sent: list[int] = []

    def mail(n: int) -> str:
        """Send a mail."""
        sent.append(n)
        return f"sent {n}"

    calls = native_call(*((f"c{n}", "mail", {"n": n}) for n in (1, 2, 3, 4)))
    allowed = {"allowed_decisions": ["approve", "edit", "reject", "respond"]}
    human = middleware.HumanInTheLoopMiddleware(interrupt_on={"mail": allowed})
    graph = agents.create_agent(ScriptedChatModel([calls, AIMessage("done")]), [mail], middleware=[human])
    async with segue.open(database, modes={"own": graph}) as app:
        task = await app.ask("go", mode="own", session_id="s")
    async with segue.open(database, modes={"own": graph}) as app:
        result = await app.answer(task.task_id, VERDICTS)
        texts = [str(each["result"]) for each in result.history]
    assert (result.answer, sorted(sent)) == ("done", [1, 9])
    assert all(part in text for part, text in zip(("sent 1", "sent 9", "too late", "by hand"), texts, strict=True))
