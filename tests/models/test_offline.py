"""The offline planner: what it calls, what it answers, and what it says that it did not use."""

import asyncio
import json
from typing import Annotated, Any, Literal

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import Field

from segue.core.decision import ActionType, decode
from segue.core.errors import ModelRefused
from segue.core.models import ModelRequest, TextDelta
from segue.models.offline import OfflinePlanner
from segue.nodes.context import plan_schema
from segue.nodes.lifecycle import TASKS_SCHEMA
from segue.prompts.catalogue import language_of, render
from segue.tools.builtin import CALCULATOR, CLOCK
from segue.tools.registry import tool
from segue.tools.travel import TRAVEL
from tests.cases import cases

from .offline_tools import LIBRARY, MACHINES, Talk, bound_once, reply_to, request

TOOLS = (*TRAVEL, *CALCULATOR, *CLOCK)
Calls = list[tuple[str, dict[str, Any]]]


def trip(city: str, days: int = 3) -> Calls:
    return [
        ("query_attractions", {"cities": [city]}),
        ("get_city_info", {"city": city}),
        ("calculate_budget", {"city": city, "days": days}),
        ("generate_route", {"city": city, "days": days}),
    ]


@tool
def ship(order_id: int) -> str:
    """Ship an order."""
    return "shipped"


@tool
def get_weather(city: str) -> str:
    """Say what the weather is in a city."""
    return "sunny"


@tool(read_only=True)
def search_flights(destination: str, max_price: int | None = None) -> str:
    """Search for flights."""
    return "none"


Currency = Literal["USD", "EUR", "CNY"]


@tool(read_only=True)
def convert_currency(amount: float, source: Currency, target: Currency) -> float:
    """Convert money."""
    return amount


@tool(read_only=True)
def list_todos() -> str:
    """List what is to be done."""
    return "none"


@tool
def add_todo(title: str) -> str:
    """Add something to be done."""
    return "added"


PLAIN = (ship, get_weather, search_flights, convert_currency, list_todos, add_todo)

