"""A rollout and its roll-back under fire: two versions of two agents, workers that are killed, and what came of it."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

import segue
from segue.core.agents import load_agents

from .fleet import Fleet
from .judge import Verdict, judge
from .measurements import in_spite_of_failures, ready, until, until_ended

AGENTS = """
[[agent]]
agent_id = "payer"
version = "{version}"
on_upgrade = "pin"
tools = ["tests.workers.payments:deposit", "tests.workers.payments:transfer"]
protocol = "native"
prompt = "You pay."

[[agent]]
agent_id = "cautious"
version = "{version}"
tools = ["tests.workers.payments:{approved}"]
protocol = "native"
prompt = "You ask."
"""
APPROVED = {"1": "approved_deposit", "2": "approved_deposit_with_fee"}
_WAITING = "SELECT task_id FROM tasks WHERE agent_id = 'cautious' AND status = 'waiting' ORDER BY position"
_RAN = "SELECT thread_id, agent_id, outcome FROM tasks JOIN calls USING (task_id, thread_id)"


@dataclass(frozen=True)
class Rollout:
    """What came of the tasks: those on a version that was not intended, and approvals that were carried over."""

    verdict: Verdict
    kills: int
    wrong: Sequence[str]
    carried_over: Sequence[str]

    @property
    def faults(self) -> list[str]:
        return [*self.verdict.faults, *self.wrong, *self.carried_over]


class _Stage:
    """The workers of each version, and the apps that send to them."""

    def __init__(self, url: str, workers: Fleet, folder: Path, seed: int) -> None:
        self.url = url
        self.files = {version: folder / f"agents-{version}.toml" for version in APPROVED}
        for version, file in self.files.items():
            file.write_text(AGENTS.format(version=version, approved=APPROVED[version]), encoding="utf-8")
        self._workers = workers
        self._random = random.Random(seed)
        self._pids: dict[str, list[int]] = {version: [] for version in APPROVED}
        self.kills = 0

    def app(self, version: str) -> Any:
        """An app with a version that leaves every task to the workers."""
        return segue.open(self.url, agents=load_agents(self.files[version]), dispatch="always")

    def start(self, version: str, count: int) -> None:
        before = self._workers.running
        self._workers.start(count, self.files[version], VERSION=version)
        self._pids[version] += [pid for pid in self._workers.running if pid not in before]

    def kill(self, version: str, count: int) -> None:
        """Kill some workers of a version with −9."""
        for pid in self._random.sample(self._pids[version], count):
            self._pids[version].remove(pid)
            self._workers.kill(pid)
            self.kills += 1

    async def replace(self, app: Any, every: float) -> None:
        """Kill a random worker again and again, and start another one of its version, until cancelled."""
        while True:
            await asyncio.sleep(every * self._random.uniform(0.5, 1.5))
            version = self._random.choice([version for version, pids in self._pids.items() if pids])
            await ready(app, sum(map(len, self._pids.values())))
            self.kill(version, 1)
            self.start(version, 1)

    async def fetched(self, statement: str) -> list[Any]:
        options: Any = {"row_factory": dict_row, "options": "-c search_path=segue"}
        async with await psycopg.AsyncConnection.connect(self.url, **options) as connection:
            return await (await connection.execute(statement.encode())).fetchall()


async def rollout(
    url: str, workers: Fleet, folder: Path, *, tasks: int, approvals: int, every: float = 4.0, seed: int = 1
) -> Rollout:
    """Begin tasks on version 1, roll version 2 out, back and out again, and kill workers throughout."""
    stage = _Stage(url, workers, folder, seed)
    async with stage.app("1") as old, stage.app("2") as new:
        stage.start("1", 3)
        await _send(old, "cautious", [f"ask-{number}" for number in range(approvals)], 1)

        async def all_wait() -> bool:
            return len(await stage.fetched(_WAITING)) == approvals

        await until(all_wait)
        await _send(old, "payer", [f"v1-{number}" for number in range(tasks // 2)], 2)
        stage.kill("1", 2)
        stage.start("2", 2)  # rolled out: version 1 is left with one worker
        firing = asyncio.create_task(stage.replace(old, every))
        await _send(new, "payer", [f"v2-{number}" for number in range(tasks // 2)], 2)
        await asyncio.sleep(every)
        firing.cancel()
        stage.kill("2", 2)
        stage.start("1", 2)  # rolled back: nobody has version 2
        await asyncio.sleep(every)
        stage.kill("1", 3)
        stage.start("2", 3)  # rolled out for good: what is left of version 1 waits
        carried = await _approve_twice(stage, new)
        stage.start("1", 2)
        firing = asyncio.create_task(stage.replace(new, every))
        ended = await until_ended(url, tasks + approvals)
        firing.cancel()
    assert ended, "tasks are stuck"
    return Rollout(judge(url, workers.payments), stage.kills, await _wrong(stage), carried)


async def _send(app: Any, agent: str, names: Sequence[str], calls: int) -> None:
    places = asyncio.Semaphore(16)

    async def one(name: str) -> None:
        options: Any = {"session_id": name, "agent": agent, "mode": "react", "idempotency_key": name}
        async with places:
            await in_spite_of_failures(lambda: app.start(f"[pay {name} {calls} 0.05]", **options))

    await asyncio.gather(*map(one, names))


async def _approve_twice(stage: _Stage, app: Any) -> list[str]:
    """Approve what version 1 asked about; returns the tasks whose approval counted for the changed tool."""
    waiting = [row["task_id"] for row in await stage.fetched(_WAITING)]
    await ready(app, 3)
    first = await asyncio.gather(*(app.answer(task_id, "approve") for task_id in waiting))
    carried = [result["task_id"] for result in first if result["status"] != "waiting"]
    await asyncio.gather(*(app.answer(task_id, "approve") for task_id in waiting if task_id not in carried))
    return [f"the approval of {task_id} was carried over" for task_id in carried]


async def _wrong(stage: _Stage) -> list[str]:
    """The calls of pinned tasks that a worker with another version made, as the tools themselves say."""
    found = []
    for row in await stage.fetched(_RAN):
        result, intended = json.loads(row["outcome"]).get("success"), row["thread_id"].partition("-")[0].strip("v")
        if row["agent_id"] == "payer" and result is not None and not str(result).endswith(f" by {intended}"):
            found.append(f"{row['thread_id']}: {result}")
    return found
