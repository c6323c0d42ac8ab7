"""A question to the user in the middle of a task: it waits, and its answer continues the same round."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import segue
from segue import Agent, App, tool
from segue.core.errors import InvalidAnswer, InvalidMessage, QuestionClosed, TaskError
from segue.core.events import Event, NotesMoved
from segue.core.records import Task
from segue.runtime.relay import Observer
from segue.runtime.start import Request
from segue.testing.cassette import record, replay
from segue.testing.rehearsal import ConversationConfig, converse
from tests.fakes import ScriptedChatModel, answer, call_tool, envelope, plan_json
from tests.polling import until

painted: list[str] = []
QUESTION, CHOICES = "Which colour?", ["blue", "red"]
ASKED = {"question": QUESTION, "choices": CHOICES}


@tool
def measure() -> str:
    """Measure the door."""
    return "2 m"


@tool
def paint(colour: str) -> str:
    """Paint the door."""
    painted.append(colour)
    return f"painted {colour}"


def called(name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": f"c-{name}", "name": name, "args": arguments, "type": "tool_call"}])


STEPS: Sequence[Any] = [
    {"action": "measure", "description": "measure it"},
    {"action": "ask_user", "params": ASKED, "description": "ask"},
    {"action": "paint", "params": {"colour": {"$ref": "steps.2.result"}}, "description": "paint it"},
]
PLAN = plan_json("paint the door", STEPS)
CLARIFY = envelope("CLARIFY", ASKED)
PAINT = call_tool(("paint", {"colour": "blue"}))
WAYS: dict[str, tuple[dict[str, Any], list[Any], list[Any]]] = {
    "json": ({"mode": "react"}, [call_tool(("measure", {})), CLARIFY], [PAINT, answer("Done.")]),
    "json, state last": (
        {"mode": "react", "state": "last"},
        [call_tool(("measure", {})), CLARIFY],
        [PAINT, answer("Done.")],
    ),
    "native": (
        {"mode": "react", "protocol": "native"},
        [called("measure"), called("ask_user", **ASKED)],
        [called("paint", colour="blue"), AIMessage("Done.")],
    ),
    "plan": ({"mode": "plan"}, [PLAN], ["Done."]),
    "plan_react": (
        {"mode": "plan_react"},
        [PLAN, call_tool(("measure", {})), CLARIFY],
        [PAINT, answer("Done.")],
    ),
}


def agent(script: Sequence[Any], **fields: Any) -> Agent:
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "tools": (measure, paint), **fields})


async def asked_in(app: App) -> list[tuple[str, str]]:
    return [(row.kind, row.question) for row in await app.waiting()]


@pytest.mark.parametrize("way", WAYS)
async def test_an_answer_continues_the_round_in_another_process_with_everything_that_was_known(
    tmp_path: Path, way: str
) -> None:
    painted.clear()
    fields, before, after = WAYS[way]
    async with segue.open(tmp_path / "segue.db", agents=[agent(before, **fields)]) as app:
        waits = await app.ask("Paint the door.", session_id="s", agent="a")
        assert waits["status"] == "waiting" and waits["question"]["kind"] == "question"
        assert {name: waits["question"][name] for name in ASKED} == ASKED
    second = agent(after, **fields)
    async with segue.open(tmp_path / "segue.db", agents=[second]) as app:
        task_id, interrupt_id = waits["task_id"], waits["question"]["interrupt_id"]
        assert await asked_in(app) == [("question", QUESTION)]
        with pytest.raises(InvalidAnswer):
            await app.answer(task_id, " ")
        with pytest.raises(QuestionClosed):
            await app.answer(task_id, "red", interrupt_id="another")
        assert await asked_in(app) == [("question", QUESTION)] and painted == []
        done = await app.answer(task_id, "blue", interrupt_id=interrupt_id)
        with pytest.raises(QuestionClosed):
            await app.answer(task_id, "red", interrupt_id=interrupt_id)
        events = await app.events(task_id)
        assert (done["status"], done["answer"], painted, await asked_in(app)) == ("done", "Done.", ["blue"], [])
        (given,) = [event.data for event in events if event.type == "question_answered"]
        assert given == {"question": QUESTION, "answer": "blue"}
        calls = [event.data["name"] for event in events if event.type == "tool_call"]
        assert calls == ["measure", "paint"] and len(await app.tasks.list(session_id="s")) == 1
        if plan := done.get("plan"):
            assert [step["status"] for step in plan] == ["done"] * len(plan)
        history = await app.history("s")
        (said,) = [m for m in history if m["role"] == "tool" and m["content"] == "blue"]
        assert history[-1]["content"] == "Done." and said
    assert isinstance(second.model, ScriptedChatModel)
    first_prompt = "\n".join(f"{m.content} {getattr(m, 'tool_calls', '')}" for m in second.model.calls[0])
    assert all(known in first_prompt for known in ("2 m", QUESTION, "blue"))


@pytest.mark.parametrize("way", ["json", "native", "plan"])
async def test_a_person_may_end_the_task_instead(way: str) -> None:
    painted.clear()
    fields, before, _ = WAYS[way]
    async with segue.open(
        ":memory:", agents=[agent([*before, *(["I stopped."] if way == "plan" else [])], **fields)]
    ) as app:
        waits = await app.ask("Paint the door.", agent="a")
        ended = await app.answer(waits["task_id"], {"manual_finish": True})
    assert (ended["success"], painted) == (False, [])
    assert "the user ended the task instead of answering" in ended["error"]


@pytest.mark.parametrize(
    ("fields", "options"),
    [({"ask_user": False}, {}), ({}, {"ask_user": False}), ({"ask_user": False}, {"ask_user": None})],
)
async def test_an_agent_or_a_message_switches_questions_off(fields: dict[str, Any], options: dict[str, Any]) -> None:
    scripts: dict[str, list[Any]] = {
        "react": [CLARIFY, answer("In blue, then.")],
        "plan": [PLAN, plan_json("paint", [{"action": "none", "description": "think"}]), "In blue, then."],
    }
    for mode, script in scripts.items():
        model = ScriptedChatModel(script)
        async with segue.open(":memory:", agents=[agent((), mode=mode, **{**fields, "model": model})]) as app:
            done = await app.ask("Paint the door.", agent="a", **options)
            events = [event.data for event in await app.events(done["task_id"]) if event.type == "error"]
        assert (done["status"], done["answer"], len(events)) == ("done", "In blue, then.", 1)
        prompt = str(model.calls[0])
        assert "CLARIFY" not in prompt and "ask_user" not in prompt
    native = ScriptedChatModel([AIMessage("In blue, then.")])
    async with segue.open(
        ":memory:", agents=[agent((), protocol="native", mode="react", **{**fields, "model": native})]
    ) as app:
        await app.ask("Paint the door.", agent="a", **options)
    assert "ask_user" not in json.dumps(native.bound_tools)


async def test_a_message_switches_questions_on_and_an_unfinished_task_keeps_its_own(tmp_path: Path) -> None:
    model = ScriptedChatModel([CLARIFY, answer("Done.")])
    async with segue.open(":memory:", agents=[agent((), mode="react", ask_user=False, model=model)]) as app:
        waits = await app.ask("Paint the door.", agent="a", session_id="s", ask_user=True)
        with pytest.raises(InvalidMessage, match="ask_user"):
            await app.start("Quickly.", agent="a", session_id="s", steer=True, ask_user=False)
        with pytest.raises(InvalidMessage, match="ask_user is str"):
            await app.start("Quickly.", agent="a", ask_user="yes")  # type: ignore[arg-type]
        done = await app.answer(waits["task_id"], "blue")
    assert done["answer"] == "Done."


async def test_a_plan_that_ends_with_a_question_is_continued_by_its_answer() -> None:
    painted.clear()
    first = plan_json("paint the door", STEPS[:2])
    rest = {"step": 3, "action": "paint", "params": {"colour": "blue"}, "description": "paint it"}
    second = json.dumps({"goal": "paint the door", "steps": [{"step": 1, **STEPS[0]}, {"step": 2, **STEPS[1]}, rest]})
    model = ScriptedChatModel([first, second, "Done."])
    async with segue.open(":memory:", agents=[agent((), mode="plan", model=model)]) as app:
        waits = await app.ask("Paint the door.", agent="a")
        done = await app.answer(waits["task_id"], "blue")
    assert (done["answer"], painted) == ("Done.", ["blue"])
    assert f"“{QUESTION}”" in str(model.calls[1]) and "“blue”" in str(model.calls[1])


async def test_a_question_without_a_text_and_a_tool_of_that_name() -> None:
    @tool
    def ask_user(question: str) -> str:
        """Ask in the shop."""
        return "green"

    empty = [envelope("CLARIFY", {"question": " "}), CLARIFY, answer("Done.")]
    async with segue.open(":memory:", agents=[agent(empty, mode="react")]) as app:
        waits = await app.ask("Paint the door.", agent="a")
        (error,) = [e.data["message"] for e in await app.events(waits["task_id"]) if e.type == "error"]
        assert 'needs a non-empty "question"' in error and waits["status"] == "waiting"
    own = agent(
        [called("ask_user", question="?"), AIMessage("Green.")], mode="react", protocol="native", tools=(ask_user,)
    )
    async with segue.open(":memory:", agents=[own]) as app:
        done = await app.ask("Which colour do they have?", agent="a")
    assert (done["answer"], done["history"][0]["result"]) == ("Green.", {"success": "green"})


@pytest.mark.parametrize("way", ["json", "native", "plan"])
async def test_the_simulated_user_answers_in_a_rehearsal(way: str) -> None:
    painted.clear()
    fields, before, after = WAYS[way]
    bot = agent([*before, *after], **{**fields, "agent_id": "bot"})
    setting = {"user_mode": "scripted_user", "script": ["Paint the door.", "blue"], "api_mode": "tools"}
    config = ConversationConfig(**setting, bot_mode=f"segue:{fields['mode']}", bot_agent="bot", approvals="approve")
    async with segue.open(
        ":memory:", agents=[bot], approvals=segue.ApprovalSettings(auto_approve_conversations=True)
    ) as app:
        talk = await converse(app, config, conversation_id="talk")
    said = [(str(each.role), each.text) for each in talk.utterances if each.text]
    assert ("BOT", QUESTION) in said and ("BOT", "Done.") in said and painted == ["blue"]


@pytest.mark.parametrize("way", ["json", "native", "plan", "plan_react"])
async def test_a_recording_has_the_answer(way: str) -> None:
    fields, before, after = WAYS[way]
    async with segue.open(":memory:", agents=[agent([*before, *after], **fields)]) as app:
        waits = await app.ask("Paint the door.", session_id="s", agent="a")
        await app.answer(waits["task_id"], "blue")
        cassette = await record(app, "s")
        replayed = await replay(cassette, agents=[agent((), **fields)])
    assert replayed.difference is None


# A person is asked before a call, and adds to a task that stands: through the app, over several openings.


class Till:
    """A tool that pays, if a person agrees, and one that looks."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool
        def note(text: str) -> str:
            """Write something down."""
            return f"noted {text}"

        self.tools = (pay, note)


