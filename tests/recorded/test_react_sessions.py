"""Twenty-five recorded tasks of a json-protocol agent, taken through the whole app.

None of Segue's own guards comes in their way: no call is refused, no plan is turned down, no repair is used up.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Event
from segue.app import App
from segue.core.agents import Agent
from segue.core.decision import decode
from segue.core.errors import UnreadableReply
from segue.prompts.catalogue import error_text, language_of, task_text
from tests.fakes import ScriptedChatModel, answer
from tests.recorded.sessions import (
    Recorded,
    Recursion,
    Task,
    action_of,
    calls_of,
    reply_of,
    results_of,
    tasks,
    was_missing,
)
from tests.recorded.tools import RecordedTools

TOOLS = ("add", "power")
"""Of the tools that the recorded model called, those that there were."""


@dataclass(frozen=True)
class Course:
    """What came of a task."""

    task: Task
    result: dict[str, Any]
    events: Sequence[Event]
    history: Sequence[dict[str, Any]]
    prompts: list[list[str]]
    ran: list[tuple[str, dict[str, Any]]]

    @property
    def recursions(self) -> list[Recursion]:
        return list(self.task["recursions"])

    def of_type(self, *kinds: str) -> list[tuple[int, dict[str, Any]]]:
        """Events of these types, each with its recursion."""
        return [(event.iteration, event.data) for event in self.events if event.type in kinds]


async def take(app: App, task: Task, replies: Sequence[str], rounds: int) -> Course:
    """Send the task's message to an agent whose model says these replies, neither more nor fewer."""
    tools = RecordedTools(calls_of(task))
    with ScriptedChatModel(replies) as model:
        app.register(Agent(agent_id="a", model=model, mode="react", tools=tools.named(TOOLS), max_iteration=rounds))
        result = await app.ask(task["user_message"], agent="a")
    events = (await app.trace(result["task_id"])).events
    prompts = [[str(message.content) for message in call] for call in model.calls]
    return Course(task, result, events, await app.history(result["session_id"]), prompts, tools.ran)


def answered(task: Task) -> bool:
    return bool(task["recursions"][-1]["action_type"] == "ANSWER")


def all_results(task: Task) -> list[dict[str, Any]]:
    return [result for recursion in task["recursions"] for result in results_of(recursion)]


def readable(course: Course) -> list[tuple[int, Recursion]]:
    return [(place, recursion) for place, recursion in enumerate(course.recursions, 1) if recursion["action_type"]]


