"""A call that needs approval, in every mode and with every decision."""

import base64
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import ApprovalSettings, Receiver, tool
from segue.app import App
from segue.core.agents import Agent
from segue.core.digests import tool_digest
from segue.core.errors import ConfigurationError, InvalidAnswer, TaskError
from segue.core.schedules import load_deadlines
from segue.entry import Opening
from segue.tools.registry import as_tool
from tests.fakes import FixedClock, ScriptedChatModel, answer, call_tool
from tests.modes import CALLING, agent_that
from tests.polling import until
from tests.receivers import HttpReceiver

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


# Approvals that wait: reminders, escalation and expiry, by the clock, in whichever process is there.


DAY = 86_400.0
paid: list[int] = []


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return f"paid {amount}"


@tool(approvals=2)
def pay_much(amount: int) -> str:
    """Pay an amount that two persons approve."""
    return pay(amount)


class Clock:
    """The time, and what a test adds to it."""

    later = 0.0

    def __call__(self) -> float:
        return time.time() + self.later


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setenv("HOOK_SECRET", base64.b64encode(bytes(32)).decode())
    monkeypatch.setattr("segue.runtime.worker.LOOK_SECONDS", 0.02)
    return Clock()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    paid.clear()
    with HttpReceiver() as it:
        yield it


def hook(receiver: HttpReceiver, name: str = "ops", **fields: Any) -> Receiver:
    return Receiver(name=name, url=receiver.url, secret="HOOK_SECRET", allow_private=True, **fields)


def register(app: App, *script: Any) -> None:
    app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(pay, pay_much), mode="react"))


def opened(database: Path, clock: Clock, notify: list[Receiver], **deadlines: Any) -> Opening:
    return segue.open(database, clock=clock, notify=notify, approvals=ApprovalSettings(**deadlines))


async def delivered(app: App) -> bool:
    return not await app.notifications.list()


ASK = call_tool(("pay", {"amount": 5}))


async def test_who_was_told_is_reminded_and_others_are_told_later(
    database: Path, clock: Clock, receiver: HttpReceiver
) -> None:
    notify = [hook(receiver, on=["waiting"]), hook(receiver, "boss", on=["error"])]
    times = {"remind_after": "4h", "escalate_after": "2d", "escalate_to": ["boss"]}
    async with opened(database, clock, notify, **times) as app:
        register(app, ASK, answer("Paid."))
        asked = await app.ask("pay", session_id="s", agent="a")
        await until(lambda: receiver.types == ["task.waiting"])
        await until(lambda: delivered(app))  # what is not due is no undelivered notification
        clock.later = 0.2 * DAY
        await until(lambda: receiver.types == ["task.waiting", "task.reminder"])
    async with opened(database, clock, notify, **times) as app:  # another process
        clock.later = 3 * DAY
        await until(lambda: receiver.types == ["task.waiting", "task.reminder", "task.escalation"])
        question = receiver.got[0].form["data"]["question"]
        assert [each.form["data"]["question"] for each in receiver.got] == [question] * 3
        register(app, answer("Paid."))
        assert (await app.answer(asked["task_id"], "approve"))["status"] == "done"


@pytest.mark.usefixtures("clock")
async def test_reminders_and_days_of_spending_go_by_the_clock_of_the_app(
    database: Path, receiver: HttpReceiver
) -> None:
    now = FixedClock(datetime(2030, 3, 30, 23, tzinfo=UTC).timestamp())
    notify = [hook(receiver, on=["waiting"])]
    spend = {"per_day_tokens": 10**6, "timezone": "Europe/Berlin"}
    deadlines = ApprovalSettings(remind_after=60)
    async with segue.open(database, clock=now, notify=notify, spend=spend, approvals=deadlines) as app:
        register(app, ASK)
        await app.ask("pay", session_id="s", agent="a")
        await until(lambda: receiver.types == ["task.waiting"])
        assert await app.schedules.next_due() == now.now + 60
        (use,) = (await app.tasks.usage_report(1)).limits
        assert (use.day, use.used > 0) == ("2030-03-31", True)
        now.advance(60)
        await app.schedules.run_due()
        await app.notifications.sent()
        assert receiver.types == ["task.waiting", "task.reminder"]


