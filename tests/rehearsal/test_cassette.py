"""Every kind of session is recorded, and replays byte for byte without a model and without tools."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segue
from segue.app import App
from segue.core.agents import Agent, Budget, McpServer
from segue.core.errors import ConfigurationError, ModelError, TaskError, UnknownThread
from segue.core.events import Token
from segue.core.flows import FlowConfig, Subflow
from segue.core.task import OPEN, TaskStatus
from segue.testing.cassette import Cassette, read_cassette, record, replay, write_cassette
from segue.testing.cassette.cassette import ModelCall, Reply, Turn, dump, load
from segue.testing.cassette.recorder import redacted
from tests.fakes import answer, call_tool, choose, plan_json, remend
from tests.loopback import Deltas, Gate, LoopbackServer, Scripted, Status, Text, ToolCalls

ADD = ("add", {"a": 1, "b": 2})


@dataclass
class Bench:
    """An app with one agent behind a loopback endpoint, and tools that count their runs."""

    app: App
    server: LoopbackServer
    ran: list[str] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Set where something is under way that will not end."""

    def agent(self, **fields: Any) -> Agent:
        @segue.tool(read_only=True)
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.ran.append(f"add {a} {b}")
            return a + b

        @segue.tool(needs_approval=True)
        def pay(amount: int, card: str = "") -> dict[str, Any]:
            """Pay an amount."""
            self.ran.append(f"pay {amount}")
            return {"paid": amount, "card": card}

        @segue.tool
        def break_down(why: str) -> str:
            """Fail."""
            raise ValueError(why)

        @segue.tool
        async def hang() -> str:
            """Never end."""
            self.gate.set()
            await asyncio.Event().wait()
            return ""

        @segue.tool
        async def pause(context: segue.CallContext) -> str:
            """Pause the task."""
            await self.app.pause(context.task_id)
            return "pausing"

        tools = (add, pay, break_down, hang, pause)
        at = {"agent_id": "a", "model": "openai:m", "base_url": self.server.base_url, "api_key": "sk-very-secret"}
        return Agent(**{**at, "tools": tools, "mode": "react", **fields})

    async def ask(self, message: str, **options: Any) -> dict[str, Any]:
        return await self.app.ask(message, session_id="s", agent="a", **options)


Drive = Callable[[Bench], Awaitable[object]]


def asks(*messages: str, **options: Any) -> Drive:
    async def drive(bench: Bench) -> None:
        for message in messages:
            await bench.ask(message, **options)

    return drive


async def approves(bench: Bench) -> None:
    """A person edits one batch, then rejects a call, then cancels what waits."""
    edited = [{"index": 0, "verdict": "edit", "arguments": {"amount": 5}}, {"index": 1, "verdict": "approve"}]
    waiting = await bench.ask("pay")
    await bench.app.answer(waiting["task_id"], {"verdicts": edited})
    waiting = await bench.ask("pay again")
    await bench.app.answer(waiting["task_id"], "reject")
    waiting = await bench.ask("pay once more")
    await bench.app.cancel(waiting["task_id"])
    await bench.ask("thanks", mode="direct")


async def allows_always(bench: Bench) -> None:
    """A person allows a tool in the session, and revokes that before the last turn."""
    waiting = await bench.ask("pay")
    await bench.app.answer(waiting["task_id"], [{"index": 0, "verdict": "approve", "always": "session"}])
    await bench.ask("pay again")
    await bench.app.sessions.revoke("s")
    waiting = await bench.ask("pay once more")
    await bench.app.answer(waiting["task_id"], "reject")


async def steers(bench: Bench) -> None:
    """Two messages join the task while it is paused between two calls, or between two rounds."""
    await bench.ask("go")
    await bench.ask("use 7", steer=True)


async def cancels_a_tool(bench: Bench) -> None:
    task = await bench.app.start("go", session_id="s", agent="a")
    await bench.gate.wait()
    await bench.app.cancel(task.task_id)
    await bench.ask("and now?")


async def cancels_a_tool_that_was_rejected_before(bench: Bench) -> None:
    waiting = await bench.ask("go")
    await bench.app.answer(waiting["task_id"], "reject")
    answered = asyncio.create_task(bench.app.answer(waiting["task_id"], "approve"))
    await bench.gate.wait()
    await bench.app.cancel(waiting["task_id"])
    await answered
    await bench.ask("and now?")