def register(app: App, till: Till, script: list[Any], **fields: Any) -> None:
    model = ScriptedChatModel(script)
    app.register(Agent(**{"agent_id": "a", "model": model, "tools": till.tools, "mode": "react", **fields}))


BATCH = call_tool(("note", {"text": "x"}), ("pay", {"amount": 5}), ("pay", {"amount": 7}))


async def test_a_message_joins_a_paused_task(database: Path) -> None:
    till = Till()
    gate, entered = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    def look(messages: list[Any]) -> str:
        seen.append(str(messages[0].content))
        return answer("both")

    till.tools = (slow,)  # type: ignore[assignment]
    async with segue.open(database) as app:
        register(app, till, [call_tool(("slow", {})), look])
        row = await app.start("first", session_id="s", agent="a")
        await entered.wait()
        asyncio.get_running_loop().call_later(0.2, gate.set)
        result = await app.ask("and cheap, please", session_id="s", agent="a", steer=True)
        assert (result["task_id"], result["answer"]) == (row.task_id, "both")
        assert seen == ["first\nand cheap, please"]
        assert "steered" in [event.type for event in (await app.trace(row.task_id)).events]
        said = [m["content"] for m in await app.history("s") if m["role"] == "user"]
        assert said == ["first", "and cheap, please"]
        assert len(await app.tasks.list()) == 1