async def test_an_answer_ends_the_reminders(database: Path, clock: Clock, receiver: HttpReceiver) -> None:
    async with opened(database, clock, [hook(receiver)], remind_after=60, expire_after=90, on_expiry="cancel") as app:
        register(app, ASK, answer("Paid."))
        asked = await app.ask("pay", session_id="s", agent="a")
        await app.answer(asked["task_id"], "approve")
        await until(lambda: len(receiver.got) == 2)
        await until(lambda: delivered(app))
        clock.later = DAY
        await until(lambda: delivered(app))
        assert (await app.task(asked["task_id"])).status == "done"
    assert sorted(receiver.types) == ["task.done", "task.waiting"]


async def test_an_expired_approval_waits_on_and_says_so(database: Path, clock: Clock, receiver: HttpReceiver) -> None:
    async with opened(database, clock, [hook(receiver)], expire_after="1d") as app:
        register(app, ASK, answer("Paid."))
        asked = await app.ask("pay", session_id="s", agent="a")
        (before,) = await app.waiting()
        assert before.problem == ""
        await until(lambda: receiver.types == ["task.waiting"])
        await until(lambda: delivered(app))
        clock.later = 2 * DAY
        await until(lambda: receiver.types == ["task.waiting", "task.expired"])
        (after,) = await app.waiting()
        assert after == replace(before, problem="The approval expired without a decision.")
        assert receiver.got[1].form["data"]["error"] == after.problem
        done = await app.answer(asked["task_id"], "approve")
        assert (done["status"], paid) == ("done", [5])
        assert (await app.task(asked["task_id"])).error is None


@pytest.mark.parametrize(("on_expiry", "status"), [("reject", "done"), ("cancel", "cancelled")])
async def test_an_expired_approval_is_rejected_or_its_task_cancelled_where_that_is_chosen(
    database: Path, clock: Clock, receiver: HttpReceiver, on_expiry: str, status: str
) -> None:
    async with opened(database, clock, [], expire_after="1d", on_expiry=on_expiry) as app:
        register(app, ASK, answer("Not paid."))
        asked = await app.ask("pay", session_id="s", agent="a")
        clock.later = 2 * DAY

        async def ended() -> bool:
            return bool((await app.task(asked["task_id"])).status == status)

        await until(ended)
        events = [event.data for event in await app.events(asked["task_id"]) if event.type == "approval_given"]
    assert paid == []
    reasons = [verdict["reason"] for data in events for verdict in data["verdicts"]]
    assert reasons == (["The approval expired without a decision."] if on_expiry == "reject" else [])


@pytest.mark.parametrize(("on_expiry", "status"), [("wait", "waiting"), ("reject", "done"), ("cancel", "cancelled")])
async def test_an_approval_expires_after_the_first_of_two_persons_approved(
    database: Path, clock: Clock, receiver: HttpReceiver, on_expiry: str, status: str
) -> None:
    async with opened(database, clock, [], expire_after="1d", on_expiry=on_expiry) as app:
        register(app, call_tool(("pay_much", {"amount": 5})), answer("Over."))
        task_id = (await app.ask("pay", session_id="s", agent="a"))["task_id"]
        clock.later = 0.6 * DAY
        with segue.acting("ann"):
            assert (await app.answer(task_id, "approve"))["status"] == "waiting"
        clock.later = 1.2 * DAY

        async def expired() -> bool:
            left = await app.waiting()
            return not left or "The approval expired" in left[0].problem

        await until(expired)
        await until(lambda: not app.tasks.running())
        assert ((await app.task(task_id)).status, paid) == (status, [])
        if status == "waiting":
            (waiting,) = await app.waiting()
            assert waiting.problem.startswith("Approved by ann; one more person must approve. The approval expired")
            with segue.acting("bob"):
                assert (await app.answer(task_id, "approve"))["status"] == "done"
            assert paid == [5]


async def test_a_receiver_to_escalate_to_has_to_be_there() -> None:
    with pytest.raises(ConfigurationError, match="'boss', which is not a receiver"):
        await segue.open(":memory:", approvals=ApprovalSettings(escalate_after=60, escalate_to=["boss"]))


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ('remind_after = "soon"', "remind_after: write a time such as 30m, 4h or 2d"),
        ("escalate_after = 5", "escalate_after and escalate_to go together"),
        ('on_expiry = "reject"', "on_expiry goes with expire_after"),
        ("expire_after = 0", "expire_after: "),
        ("remind = 5", "remind: Extra inputs"),
    ],
)
def test_a_table_that_is_wrong_is_named(tmp_path: Path, table: str, match: str) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(f"[approvals]\n{table}\n")
    with pytest.raises(ConfigurationError, match=match):
        load_deadlines(file)
    file.write_text("")
    assert load_deadlines(file) is None
