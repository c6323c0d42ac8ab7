"""A run from its first event to its last: order, fields, what a task sees."""

import asyncio
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from typer.testing import CliRunner

import segue
from segue.cli import app as command_line
from segue.core.agents import Agent, Budget
from segue.core.errors import ConfigurationError, InvalidPlan, KeyUsed, TaskError
from segue.core.lifecycle import EngineBusy
from segue.core.records import RequestKey
from segue.lifecycle import Context, ConversationEngine, EngineState, engine
from segue.lifecycle.engine import FolderCoordinator, RegistryCoordinator
from segue.passages import MOST_BYTES
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.lifecycle.conftest import GOAL, Library, Planner, Workshop, agent_of, chain, rest, task, told, until
from tests.server.serving import Served, frames_of


async def test_a_task_sees_its_own_work_the_goal_the_rules_and_what_it_needs_but_no_other(shop: Workshop) -> None:
    tasks = [task("a"), task("unrelated", priority=1), task("c", "a", priority=2)]
    await rest(shop.engine(tasks, coordinator=Library()).run("the whole goal"))
    last = shop.seen[-1]
    assert last[0].content == "do c"
    text = "\n".join(str(message.content) for message in last)
    for known in ("the whole goal", "no lies", "about the whole goal", "made a"):
        assert known in text
    assert "unrelated" not in text
    first = "\n".join(str(message.content) for message in shop.seen[0])
    assert "do c" not in first and "unrelated" not in first


async def test_one_failure_stops_only_what_needs_it(shop: Workshop) -> None:
    shop.broken = {"a"}
    tasks = [task("a"), task("b", "a"), task("c", "b"), task("free", priority=5)]
    engine = shop.engine(tasks)
    events = await rest(engine.run("go"))
    assert told(events)[-7:] == [
        "task_failed a",
        "task_failed b",
        "task_failed c",
        "task_started free",
        "task_completed free",
        "executing → completed",
        "engine_completed",
    ]
    failed = {event.data["task_id"]: event.data for event in events if event.event_type == "task_failed"}
    assert failed["a"]["error"] == "RuntimeError: a is broken" and not failed["a"]["skipped"]
    assert failed["b"]["skipped"] and failed["b"]["error"] == "it depends on tasks that were not completed: a"
    assert [t.status for t in engine.tasks] == ["error", "skipped", "skipped", "done"]
    ended = events[-1].data
    assert [ended[f"{what}_tasks"] for what in ("total", "completed", "failed", "skipped")] == [4, 1, 1, 2]
    assert "made free" in ended["answer"] and "do a: RuntimeError: a is broken" in ended["answer"]
    assert engine.current_progress == 0.25


async def test_with_concurrency_tasks_run_together_and_progress_counts_each(shop: Workshop) -> None:
    for name in ("a", "b"):
        shop.hold(name)
    engine = shop.engine([task("a"), task("b"), task("c", priority=9)], concurrency=2)
    run = engine.run("go")
    following = asyncio.create_task(rest(run))
    async with asyncio.timeout(60):
        await shop.begun["a"].wait()
        await shop.begun["b"].wait()
    shop.release("b")
    shop.release("a")
    events = await following
    assert [event.data["progress"] for event in events if event.event_type == "task_completed"] == [
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
        1.0,
    ]
    assert shop.done[-1] == "c"


async def test_the_offline_planner_breaks_a_goal_down_and_carries_it_out() -> None:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    events = await rest(engine.run("帮我规划一个北京3日游，包括景点和美食"))
    assert engine.total_tasks > 2
    assert engine.completed_tasks == engine.total_tasks
    assert "2495" in events[-1].data["answer"]
    again = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    await rest(again.run("帮我规划一个北京3日游，包括景点和美食"))
    assert [t.public for t in again.tasks] == [t.public for t in engine.tasks]


