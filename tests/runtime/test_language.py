"""The language of a task: its agent's, else the user's, else that of most of the person's own words."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.core.agents import Agent
from segue.core.errors import UnknownLanguage
from segue.core.records import Task
from segue.prompts.catalogue import Language, language_named, language_of
from segue.runtime import runner
from segue.runtime.run import language_by_now
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json

IN_CHINESE, IN_ENGLISH = "请用中文回答。", "Answer in English."
ALIKE = {"zh": "用用户消息所用的语言回答。", "en": "Answer in the language of the user's message."}

SENTENCES: list[tuple[Language, str]] = [
    ("zh", "帮我规划北京3日游"),
    ("zh", "用 Python 写一个 quicksort"),
    ("zh", "把 README translate 一下"),
    ("zh", "分析 sales_2024.csv 里每个地区的总额"),
    ("zh", "请把“How are you doing today, my friend?”翻译成中文"),
    ("zh", "《The Old Man and the Sea》讲了什么？"),
    ("zh", "https://example.com/a/very/long/path 这个网页说了什么"),
    ("zh", "運行測試並修復錯誤"),
    ("zh", "《红楼梦》"),
    ("en", "Plan a 3-day trip to 北京"),
    ("en", "What does 你好世界 mean?"),
    ("en", "Describe 销售数据.csv"),
    ("en", "Find the file 报告 最终版.docx and open it"),
    ("en", 'Translate "我今天很高兴认识你们大家" into English'),
    ("en", "Who wrote 《红楼梦》?"),
    ("en", "What is the difference between 的, 得 and 地?"),
    ("en", "東京の天気を教えてください"),
    ("en", "今日の天気は？"),
    ("en", "韓國 여행 계획 세워줘"),
    ("en", "Какая погода в Пекине?"),
    ("en", "12*7"),
]


@pytest.mark.parametrize(("language", "text"), SENTENCES)
def test_most_of_the_persons_own_words_decide(language: Language, text: str) -> None:
    assert language_of(text) == language


def test_tags_and_locales_name_a_language() -> None:
    named = [language_named(tag) for tag in ("zh", "zh-Hans-CN", "zh_CN.UTF-8", "EN", "en_GB.UTF-8@euro")]
    assert named == ["zh", "zh", "zh", "en", "en"]
    assert [language_named(tag) for tag in ("", "C.UTF-8", "POSIX", "ja_JP", "english")] == [None] * 5


@pytest.fixture
async def app() -> AsyncIterator[segue.App]:
    async with segue.open(":memory:") as opened:
        yield opened


def _scripted(app: segue.App, *replies: str, **fields: object) -> ScriptedChatModel:
    model = ScriptedChatModel(list(replies))
    app.register(segue.Agent.model_validate({"agent_id": "a", "model": model, **fields}))
    return model


def _systems(model: ScriptedChatModel) -> list[str]:
    return [message.text for call in model.calls for message in call if message.type == "system"]


@pytest.mark.parametrize(
    ("message", "own", "user", "environment", "told"),
    [
        ("Say hello to 北京", None, "", "", ALIKE["en"]),
        ("跟 Beijing 打个招呼", None, "", "", ALIKE["zh"]),
        ("Say hello", None, "", "zh_CN.UTF-8", IN_CHINESE),
        ("Say hello", None, "zh", "en", IN_CHINESE),
        ("打个招呼", "en", "zh", "zh", IN_ENGLISH),
        ("挨拶してください", None, "", "", ALIKE["en"]),
    ],
)
async def test_the_agent_decides_then_the_user_then_the_message(
    app: segue.App,
    monkeypatch: pytest.MonkeyPatch,
    message: str,
    own: str | None,
    user: str,
    environment: str,
    told: str,
) -> None:
    monkeypatch.setenv("SEGUE_LANGUAGE", environment)
    model = _scripted(app, "好 / good", language=own)
    banners = [
        event.content
        async for event in app.chat(message, agent="a", mode="direct", language=user)
        if isinstance(event, segue.events.Phase)
    ]
    assert told in _systems(model)[0]
    assert ("直接模式" in banners[0]) == (told in (IN_CHINESE, ALIKE["zh"]))


async def test_a_task_that_has_not_begun_keeps_its_language(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def hold() -> str:
        """Wait."""
        await release.wait()
        return "held"

    busy, later = ScriptedChatModel([call_tool(("hold", {})), answer("done")]), ScriptedChatModel(["好"])
    agents = [
        segue.Agent(agent_id="busy", model=busy, tools=[hold], mode="react"),
        segue.Agent(agent_id="later", model=later, mode="direct"),
    ]
    async with segue.open(tmp_path / "segue.db", agents=agents, max_running=1) as app:
        await app.start("Hold on", agent="busy")
        task_id = (await app.start("Say hello", agent="later", language="zh")).task_id
        await app.pause(task_id)
        release.set()
    async with segue.open(tmp_path / "segue.db", agents=agents) as app:
        await app.resume(task_id)
        [event async for event in app.follow(task_id)]
        assert (await app.task(task_id)).language == "zh"
    assert IN_CHINESE in _systems(later)[0]


async def test_a_language_that_segue_does_not_have_is_refused(app: segue.App) -> None:
    with pytest.raises(UnknownLanguage, match=r"'tlh'.*zh or en"):
        await app.ask("hello", language="tlh")
    assert await app.tasks.list() == []


async def test_subtasks_inherit_the_language_whatever_they_are_written_in(app: segue.App) -> None:
    tasks = json.dumps({"tasks": [{"id": "1", "description": "北京"}, {"id": "2", "description": "成都"}]})
    model = _scripted(app, tasks, answer("a"), answer("b"))
    await app.ask("Compare these two cities for me", agent="a", mode="lifecycle")
    first, *parts = _systems(model)
    assert ALIKE["en"] in first and all(IN_ENGLISH in system for system in parts)
    assert len(parts) == 2


async def test_the_steps_of_a_hybrid_plan_inherit_it(app: segue.App) -> None:
    steps = [{"action": "none", "description": "介绍"}]
    model = _scripted(app, plan_json("介绍北京", steps), answer("好"))
    await app.ask("Introduce Beijing", agent="a", mode="plan_react", language="zh")
    assert all(IN_CHINESE in system for system in _systems(model)) and len(model.calls) == 2


@segue.tool(timeout=0.05)
async def ponder(subject: str) -> str:
    """Think for long."""
    await asyncio.sleep(30)
    return subject


@pytest.mark.parametrize(
    ("message", "errors"),
    [
        ("好好想一想", ["没有名为“muse”的工具；可选：ponder。", "ponder 超过 0.05 秒没有完成，已取消。"]),
        ("Think well", ['There is no tool "muse"; use one of: ponder.', "ponder took longer than 0.05 s and was"]),
    ],
)
async def test_the_errors_of_calls_are_in_the_language_of_the_task(
    app: segue.App, message: str, errors: list[str]
) -> None:
    calls = call_tool(("muse", {}), ("ponder", {"subject": "time"}), ("ponder", {"topic": "time"}))
    _scripted(app, calls, answer("…"), tools=(ponder,), mode="react")
    result = await app.ask(message, agent="a")
    events = await app.events(result.task_id)
    said = [event.data["result"]["error"] for event in events if event.type == "tool_result"]
    assert [text.startswith(error) for text, error in zip(said, errors, strict=False)] == [True, True]
    assert ("ponder 的参数不符合要求" if language_of(message) == "zh" else "The arguments of ponder") in said[2]


@pytest.mark.parametrize(
    ("message", "note", "error"),
    [
        ("做两件事", "它依赖的步骤失败了", "步骤 2（已跳过）：它依赖的步骤失败了"),
        ("Do two things", "it depends on a step that failed", "step 2 (skipped): it depends on a step that failed"),
    ],
)
async def test_notes_of_skipped_steps_are_in_the_language_of_the_task(
    app: segue.App, message: str, note: str, error: str
) -> None:
    first = {"action": "ponder", "params": {"subject": "a"}, "description": "a", "phase": "execution", "depends_on": []}
    steps = [{**first, "step": 1}, {**first, "step": 2, "depends_on": [1], "params": {"subject": "b"}}]
    _scripted(app, plan_json("two", steps), plan_json("two", steps), plan_json("two", steps), "…", tools=(ponder,))
    result = await app.ask(message, agent="a", mode="plan")
    assert [step["note"] for step in result["plan"] if step["status"] == "skipped"] == [note]
    assert error in result["error"]


@pytest.mark.parametrize(("message", "error"), [("做吧", "任务 1（已出错）："), ("Do it", "task 1 (error): ")])
async def test_the_error_of_a_lifecycle_run_is_in_the_language_of_the_task(
    app: segue.App, message: str, error: str
) -> None:
    result = await app.ask(message, mode="lifecycle", model="offline")
    assert result["error"].startswith(error)


async def test_the_state_of_a_task_that_fails_is_read_once_for_its_language(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    async def noted(graph: Any, row: Task) -> str:
        read.append(row.task_id)
        return await language_by_now(graph, row)

    def broken(messages: object) -> str:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(runner, "language_by_now", noted)
    agent = Agent(agent_id="a", model=ScriptedChatModel(broken), mode="direct")
    async with segue.open(":memory:", agents=[agent]) as app:
        with pytest.raises(ZeroDivisionError):
            await app.ask("hello")
    assert len(read) == 1