@pytest.fixture(scope="module")
def courses(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> list[Course]:
    """All tasks as they were recorded; one that ends without an answer has no more rounds than it took."""

    async def take_all(database: Path) -> list[Course]:
        async with segue.open(database) as app:
            return [
                await take(
                    app,
                    task,
                    [reply_of(recursion) for recursion in task["recursions"]],
                    task["max_iteration"] if answered(task) else len(task["recursions"]),
                )
                for task in tasks(recorded)
            ]

    return asyncio.run(take_all(tmp_path_factory.mktemp("sessions") / "segue.db"))


def test_what_is_replayed_is_all_that_was_counted(courses: list[Course]) -> None:
    assert Counter(course.task["status"] for course in courses) == {"completed": 17, "failed": 6, "running": 2}
    assert sum(len(course.recursions) for course in courses) == 78
    assert sum(not answered(course.task) for course in courses) == 8


def test_each_recursion_decides_what_it_decided(courses: list[Course]) -> None:
    kinds: Counter[str] = Counter()
    for course in courses:
        actions = [(place, (data["action_type"], data["output"])) for place, data in course.of_type("action")]
        assert actions == [(place, action_of(recursion)) for place, recursion in readable(course)]
        for kind in ("observe", "thought"):
            said = [(place, data["text"]) for place, data in course.of_type(kind)]
            assert said == [(place, recursion[kind]) for place, recursion in readable(course) if recursion[kind]]
        kinds.update(kind for _, (kind, _) in actions)
    assert kinds == {"CALL_TOOL": 26, "ANSWER": 17, "PLAN": 14, "REFLECT": 14}


def test_each_recursion_is_one_model_call(courses: list[Course]) -> None:
    for course in courses:
        rounds = list(range(1, len(course.recursions) + 1))
        assert [place for place, _ in course.of_type("recursion_start")] == rounds
        assert [place for place, _ in course.of_type("model_called")] == rounds
        assert course.result["usage"]["calls"] == len(course.prompts) == len(rounds)


def test_what_was_unreadable_is_an_error_log_and_nothing_else_is_an_error(courses: list[Course]) -> None:
    found = 0
    for course in courses:
        expected, language = [], language_of(course.task["user_message"])
        for place, recursion in enumerate(course.recursions, 1):
            if not recursion["action_type"]:
                with pytest.raises(UnreadableReply) as error:
                    decode(reply_of(recursion))
                expected.append((place, error_text(error.value, language)))
        errors = [(place, data["message"]) for place, data in course.of_type("error") if not data["final"]]
        assert errors == expected
        found += len(errors)
    assert found == 7


def test_every_plan_is_taken_over(courses: list[Course]) -> None:
    for course in courses:
        planned = [
            (place, [step["step_id"] for step in action_of(recursion)[1]["plan"]])
            for place, recursion in readable(course)
            if action_of(recursion)[0] == "PLAN"
        ]
        told = [(place, [step["step_id"] for step in data["steps"]]) for place, data in course.of_type("plan_update")]
        assert told == planned


def settled(result: dict[str, Any], language: str) -> dict[str, Any]:
    """A recorded result as Segue tells it: a tool that was missing is missing here, one that raised raises."""
    if result["success"]:
        return {"success": result["result"]}
    if was_missing(result):
        return {"error": task_text("no_tool", language, tool=result["name"], known=", ".join(TOOLS))}
    return {"error": f"RecordedFailure: {result['error']}"}


def test_each_call_runs_once_and_gives_what_it_gave(courses: list[Course]) -> None:
    outcomes: Counter[str] = Counter()
    for course in courses:
        recorded = [(place, r) for place, recursion in enumerate(course.recursions, 1) for r in results_of(recursion)]
        told = [
            (place, data["name"], data["arguments"], {k: v for k, v in data["result"].items() if k != "stack"})
            for place, data in course.of_type("tool_result")
        ]
        language = language_of(course.task["user_message"])
        settled_results = [settled(r, language) for _, r in recorded]
        assert told == [
            (place, r["name"], r["arguments"], result)
            for (place, r), result in zip(recorded, settled_results, strict=True)
        ]
        texts = [message["content"] for message in course.history if message["role"] == "tool"]
        assert texts == [str(next(iter(result.values()))) for result in settled_results]
        assert course.ran == [(call.name, call.arguments) for call in calls_of(course.task)]
        outcomes.update("missing" if was_missing(r) else "success" if r["success"] else "raised" for _, r in recorded)
    assert outcomes == {"success": 16, "missing": 9, "raised": 2}


def test_tasks_end_with_their_answer_or_by_their_budget(courses: list[Course]) -> None:
    for course in courses:
        result, last = course.result, course.recursions[-1]
        assert [entry["action"] for entry in result["history"]] == [r["name"] for r in all_results(course.task)]
        if answered(course.task):
            assert (result["status"], result["answer"]) == ("done", action_of(last)[1]["answer"])
            continue
        why = task_text("spent_iterations", language_of(course.task["user_message"]), n=len(course.recursions))
        assert (result["status"], result["success"], result["error"]) == ("error", False, why)
        assert why in result["answer"]
        assert [data["message"] for _, data in course.of_type("error") if data["final"]] == [why]
    assert Counter(course.result["status"] for course in courses) == {"done": 17, "error": 8}


async def test_a_backtest_finds_each_task_as_it_was_recorded(recorded: Recorded, tmp_path: Path) -> None:
    """Its model is the recording; missing tools, tools that raised and unreadable replies included."""
    async with segue.open(tmp_path / "segue.db") as app:
        for task in tasks(recorded):
            rounds = task["max_iteration"] if answered(task) else len(task["recursions"])
            course = await take(app, task, [reply_of(recursion) for recursion in task["recursions"]], rounds)
            (found,) = (await app.backtest(course.result["session_id"], model="recorded")).tasks
            assert (found.task_id, found.verdict) == (course.result["task_id"], "same"), found
            assert {*found.answered} <= {"recording"}


async def test_a_task_goes_on_after_what_was_unreadable(recorded: Recorded, tmp_path: Path) -> None:
    """In the recording it ended there; the next prompt holds why it could not be read."""
    broken = [task for task in tasks(recorded) if not task["recursions"][-1]["action_type"]]
    assert len(broken) == 7
    async with segue.open(tmp_path / "segue.db") as app:
        for task in broken:
            replies = [reply_of(recursion) for recursion in task["recursions"]]
            course = await take(app, task, [*replies, answer("again")], task["max_iteration"])
            assert (course.result["status"], course.result["answer"]) == ("done", "again")
            [(place, data)] = course.of_type("error")
            assert (place, len(course.prompts)) == (len(replies), len(replies) + 1)
            assert json.loads(course.prompts[-1][-1])["error_log"] == data["message"]


async def test_a_task_cut_short_keeps_what_was_found(recorded: Recorded, tmp_path: Path) -> None:
    """As recorded, but for the answer."""
    found = [task for task in tasks(recorded) if answered(task) and any(r["success"] for r in all_results(task))]
    assert len(found) == 10
    async with segue.open(tmp_path / "segue.db") as app:
        for task in found:
            replies = [reply_of(recursion) for recursion in task["recursions"][:-1]]
            course = await take(app, task, replies, len(replies))
            assert course.result["status"] == "error"
            assert str(all_results(task)[-1]["result"]) in course.result["answer"]