@pytest.mark.parametrize(
    ("goal", "titles"),
    [
        ("The budget and the route of 3 days in Beijing", ["Budget (Beijing, 3 days)", "Route (Beijing, 3 days)"]),
        ("现在几点，然后算一下 3*4", ["现在时间", "计算器（3*4）"]),
    ],
)
async def test_tasks_of_the_offline_planner_have_titles_and_are_carried_out_as_planned(
    goal: str, titles: list[str]
) -> None:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator", "clock"))
    events = await rest(engine.run(goal))
    *planned, last = engine.tasks
    assert sorted(task.description for task in planned) == titles
    assert all(task.action and "{" not in task.description for task in planned) and not last.action
    made = [call["name"] for calls in engine.create_snapshot()["calls"].values() for call in calls]
    assert sorted(made) == sorted(task.action for task in planned)
    assert all(title in events[-1].data["answer"] for title in titles) and "{" not in events[-1].data["answer"]


async def test_the_model_is_told_the_call_of_a_task_that_names_one_completely() -> None:
    told_to: list[str] = []

    def reply(messages: Any) -> AIMessage:
        told_to.append(str(messages[0].content))
        return AIMessage(answer("done"))

    agent = Agent(agent_id="worker", model=ScriptedChatModel(reply), tools=("calculator",))
    named = task("a", action="calculate", params={"expression": "3*4"})
    partly, unknown = task("b", action="calculate"), task("c", action="search", params={"q": 1})
    await rest(ConversationEngine(None, Planner([[named, partly, unknown]]), agent=agent).run("go"))
    assert told_to == ['do a: calculate({"expression": "3*4"})', "do b", "do c"]


@pytest.mark.parametrize("goal", ["写一首关于月亮的诗", "Plan a trip"])
async def test_a_goal_that_the_offline_planner_cannot_answer_is_a_failed_task(goal: str) -> None:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    events = await rest(engine.run(goal))
    assert "task_failed 1" in told(events) and "task_completed 1" not in told(events)
    assert [engine.completed_tasks, engine.results, [t.status for t in engine.tasks]] == [0, {}, ["error"]]
    failed = next(event.data for event in events if event.event_type == "task_failed")
    assert failed["error"] and failed["result"].startswith(failed["error"])
    assert events[-1].data["answer"] == failed["result"] and events[-1].data["failed_tasks"] == 1


async def test_a_task_that_the_model_refuses_fails_and_what_needs_it_is_skipped() -> None:
    def reply(messages: Any) -> AIMessage:
        refusal = {"finish_reason": "refusal"} if messages[0].content == "do a" else {}
        return AIMessage(answer("I cannot help with that."), response_metadata=refusal)

    agent = Agent(agent_id="worker", model=ScriptedChatModel(reply))
    engine = ConversationEngine(None, Planner([[task("a"), task("b", "a"), task("c")]]), agent=agent)
    events = await rest(engine.run("go"))
    assert [t.status for t in engine.tasks] == ["error", "skipped", "done"]
    assert engine.results == {"c": "I cannot help with that."}
    assert (
        next(event.data["error"] for event in events if "task_failed a" in told([event])) == "I cannot help with that."
    )


async def test_the_answer_of_an_offline_run_with_one_result_begins_with_the_result() -> None:
    engine = ConversationEngine(llm="offline", tools=("travel", "calculator"))
    events = await rest(engine.run("What is 17 * 23?"))
    assert events[-1].data["answer"].startswith("`17 * 23` = **391**")


async def test_tasks_that_cannot_be_carried_out_are_asked_for_again_with_the_reasons() -> None:
    circle = [task("a", "b"), task("b", "a"), task("c", "nobody"), task("c")]
    planner = Planner([circle, [task("a")]])
    engine = ConversationEngine(llm=planner)
    await rest(engine.run("go"))
    assert engine.total_tasks == 1
    for reason in ("wait for each other", "'nobody', which is not a step", "'c' is used more than once"):
        assert reason in planner.asked[1]


