"""The inbox: questions and approvals wait together, are answered later, and outlive their process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import InvalidAnswer, QuestionClosed, TaskError
from tests.checkpoints.damage import damage
from tests.fakes import ScriptedChatModel, answer, call_tool, choose

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