async def test_what_is_added_while_a_tool_runs_is_stored_at_once_and_survives_the_process(tmp_path: Path) -> None:
    gate, entered, file = asyncio.Event(), asyncio.Event(), tmp_path / "segue.db"

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    till, seen = Till(), list[str]()
    till.tools = (slow,)  # type: ignore[assignment]

    def look(messages: list[Any]) -> str:
        seen.append(str(messages[0].content))
        return answer("both")

    async with segue.open(file) as app:
        register(app, till, [call_tool(("slow", {}))])
        row = await app.start("first", session_id="s", agent="a")
        await entered.wait()
        for line in ("and cheap", "and fast"):
            await app.tasks.accept(Request(line, session_id="s", agent="a", steer=True))
        copy = _copied(file)  # what a kill leaves while the tool runs
        app.stop_now(row.task_id)
    gate.set()
    async with segue.open(copy) as app:
        register(app, till, [look])
        assert (await app.task(row.task_id)).notes == ["and cheap", "and fast"]
        await app._runner.leases.expire("s", await app._runner.leases.last_owner("s"))
        await app.resume(row.task_id)
        said = [m["content"] for m in await app.history("s") if m["role"] == "user"]
        assert (seen, said) == (["first\nand cheap\nand fast"], ["first", "and cheap", "and fast"])