@pytest.mark.parametrize("bad", [[task(str(n)) for n in range(101)], [], None, "nothing", [{"id": "a"}]])
async def test_after_three_answers_that_will_not_do_the_run_ends_in_an_error_that_says_why(bad: Any) -> None:
    planner = Planner([bad])
    engine = ConversationEngine(llm=planner)
    events = await rest(engine.run("go"))
    assert len(planner.asked) == 3
    assert told(events)[-2:] == ["decomposing → error", "engine_error"]
    assert events[-1].data["phase"] == "decomposing"
    assert events[-1].data["error"].startswith("The goal could not be split into tasks after 3 attempts. ")
    assert engine.state is EngineState.ERROR and engine.total_tasks == 0


async def test_too_many_tasks_are_named_in_the_error_and_none_is_dropped() -> None:
    engine = ConversationEngine(llm=Planner([[task(str(n)) for n in range(101)]]))
    events = await rest(engine.run("go"))
    assert "There are 101 tasks, and the limit is 100" in events[-1].data["error"]


async def test_more_context_than_finds_room_is_counted_and_what_is_left_out_is_said(shop: Workshop) -> None:
    class Verbose:
        async def get_context_async(self, text: str) -> Context:
            return Context(rules=[f"rule {n}: " + "字" * 1000 for n in range(50)], knowledge=["x" * 9000])

    engine = shop.engine(chain(1), coordinator=Verbose())
    events = await rest(engine.run("go"))
    received = next(event.data for event in events if event.event_type == "context_received")
    assert received["rules_count"] == 50
    assert received["left_out"]["rules"] == 50 - len(received["rules"]) > 0
    assert received["knowledge"][0].endswith("[7000 more characters]")


def test_an_engine_may_go_from_one_event_loop_to_the_next(shop: Workshop) -> None:
    engine = shop.engine(chain(2))

    async def begin() -> None:
        run = engine.run("go")
        await until(run, "task_completed", "t1")
        engine.pause()
        asyncio.get_running_loop().call_later(0.05, engine.resume)
        await until(run, "engine_resumed")
        await run.aclose()

    async def go_on() -> None:
        run = engine.run(None)
        await until(run, "task_started", "t2")
        engine.pause()
        asyncio.get_running_loop().call_later(0.05, engine.resume)
        await rest(run)

    asyncio.run(begin())
    asyncio.run(go_on())
    assert shop.done == ["t1", "t2"]


async def test_a_planner_that_raises_ends_the_run_with_the_phase() -> None:
    events = await rest(ConversationEngine(llm=Planner([ValueError("no idea")])).run("go"))
    assert events[-1].data == {"error": "The goal could not be split into tasks: no idea", "phase": "decomposing"}


