"""Tasks that wait for days in no process: until a moment, or for an event, whichever process is there then."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

import segue
from segue import tool
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import InvalidAnswer, QuestionClosed, TaskError, UnknownTask
from tests.checkpoints.damage import damage
from tests.fakes import FixedClock, ScriptedChatModel, answer, call_tool, choose

DAY = 86_400.0
BEGIN = datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()
invoices: list[int] = []


@pytest.fixture
def clock() -> FixedClock:
    invoices.clear()
    return FixedClock(BEGIN)


@segue.tool
def send_invoice(amount: int) -> str:
    """Send an invoice, and wait until it is paid, for three days."""
    invoices.append(amount)
    raise segue.Wait("paid", until=timedelta(days=3))


@segue.tool(read_only=True)
def look(place: str) -> str:
    """Look once something happens at a place."""
    invoices.append(len(place))
    raise segue.Wait(place)


def open_app(path: Path, clock: FixedClock, *script: Any, **fields: Any) -> Any:
    model = ScriptedChatModel([*script])
    tools = (send_invoice, look, "wait")
    agent = Agent(**{"agent_id": "a", "model": model, "tools": tools, "mode": "react", **fields})
    return segue.open(path, agents=[agent], clock=clock)


async def ended(app: App, task_id: str) -> Any:
    """The result of a task, once it is done."""
    for _ in range(500):
        task = await app.task(task_id)
        if task.status in ("done", "error"):
            return task.result or task.error
        await asyncio.sleep(0.01)
    raise AssertionError(task.status)


def results(trace: Any) -> list[Any]:
    return [event.data["result"] for event in trace.events if event.type == "tool_result"]


async def test_a_wait_of_three_days_outlives_its_process_and_sends_no_second_invoice(
    database: Path, clock: FixedClock
) -> None:
    async with open_app(database, clock, call_tool(("send_invoice", {"amount": 50}))) as first:
        asked = await first.ask("Sell it.", session_id="s", agent="a")
        assert (asked["status"], asked["question"]["kind"]) == ("waiting", "wait")
        assert asked["question"]["question"] == "Waiting for the event paid, until 2027-01-04 12:00 UTC at the latest."
        assert await first.waiting() == [], "no person is asked"
        (began,) = [e for e in await first.events(asked["task_id"]) if e.type == "wait_started"]
        assert (began.data["name"], began.data["until"]) == ("paid", BEGIN + 3 * DAY)
        assert [call.state for call in (await first.trace(asked["task_id"])).calls] == ["done"]
    clock.now += 2 * DAY
    async with open_app(database, clock) as second:
        await second.schedules.run_due()
        assert (await second.task(asked["task_id"])).status == "waiting"
        with pytest.raises(TaskError, match="is waiting for a time or an event"):
            await second.resume(asked["task_id"])
        with pytest.raises(InvalidAnswer, match="is not waiting for a person"):
            await second.answer(asked["task_id"], "paid")
    clock.now += DAY + 1
    async with open_app(database, clock, answer("Nobody paid.")) as third:
        await third.schedules.run_due()
        assert (await ended(third, asked["task_id"]))["answer"] == "Nobody paid."
        (result,) = results(await third.trace(asked["task_id"]))
        assert result == {"success": {"until": "2027-01-04T12:00:00+00:00"}} and invoices == [50]


async def test_an_event_ends_a_wait_and_its_data_is_the_result(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, call_tool(("send_invoice", {"amount": 50})), answer("Thanks.")) as app:
        asked = await app.ask("Sell it.", agent="a")
        await app.send_event(asked["task_id"], "delivered", 1)
        await app.schedules.run_due()
        assert (await app.task(asked["task_id"])).status == "waiting"
        await app.send_event(asked["task_id"], "paid", {"amount": 50, "who": "安"})
        assert (await ended(app, asked["task_id"]))["answer"] == "Thanks."
        (result,) = results(await app.trace(asked["task_id"]))
        assert result == {"success": {"event": "paid", "data": {"amount": 50, "who": "安"}}} and invoices == [50]
        with pytest.raises(TaskError, match="it accepts no events"):
            await app.send_event(asked["task_id"], "paid")
        with pytest.raises(UnknownTask):
            await app.send_event("nobody", "paid")
        for name, data in (("not a name", None), ("paid", {1, 2}), ("paid", "x" * 300_000)):
            with pytest.raises(InvalidAnswer):
                await app.send_event(asked["task_id"], name, data)


async def test_an_event_that_comes_before_the_wait_is_kept(database: Path, clock: FixedClock) -> None:
    script = [call_tool(("wait_for_event", {"name": "first"})), call_tool(("wait_for_event", {"name": "early"}))]
    async with open_app(database, clock, *script, answer("Both came.")) as app:
        asked = await app.ask("m", agent="a")
        for number in (1, 2):
            await app.send_event(asked["task_id"], "early", number)
        await app.send_event(asked["task_id"], "first")
        assert (await ended(app, asked["task_id"]))["answer"] == "Both came."
        data = [result["success"]["data"] for result in results(await app.trace(asked["task_id"]))]
        assert data == [None, 1], "the first of the two"


async def test_the_model_waits_until_a_moment(database: Path, clock: FixedClock) -> None:
    script = [call_tool(("wait_until", {"time": "soon"})), call_tool(("wait_until", {"time": "2027-02-01T09:00Z"}))]
    async with open_app(database, clock, *script, answer("It is February.")) as app:
        asked = await app.ask("m", agent="a")
        assert asked["question"]["until"] == datetime(2027, 2, 1, 9, tzinfo=UTC).timestamp()
        (refused,) = results(await app.trace(asked["task_id"]))
        assert "'soon' is not a valid time" in refused["error"]
        clock.now += 40 * DAY
        await app.schedules.run_due()
        assert (await ended(app, asked["task_id"]))["answer"] == "It is February."


async def test_calls_that_wait_beside_each_other_wait_for_each(database: Path, clock: FixedClock) -> None:
    both = call_tool(("look", {"place": "north"}), ("look", {"place": "south"}))
    async with open_app(database, clock, both, answer("Seen.")) as app:
        asked = await app.ask("m", agent="a")
        await app.send_event(asked["task_id"], "south", 2)
        await app.send_event(asked["task_id"], "north", 1)
        assert (await ended(app, asked["task_id"]))["answer"] == "Seen."
        data = [result["success"]["data"] for result in results(await app.trace(asked["task_id"]))]
        assert data == [1, 2] and invoices == [5, 5], "each ran once"


async def test_of_many_processes_one_continues_a_task(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, call_tool(("wait_for_event", {"name": "go"}))) as app:
        asked = await app.ask("m", agent="a")
    async with open_app(database, clock, answer("1")) as one, open_app(database, clock, answer("1")) as two:
        await one.send_event(asked["task_id"], "go")
        await asyncio.gather(*(app.schedules.run_due() for app in (one, two) for _ in range(4)))
        await ended(one, asked["task_id"])
        changes = [e.data for e in await one.events(asked["task_id"]) if e.type == "resumed"]
        assert len(changes) == 1


async def test_a_cancelled_wait_is_over(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, call_tool(("send_invoice", {"amount": 5})), answer("hello")) as app:
        asked = await app.ask("m", session_id="s", agent="a")
        await app.cancel(asked["task_id"])
        cancelled = await app.task(asked["task_id"])
        assert (cancelled.status, cancelled.result["unknown_outcomes"]) == ("cancelled", [])
        clock.now += 9 * DAY
        await app.schedules.run_due()
        assert (await app.ask("again", session_id="s", agent="a"))["answer"] == "hello"


async def test_a_fork_and_an_import_of_a_waiting_task_wait_once_they_are_resumed(
    database: Path, clock: FixedClock
) -> None:
    script = [call_tool(("send_invoice", {"amount": 5}))]
    async with open_app(database, clock, *script, answer("1"), answer("2")) as app:
        await app.ask("m", session_id="s", agent="a")
        snapshot = (await app.sessions.snapshots("s"))[0].checkpoint_id
        fork = await app.rewind.fork("s", snapshot, session_id="fork")
        copy = await app.sessions.import_(await app.sessions.export("s"), session_id="copy")
        for task in (fork, copy):
            assert task.status == "paused", task.status
            assert (await app.resume(task.task_id))["question"]["event"] == "paid"
            await app.send_event(task.task_id, "paid")
            await ended(app, task.task_id)
        assert invoices == [5]


@pytest.mark.parametrize("mode", ["plan", "controller"])
async def test_steps_of_a_plan_and_branches_of_a_flow_wait(database: Path, clock: FixedClock, mode: str) -> None:
    step = {"step_id": "1", "description": "d", "action": "send_invoice", "params": {"amount": 5}}
    plan = json.dumps({"goal": "g", "steps": [step]})
    script = (
        [plan, "Paid."]
        if mode == "plan"
        else [choose("send_invoice", amount=5), choose("final_answer", answer="Paid.")]
    )
    message = "1. send it\n2. tell about it" if mode == "controller" else "m"
    async with open_app(database, clock, *script, mode=mode) as app:
        asked = await app.ask(message, agent="a")
        assert asked["question"]["event"] == "paid"
        await app.send_event(asked["task_id"], "paid", 5)
        assert (await ended(app, asked["task_id"]))["answer"] == "Paid."
        assert invoices == [5]
        (result,) = results(await app.trace(asked["task_id"]))
        assert result == {"success": {"event": "paid", "data": 5}}


async def test_the_history_has_the_result_of_a_native_call_that_waited(database: Path, clock: FixedClock) -> None:
    script = [AIMessage("", tool_calls=[{"name": "send_invoice", "args": {"amount": 5}, "id": "c1"}]), "ok"]
    async with open_app(database, clock, *script, protocol="native") as app:
        asked = await app.ask("m", agent="a")
        await app.send_event(asked["task_id"], "paid", 1)
        await ended(app, asked["task_id"])
        (said,) = [each for each in await app.history(asked["session_id"]) if each["role"] == "tool"]
        assert json.loads(said["content"]) == {"event": "paid", "data": 1}


# The inbox: questions and approvals wait together, are answered later, and outlive their process.


paid: list[int] = []


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@tool
def note(text: str) -> str:
    """Write something down."""
    paid.append(len(text))
    return f"noted {text}"


PLAN = "1. note it\n2. ask about it"
ASK = choose("ask_user", question="Which colour?")


def register(app: App, *script: Any, **fields: Any) -> None:
    model = ScriptedChatModel(script)
    app.register(Agent(**{"agent_id": "a", "model": model, "tools": (pay, note), "mode": "controller", **fields}))


async def test_a_question_is_answered_by_another_process_and_nothing_runs_twice(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db") as first:
        register(first, choose("note", text="abc"), ASK)
        asked = await first.ask(PLAN, session_id="s", agent="a")
        assert (asked["status"], asked["question"]["question"]) == ("waiting", "Which colour?")
        (event,) = [e for e in await first.events(asked["task_id"]) if e.type == "question_asked"]
        assert event.data["question"] == "Which colour?"
    async with segue.open(tmp_path / "segue.db") as second:
        register(second, choose("final_answer", answer="It is blue."))
        (waiting,) = await second.waiting()
        assert (waiting.kind, waiting.question) == ("question", "Which colour?")
        assert waiting.since >= (await second.task(asked["task_id"])).created_at and "answer" in waiting.answer
        with pytest.raises(InvalidAnswer):
            await second.answer(asked["task_id"], " ")
        done = await second.answer(asked["task_id"], "blue")
        assert (done["status"], done["answer"], paid) == ("done", "It is blue.", [3])
        assert await second.waiting() == []
        said = [(message["role"], message["content"]) for message in await second.history("s")]
        assert said[-3:] == [("assistant", "Which colour?"), ("user", "blue"), ("assistant", "It is blue.")]
        (given,) = [e for e in await second.events(asked["task_id"]) if e.type == "question_answered"]
        assert given.data["answer"] == "blue"


async def test_questions_and_approvals_share_one_inbox_the_longest_waiting_first(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, call_tool(("pay", {"amount": 5})), mode="react")
        approval = await app.ask("pay", session_id="x:1", agent="a")
        register(app, ASK)
        question = await app.ask(PLAN, session_id="y:1", agent="a")
        found = await app.waiting()
        assert [(row.task_id, row.kind) for row in found] == [
            (approval["task_id"], "approval"),
            (question["task_id"], "question"),
        ]
        assert found[0].calls[0]["arguments"] == {"amount": 5} and "verdicts" in found[0].answer
        assert [row.task_id for row in await app.waiting(prefix="y:")] == [question["task_id"]]
        damage(tmp_path / "segue.db", "UPDATE checkpoints SET checkpoint = x'00' WHERE thread_id = 'y:1'")
        broken = (await app.waiting())[1]
        assert (broken.kind, "damaged" in broken.problem) == ("", True)


async def test_an_answer_to_a_question_that_is_not_open_is_refused_by_its_id(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db") as app:
        script = [call_tool(("pay", {"amount": 5})), call_tool(("pay", {"amount": 6})), answer("paid")]
        register(app, *script, mode="react")
        task_id = (await app.ask("pay", session_id="s", agent="a"))["task_id"]
        first = (await app.waiting())[0].interrupt_id
        assert (await app.answer(task_id, "approve", interrupt_id=first))["status"] == "waiting"
        second = (await app.question(task_id))["interrupt_id"]
        with pytest.raises(QuestionClosed, match=f"Question {first} .* no longer open; {second} is: pay"):
            await app.answer(task_id, "reject", interrupt_id=first)
        await app.answer(task_id, "approve", interrupt_id=second)
        with pytest.raises(QuestionClosed, match="the task is done"):
            await app.answer(task_id, "reject", interrupt_id=second)
    assert paid == [5, 6]


async def test_of_two_answers_at_the_same_time_exactly_one_counts(tmp_path: Path) -> None:
    paid.clear()
    script = [call_tool(("pay", {"amount": 5})), call_tool(("pay", {"amount": 6})), answer("paid")]
    async with segue.open(tmp_path / "segue.db") as one, segue.open(tmp_path / "segue.db") as other:
        register(one, *script, mode="react")
        register(other, *script[1:], mode="react")
        task_id = (await one.ask("pay", session_id="s", agent="a"))["task_id"]
        answers = [one.answer(task_id, "approve"), other.answer(task_id, "reject")]
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(isinstance(result, TaskError) for result in results) == 1
        given = [e.data["verdicts"] for e in await one.events(task_id) if e.type == "approval_given"]
        assert len(given) == 1 and paid == ([5] if given[0][0]["verdict"] == "approve" else [])


async def test_a_call_whose_tool_is_gone_is_not_approved_but_can_be_rejected(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db") as app:
        register(app, call_tool(("pay", {"amount": 5})), mode="react")
        task_id = (await app.ask("pay", agent="a"))["task_id"]
        register(app, tools=(note,))
        for verdict in ({"verdict": "approve"}, {"verdict": "edit", "arguments": {"amount": 1}}):
            with pytest.raises(InvalidAnswer, match="The agent a no longer has the tool pay: add it"):
                await app.answer(task_id, [{"index": 0, **verdict}])
        assert (await app.task(task_id)).status == "waiting"
        register(app, answer("paid"), mode="react")
        assert ((await app.answer(task_id, "approve"))["answer"], paid) == ("paid", [5])
        register(app, call_tool(("pay", {"amount": 6})), mode="react")
        task_id = (await app.ask("pay again", agent="a"))["task_id"]
        register(app, answer("not paid"), tools=(note,))
        assert ((await app.answer(task_id, "reject"))["answer"], paid) == ("not paid", [5])