CASES: list[tuple[Any, str, Calls]] = [
    (TOOLS, "帮我规划一个北京3日游，包括景点和美食", trip("北京")),
    (TOOLS, "Plan a 3-day trip to Beijing", trip("Beijing")),
    (TOOLS, "推荐一些适合美食游的城市", [("search_cities", {"interests": ["美食"], "language": "zh"})]),
    (TOOLS, "预算在300到500元的城市", [("search_cities", {"budget_min": 300, "budget_max": 500, "language": "zh"})]),
    (TOOLS, "推荐北京的美食", [("get_city_info", {"city": "北京"})]),
    (TOOLS, "Is Beijing expensive?", [("get_city_info", {"city": "Beijing"})]),
    (TOOLS, "成都贵不贵", [("get_city_info", {"city": "成都"})]),
    (
        TOOLS,
        "3 days in Beijing and 2 days in Chengdu",
        [("generate_route", {"city": "Beijing", "days": 3}), ("generate_route", {"city": "Chengdu", "days": 2})],
    ),
    (
        TOOLS,
        "a route for Beijing and Chengdu, 3 days each",
        [("generate_route", {"city": "Beijing", "days": 3}), ("generate_route", {"city": "Chengdu", "days": 3})],
    ),
    (TOOLS, "北京的行程，不要预算，三天", [call for call in trip("北京") if call[0] != "calculate_budget"]),
    (TOOLS, "12的5次方是多少？", [("calculate", {"expression": "12的5次方"})]),
    (TOOLS, "5 plus 3", [("calculate", {"expression": "5 plus 3"})]),
    (TOOLS, "现在几点了？", [("current_time", {})]),
    (TOOLS, "北京的地铁怎么坐", []),
    (TOOLS, "Explain the metro", []),
    (LIBRARY, "When is Northgate open?", [("opening_hours", {"branch": "Northgate"})]),
    (LIBRARY, "renew L-017 for two weeks", [("renew_loan", {"loan_id": "L-017", "weeks": 2})]),
    (LIBRARY, "Find books about “The Open Fine”", [("find_books", {"subject": "The Open Fine"})]),
    (
        LIBRARY,
        "河西馆和东门馆的开放时间",
        [("opening_hours", {"branch": "河西馆"}), ("opening_hours", {"branch": "东门馆"})],
    ),
    (
        LIBRARY,
        "Northgate opening hours, and the late fee of L-020 after 3 weeks",
        [("opening_hours", {"branch": "Northgate"}), ("late_fee", {"loan_id": "L-020", "weeks": 3})],
    ),
    (LIBRARY, "Please don't renew L-017", []),
    (MACHINES, "M-02 温度读数", [("read_sensor", {"machine": "M-02", "sensor": "温度"})]),
    (MACHINES, "Which machines are above 80?", [("machines_by_temperature", {"temp_min": 80})]),
    (MACHINES, "critical alarms of M-02, no ticket", [("alarms", {"machine": "M-02", "severities": ["critical"]})]),
    (MACHINES, "When was the pump history of M-05 written?", [("pump_history", {"machine": "M-05"})]),
    (MACHINES, "move load from M-01 to M-02", [("move_load", {"source": "M-01", "target": "M-02"})]),
    (MACHINES, "2024-05-01 or 24/7?", []),
    (PLAIN, "ship order 82\nship order 84", [("ship", {"order_id": 82}), ("ship", {"order_id": 84})]),
    (PLAIN, "1. Say hello\n2) ship order 84", [("ship", {"order_id": 84})]),
    (PLAIN, "search flights to “Rome” below 200", [("search_flights", {"destination": "Rome", "max_price": 200})]),
    (PLAIN, "search me a joke about flights", []),
    (
        PLAIN,
        "currency: convert 100 USD to EUR",
        [("convert_currency", {"amount": 100, "source": "USD", "target": "EUR"})],
    ),
    (PLAIN, "add a todo “buy milk”", [("add_todo", {"title": "buy milk"})]),
    (PLAIN, "add a todo", []),
    (PLAIN, 'get_weather({"city": "Oslo"})', [("get_weather", {"city": "Oslo"})]),
    (PLAIN, "If order 82 is paid, ship it", []),
    (PLAIN, "the weather in Oslo", []),
]


async def test_a_message_leads_to_the_calls_that_it_asks_for() -> None:
    for tools, text, calls in CASES:
        for native in (False, True):
            talk = Talk(tools, native)
            await talk.say(text)
            assert (text, native, talk.calls) == (text, native, calls)


@tool
def lookup_order(order_id: int) -> str:
    """Tell where a parcel is."""
    return "packed"


@tool(needs_approval=True)
def cancel_order(order_id: int) -> str:
    """取消客户的订单。"""
    return "cancelled"


@tool(read_only=True)
def branch_hours(branch: str = "main") -> str:
    """Say when the shop opens."""
    return "9–17"


@tool
def restart(name: str) -> str:
    """Restart a service."""
    return "restarted"


@tool(keywords=["重启", "reboot"])
def reboot(name: str) -> str:
    """Reboot a machine."""
    return "rebooted"


@tool(needs_approval=True)
def rename(old: str, new: str) -> str:
    """Rename a service."""
    return "renamed"


@tool(read_only=True)
def describe(service: str) -> str:
    """Describe a service."""
    return "a service"


RESTARTS = [("restart", {"name": "billing"})]
MAY_HAVE_EFFECTS = "`lookup_order` may have effects, so I did not use it. Mark it `read_only` or `needs_approval`"