async def cancels_a_reply(bench: Bench) -> None:
    said = ""
    async for event in bench.app.chat("go", session_id="s", agent="a"):
        said += event.content if isinstance(event, Token) else ""
        if isinstance(event, Token) and said == "one half":
            await bench.app.cancel(event.task_id)
    await bench.ask("and now?")


async def fails_and_resumes(bench: Bench) -> None:
    """The endpoint refuses twice: one task is resumed, the other one left."""
    for message in ("first", "second"):
        with pytest.raises(ModelError):
            await bench.ask(message)
        if message == "first":
            (task,) = await bench.app.tasks.list(session_id="s")
            await bench.app.resume(task.task_id)
    await bench.ask("third")


async def answers_a_question(bench: Bench) -> None:
    waiting = await bench.ask("deploy", mode="brief")
    await bench.app.answer(waiting["task_id"], "the red one")


def step(action: str, **params: Any) -> dict[str, Any]:
    return {"action": action, "params": params, "description": action, "phase": "execution"}


FLOW = FlowConfig(topology=[Subflow(flow="Controller"), Subflow(flow="Executor")])
NEVER = asyncio.Event()
REASONED = {"reasoning_content": "let me think"}
CALL = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]}
SUBTASK = {"priority": 1, "dependencies": [], "type": "general", "timeout": None}
SUBTASKS = {"tasks": [{"id": str(n), "description": f"part {n}", **SUBTASK} for n in (1, 2)]}

SESSIONS: dict[str, tuple[dict[str, Any], Drive, list[Scripted]]] = {
    "direct, with reasoning, an empty reply and a refused one": (
        {"mode": "direct"},
        asks("hello", "你好", "hello?", "hello!"),
        [
            Deltas([REASONED, {"content": "Hi"}, {"content": " there"}]),
            Text("你好！"),
            *(Text(""), Text(answer("Hi"))),
            *(Status(400), Text(answer("Hi"))),
        ],
    ),
    "json, with unreadable replies and a repair": (
        {},
        asks("add", "again", "go"),
        [
            *(Text(call_tool(ADD, thought="hm")), Text(answer("3"))),
            Text(answer("still 3")),
            Text("{"),
            Text(call_tool(("break_down", {"why": "no"}))),
            Text(remend("use add", ADD)),
            Text(answer("3")),
        ],
    ),
    "native": (
        {"protocol": "native"},
        asks("add", "again"),
        [
            ToolCalls([("c1", "add", '{"a": 1, "b": 2}')], content="Adding. " * 30),
            Text("3"),
            Deltas([REASONED, CALL]),
            Text("3"),
        ],
    ),
    "plan": (
        {"mode": "plan"},
        asks("plan it"),
        [
            Text(plan_json("g", [step("add", a=1, b=2), step("break_down", why="no")])),
            Text(plan_json("g", [step("add", a=1, b=2), {**step("add", a=3, b=4), "step": "3"}])),
            Text("3 and 7"),
        ],
    ),
    "hybrid": (
        {"mode": "plan_react"},
        asks("go"),
        [Text(plan_json("g", [step("add", a=1, b=2)])), Text(call_tool(ADD)), Text(answer("3"))],
    ),
    "auto, picked by the model": (
        {"mode": "auto", "auto": "model"},
        asks("compute", "and more"),
        [Text("direct"), Text("3"), Status(400), Text(answer("4"))],
    ),
    "a digest with prose": (
        {"mode": "direct", "digest": "model", "budget": Budget(prompt_tokens=1_200)},
        asks(*(f"Part {n}: {'tell me of the trees and the benches by the pond ' * 20}" for n in range(7))),
        [Text("[turn-1] The user asked about the trees.") for _ in range(9)],
    ),
    "lifecycle": (
        {"mode": "lifecycle"},
        asks("go"),
        [Text(json.dumps(SUBTASKS)), Text(call_tool(ADD)), Text(answer("3")), Text(answer("done"))],
    ),
    "a question of a flow": (
        {"modes": {"brief": FLOW}},
        answers_a_question,
        [
            Text(plan_json("g", [step("add", a=1, b=2)])),
            Text(choose("ask_user", question="Which one?")),
            Text(choose("add", a=1, b=2)),
            Text(choose("final_answer", answer="Done.")),
        ],
    ),
    "approvals": (
        {},
        approves,
        [
            Text(call_tool(("pay", {"amount": 7}), ("pay", {"amount": 8}))),
            Text(answer("paid")),
            Text(call_tool(("pay", {"amount": 7}))),
            Text(answer("not paid")),
            Text(call_tool(("pay", {"amount": 9}))),
            Text("Bye"),
        ],
    ),
    "a tool that is always allowed": (
        {},
        allows_always,
        [
            *(Text(call_tool(("pay", {"amount": amount}))) for amount in (7, 8)),
            Text(answer("paid")),
            Text(call_tool(("pay", {"amount": 9}))),
            Text(answer("paid again")),
            Text(call_tool(("pay", {"amount": 10}))),
            Text(answer("not paid")),
        ],
    ),
    "steered between rounds": (
        {},
        steers,
        [Text(call_tool(("pause", {}))), Text(call_tool(ADD)), Text(answer("3"))],
    ),
    "steered between waves of a plan": (
        {"mode": "plan"},
        steers,
        [
            Text(plan_json("g", [step("pause"), step("pay", amount=1)])),
            Text(plan_json("g", [step("pause"), {**step("add", a=7, b=7), "step": "3"}])),
            Text("14"),
        ],
    ),
    "cancelled in a tool": (
        {},
        cancels_a_tool,
        [Text(call_tool(ADD, ("hang", {}), thought="hm")), Text(answer("It was cancelled."))],
    ),
    "cancelled in a tool that was rejected before": (
        {"approve": {"hang": "always"}},
        cancels_a_tool_that_was_rejected_before,
        [Text(call_tool(("hang", {}))), Text(call_tool(("hang", {}))), Text(answer("It was cancelled."))],
    ),
    "cancelled in a reply": (
        {},
        cancels_a_reply,
        [Text(call_tool(ADD)), Gate(answer("one half")[:-5], "", NEVER), Text(answer("It was cancelled."))],
    ),
    "failures": ({}, fails_and_resumes, [Status(400), Text(answer("1")), Status(401), Text(answer("3"))]),
    "a budget of calls": (
        {"max_iteration": 2, "budget": Budget(tool_calls=1)},
        asks("go"),
        [Text(call_tool(ADD, ("add", {"a": 5, "b": 5}))), Text(call_tool(("add", {"a": 6, "b": 6})))],
    ),
}


