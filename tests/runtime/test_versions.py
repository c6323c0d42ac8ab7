"""An approval and a permission count for the tool that a person saw; of a changed tool they are asked again."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.core.agents import Agent
from segue.core.errors import TaskError
from segue.runtime.history import checked_edit
from tests.fakes import ScriptedChatModel, answer, call_tool

PAY = call_tool(("pay", {"amount": 1}))
ALWAYS = {"verdicts": [{"index": 0, "verdict": "approve", "always": "session"}]}
paid: list[tuple[int, str]] = []


def cautious() -> Callable[..., Any]:
    @tool(needs_approval=True)
    def pay(amount: int, account: str = "own", fee: Decimal = Decimal("0.5")) -> str:
        """Pay."""
        paid.append((amount, account))
        return "paid"

    return pay


def changed() -> Callable[..., Any]:
    @tool(needs_approval=True)
    def pay(amount: int, account: str = "the company's", fee: Decimal = Decimal("0.5")) -> str:
        """Pay."""
        paid.append((amount, account))
        return "paid"

    return pay


def agent(source: Callable[..., Any], *script: str) -> Agent:
    return Agent(agent_id="a", model=ScriptedChatModel(script), tools=(source,), mode="react")


async def test_a_question_shows_every_default_of_the_tool(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY)]) as app:
        asked = await app.ask("pay", agent="a")
    (call,) = asked["question"]["calls"]
    assert call["arguments"] == {"amount": 1, "account": "own", "fee": "0.5"}


async def test_an_approval_of_a_tool_that_changed_is_asked_for_again(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY)]) as app:
        asked = await app.ask("pay", agent="a")
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), answer("paid"))]) as app:
        again = await app.answer(asked["task_id"], "approve")
        assert (again["status"], paid) == ("waiting", [])
        question = again["question"]
        assert question["calls"][0]["arguments"]["account"] == "the company's"
        assert question["problem"].startswith("pay has changed since you were asked")
        done = await app.answer(asked["task_id"], "approve")
    assert (done["status"], paid) == ("done", [(1, "the company's")])


async def test_an_earlier_approval_does_not_count_again_where_the_tool_is_what_it_was(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY)]) as app:
        asked = await app.ask("pay", agent="a")
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), answer("paid"))]) as app:
        assert (await app.answer(asked["task_id"], "approve"))["status"] == "waiting"
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), answer("not paid"))]) as app:
        again = await app.answer(asked["task_id"], "reject")
        assert (again["status"], paid) == ("waiting", [])
        assert again["question"]["problem"].startswith("pay has changed")
        done = await app.answer(asked["task_id"], "reject")
    assert (done["status"], done["answer"], paid) == ("done", "not paid", [])


async def test_a_permission_of_a_tool_that_changed_is_asked_for_again(tmp_path: Path) -> None:
    paid.clear()
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), PAY, answer("1"), PAY, answer("2"))]) as app:
        asked = await app.ask("pay", agent="a", session_id="s")
        await app.answer(asked["task_id"], ALWAYS)
        assert (await app.ask("again", agent="a", session_id="s"))["status"] == "done"
    script = (PAY, answer("3"), PAY, answer("4"))
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), *script)]) as app:
        again = await app.ask("again", agent="a", session_id="s")
        assert again["question"]["problem"].startswith("pay has changed")
        assert (await app.answer(again["task_id"], ALWAYS))["status"] == "done"
        assert (await app.ask("once more", agent="a", session_id="s"))["status"] == "done"
    assert paid == [(1, "own"), (1, "own"), (1, "the company's"), (1, "the company's")]


async def test_a_changed_tool_takes_no_result_of_the_client_for_an_answer(tmp_path: Path) -> None:
    paid.clear()
    show = {"name": "show", "description": "Show a page.", "parameters": {"properties": {"page": {}}}}
    batch = call_tool(("show", {"page": "cart"}), ("pay", {"amount": 1}))
    async with segue.open(tmp_path / "segue.db", agents=[agent(cautious(), batch)]) as app:
        asked = await app.ask("pay", agent="a", client_tools=[show])
        assert asked["question"]["kind"] == "approval"
        waiting = await app.answer(asked["task_id"], "approve")
        assert waiting["question"]["client_calls"][0]["name"] == "show"
    async with segue.open(tmp_path / "segue.db", agents=[agent(changed(), answer("paid"))]) as app:
        again = await app.answer(asked["task_id"], "shown the cart")
        assert again["question"]["problem"].startswith("pay has changed")
        done = await app.answer(asked["task_id"], "approve")
        results = [e.data["result"] for e in await app.events(asked["task_id"]) if e.type == "tool_result"]
    assert (done["status"], paid) == ("done", [(1, "the company's")])
    assert results == [{"success": "shown the cart"}, {"success": "paid"}]


def test_a_changed_state_keeps_the_calls_in_their_places() -> None:
    call = {"index": 0, "name": "pay", "arguments": {"amount": 1}, "scope": "r", "origin": "r/0", "step_id": ""}
    changed_call = {"arguments": {"amount": 2}, "scope": "another", "approved": "by nobody"}
    kept = {"calls": [{**call, "arguments": {"amount": 2}}]}
    assert checked_edit({"calls": [call]}, {"calls": [changed_call]}) == kept
    assert checked_edit({"call": call}, {"call": changed_call}) == {"call": kept["calls"][0]}
    for wrong in ([], [call, call], ["pay"]):
        with pytest.raises(TaskError, match="holds 1 calls"):
            checked_edit({"calls": [call]}, {"calls": wrong})