@cases(
    "tools, text, expected",
    [
        ((lookup_order,), "Please look up order number 17", [("lookup_order", {"order_id": 17})]),
        ((lookup_order,), "Where is order 17?", MAY_HAVE_EFFECTS),
        ((lookup_order, branch_hours), "What happened to my parcel, the one of May?", MAY_HAVE_EFFECTS),
        ((lookup_order, branch_hours), "订单 17", "No tool fits"),
        ((lookup_order, cancel_order), "把客户的 17 号订单退掉", [("cancel_order", {"order_id": 17})]),
        ((lookup_order, cancel_order), "把客户的订单 17 退掉", [("cancel_order", {"order_id": 17})]),
        ((lookup_order, cancel_order), "把客户的 17 个订单退掉", "order_id"),
        ((lookup_order, cancel_order), "Please don't look up order 17", "No tool fits"),
        ((lookup_order, branch_hours), "At what time does your shop close?", [("branch_hours", {})]),
        ((lookup_order, branch_hours), "If the shop burns, what happens?", "No tool fits"),
        ((restart, describe), "Please restart billing", RESTARTS),
        ((restart, describe), "restart the billing.", RESTARTS),
        ((restart, describe), "restart name=billing", RESTARTS),
        ((restart, describe), "restart, name: billing please", RESTARTS),
        ((restart,), "restart name: the billing service", [("restart", {"name": "the billing service"})]),
        ((restart,), 'restart name="old billing"', [("restart", {"name": "old billing"})]),
        ((restart,), "Restart billing immediately", 'Put the value in quotes: `restart "billing immediately"`.'),
        ((restart,), "Can you restart billing?", 'Put the value in quotes: `restart "billing"`.'),
        ((restart,), "restart", 'Put the value in quotes: `restart "…"`.'),
        ((restart,), "Please don't restart billing", "No tool fits"),
        ((restart,), "Restart it. Billing is down", "To use restart, I still need"),
        ((reboot,), "请重启计费服务", [("reboot", {"name": "计费服务"})]),
        ((reboot,), "重启，name：billing", [("reboot", {"name": "billing"})]),
        ((rename,), "rename old: x y, new: z", [("rename", {"old": "x y", "new": "z"})]),
        ((rename,), 'rename new="a b" old=c', [("rename", {"old": "c", "new": "a b"})]),
        ((rename,), "rename billing", '`rename "billing" "…"`'),
        ((describe,), "Describe the old billing service", [("describe", {"service": "old billing"})]),
    ],
)
async def test_a_tool_is_found_by_its_name_arguments_and_description(tools: Any, text: str, expected: Any) -> None:
    for native in (False, True):
        talk = Talk(tools, native)
        answer = await talk.say(text)
        if isinstance(expected, str):
            assert talk.calls == [] and (expected in answer or language_of(text) == "zh"), answer
        else:
            assert talk.calls == expected, answer


@tool(read_only=True, keywords=["订单"])
def track(order_id: int) -> str:
    """查询订单。"""
    return "packed"


@cases("text", ["我的订单 17 到哪里了？", "请查询订单 17", "查一下订单 17 在哪儿"])
async def test_words_of_a_question_are_not_reported_as_unused(text: str) -> None:
    talk = Talk((track,), native=True)
    assert "未处理" not in await talk.say(text)
    assert talk.calls == [("track", {"order_id": 17})]