@pytest.fixture
async def bench() -> AsyncIterator[Callable[..., Awaitable[Bench]]]:
    async with AsyncExitStack() as stack:

        async def laid(script: Sequence[Scripted], modes: Any = None, **fields: Any) -> Bench:
            app = await stack.enter_async_context(segue.open(":memory:", modes=modes))
            made = Bench(app, stack.enter_context(LoopbackServer(script)))
            app.register(made.agent(**fields))
            return made

        yield laid


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_replays_and_backtests_as_recorded(name: str, bench: Callable[..., Awaitable[Bench]]) -> None:
    fields, drive, script = SESSIONS[name]
    laid = await bench(script, **fields)
    await drive(laid)
    ran, asked = [*laid.ran], len(laid.server.requests)
    cassette = await record(laid.app, "s")
    made = await laid.app.backtest("s", model="recorded")
    assert {task.task_id: task.verdict for task in made.tasks if task.verdict != "same"} == {}
    assert {*made.skipped.values()} <= {"cancelled"}
    steps = await laid.app.backtest("s", model="recorded", steps=True)
    assert {task.task_id: task.steps for task in steps.tasks if {*task.steps} != {"same"}} == {}
    assert (laid.ran, len(laid.server.requests)) == (ran, asked), "a replay ran a tool or asked a model"
    assert [*cassette.messages] == await laid.app.history("s")
    text = dump(cassette)
    assert load(text) == cassette
    assert "sk-very-secret" not in text


async def test_a_rejected_call_is_no_result_of_an_equal_one_that_was_cancelled(
    bench: Callable[..., Awaitable[Bench]],
) -> None:
    fields, drive, script = SESSIONS["cancelled in a tool that was rejected before"]
    laid = await bench(script, **fields)
    await drive(laid)
    (turn, _) = (await record(laid.app, "s")).turns
    assert [call.outcome for call in turn.tool_calls] == [None]


