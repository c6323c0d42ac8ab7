"""Tasks that are left to workers: who runs them, and what becomes of them where a worker, or the server, is gone."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import segue
from segue.core.agents import load_agents
from segue.core.errors import ConfigurationError, ThreadBusy
from tests.findings import no_findings
from tests.postgres import Cluster

from .fleet import AGENTS, ROOT, Fleet, endpoint, fleet, service
from .judge import judge
from .measurements import AGENT, busy, chaos, dispatcher, freeze, held_by, races, ready, send, until, until_ended
from .rollout import rollout


@pytest.fixture(scope="module")
def model() -> Iterator[dict[str, str]]:
    with endpoint() as environ:
        yield environ


@pytest.fixture
def workers(
    request: pytest.FixtureRequest,
    model: dict[str, str],
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Fleet]:
    for name, value in model.items():
        monkeypatch.setenv(name, value)
    with fleet(postgres_url, tmp_path, model, forked=getattr(request, "param", True)) as found:
        yield found


def paying(name: str, calls: int = 2, delay: float = 0.0, **options: Any) -> dict[str, Any]:
    return {"message": f"[pay {name} {calls} {delay}]", "session_id": name, "agent": AGENT, "mode": "react", **options}


async def test_a_task_is_run_by_a_worker_and_followed_from_here(workers: Fleet, postgres_url: str) -> None:
    workers.start()
    async with dispatcher(postgres_url) as app:
        result = await app.ask(**paying("one"))
        assert result["answer"] == "paid one"
        events = [event async for event in app.follow(result["task_id"])]
    assert [event.seq for event in events] == [*range(1, len(events) + 1)]
    no_findings(judge(postgres_url, workers.payments).faults)


async def test_a_worker_reads_the_file_of_a_message(workers: Fleet, postgres_url: str) -> None:
    workers.start()
    async with dispatcher(postgres_url) as app:
        asked = {**paying("one"), "message": "Pay what the file says"}
        result = await app.ask(**asked, files=[("order.txt", b"[pay one 2]")])
    assert result["answer"] == "paid one"
    no_findings(judge(postgres_url, workers.payments).faults)


async def test_without_a_worker_the_process_runs_its_tasks_itself_or_they_wait(
    workers: Fleet, postgres_url: str
) -> None:
    agents = load_agents(str(AGENTS))
    async with segue.open(postgres_url, agents=agents) as app:
        assert (await app.ask("你好", session_id="here", agent=AGENT, mode="direct", model="offline"))["success"]
    async with dispatcher(postgres_url) as app:
        task = await app.start(**paying("later", 0))
        following = aiter(app.follow(task.task_id))
        assert (await anext(following)).type == "waiting"
        assert [row.task_id for row in await app.tasks.waiting_for_worker()] == [task.task_id]
        with pytest.raises(ThreadBusy):
            await app.start(**paying("later", 0))
        workers.start()
        assert "task_complete" in [event.type async for event in following]


async def test_a_worker_without_the_agent_leaves_its_tasks(workers: Fleet, postgres_url: str) -> None:
    workers.start()
    async with dispatcher(postgres_url) as app:
        await ready(app, 1)
        row = await app.start("你好", mode="direct", agent="payer", model="offline")
        assert "task_complete" in [event.type async for event in app.follow(row.task_id)]
        app.register(app.agents["payer"].model_copy(update={"agent_id": "unknown"}))
        row = await app.start("你好", mode="direct", agent="unknown", model="offline")
        assert [task.task_id for task in await app.tasks.waiting_for_worker()] == [row.task_id]
        await app.cancel(row.task_id)


async def test_what_waits_for_a_version_of_an_agent_that_is_gone_is_run_with_another(
    workers: Fleet, postgres_url: str, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.toml"
    changed.write_text(AGENTS.read_text(encoding="utf-8").replace("You pay.", "You pay well."), encoding="utf-8")
    async with dispatcher(postgres_url) as app:
        queued = await app.start(**paying("queued"))
        workers.start(agents=changed)
        [_ async for _ in app.follow(queued.task_id)]
        assert (await app.task(queued.task_id)).status == "done"
        workers.start()
        await ready(app, 2)
        assert all([(await app.ask(**paying(f"own-{number}")))["success"] for number in range(4)])
        assert workers.said().count("another version of its agent payer") == 1
    no_findings(judge(postgres_url, workers.payments).faults)


async def test_pause_steer_answer_and_cancel_reach_the_worker(workers: Fleet, postgres_url: str) -> None:
    workers.start()
    async with dispatcher(postgres_url) as app:
        task = await app.start(**paying("paused", 10, 0.4))
        await until(lambda: held_by(postgres_url, workers.running[0]))
        await app.pause(task.task_id)
        [_ async for _ in app.follow(task.task_id)]
        assert (await app.task(task.task_id)).status == "paused"
        assert (await app.resume(task.task_id))["answer"] == "paid paused"
        task = await app.start(**paying("cancelled", 50, 0.2))
        await until(lambda: held_by(postgres_url, workers.running[0]))
        await app.cancel(task.task_id)
        assert (await app.task(task.task_id)).status == "cancelled"
        steered = await app.start(**paying("steered", 10, 0.4))
        await until(lambda: held_by(postgres_url, workers.running[0]))
        again = await app.start("and hurry", session_id="steered", agent=AGENT, steer=True)
        assert again.task_id == steered.task_id
        events = [event.type async for event in app.follow(steered.task_id)]
        assert "steered" in events and "task_complete" in events


async def test_a_worker_that_is_asked_to_stop_hands_its_tasks_over(workers: Fleet, postgres_url: str) -> None:
    workers.start()
    async with dispatcher(postgres_url) as app:
        await ready(app, 1)
        await send(app, [f"h{number}" for number in range(4)], 8, 0.2)
        first = workers.running[0]
        await until(lambda: held_by(postgres_url, first))
        workers.start()
        await ready(app, 2)
        workers.terminate(first)
        assert await asyncio.to_thread(workers.wait, first) == 0
        assert await until_ended(postgres_url, 4)
        tasks = await app.tasks.list()
        trace = [await app.events(task.task_id) for task in tasks]
    assert {task.status for task in tasks} == {"done"}
    assert not any(event.type in ("paused", "resumed") for events in trace for event in events)
    no_findings(judge(postgres_url, workers.payments).faults)


@pytest.mark.parametrize("workers", [False], indirect=True, ids=["started as people do"])
async def test_nothing_is_lost_repeated_or_stuck_where_workers_are_killed_and_the_server_crashes(
    postgres: Cluster, workers: Fleet, postgres_url: str
) -> None:
    slowly = {"tasks": 40, "every": 1.5, "delay": 0.6}  # so that there is time for the restart on any machine
    result = await chaos(postgres_url, workers, postgres.restart, count=2, restarts=1, **slowly)
    no_findings(result.verdict.faults, workers.said()[-3000:])
    assert (result.verdict.done, result.restarts) == (40, 1)
    assert result.kills >= 2


async def test_a_worker_that_stood_still_beyond_its_leases_writes_nothing(workers: Fleet, postgres_url: str) -> None:
    result = await freeze(postgres_url, workers, tasks=4)
    assert result.frozen > 0
    no_findings(result.verdict.faults)
    assert not result.late_writes
    assert result.takeovers


@pytest.mark.parametrize("wait", [0.0, 120.0])
async def test_two_messages_at_once_in_one_session_lose_no_update(
    workers: Fleet, postgres_url: str, wait: float
) -> None:
    result = await races(postgres_url, workers, count=10, wait=wait, turns=5)
    no_findings(result.lost)
    assert result.ends["done"] == 20 if wait else result.ends["done"] >= 10


def test_sqlite_has_no_workers(tmp_path: Path) -> None:
    async def work() -> None:
        async with segue.open(tmp_path / "s.db") as app:
            app.worker(1)

    with pytest.raises(ConfigurationError, match="PostgreSQL"):
        asyncio.run(work())


async def test_a_stream_of_a_service_that_runs_no_task_has_no_gap_whatever_dies(
    postgres: Cluster, workers: Fleet, postgres_url: str, tmp_path: Path, model: dict[str, str]
) -> None:
    with service(postgres_url, tmp_path, model) as address:
        workers.start(2)
        async with (
            httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client,
            dispatcher(postgres_url) as app,
        ):
            await ready(app, 2)
            streams = [asyncio.create_task(streamed(client, f"s{number}")) for number in range(3)]
            workers.kill(await busy(postgres_url, workers))
            await asyncio.sleep(1.0)
            await asyncio.to_thread(postgres.restart)
            numbers = await asyncio.gather(*streams)
    for each in numbers:
        assert each == [*range(1, len(each) + 1)]
    assert " runs here." in workers.said() and " is done." in workers.said()


async def streamed(client: httpx.AsyncClient, name: str) -> list[int]:
    """The numbers of the events that a client is sent until the task is done; it comes back where it is cut off."""
    body = {"message": f"[pay {name} 6 0.3]", "session_id": name, "agent_id": AGENT, "mode": "react"}
    numbers: list[int] = []
    task_id, last = "", {}
    while last.get("type") != "done" or not last["result"].get("success"):
        request: dict[str, Any] = {"method": "POST", "url": "/api/chat", "json": body}
        if task_id:
            await asyncio.sleep(0.3)
            request = {"method": "GET", "url": f"/api/tasks/{task_id}/stream?after={len(numbers)}"}
        async with client.stream(**request) as response:
            task_id = task_id or response.headers["x-task-id"]
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    numbers.append(int(line.rpartition(":")[2]))
                elif line.startswith("data: "):
                    last = json.loads(line[6:])
    return numbers


def test_the_ten_lines_of_the_readme_run_on_three_workers(postgres_url: str, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(import asyncio\n.*?)```", readme, re.DOTALL)
    (tmp_path / "ten.py").write_text(lines.replace('"segue.db"', repr(postgres_url)), encoding="utf-8")
    with fleet(postgres_url, tmp_path, {}, forked=True) as three:
        three.start(3)
        asyncio.run(all_ready(postgres_url, 3))
        said = subprocess.run(
            [sys.executable, "ten.py"], cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300
        )
    assert said.returncode == 0, said.stderr
    assert "tool_call {" in said.stdout and "answer {" in said.stdout
    with psycopg.connect(postgres_url, options="-c search_path=segue") as connection:
        assert connection.execute("SELECT status, count(*) FROM tasks GROUP BY 1").fetchall() == [("done", 2)]


async def all_ready(url: str, count: int) -> None:
    async with dispatcher(url) as app:
        await ready(app, count)


async def test_a_pinned_task_is_claimed_by_no_worker_without_its_version(
    workers: Fleet, postgres_url: str, tmp_path: Path
) -> None:
    text = AGENTS.read_text(encoding="utf-8")
    (tmp_path / "new.toml").write_text(f'{text}\nversion = "{"版" * 10}"\non_upgrade = "pin"\n', encoding="utf-8")
    async with dispatcher(postgres_url) as app:
        pinned = await app.start(**paying("pinned"))
        workers.start(agents=tmp_path / "new.toml")
        await ready(app, 1)
        async with segue.open(postgres_url, agents=load_agents(tmp_path / "new.toml"), dispatch="always") as new:
            assert all([(await new.ask(**paying(f"new-{number}")))["success"] for number in range(3)])
            assert [row.task_id for row in await new.tasks.waiting_for_version()] == [pinned.task_id]
        await asyncio.sleep(2.5)
        assert (await app.task(pinned.task_id)).status == "pending"
        assert [row.task_id for row in await app.tasks.waiting_for_worker()] == [pinned.task_id]
        workers.start()
        [_ async for _ in app.follow(pinned.task_id)]
        assert (await app.task(pinned.task_id)).status == "done"
    no_findings(judge(postgres_url, workers.payments).faults)


async def test_a_rollout_and_its_roll_back_keep_tasks_on_their_versions_and_carry_no_approval_over(
    workers: Fleet, postgres_url: str, tmp_path: Path
) -> None:
    found = await rollout(postgres_url, workers, tmp_path, tasks=24, approvals=4, every=2.0)
    no_findings(found.faults, workers.said()[-3000:])
    assert (found.verdict.done, found.verdict.tasks) == (28, 28)
    assert found.kills >= 7
