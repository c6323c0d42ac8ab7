"""How a mode is chosen, by name or by rules, and what misuse is answered with."""

from enum import Enum
from typing import Any, cast

import pytest

import segue
from segue import Agent, ChatMode
from segue.app import App
from segue.core.errors import ModelRefused
from segue.core.events import ModeSelected
from segue.nodes.chat.select_mode import pick_mode
from tests.fakes import ScriptedChatModel

PICKED = {
    "direct": [
        "你好",
        "您好！",
        "你好呀～",
        "你好，在吗？",
        "你好世界",
        "大家好",
        "早上好",
        "晚安",
        "谢谢",
        "谢谢你",
        "非常感谢！",
        "多谢啦",
        "辛苦了",
        "再见",
        "你好吗？",
        "最近怎么样？",
        "hello",
        "Hi there!",
        "Hello world",
        "Good morning",
        "hey 👋",
        "How are you?",
        "How are you doing today?",
        "How's it going?",
        "Nice to meet you",
        "Thanks!",
        "Thank you very much",
        "thanks a lot, bye",
        "See you tomorrow",
    ],
    "plan": [
        "帮我规划北京3日游",
        "你好，帮我规划北京3日游",
        "制定一个减肥计划",
        "给我一份成都的行程安排",
        "做一个西安两日行程",
        "写一份学习计划，为期四周",
        "上海旅游攻略",
        "我计划下个月去杭州，帮我安排",
        "规划一下从北京到成都的路线",
        "Plan a weekend in Chengdu",
        "hello, plan a trip",
        "Can you plan my week?",
        "I need an itinerary for Xi'an",
        "Make a study plan for four weeks",
        "Help me with planning a conference",
        "What is the best plan for three days in Beijing?",
        "Write a business plan for a bakery",
    ],
    "react": [
        "推荐一些适合美食游的城市",
        "北京有哪些景点",
        "查询订单 A-1042",
        "搜索最近的咖啡店",
        "什么是计划？",
        "计划是什么意思？",
        "“计划”用英语怎么说？",
        "计划经济是什么？",
        "城市规划专业好就业吗",
        "12*7 等于多少",
        "你好，今天天气怎么样？",
        "谢谢，再查一下成都",
        "What is a plan?",
        "What's the plan?",
        "Define planning",
        "What does the word 'itinerary' mean?",
        "Which phone plan is cheapest?",
        "How much is the pro plan?",
        "Explain the metro",
        "the planet Mars",
        "hi, what is 2+2?",
        "Find flights to Beijing",
        "Who planned the city of Brasília?",
        "Thanks, now look up Chengdu",
    ],
}


async def _mode_of(app: App, message: str, **options: Any) -> str:
    events = [event async for event in app.chat(message, model="offline", **options)]
    return next(event.mode for event in events if isinstance(event, segue.events.ModeSelected))


@pytest.mark.parametrize(
    ("message", "replies", "mode", "calls"),
    [
        ("Compare three cities and book the best", ["plan"], "plan", 1),
        ("你怎么看？", ["`direct`。"], "direct", 1),
        ("What is new?", ["I cannot say."], "react", 1),
        ("What is new?", [ModelRefused("no")], "react", 1),
        ("hello", [], "direct", 0),
        ("Plan a trip", [], "plan", 0),
    ],
)
@pytest.mark.parametrize("how", ["agent", "environment"])
async def test_auto_asks_the_model_where_the_rules_do_not_tell(
    monkeypatch: pytest.MonkeyPatch, message: str, replies: list[Any], mode: str, calls: int, how: str
) -> None:
    monkeypatch.setenv("SEGUE_AUTO", "model" if how == "environment" else "rules")
    model = ScriptedChatModel([*replies, ModelRefused("stop here"), ModelRefused("and here")])
    agent = Agent(agent_id="a", model=model, auto="model" if how == "agent" else None)
    async with segue.open(":memory:", agents=[agent]) as app:
        events = [event async for event in app.chat(message, agent="a")]
    (selected, *_) = [event for event in events if isinstance(event, ModeSelected)]
    assert selected.mode == mode
    asked = [call for call in model.calls if "direct" in str(call[0].content) and "plan" in str(call[0].content)]
    assert len(asked) == calls


@pytest.mark.parametrize("mode", PICKED)
def test_auto_picks_the_mode_by_rules(mode: str) -> None:
    assert [message for message in PICKED[mode] if pick_mode(message) != mode] == []


@pytest.mark.parametrize(
    ("message", "mode"), [("谢谢你", "direct"), ("What is a plan?", "react"), ("做个计划", "plan")]
)
async def test_a_message_without_a_mode_goes_where_auto_sends_it(app: App, message: str, mode: str) -> None:
    assert await _mode_of(app, message) == mode


@pytest.mark.parametrize("mode", [mode for mode in ChatMode if mode != ChatMode.AUTO])
async def test_the_names_of_the_document_are_modes(app: App, mode: ChatMode) -> None:
    assert await _mode_of(app, "hello", mode=mode) == mode.value


class Theirs(Enum):
    """An enum of somebody else's."""

    PLAN = "plan"


async def test_an_enum_stands_for_its_value(app: App) -> None:
    assert await _mode_of(app, "hello", mode=Theirs.PLAN) == "plan"


async def test_misuse_is_answered_in_a_sentence(app: App) -> None:
    nothing, misspelt = cast(Any, None), cast(Any, {"sesion_id": "s"})
    with pytest.raises(segue.errors.InvalidMessage, match="NoneType, not text"):
        await app.ask(nothing)
    with pytest.raises(segue.errors.UnknownOption, match="'sesion_id'; use one of: session_id"):
        await app.ask("hello", **misspelt)
    with pytest.raises(segue.errors.InsideEventLoop, match=r"await app\.ask"):
        segue.ask("hello")
    assert await app.tasks() == []


async def test_a_closed_app_says_that_it_is() -> None:
    async with segue.open(":memory:") as app:
        pass
    for use in (app.ask("hello"), app.tasks(), app.history("s"), app.snapshots("s")):
        with pytest.raises(segue.errors.AppClosed, match="closed"):
            await use