@cases(
    "tools, messages, calls",
    [
        (TOOLS, ["北京有什么好玩的", "那上海呢？"], [("query_attractions", {"cities": ["上海"]})]),
        (TOOLS, ["北京有什么好玩的", "那三天的预算一共多少？"], [("calculate_budget", {"city": "北京", "days": 3})]),
        (
            TOOLS,
            ["推荐海边的城市", "那预算500以内的呢？"],
            [("search_cities", {"interests": ["海边"], "budget_max": 500, "language": "zh"})],
        ),
        (
            TOOLS,
            ["北京3日游", "预算在300到500元的城市"],
            [("search_cities", {"budget_min": 300, "budget_max": 500, "language": "zh"})],
        ),
        (LIBRARY, ["Is Northgate open?", "thanks!", "and Riverside?"], [("opening_hours", {"branch": "Riverside"})]),
        (LIBRARY, ["Is Northgate open?", "Does Riverside have a swimming pool?"], []),
        (LIBRARY, ["续借 L-017 一周", "那3周的逾期费呢？"], [("late_fee", {"loan_id": "L-017", "weeks": 3})]),
        (LIBRARY, ["续借 L-017", "两周吧"], [("renew_loan", {"loan_id": "L-017", "weeks": 2})]),
        (LIBRARY, ["renew L-017 for 2 weeks", "and L-018?"], []),
        (
            MACHINES,
            ["Open a ticket, urgent", "the pump leaks"],
            [("open_ticket", {"title": "the pump leaks", "urgent": True})],
        ),
        (MACHINES, ["Open a ticket", "no, never mind"], []),
        (PLAIN, ["the weather", "Oslo"], [("get_weather", {"city": "Oslo"})]),
    ],
)
async def test_a_follow_up_takes_the_rest_from_the_conversation(tools: Any, messages: list[str], calls: Calls) -> None:
    for native in (False, True):
        talk = Talk(tools, native)
        for message in messages:
            await talk.say(message)
        assert talk.calls == calls


@cases(
    "tools, text, parts",
    [
        (
            TOOLS,
            "Plan a 3-day trip to Beijing, vegetarian, window seat",
            ["2495", "I did nothing with: vegetarian, window seat"],
        ),
        (TOOLS, "推荐海边的城市，要有温泉", ["厦门", "未处理：温泉"]),
        (TOOLS, "budget for Paris, 3 days", ["To use Budget", "for example Beijing", "I did nothing with: Paris"]),
        (TOOLS, "what is love?", ["No tool fits", "without a language model", "- Budget"]),
        ((reboot,), "重启 计费 服务", ["还需要你告诉我", '请把值放在引号里：`reboot "计费 服务"`。']),
        (LIBRARY, "几点开门？", ["分馆", "河西馆、东门馆"]),
        (LIBRARY, "Northgate opening hours and my late fee", ["Northgate: 9–17", "To use Late fee", "`loan_id`"]),
        (LIBRARY, "renew L-404 for 1 week, and the late fee of L-404", ["no such loan", "fee**: 2"]),
        (LIBRARY, "你好！", ["你好！", "- 续借\n"]),
        (LIBRARY, "thank you", ["You’re welcome!"]),
        (PLAIN, "If order 82 is paid, ship it", ["was not run", 'ship({"order_id": "…"})']),
        ((), "What is love?", ["No tools are configured"]),
        ((), "", ["No tools"]),
        (MACHINES, "1" * 32_000, ["No tool fits"]),
        (TOOLS, "5 plus 3 " + "x " * 2000, ["**8**", "everything after the first 2000 characters"]),
    ],
)
async def test_an_answer_says_what_was_found_and_what_was_not_done(tools: Any, text: str, parts: list[str]) -> None:
    notices = (
        "离线规划器按规则生成，它不是语言模型",
        "offline planner, which follows rules and is not a language model",
    )
    for native in (False, True):
        answer = await Talk(tools, native).say(text)
        assert [part for part in parts if part not in answer] == []
        assert any(notice in answer.splitlines()[-1] for notice in notices)


async def test_earlier_results_answer_a_request_to_repeat_them() -> None:
    talk = Talk(LIBRARY)
    await talk.say("Is Northgate open?")
    assert "Northgate: 9–17" in await talk.say("Summarise that please")
    assert talk.calls == []


def planned(text: str, tools: Any, schema: Any, **known: Any) -> ModelRequest:
    """A plan's request as the plan and lifecycle graphs write it."""
    members = {member.name: member for member in map(bound_once, tools)}
    state = json.dumps({"conversation": [], **known}, ensure_ascii=False)
    system = render("make_plan", language_of(text), agent_prompt="", tools="-", current_state=state, ask="")
    specs = [member.spec for member in members.values()]
    written = plan_schema(members) if schema is None else schema
    return ModelRequest("plan", [SystemMessage(system), HumanMessage(text)], written, specs)


