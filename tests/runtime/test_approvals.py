"""A call that needs approval, in every mode and with every decision."""

from pathlib import Path
from typing import Any

import pytest

import segue
from segue.core.digests import tool_digest
from segue.core.errors import InvalidAnswer, TaskError
from segue.tools.registry import as_tool
from tests.modes import CALLING, agent_that

APPROVED = {"index": 0, "verdict": "approve"}
EDITED = {"index": 0, "verdict": "edit", "arguments": {"amount": 10}}
DECISIONS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "approve": (APPROVED, [1, 2]),
    "edit": (EDITED, [10, 2]),
    "reject": ({"index": 0, "verdict": "reject", "reason": "too dear"}, [2]),
    "always": ({**APPROVED, "always": "task"}, [1, 2]),
}
"""What a person decides about a payment of 1, and the payments that are made when one of 2 follows and is approved."""
FIRST, SECOND = ("pay", {"amount": 1}), ("pay", {"amount": 2})


IN_FEW = {"approve", "always"}
"""Decisions that the second payment, or the runner of calls, has in common with every mode."""


@pytest.mark.parametrize(
    ("decision", "mode"),
    [(decision, mode) for decision in DECISIONS for mode in (("react", "plan") if decision in IN_FEW else CALLING)],
)
async def test_a_call_waits_and_is_what_the_person_decides(database: Path, mode: str, decision: str) -> None:
    paid: list[int] = []

    @segue.tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    verdict, expected = DECISIONS[decision]
    agent = agent_that(mode, FIRST, SECOND, plans=[[SECOND]] if decision == "reject" else [], tools=(pay,))
    async with segue.open(database, agents=[agent]) as app:
        asked = await app.ask("go", session_id="s", agent="a")
        assert (asked["status"], asked["success"], paid) == ("waiting", False, [])
        (call,) = asked["question"]["calls"]
        version = tool_digest(as_tool(pay))
        assert {"index": 0, "name": "pay", "arguments": {"amount": 1}, "version": version}.items() <= call.items()
        assert [event.type for event in await app.events(asked["task_id"])][-1] == "approval_requested"
    async with segue.open(database, agents=[agent]) as app:
        task_id = asked["task_id"]
        assert await app.resumable() == []
        with pytest.raises(TaskError, match="is waiting for a person"):
            await app.resume(task_id)
        for wrong in ("perhaps", [{**APPROVED, "index": 1}], [{**EDITED, "arguments": {"sum": 1}}]):
            with pytest.raises(InvalidAnswer):
                await app.answer(task_id, wrong)
        assert paid == []
        done = await app.answer(task_id, {"verdicts": [verdict]})
        if decision != "always":
            assert done["status"] == "waiting"
            assert [call["arguments"] for call in done["question"]["calls"]] == [{"amount": 2}]
            done = await app.answer(task_id, "approve")
        assert (done["status"], paid) == ("done", expected)
        with pytest.raises(TaskError, match="is not waiting for an answer"):
            await app.answer(task_id, "approve")
        events = await app.events(task_id)
    told = [event.data for event in events if event.type == "tool_result"]
    if decision == "reject":
        assert told[0]["result"]["rejected"] is True and "by the person: too dear" in told[0]["result"]["error"]
    succeeded = [data["result"]["success"] for data in told if "success" in data["result"]]
    assert succeeded == [f"paid {amount}" for amount in expected]
    given = [event.data["verdicts"] for event in events if event.type == "approval_given"]
    original = {"original": {"amount": 1}} if decision == "edit" else {}
    (by,) = given[0][0]["by"]
    assert given[0] == [{**verdict, **original, "by": [by]}]
    assert (by["by"], by["verdict"]) == ("python", verdict["verdict"])
    permitted = [event.data["scope"] for event in events if event.type == "call_permitted"]
    assert permitted == ["task"] * (decision == "always")
    agent.model.assert_spent()