async def test_an_empty_goal_is_an_error_of_receiving(shop: Workshop) -> None:
    events = await rest(shop.engine(chain(1)).run("   "))
    assert told(events) == ["idle → receiving", "receiving → error", "engine_error"]
    assert events[-1].data["phase"] == "receiving"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"llm": object()}, "is not a model"),
        ({"concurrency": 0}, "must be at least 1"),
        ({"session_id": "s"}, "Give the engine an app"),
        ({"speed": 3}, "no option speed"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ConversationEngine(**options)


# Subtasks that are added while a run is under way: by a subtask's tool, by the engine, and from outside.


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


async def test_an_event_that_names_no_id_adds_one_subtask(shop: Workshop) -> None:
    async with segue.open(":memory:", agents=[agent_of(shop, chain(3))]) as app:
        run = ConversationEngine(app=app, agent="worker").run(GOAL)
        await until(run, "task_completed", "t1")
        (row,) = await app.tasks.list()
        await app.tasks.send_event(row.task_id, "spawn_subtask", {"description": "do more"})
        await rest(run)
    assert sorted(shop.done) == ["more", "t1", "t2", "t3"]


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


async def test_each_has_an_id_of_its_own_and_is_added_once_for_its_key(shop: Workshop, tmp_path: Path) -> None:
    agents = [agent_of(shop, chain(1))]
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        run = ConversationEngine(app=app, agent="worker").run(GOAL)
        await until(run, "task_started", "t1")
        await run.aclose()
        (row,) = await app.tasks.list()
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        add = partial(app.tasks.spawn_subtask, row.task_id)
        keys = [RequestKey(name, "") for name in ("more", "named", "event")]
        assert sorted(await asyncio.gather(add("do a"), add("do b"))) == ["added-1", "added-2"]
        assert [await add("do more", key=keys[0]) for _ in range(2)] == ["added-3"] * 2
        assert [await add("do named", subtask_id="n", key=keys[1]) for _ in range(2)] == ["n"] * 2
        await app.tasks.send_event(row.task_id, "paid", key=keys[2])
        for description, about in (("do nothing", {"key": keys[2]}), ("do less", {"key": keys[0]})):
            with pytest.raises(KeyUsed):
                await add(description, **about)
        assert (await app.resume(row.task_id))["success"]
        assert sorted(shop.done) == ["a", "b", "more", "named", "t1"]
        assert await add("do more", key=keys[0]) == "added-3"


def test_one_is_added_over_http(shop: Workshop) -> None:
    shop.hold("t1")
    with Served(agents=[agent_of(shop, chain(2))]) as served, served.client() as client:
        body = {"message": GOAL, "agent_id": "worker", "mode": "lifecycle", "session_id": "s"}
        with client.stream("POST", "/api/chat", json=body) as response:
            frames = frames_of(response)
            begun = (data for _, data in frames if data.get("event_type") == "task_started")
            task_id = next(begun)["task_id"]
            path = f"/api/tasks/{task_id}/subtasks"
            for _ in range(2):
                added = client.post(path, json={"description": "do more"}, headers={"Idempotency-Key": "more"})
                assert added.json() == {"subtask_id": "added-1"}
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


# A folder of Markdown as context: rules that always hold, knowledge that is searched in both languages.


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


async def titles(coordinator: FolderCoordinator, text: str) -> list[str]:
    return [item["title"] for item in (await coordinator.get_context_async(text)).knowledge]


SALES = (
    "# 销售\n\n北京的销售额在三月最高。\n\n# 投诉\n\n广州的客户投诉最多。\n\n# English\n\nShanghai sales fell in May."
)


async def test_two_characters_of_chinese_and_english_words_are_found_the_best_first(tmp_path: Path) -> None:
    coordinator = FolderCoordinator(write(tmp_path, sales_md=SALES, food_md="# 美食\n\n北京烤鸭。"))
    assert await titles(coordinator, "北京") == ["food.md › 美食", "sales.md › 销售"]
    assert await titles(coordinator, "帮我分析一下北京的销售数据") == ["sales.md › 销售"]
    assert await titles(coordinator, "What were the SALES in shanghai?") == ["sales.md › English"]
    assert await titles(coordinator, "火星移民") == []
    assert await titles(coordinator, "What is this?") == []


@pytest.mark.parametrize("text", ['"', "NEAR(a b)", "a OR b AND *", "'; DROP TABLE passages", "", "\ud800", "x" * 9999])
async def test_any_text_can_be_asked_for(tmp_path: Path, text: str) -> None:
    coordinator = FolderCoordinator(write(tmp_path, sales_md=SALES))
    assert await titles(coordinator, text) == []
    assert await titles(coordinator, "广州") == ["sales.md › 投诉"]


async def test_rules_always_hold_and_are_no_knowledge(tmp_path: Path) -> None:
    coordinator = FolderCoordinator(
        write(
            tmp_path,
            rules_md="- 金额用人民币\n- cite sources",
            规则__b_md="# 语气\n\n总是礼貌，\n不要啰嗦。",
            c_md="金额很大",
        )
    )
    context = await coordinator.get_context_async("金额")
    assert list(context.rules) == ["金额用人民币", "cite sources", "总是礼貌， 不要啰嗦。"]
    assert [item["title"] for item in context.knowledge] == ["c.md"]


async def test_files_that_change_come_or_go_are_read_anew(tmp_path: Path) -> None:
    coordinator = FolderCoordinator(write(tmp_path, a_md="apples", rules_md="- one"))
    assert await titles(coordinator, "apples") == ["a.md"]
    write(tmp_path, a_md="pears instead", b_md="apples too", rules_md="- one\n- two")
    assert await titles(coordinator, "apples") == ["b.md"]
    assert len((await coordinator.get_context_async("x")).rules) == 2
    (tmp_path / "b.md").unlink()
    assert await titles(coordinator, "apples") == []
    assert await titles(coordinator, "pears") == ["a.md"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
async def test_files_are_read_in_whatever_encoding_they_are(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.md").write_bytes("# 标题\r\n\r\n广州客户的投诉很多，需要处理。\r\n".encode(encoding))
    coordinator = FolderCoordinator(tmp_path)
    (found,) = (await coordinator.get_context_async("投诉")).knowledge
    assert found == {"title": "a.md › 标题", "text": "广州客户的投诉很多，需要处理。"}


async def test_western_text_is_read_too_and_accents_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes("Caf\xe9 prices".encode("cp1252"))
    assert await titles(FolderCoordinator(tmp_path), "cafe") == ["a.md"]


async def test_what_is_no_text_is_named_and_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, good_md="apples")
    (tmp_path / "bad.md").write_bytes(b"\x00\x01\x02" * 50)
    (tmp_path / "dir.md").mkdir()
    (tmp_path / "page.html").write_text("apples", encoding="utf-8")
    coordinator = FolderCoordinator(tmp_path)
    assert await titles(coordinator, "apples") == ["good.md"]
    assert coordinator.skipped == {"bad.md": "it is not text"}


async def test_of_a_huge_file_the_beginning_is_used_and_that_is_said(tmp_path: Path) -> None:
    text = "First apples.\n\n" + "填充的内容没有意义。" * (MOST_BYTES // 30) + "\n\nLast pears."
    (tmp_path / "huge.md").write_text(text, encoding="utf-8")
    coordinator = FolderCoordinator(tmp_path)
    assert await titles(coordinator, "apples") == ["huge.md"]
    assert await titles(coordinator, "pears") == []
    assert coordinator.skipped == {"huge.md": "it is too long: only its beginning is used"}


async def test_more_passages_than_are_searched_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_PASSAGES", 2)
    coordinator = FolderCoordinator(write(tmp_path, a_md="# 1\n\na\n\n# 2\n\nb\n\n# 3\n\napples"))
    assert await titles(coordinator, "apples") == []
    assert list(coordinator.skipped) == ["a.md"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="there are no symbolic links here")
async def test_links_that_lead_out_of_the_folder_and_hidden_files_are_left_alone(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", secret_md="apples")
    inside = write(tmp_path / "inside", a_md="pears")
    (inside / "link.md").symlink_to(outside / "secret.md")
    (inside / ".hidden.md").write_text("apples", encoding="utf-8")
    assert await titles(FolderCoordinator(inside), "apples") == []


async def test_a_coordinator_beside_it_adds_its_own(tmp_path: Path) -> None:
    class Other:
        async def get_context_async(self, text: str) -> Any:
            from segue.core.lifecycle import Context

            return Context(rules=["r"], knowledge=["k"], tools=["t"])

    coordinator = FolderCoordinator(write(tmp_path, a_md="apples", rules_md="- one"), beside=Other())
    context = await coordinator.get_context_async("apples")
    assert (list(context.rules), list(context.tools), len(context.knowledge)) == (["one", "r"], ["t"], 2)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist"):
        FolderCoordinator(tmp_path / "nowhere")


async def test_registered_agents_and_tools_are_a_context() -> None:
    from segue.registry import Registry

    registry = Registry(environ={})
    everyone = await RegistryCoordinator(registry).get_context_async("x")
    assert [tool["name"] for tool in everyone.tools][:2] == ["search_cities", "query_attractions"]
    assert not everyone.rules and "travel: " in everyone.knowledge[0]
    one = await RegistryCoordinator(registry, "travel").get_context_async("x")
    assert len(one.rules) == 2