async def test_what_is_added_while_a_task_is_about_to_pause_is_stored_at_once_and_continues_it(database: Path) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    till = Till()
    till.tools = (slow,)  # type: ignore[assignment]
    async with segue.open(database) as app:
        register(app, till, [call_tool(("slow", {})), answer("both")])
        row = await app.start("first", session_id="s", agent="a")
        await entered.wait()
        pausing = asyncio.create_task(app.pause(row.task_id))

        async def asked() -> bool:
            return (await app._runner.tasks.get(row.task_id)).requested == "pause"

        await until(asked)
        accepted = await app.tasks.accept(Request("and cheap", session_id="s", agent="a", steer=True))
        assert (accepted.notes, gate.is_set()) == (["and cheap"], False)
        gate.set()
        await pausing

        async def over() -> bool:
            return (await app.task(row.task_id)).status == "done"

        await until(over)
        assert (await app.task(row.task_id)).result["answer"] == "both"


async def test_what_comes_too_late_for_the_answer_begins_the_next_task(database: Path) -> None:
    async with segue.open(database) as app:

        def decide(_: Any) -> str:
            for task_id in [*app._runner._runs]:
                app._runner._pause_run(task_id)  # before the answer is written
            return answer("one")

        app.register(Agent(agent_id="a", model=ScriptedChatModel([decide, answer("two")]), mode="react"))
        row = await app.start("first", session_id="s", agent="a")
        async for _ in app.follow(row.task_id):
            pass
        for _ in range(2):
            result = await app.ask("more", session_id="s", agent="a", steer=True, idempotency_key="k")
            later, earlier = await app.tasks.list()
            assert (result.task_id, result["answer"], later.message) == (later.task_id, "two", "more")
            assert (earlier.notes, earlier.result["answer"]) == ([], "one")
        said = [m["content"] for m in await app.history("s") if m["role"] == "user"]
        assert said == ["first", "more"]


