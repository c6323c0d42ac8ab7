"""A run from its first event to its last: order, fields, what a task sees."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from segue.core.agents import Agent
from segue.core.errors import ConfigurationError
from segue.lifecycle import Context, ConversationEngine, EngineState
from tests.fakes import ScriptedChatModel, answer
from tests.lifecycle.conftest import Library, Planner, Workshop, chain, rest, task, told, until


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
