"""Subtasks that are added while a run is under way: by a subtask's tool, by the engine, and from outside."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from typer.testing import CliRunner

import segue
from segue.cli import app as command_line
from segue.core.agents import Agent, Budget
from segue.core.errors import InvalidPlan, TaskError
from segue.core.lifecycle import EngineBusy
from segue.lifecycle import ConversationEngine, EngineState
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.lifecycle.conftest import GOAL, Planner, Workshop, agent_of, chain, rest, task, told, until
from tests.server.serving import Served, frames_of


def spawning(shop: Workshop, *by: str, most: int = 20, seen: list[str] | None = None) -> Agent:
    """An agent whose subtasks `by` add two more before they answer."""

    def reply(messages: Sequence[BaseMessage]) -> Any:
        name = str(messages[0].content).removeprefix("do ")
        made = sum(message.type == "ai" for message in messages)
        if name in by and made < 2:
            return call_tool(("spawn_subtask", {"description": f"do {name}+{made + 1}", "depends_on": [name]}))
        if seen is not None and name in by:
            seen.append("\n".join(message.text for message in messages))
        return answer(f"made {name}") if name in by else shop.reply(messages)

    tools = (shop.tool(), "spawn_subtask")
    model = ScriptedChatModel(reply)
    return Agent(agent_id="worker", model=model, tools=tools, budget=Budget(subtasks=most))


async def test_a_running_subtask_adds_subtasks_which_are_events_and_count(shop: Workshop) -> None:
    engine = ConversationEngine(None, Planner([chain(2)]), agent=spawning(shop, "t1"))
    events = await rest(engine.run("go"))
    assert [event.data["description"] for event in events if event.event_type == "task_spawned"] == [
        "do t1+1",
        "do t1+2",
    ]
    progress = [event.data["progress"] for event in events if event.event_type == "task_completed"]
    assert progress == [0.25, 0.5, 0.75, 1.0]
    assert (engine.state, engine.total_tasks, engine.current_progress) == (EngineState.COMPLETED, 4, 1.0)
    assert sorted(shop.done) == ["t1+1", "t1+2", "t2"]
    assert engine.results["t1.1"] == "made t1+1"


async def test_beyond_the_limit_the_subtask_is_told_so_and_waves_share_it(shop: Workshop) -> None:
    told_so: list[str] = []
    agent = spawning(shop, "a", "b", most=3, seen=told_so)
    engine = ConversationEngine(None, Planner([[task("a"), task("b")]]), agent=agent, concurrency=2)
    await rest(engine.run("go"))
    assert engine.total_tasks == 5
    assert sorted("No subtask can be added" in text for text in told_so) == [False, True]


async def test_what_a_subtask_added_before_it_failed_is_carried_out(shop: Workshop) -> None:
    def reply(messages: Sequence[BaseMessage]) -> Any:
        if "t1" not in str(messages[0].content):
            return shop.reply(messages)
        if any(message.type == "ai" for message in messages):
            raise ValueError("out of paper")
        return call_tool(("spawn_subtask", {"description": "do more"}))

    agent = Agent(agent_id="worker", model=ScriptedChatModel(reply), tools=(shop.tool(), "spawn_subtask"))
    engine = ConversationEngine(None, Planner([chain(1)]), agent=agent)
    await rest(engine.run("go"))
    assert (shop.done, engine.total_tasks, engine.completed_tasks) == (["more"], 2, 1)


async def test_one_that_is_sent_while_a_run_ends_is_refused_or_named_in_the_answer(shop: Workshop) -> None:
    async with segue.open(":memory:", agents=[agent_of(shop, chain(1))]) as app:
        run = ConversationEngine(app=app, agent="worker").run(GOAL)
        async for event in run:
            if event.event_type == "state_changed" and event.data["to"] == "completed":
                break
        (row,) = await app.tasks.list()
        with pytest.raises(TaskError, match="has ended: send a new message"):
            await app.tasks.spawn_subtask(row.task_id, "do late")
        await app.tasks.send_event(row.task_id, "spawn_subtask", {"id": "x", "description": "do later"})
        (skipped,) = [event for event in await rest(run) if event.event_type == "task_failed"]
        answered = (await app.task(row.task_id)).result
    assert (skipped.data["task_id"], skipped.data["skipped"], shop.done) == ("x", True, ["t1"])
    assert answered and "do later: the run was ending when it was added" in answered["answer"]


async def test_an_engine_adds_one_while_it_runs_is_paused_or_closed_and_a_snapshot_has_it(shop: Workshop) -> None:
    engine = shop.engine(chain(2))
    with pytest.raises(EngineBusy, match="while a run is scheduling"):
        await engine.spawn_subtask("do early")
    run = engine.run("go")
    await until(run, "task_completed", "t1")
    assert await engine.spawn_subtask("do more", depends_on=["t2"]) == "added-1"
    assert (engine.total_tasks, engine.current_progress) == (3, 1 / 3)
    with pytest.raises(InvalidPlan, match="depends on 'nope', which is not a step"):
        await engine.spawn_subtask("do x", depends_on=["nope"])
    engine.pause()
    await until(run, "engine_paused")
    await run.aclose()
    await engine.spawn_subtask("do closed")
    snapshot = json.loads(json.dumps(engine.create_snapshot()))
    assert snapshot["total_tasks"] == 4

    other = shop.engine(chain(2))
    assert other.restore_from_snapshot(snapshot), other.refused
    assert await other.spawn_subtask("do restored") == "added-3"
    await rest(other.run(None))
    assert other.completed_tasks == 5 and sorted(shop.done) == ["closed", "more", "restored", "t1", "t2"]
    shop.done.clear()
    events = await rest(engine.run(None))
    assert [line for line in told(events) if line.startswith("task_spawned")] == [
        "task_spawned added-1",
        "task_spawned added-2",
    ]
    assert engine.completed_tasks == engine.total_tasks == 4


async def test_a_run_in_a_database_takes_them_up_after_a_stop_and_each_once(shop: Workshop, tmp_path: Path) -> None:
    agents = [agent_of(shop, chain(2), budget=Budget(subtasks=2))]
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        engine = ConversationEngine(app=app, agent="worker")
        run = engine.run(GOAL)
        await until(run, "task_started", "t1")
        await run.aclose()
        (row,) = await app.tasks.list()
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        await app.tasks.spawn_subtask(row.task_id, "do more")
        await app.tasks.spawn_subtask(row.task_id, "do last", priority=9)
        with pytest.raises(InvalidPlan, match="the limit is 2"):
            await app.tasks.spawn_subtask(row.task_id, "do too much")
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        result = await app.resume(row.task_id)
        assert result["success"] and len(result["plan"]) == 4
        assert sorted(shop.done) == ["last", "more", "t1", "t2"]
        with pytest.raises(TaskError, match="has ended"):
            await app.tasks.spawn_subtask(row.task_id, "do nothing")
        other = await app.ask("hello", mode="direct")
        with pytest.raises(TaskError, match="no lifecycle run"):
            await app.tasks.spawn_subtask(other["task_id"], "do nothing")


def test_one_is_added_over_http(shop: Workshop) -> None:
    shop.hold("t1")
    with Served(agents=[agent_of(shop, chain(2))]) as served, served.client() as client:
        body = {"message": GOAL, "agent_id": "worker", "mode": "lifecycle", "session_id": "s"}
        with client.stream("POST", "/api/chat", json=body) as response:
            frames = frames_of(response)
            begun = (data for _, data in frames if data.get("event_type") == "task_started")
            task_id = next(begun)["task_id"]
            path = f"/api/tasks/{task_id}/subtasks"
            assert client.post(path, json={"description": "do more"}).json() == {"subtask_id": "added-1"}
            wrong = client.post(
                path, json={"description": "x", "depends_on": ["no"]}, headers={"Accept-Language": "zh"}
            )
            assert wrong.status_code == 422 and "无法添加子任务" in wrong.text
            served.do(_release(shop))
            assert "task_spawned" in [data.get("event_type") for _, data in frames]
    assert sorted(shop.done) == ["more", "t1", "t2"]


async def _release(shop: Workshop) -> None:
    shop.release("t1")


def test_one_is_added_in_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    run(command_line, ["chat", "hello", "--mode", "direct"])
    (row,) = json.loads(run(command_line, ["tasks", "--json"]).stdout)
    refused = run(command_line, ["spawn", row["task_id"], "more"])
    assert refused.exit_code == 1 and "no lifecycle run" in refused.stderr