async def test_a_task_that_cannot_be_continued_in_the_background_is_logged_and_can_be_resumed(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    till = Till()
    till.tools = (slow,)  # type: ignore[assignment]
    async with segue.open(database) as app:
        register(app, till, [call_tool(("slow", {}))])
        task_id = (await app.start("first", session_id="s", agent="a")).task_id
        await entered.wait()
        pausing = asyncio.create_task(app.pause(task_id))

        async def asked() -> bool:
            return (await app._runner.tasks.get(task_id)).requested == "pause"

        await until(asked)
        await app.tasks.accept(Request("and cheap", session_id="s", agent="a", steer=True))
        app.agents.forget("a")
        gate.set()
        await pausing

        async def logged() -> bool:
            return f"Task {task_id} was not continued, and can be resumed: There is no agent" in caplog.text

        await until(logged)
        register(app, till, [answer("both")])
        assert (await app.resume(task_id))["answer"] == "both"


class _Damaging(Observer):
    """Damages the task that begins with what came too late for another one, as it is stored."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def stored(self, task: Task, event: Event) -> None:
        if isinstance(event, NotesMoved):
            self.put_rating("'x'", event.next_task_id)

    def put_rating(self, value: str, task_id: str) -> None:
        with closing(sqlite3.connect(self._file)) as connection, connection:
            connection.execute(f"UPDATE tasks SET rating = {value} WHERE task_id = '{task_id}'")


async def test_a_next_task_that_cannot_be_begun_is_logged_and_can_be_resumed(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with segue.open(database) as app:
        app.tasks.observe(damaging := _Damaging(database))

        def decide(_: Any) -> str:
            for task_id in [*app._runner._runs]:
                app._runner._pause_run(task_id)  # before the answer is written
            return answer("one")

        app.register(Agent(agent_id="a", model=ScriptedChatModel([decide, answer("two")]), mode="react"))
        row = await app.start("first", session_id="s", agent="a")
        async for _ in app.follow(row.task_id):
            pass
        accepted = await app.tasks.accept(Request("more", session_id="s", agent="a", steer=True))
        async for _ in app.follow(accepted.task_id):
            pass
        later, earlier = await app.tasks.list()
        assert (earlier.result["answer"], later.message) == ("one", "more")

        async def logged() -> bool:
            return f"Task {later.task_id} was not begun, and can be resumed:" in caplog.text

        await until(logged)
        damaging.put_rating("NULL", later.task_id)
        assert (await app.resume(later.task_id))["answer"] == "two"


def _copied(file: Path) -> Path:
    """A database as it is now, with its log."""
    copy = file.with_name("killed.db")
    for end in ("", "-wal"):
        shutil.copy(f"{file}{end}", f"{copy}{end}")
    return copy


async def test_steering_a_session_without_a_task_is_an_ordinary_message(database: Path) -> None:
    async with segue.open(database) as app:
        register(app, Till(), [answer("one"), answer("two")])
        await app.ask("first", session_id="s", agent="a", steer=True)
        assert (await app.ask("second", session_id="s", agent="a", steer=True))["answer"] == "two"
        assert len(await app.tasks.list()) == 2


async def test_what_was_added_to_a_cancelled_task_stays_in_the_history(database: Path) -> None:
    till = Till()
    async with segue.open(database) as app:
        register(app, till, [call_tool(("pay", {"amount": 1})), call_tool(("pay", {"amount": 2}))])
        result = await app.ask("go", session_id="s", agent="a")
        with pytest.raises(TaskError, match="is waiting for a person"):
            await app.ask("more", session_id="s", agent="a", steer=True)
        asked = await app.answer(result["task_id"], "approve")
        assert (asked["status"], till.paid) == ("waiting", [1])
        await app.cancel(result["task_id"])
        roles = [m["role"] for m in await app.history("s")]
        assert roles == ["user", "assistant", "tool", "assistant"]


async def test_the_offline_planner_takes_an_edited_call_for_the_one_it_asked_for(database: Path) -> None:
    paid: list[int] = []

    @tool(needs_approval=True, keywords=["pay"])
    def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {amount}"

    async with segue.open(database, agents=[Agent(agent_id="till", tools=(pay,), model="offline")]) as app:
        result = await app.ask("pay 30", agent="till")
        edited = {"verdicts": [{"index": 0, "verdict": "edit", "arguments": {"amount": 31}}]}
        done = await app.answer(result["task_id"], edited)
    assert (done["status"], paid) == ("done", [31])