async def test_a_fork_is_recorded_with_the_requests_of_its_replay(bench: Callable[..., Awaitable[Bench]]) -> None:
    """In a plan the calls' ids are of the task, which has another id in the fork."""
    laid = await bench([Text(plan_json("g", [step("add", a=1, b=2)])), Text("3"), Text(answer("still 3"))])
    await laid.ask("add", mode="plan")
    await laid.ask("again")
    newest = (await laid.app.sessions.snapshots("s"))[0]
    await laid.app.rewind.fork("s", newest.checkpoint_id, session_id="copy")
    cassette = await record(laid.app, "copy")
    assert [turn.answer for turn in cassette.turns] == ["3", "still 3"]
    assert all(call.request for turn in cassette.turns for call in turn.model_calls)
    assert (await replay(cassette, agents=[laid.agent()])).difference is None


REFUSED: dict[str, tuple[Drive, list[Scripted], str]] = {
    "unfinished": (lambda bench: bench.ask("pay"), [Text(call_tool(("pay", {"amount": 7})))], "with segue answer "),
    "files": (
        lambda bench: bench.ask("read", files=[("a.txt", b"one")]),
        [Text(answer("hi"))],
        "has files, which a cassette",
    ),
    "another agent": (
        lambda bench: bench.ask("hi"),
        [Text(answer("hi"))],
        "a prompt, the tools or the model probably differ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_session_that_cannot_be_recorded_says_why(name: str, bench: Callable[..., Awaitable[Bench]]) -> None:
    drive, script, why = REFUSED[name]
    laid = await bench(script)
    await drive(laid)
    if name == "another agent":
        laid.app.register(laid.agent(prompt="Be brief."))
    with pytest.raises(TaskError, match=why):
        await record(laid.app, "s")
    with pytest.raises(UnknownThread):
        await record(laid.app, "nobody's")


def test_a_turn_has_every_status_in_which_a_task_may_be_recorded() -> None:
    assert {*get_args(Turn.model_fields["status"].annotation)} == {*TaskStatus} - OPEN


async def test_a_bots_session_names_the_log_of_its_conversation(bench: Callable[..., Awaitable[Bench]]) -> None:
    laid = await bench([Text("Hi")])
    await laid.app.ask("hi", session_id="talk.bot", agent="a", mode="direct", origin="conversation")
    with pytest.raises(TaskError, match="belongs to a conversation"):
        await record(laid.app, "talk.bot")


async def test_redacted_values_are_nowhere_and_the_cassette_still_replays(
    bench: Callable[..., Awaitable[Bench]], tmp_path: Path
) -> None:
    card = 'XK47 "Ü" ZQ08'  # no part of an id
    laid = await bench([Text(call_tool(("pay", {"amount": 7, "card": card}))), Text(answer(f"paid with {card}"))])
    waiting = await laid.ask(f"pay 7 with {card}")
    await laid.app.answer(waiting["task_id"], "approve")
    with pytest.raises(ConfigurationError, match="one of its values is 7"):
        await record(laid.app, "s", redact=["amount"])
    with pytest.raises(ConfigurationError, match="called pin"):
        await record(laid.app, "s", redact=["pin"])
    cassette = await record(laid.app, "s", redact=["card"])
    write_cassette(cassette, file := tmp_path / "s.cassette.yaml")
    text = file.read_text(encoding="utf-8")
    assert "XK47" not in text and "ZQ08" not in text
    assert cassette.turns[0].answer == "paid with REDACTED_CARD_1"
    assert (await replay(read_cassette(file), agents=[laid.agent()])).difference is None


async def test_a_field_that_a_cassette_has_too_is_redacted_in_calls_alone(
    bench: Callable[..., Awaitable[Bench]],
) -> None:
    laid = await bench([Text(call_tool(ADD)), Text(answer("3"))])
    await laid.ask("add")
    with pytest.raises(ConfigurationError, match="called text"):
        await record(laid.app, "s", redact=["text"])
    cassette = await record(laid.app, "s")
    (turn,) = cassette.turns
    (call,) = turn.tool_calls
    names = ("name", "id", "text", "status", "model", "user", "role", "error")
    for name, secret in product(names, ("done", "react", turn.task_id, "assistant", "function")):
        with pytest.raises(ConfigurationError, match=f"called {name}"):
            redacted(cassette, [name])
        kept = call.model_copy(update={"arguments": {name: secret}})
        given = cassette.model_copy(update={"turns": (turn.model_copy(update={"tool_calls": (kept,)}),)})
        (made,) = (changed := redacted(given, [name])).turns
        assert made.tool_calls[0].arguments == {name: f"REDACTED_{name.upper()}_1"}
        assert made.model_copy(update={"tool_calls": (kept,), "model_calls": turn.model_calls}) == given.turns[0]
        assert changed.messages == cassette.messages


texts = st.text(max_size=40) | st.text(alphabet=" \n\t:#-'\"|>é\u2028\x85\u200b", max_size=20)


@given(st.lists(st.tuples(st.sampled_from(["plan", "decide"]), texts), max_size=5), texts)
def test_a_file_keeps_every_text_as_it_is(requests: list[tuple[str, str]], text: str) -> None:
    calls = tuple(
        ModelCall(purpose=purpose, model="m", at=0.1, digest="d", request=request, reply=Reply(text=text))
        for purpose, request in requests
    )
    turn = Turn(message=text, task_id="t", agent="a", mode="react", created_at=0.0, model_calls=calls, status="done")
    cassette = Cassette(session="s", turns=(turn,), messages=({"role": "user", "content": text},))
    assert load(dump(cassette)) == cassette


@pytest.mark.parametrize(
    ("text", "why"),
    [("version: 2", "not a cassette of version 1"), ("{", "flow"), ("version: 1\nsession: s\nturns: [{}]", "turns.0")],
)
def test_a_file_that_is_no_cassette_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "x.cassette.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=why):
        read_cassette(file)


@pytest.mark.slow
async def test_the_tools_of_an_mcp_server_are_replayed_without_it(bench: Callable[..., Awaitable[Bench]]) -> None:
    shop = McpServer(
        name="shop", command=sys.executable, args=[str(Path(__file__).parents[1] / "mcp_server.py")], tools=["stock"]
    )
    laid = await bench([Text(call_tool(("stock", {"item": "tea"}))), Text(answer("7"))], mcp=[shop])
    await laid.ask("how much tea?")
    cassette = await record(laid.app, "s")
    elsewhere = laid.agent(mcp=[shop.model_copy(update={"command": "/nowhere/python"})])
    assert cassette.turns[0].tool_calls[0].outcome == {"success": {"tea": 7}}
    assert (await replay(cassette, agents=[elsewhere])).difference is None


EDITS: dict[str, Callable[[Agent], Agent]] = {
    "spaces in the prompt": lambda agent: agent.model_copy(update={"prompt": f"  {agent.prompt}\n\n"}),
    "another sentence": lambda agent: agent.model_copy(update={"prompt": f"{agent.prompt} Be kind."}),
    "order of tools": lambda agent: agent.model_copy(update={"tools": (*reversed(agent.tools),)}),
    "one tool less": lambda agent: agent.model_copy(update={"tools": agent.tools[:1]}),
    "model": lambda agent: agent.model_copy(update={"model": "openai:other"}),
    "temperature": lambda agent: agent.model_copy(update={"temperature": 0.5}),
}


async def test_a_cassette_of_calls_only_needs_no_new_recording_for_harmless_edits(
    bench: Callable[..., Awaitable[Bench]],
) -> None:
    laid = await bench([Text(call_tool(ADD)), Text(answer("3"))])
    await laid.ask("add")
    whole, calls = await record(laid.app, "s"), await record(laid.app, "s", level="calls")
    assert load(dump(calls)) == calls and "level: calls" in dump(calls) and "level" not in dump(whole)
    for name, edit in EDITS.items():
        made = await replay(calls, agents=[edit(laid.agent())])
        assert made.difference is None, (name, made.difference)
    assert (await replay(whole, agents=[EDITS["model"](laid.agent())])).difference is not None
    gone = laid.agent().model_copy(update={"tools": ()})
    assert (await replay(calls, agents=[gone])).difference is not None