TASK = "renew L-017 for 2 weeks, then the late fee and the Northgate opening hours"
FAILED = {"name": "opening_hours", "arguments": {"branch": "Northgate"}, "result": {"error": "closed"}}


async def test_a_plan_has_a_step_for_each_call_and_one_that_writes_the_answer() -> None:
    steps = json.loads((await reply_to(planned(TASK, LIBRARY, None))).text)["steps"]
    assert [step["action"] for step in steps] == ["opening_hours", "renew_loan", "late_fee", "none"]
    assert [step["depends_on"] for step in steps] == [[], [1], [], [1, 2, 3]]
    again = await reply_to(planned(TASK, LIBRARY, None, problem="step 1 failed: closed", results=[FAILED]))
    assert [step["step"] for step in json.loads(again.text)["steps"]] == [2, 3, 4]


@cases(
    "tools, text, titles",
    [
        (TOOLS, "Budget for Beijing, 3 days", ["Budget (Beijing, 3 days)"]),
        (TOOLS, "Budget for Beijing, 1 day", ["Budget (Beijing, 1 day)"]),
        (TOOLS, "北京3天的预算", ["计算预算（北京，3 天）"]),
        (PLAIN, "ship order 82", ["ship (order id: 82)"]),
    ],
)
async def test_a_step_shows_its_arguments_as_a_person_writes_them(tools: Any, text: str, titles: list[str]) -> None:
    steps = json.loads((await reply_to(planned(text, tools, None))).text)["steps"]
    assert [step["description"] for step in steps[:-1]] == titles


async def test_a_plan_takes_the_rest_from_the_conversation() -> None:
    said = [{"role": "user", "content": "北京3日游"}, {"role": "assistant", "content": "…"}]
    steps = json.loads((await reply_to(planned("那预算一共多少？", TOOLS, None, conversation=said))).text)["steps"]
    assert (steps[0]["action"], steps[0]["params"]) == ("calculate_budget", {"city": "北京", "days": 3})


async def test_a_plans_answer_is_made_from_the_results_in_the_prompt() -> None:
    done = {"step": "Opening hours (branch=Northgate)", "tool": "opening_hours", "result": {"success": "9–17"}}
    lost = {"step": "Renew", "tool": "renew_loan", "result": {"error": "it was interrupted", "unknown_outcome": True}}
    system = render("plan_answer", "en", agent_prompt="", conversation="", results=json.dumps([done, lost]))
    specs = [bound_once(source).spec for source in LIBRARY]
    request = ModelRequest("answer", [SystemMessage(system), HumanMessage("Northgate, and a pony")], tools=specs)
    answer = (await reply_to(request)).text
    assert "9–17" in answer and "Renew may or may not have taken effect" in answer and "did not succeed" not in answer


async def test_a_goal_is_broken_down_into_tasks_that_the_planner_reads_back() -> None:
    tasks = json.loads((await reply_to(planned(TASK + ", gift wrapped", LIBRARY, TASKS_SCHEMA))).text)["tasks"]
    assert [task["dependencies"] for task in tasks] == [[], ["1"], [], ["1", "2", "3"]]
    assert tasks[-1]["description"].endswith("write the answer. I did nothing with: gift wrapped.")
    talk = Talk(LIBRARY)
    await talk.say(tasks[1]["description"])
    assert talk.calls == [("renew_loan", {"loan_id": "L-017", "weeks": 2})]


