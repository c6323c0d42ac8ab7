"""A call that was under way when its process stopped, in every mode and with every kind of tool."""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import NOT_DONE, Agent, App, CallContext
from tests.fakes import ScriptedChatModel, answer
from tests.modes import CALLING, agent_that

PAY = ("pay", {"order": "A1"})
STEPS = ("plan", "plan_react", "controller")
"""Modes in which a call belongs to a step of a plan; in plan mode it belongs to no trace."""
APPROVED = {"index": 0, "verdict": "approve"}
IN_EVERY_MODE = ("a check that says not done", "no check", "always approved")
"""What the modes carry on with: a call that is made again, one that is not, and a person's answer beside a permission.

The other kinds are told apart by the executor and the runner of calls, which are the same in every mode.
"""


def in_modes(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Each kind of tool with each mode in which it is tried; a plan that is rejected is made anew."""
    few = {"rejected": ("react", "plan")}
    return [
        (kind, mode) for kind in kinds for mode in (CALLING if kind in IN_EVERY_MODE else few.get(kind, ("react",)))
    ]


class Shop:
    """A tool that takes effect and then hangs until its process stops, the first time."""

    def __init__(self, marks: Mapping[str, Any]) -> None:
        self.calls: list[CallContext] = []
        self.needs_approval = bool(marks.get("needs_approval"))
        self.took_effect = asyncio.Event()
        self.hangs = True

        async def pay(order: str, call: CallContext) -> str:
            """Pay an order."""
            self.calls.append(call)
            self.took_effect.set()
            if self.hangs:
                await asyncio.Event().wait()
            return f"{order} paid"

        self.tool = segue.tool(**marks)(pay)

    async def interrupt(self, app: App, always: bool = False) -> str:
        """Begin a task, approve its call where that is asked for, and stop the task once the call took effect."""
        asking = app.ask("pay A1", session_id="s", agent="a", user_id="ann")
        if self.needs_approval:
            verdict = {**APPROVED, "always": "session"} if always else APPROVED
            asking = app.answer((await asking)["task_id"], [verdict])
        running = asyncio.create_task(asking)
        await asyncio.wait_for(self.took_effect.wait(), 60)
        (task,) = await app.tasks.list()
        app.stop_now(task.task_id)
        await asyncio.gather(running, return_exceptions=True)
        self.hangs = False
        return str(task.task_id)


def paid(order: str, call: CallContext) -> str:
    assert (call.attempt, call.session_id, call.user_id, call.tool) == (2, "s", "ann", "pay")
    return f"{order} was paid"


def unreachable() -> str:
    raise ConnectionError("the bank does not answer")


SETTLED: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "a check that knows": ({"check": paid}, ["A1 was paid", "A1 paid"]),
    "a check that says not done": ({"check": lambda: NOT_DONE}, ["A1 paid"] * 2),
    "idempotent": ({"idempotent": True}, ["A1 paid"] * 2),
    "read only": ({"read_only": True}, ["A1 paid"] * 2),
}
"""Marks of a tool by which an interrupted call is settled, and what comes of it and of a second one like it."""


@pytest.mark.parametrize(("kind", "mode"), in_modes(SETTLED))
async def test_an_interrupted_call_is_settled_or_made_again_with_its_key(database: Path, kind: str, mode: str) -> None:
    marks, outcomes = SETTLED[kind]
    shop = Shop(marks)
    agent = agent_that(mode, PAY, PAY, tools=(shop.tool,))
    async with segue.open(database, agents=[agent]) as app:
        task_id = await shop.interrupt(app)
    async with segue.open(database, agents=[agent]) as app:
        done = await app.resume(task_id)
        calls = (await app.trace(task_id)).calls
    assert (done["status"], done["success"]) == ("done", True)
    assert [call.outcome for call in calls] == [{"success": outcome} for outcome in outcomes]
    *again, second = shop.calls
    assert (again[0].session_id, again[0].user_id, again[0].tool) == ("s", "ann", "pay")
    assert (bool(again[0].trace_id), bool(again[0].step_id)) == (mode != "plan", mode in STEPS)
    assert [call.attempt for call in again] == [1, 2][: 1 + (outcomes[0] == "A1 paid")] and second.attempt == 1
    assert len({call.idempotency_key for call in again}) == 1 and second.idempotency_key != again[0].idempotency_key
    agent.model.assert_spent()


UNKNOWN: dict[str, tuple[Mapping[str, Any], Any]] = {
    "no check": ({}, None),
    "a check that cannot tell": ({"check": lambda: None}, None),
    "a check that fails": ({"check": unreachable}, None),
    "approved": ({"needs_approval": True}, "approve"),
    "rejected": ({"needs_approval": True}, "reject"),
    "always approved": ({"needs_approval": True}, "approve"),
}
"""Marks of a tool by which nobody knows of an interrupted call, and what a person says to a second one like it."""


@pytest.mark.parametrize(("kind", "mode"), in_modes(UNKNOWN))
async def test_a_call_like_one_of_unknown_outcome_is_made_by_a_persons_decision_only(
    database: Path, kind: str, mode: str
) -> None:
    marks, decision = UNKNOWN[kind]
    shop = Shop(marks)
    agent = agent_that(mode, PAY, PAY, plans=[[PAY]] * (1 + (decision == "reject")), tools=(shop.tool,))
    async with segue.open(database, agents=[agent]) as app:
        task_id = await shop.interrupt(app, always=kind == "always approved")
    async with segue.open(database, agents=[agent]) as app:
        done = await app.resume(task_id)
        assert (done["status"], len(shop.calls)) == ("waiting" if decision else "done", 1)
        while done["status"] == "waiting":
            (call,) = done["question"]["calls"]
            assert (call["name"], call["unknown_outcome"]) == ("pay", True)
            done = await app.answer(task_id, decision)
        first, *more = (await app.trace(task_id)).calls
    assert done["status"] == ("error" if (mode, kind) == ("plan", "rejected") else "done")
    assert done["unknown_outcomes"] == [{"name": "pay", "arguments": {"order": "A1"}}]
    assert first.outcome["unknown_outcome"] is True
    assert len(shop.calls) == 1 + (decision == "approve")
    if decision:
        assert [call.outcome for call in more] == [{"success": "A1 paid"}] * (decision == "approve")
    else:
        assert [call.outcome["unknown_outcome"] for call in more] == [True] * (mode != "plan")
    agent.model.assert_spent()


@pytest.mark.parametrize(("mode", "end"), [("react", answer("done")), ("plan", "done")])
async def test_a_fork_and_an_import_keep_the_key(database: Path, mode: str, end: str) -> None:
    shop = Shop({"check": lambda: NOT_DONE})
    async with segue.open(database, agents=[agent_that(mode, PAY, tools=(shop.tool,))]) as app:
        await shop.interrupt(app)
        (latest, *_) = [s for s in await app.sessions.snapshots("s") if not s.inside]
        copy = await app.rewind.fork("s", latest.checkpoint_id, session_id="copy")
        imported = await app.sessions.import_(await app.sessions.export("s"), session_id="imported")
        app.register(Agent(agent_id="a", model=ScriptedChatModel([end] * 2), mode=mode, tools=(shop.tool,)))
        for task in (copy, imported):
            await app.resume(task.task_id)
    assert [call.session_id for call in shop.calls] == ["s", "copy", "imported"]
    assert len({call.idempotency_key for call in shop.calls}) == 1
