"""Calls of MCP servers that are answered with a task: polled, waited for in no process, and found again after a kill.

The server is Segue itself, with agents whose tools finish when a test says so.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent
from segue.core.agents import Budget, McpServer
from tests.fakes import FixedClock, ScriptedChatModel, answer, call_tool
from tests.polling import until
from tests.server.serving import Served
from tests.server.shop import refund

MINUTE = 60.0


class Gate:
    """Holds the tool `work` of the server until it is opened."""

    def __init__(self) -> None:
        self.open = False

    async def work(self, what: str) -> str:
        """Work on something."""
        await until(lambda: self.open)
        return f"worked on {what}"


def worker(gate: Gate) -> Agent:
    def reply(messages: Any) -> str:
        said = " ".join(str(message.content) for message in messages)
        if "refunded 5" in said:
            return answer("Paid back.")
        if "rejected" in said:
            return answer("Kept.")
        if "worked on" in said:
            return call_tool(("refund", {"amount": 5})) if "my purse" in said else answer("Worked.")
        return call_tool(("work", {"what": "it"}))

    return Agent(agent_id="worker", model=ScriptedChatModel(reply), mode="react", tools=(gate.work, refund))


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def served(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("segue.mcp._HANDLE_SECONDS", 0.05)
    monkeypatch.setattr("segue.mcp._POLL_MS", 20)
    with Served(agents=[worker(gate)], examples=False) as served:
        yield served


def caller(url: str, message: str = "tea", **fields: Any) -> Agent:
    def reply(messages: Any) -> str:
        said = " ".join(str(message.content) for message in messages)
        found = next(
            (text for text in ("Worked.", "Paid back.", "Kept.", "does not show the task") if text in said), ""
        )
        return answer(f"It says: {found}") if found else call_tool(("worker", {"message": message}))

    server = McpServer(name="desk", url=f"{url}/mcp")
    return Agent(
        **{"agent_id": "caller", "model": ScriptedChatModel(reply), "mode": "react", "mcp": [server], **fields}
    )


async def outcomes(app: Any, task_id: str) -> list[Any]:
    return [call.outcome for call in (await app.trace(task_id)).calls]


def tasks_of(served: Served) -> list[Any]:
    return list(served.do(served.service.app.tasks.list()))


async def test_a_short_task_is_polled_in_the_call(served: Served, gate: Gate) -> None:
    async with segue.open(":memory:", agents=[caller(served.url)]) as app:
        asking = asyncio.create_task(app.ask("Go.", agent="caller"))
        await until(lambda: tasks_of(served))
        await asyncio.sleep(0.2)
        gate.open = True
        result = await asking
        assert result.answer == "It says: Worked."
        (outcome,) = await outcomes(app, result.task_id)
        assert outcome["success"]["task_id"] == tasks_of(served)[0].task_id


async def test_a_long_one_waits_in_no_process(
    served: Served, gate: Gate, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FixedClock()
    agent = caller(served.url, budget=Budget(tool_seconds=3))
    async with segue.open(database, agents=[agent], clock=clock) as app:
        asked = await app.ask("Go.", agent="caller")
        assert (asked.status, asked["question"]["kind"]) == ("waiting", "wait")
        assert "job" not in asked["question"]
    async with segue.open(database, agents=[agent], clock=clock) as app:

        async def waits() -> int:
            return sum(event.type == "wait_started" for event in await app.events(asked.task_id))

        clock.now += MINUTE
        await app.schedules.run_due()
        await until(lambda: _has(waits, 2))
        gate.open = True
        clock.now += MINUTE
        await app.schedules.run_due()
        await until(lambda: _ended(app, asked.task_id))
        assert (await app.task(asked.task_id)).result["answer"] == "It says: Worked."
    assert len(tasks_of(served)) == 1


async def test_its_question_is_answered_elsewhere(served: Served, gate: Gate, database: Path) -> None:
    agent = caller(served.url, "my purse")
    gate.open = True
    async with segue.open(database, agents=[agent]) as app:
        asked = await app.ask("Go.", agent="caller")
        assert asked.status == "waiting" and "Approve refund(amount=5)?" in asked["question"]["question"]
    async with segue.open(database, agents=[agent]) as app:
        done = await app.answer(asked.task_id, "approve")
        assert done.answer == "It says: Paid back."
    assert len(tasks_of(served)) == 1


async def test_a_task_that_is_cancelled_cancels_that_of_the_server(served: Served) -> None:
    async with segue.open(":memory:", agents=[caller(served.url)]) as app:
        task = await app.start("Go.", agent="caller")
        await until(lambda: tasks_of(served))
        await until(lambda: _has_job(app, task.task_id))
        await app.cancel(task.task_id)
        await until(lambda: tasks_of(served)[0].status == "cancelled")
        (outcome,) = await outcomes(app, task.task_id)
        assert outcome["unknown_outcome"], outcome


async def _has(count: Any, n: int) -> bool:
    return bool(await count() == n)


async def _has_job(app: Any, task_id: str) -> bool:
    return any(outcome and "waits" in outcome for outcome in await outcomes(app, task_id))


async def test_a_server_that_is_down_is_asked_again_later_and_one_that_forgot_the_task_leaves_it_unknown(
    gate: Gate, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.mcp._HANDLE_SECONDS", 0.05)
    clock = FixedClock()
    with Served(agents=[worker(gate)], examples=False) as first:
        agent, port = caller(first.url, budget=Budget(tool_seconds=3)), first.port
        async with segue.open(database, agents=[agent], clock=clock) as app:
            asked = await app.ask("Go.", agent="caller")
            assert asked.status == "waiting"
    async with segue.open(database, agents=[agent], clock=clock) as app:
        with Served(agents=[worker(gate)], examples=False, port=port):
            clock.now += MINUTE
            await app.schedules.run_due()
            await until(lambda: _ended(app, asked.task_id))
        assert (await app.task(asked.task_id)).result["answer"] == "It says: does not show the task"


async def _ended(app: Any, task_id: str) -> bool:
    return (await app.task(task_id)).status in ("done", "error")


CHILD = """
import asyncio, sys
import segue
from tests.tools.test_mcp_tasks import caller

async def main():
    async with segue.open(sys.argv[1], agents=[caller(sys.argv[2])]) as app:
        await app.ask("Go.", agent="caller", session_id="s")

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_client_that_is_killed_while_it_polls_finds_the_task_again(
    served: Served, gate: Gate, tmp_path: Path
) -> None:
    path = tmp_path / "client.db"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), served.url])  # noqa: ASYNC220  at once
    try:
        await until(lambda: tasks_of(served))
        async with segue.open(path, agents=[caller(served.url)]) as app:

            async def polls() -> bool:
                return any([await _has_job(app, task.task_id) for task in await app.tasks.list()])

            await until(polls)
            child.send_signal(signal.SIGKILL)
            child.wait()
            (task,) = await app.resumable()
            gate.open = True
            assert (await app.resume(task.task_id)).answer == "It says: Worked."
    finally:
        child.kill()
    assert len(tasks_of(served)) == 1