async def test_the_last_task_puts_the_results_of_its_brief_together() -> None:
    brief = render(
        "subtask", "en", goal="g", rules="-", knowledge="-", results='- Hours: opening_hours({"branch": "A"}): 9–17'
    )
    talk = Talk(LIBRARY, conversation=[{"role": "user", "content": brief}])
    answer = await talk.say("Put the results together and write the answer Not used: a pony")
    assert answer.startswith("9–17") and "Not used: a pony" in answer and "opening_hours" not in answer


async def test_an_object_of_another_form_is_refused() -> None:
    schema = {"title": "Trip", "type": "object", "properties": {"city": {"type": "string"}}}
    with pytest.raises(ModelRefused, match=r"Structured output \(Trip\) needs a language model"):
        await reply_to(ModelRequest("extract", [HumanMessage("Beijing")], schema))


async def test_a_call_that_a_person_edited_or_that_left_the_prompt_is_not_made_again() -> None:
    edited = {"name": "ship", "arguments": {"order_id": 9}, "original": {"order_id": 82}, "result": {"success": "ok"}}
    asked = request("ship order 82", PLAIN, rounds=[[edited]])
    assert decode((await reply_to(asked)).text).action_type is ActionType.ANSWER
    asked = request("ship order 82\nship order 84", PLAIN, memory=["#1 CALL_TOOL ship ok: I see"])
    assert [call.arguments for call in decode((await reply_to(asked)).text).tool_calls] == [{"order_id": 84}]
    older = ["called ship: ok", "assistant: shipped", "called ship: ok"]
    asked = request("ship order 82\nship order 84", PLAIN, native=True, memory=older)
    assert [call.arguments for call in (await reply_to(asked)).tool_calls] == ['{"order_id": 84}']
    gone = ["#1 CALL_TOOL ship ok: I see", "#2 CALL_TOOL ship error: I see"]
    asked = request("ship order 82\nship order 84\nship order 86", PLAIN, memory=gone)
    assert [call.arguments for call in decode((await reply_to(asked)).text).tool_calls] == [{"order_id": 86}]


async def test_a_reply_is_streamed_in_pieces_and_always_the_same() -> None:
    for native in (False, True):
        asked = request("河西馆几点开门？ renew L-017 for 2 weeks", LIBRARY, native)
        *pieces, whole = [piece async for piece in OfflinePlanner().stream(asked)]
        texts = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
        assert len(texts) > 5 and "".join(texts) == whole.text
        assert whole == await reply_to(asked)


async def test_a_pace_holds_the_pieces_back() -> None:
    asked = request("renew L-017 for 2 weeks", LIBRARY, native=False)
    began = asyncio.get_running_loop().time()
    *_, whole = [piece async for piece in OfflinePlanner(pace=2_000).stream(asked)]
    assert asyncio.get_running_loop().time() - began >= len(whole.text) / 2_000
    assert whole == await reply_to(asked)


@tool(read_only=True, keywords=["刷", "paint"])
def paint(
    shade: Annotated[
        Literal["red", "blue"] | None, Field(json_schema_extra={"aliases": {"red": ["红", "crimson"]}})
    ] = None,
    language: Annotated[Literal["zh", "en"] | None, Field(json_schema_extra={"format": "language"})] = None,
) -> str:
    """Paint."""
    return "done"


@pytest.mark.parametrize(("text", "language"), [("paint it crimson", "en"), ("刷成红的", "zh")])
async def test_aliases_stand_for_values_and_a_tool_hears_the_readers_language(text: str, language: str) -> None:
    talk = Talk((paint,))
    await talk.say(text)
    assert talk.calls == [("paint", {"shade": "red", "language": language})]


@cases(
    "text, expected",
    [
        ("(3+5)×2 等于几", 16),
        ("十二乘以三加五", 41),
        ("15% of 200", 30),
        ("what is 2 to the power of 10?", 1024),
        ("square root of 16", 4),
    ],
)
async def test_arithmetic_is_taken_out_of_a_sentence(text: str, expected: float) -> None:
    assert f"**{expected}**" in await Talk(CALCULATOR).say(text)
