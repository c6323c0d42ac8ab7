"""Ordinary requests to the shipped agents with the offline planner: answered right, or declined in so many words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.prompts.catalogue import Language
from tests.tools.data.sales import write_sales

Calls = tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Ordinary:
    """What a person writes, turn by turn, and what the last turn must do.

    `calls` are tools with the arguments that matter. A declined request calls nothing, and `says` what it says.
    """

    turns: tuple[str, ...]
    calls: Calls = ()
    says: Sequence[str] = ()
    hides: Sequence[str] = ()
    declined: bool = False


def _one(
    text: str, *calls: tuple[str, Mapping[str, Any]], says: Sequence[str] = (), hides: Sequence[str] = ()
) -> Ordinary:
    return Ordinary((text,), calls, says, hides)


def _declined(text: str, *says: str) -> Ordinary:
    return Ordinary((text,), (), says, declined=True)


TRAVEL = (
    _one("3000 yuan for 4 days", ("search_cities", {"budget_max": 3000, "days": 4}), says=["750"]),
    _one("in autumn", ("search_cities", {"season": "autumn"})),
    Ordinary(
        ("Which cities have good food?", "in autumn"),
        (("search_cities", {"interests": ["food"], "season": "autumn"}),),
    ),
    _one("a week in Beijing", ("generate_route", {"city": "Beijing", "days": 7})),
    _one("Is Beijing expensive?", ("get_city_info", {"city": "Beijing"})),
    _one(
        "3 days in Beijing and 2 days in Chengdu",
        ("generate_route", {"city": "Beijing", "days": 3}),
        ("generate_route", {"city": "Chengdu", "days": 2}),
    ),
    _one("How much would a weekend in Hangzhou cost?", ("calculate_budget", {"city": "Hangzhou", "days": 2})),
    _one("What should I eat in Chengdu?", ("get_city_info", {"city": "Chengdu"})),
    _one(
        "Which is cheaper, Xiamen or Shanghai?",
        ("get_city_info", {"city": "Xiamen"}),
        ("get_city_info", {"city": "Shanghai"}),
    ),
    _one("I'd like to see pandas", ("search_cities", {"interests": ["pandas"]})),
    _one(
        "Somewhere by the sea for under 500 a day", ("search_cities", {"interests": ["by the sea"], "budget_max": 500})
    ),
    _one("How many days do I need for Xiamen?", ("get_city_info", {"city": "Xiamen"})),
    _one("How much is a ticket to the Forbidden City?", ("query_attractions", {"cities": ["Beijing"]}), says=["60"]),
    _declined("Book me a hotel in Shanghai", "No tool fits"),
    _declined("I want to go to Paris for three days", "No tool fits"),
    _declined("第一个城市有什么景点", "城市"),
    Ordinary(("哪些城市美食多？", "第一个城市有什么景点"), (("query_attractions", {"cities": ["成都"]}),)),
    _declined("我想去巴黎玩三天", "巴黎"),
    _one("国庆去西安玩五天要花多少钱", ("calculate_budget", {"city": "西安", "days": 5})),
    _one("周末去杭州怎么玩", ("generate_route", {"city": "杭州", "days": 2})),
    _one("厦门什么时候去最好", ("get_city_info", {"city": "厦门"})),
    _one("每天不超过400块，冬天去哪里好", ("search_cities", {"budget_max": 400, "season": "冬天"})),
    _one("北京和上海哪个更贵", ("get_city_info", {"city": "北京"}), ("get_city_info", {"city": "上海"})),
    _declined("想带孩子看熊猫", "没有合适的工具"),
    _one(
        "先在北京待三天，再去成都两天",
        ("generate_route", {"city": "北京", "days": 3}),
        ("generate_route", {"city": "成都", "days": 2}),
    ),
    _one("半个月的呼伦贝尔之旅", ("generate_route", {"city": "呼伦贝尔", "days": 15})),
    _one("故宫门票多少钱", ("query_attractions", {"cities": ["北京"]}), says=["60"]),
    _declined("帮我订一张去上海的机票", "没有合适的工具"),
    _one("预算五千，玩一周，去哪里合适", ("search_cities", {"budget_max": 5000, "days": 7}), says=["714"]),
    _declined("明天上海天气怎么样", "没有合适的工具"),
    _one("两千块够玩上海三天吗", ("calculate_budget", {"city": "上海", "days": 3})),
    _one(
        "成都和西安各玩两天",
        ("generate_route", {"city": "成都", "days": 2}),
        ("generate_route", {"city": "西安", "days": 2}),
    ),
    Ordinary(
        ("Which cities are good for grassland?", "What does the second one cost for 3 days?"),
        (("calculate_budget", {"city": "Hulunbuir", "days": 3}),),
    ),
    _one("What can I see in Hohhot in one day?", ("generate_route", {"city": "Hohhot", "days": 1})),
    _one("How much money should I bring for six days in Xiamen?", ("calculate_budget", {"city": "Xiamen", "days": 6})),
    _one("I have 5000 yuan. Where could I go for a week?", ("search_cities", {"budget_max": 5000, "days": 7})),
    _one("Which sights in Shanghai are free?", ("query_attractions", {"cities": ["Shanghai"]}), says=["free"]),
    _one("When is the best time to visit Hulunbuir?", ("get_city_info", {"city": "Hulunbuir"}), says=["summer"]),
    _one(
        "Compare the budgets of Chengdu and Xi'an for three days",
        ("calculate_budget", {"city": "Chengdu", "days": 3}),
        ("calculate_budget", {"city": "Xi'an", "days": 3}),
    ),
    _one("How long does the Terracotta Army take?", ("query_attractions", {"cities": ["Xi'an"]}), says=["4 hours"]),
    _one("Tell me about Hangzhou's food", ("get_city_info", {"city": "Hangzhou"})),
    _one("Which city is best for history lovers on a tight budget?", says=["I did nothing with: best, lovers, tight"]),
    _declined("Plan a long weekend in Xi'an for two people", "No tool fits"),
    _declined("We're travelling with two small kids, where should we go?", "small kids"),
    _declined("Are there any flights from Shanghai to Beijing on Friday?", "No tool fits"),
    _declined("Will it rain in Hangzhou tomorrow?", "No tool fits"),
    _declined("I only have an afternoon in Shanghai, what do you suggest?", "No tool fits"),
    _declined("Can you do Baotou in a day and a half?", "No tool fits"),
    _declined("Two nights in Xiamen, what would that cost?", "days"),
    _one("我有三天假期，预算两千，去哪儿好？", ("search_cities", {"budget_max": 2000, "days": 3})),
    _one("国庆节去西安四天怎么玩", ("generate_route", {"city": "西安", "days": 4})),
    _one("成都有哪些免费景点？", ("query_attractions", {"cities": ["成都"]}), says=["免费"]),
    _one("去厦门玩五天大概要准备多少钱？", ("calculate_budget", {"city": "厦门", "days": 5})),
    _one("哪个城市适合冬天去？", ("search_cities", {"season": "冬天"}), says=["厦门"]),
    _one("有没有适合看海的地方，每天不超过六百", ("search_cities", {"budget_max": 600, "per": "day"})),
    _one("呼和浩特一天能看什么", ("generate_route", {"city": "呼和浩特", "days": 1})),
    _one("鼓浪屿要玩多久", ("query_attractions", {"cities": ["厦门"]}), says=["约 6 小时"]),
    _one("先看看北京的景点，然后算一下三天要花多少钱", ("calculate_budget", {"city": "北京", "days": 3})),
    _declined("半天时间在上海能去哪", "上海"),
    _declined("成都和上海哪个花费低？", "天数"),
    _declined("明天从北京到上海的高铁几点", "没有合适的工具"),
)

DATA_ENGLISH = (
    _one("Which region sold the least?", ("top_n", {"lowest": True}), says=["Northeast"]),
    _one("How many orders do we have?", says=["480"]),
    _one("What's our total revenue?", says=["445,557.80"]),
    _one("Average price per region", ("sum_by", {"column": "region", "value": "price", "measure": "average"})),
    _one("What was the best month for sales?", ("trend", {"every": "month"})),
    _one("How many units did we sell of each product?", ("sum_by", {"column": "product", "value": "quantity"})),
    _one("top three products by units", ("top_n", {"column": "product", "value": "quantity", "n": 3})),
    _one("Draw a line chart of weekly revenue", ("chart", {"kind": "line", "every": "week"})),
    _one("Compare the revenue of the quarters", ("trend", {"every": "quarter"})),
    _one("What columns does the file have?", ("describe", {}), says=["region", "product"]),
    _one("How many different products are there?", says=["6"]),
    _declined("Predict next month's revenue", "Predict"),
    _declined("Which customers bought the most?", "customers"),
    _declined("What's the profit margin by region?", "profit margin"),
    _declined("How many desk lamps were sold in the East?", "East"),
    _one("What was the average order value?", ("sum_by", {"measure": "average"}), says=["928.25"], hides=["480** in"]),
    _one("amount per order by region", ("sum_by", {"column": "region", "value": "amount", "measure": "average"})),
    _one(
        "Which region has the lowest average amount per order?",
        ("top_n", {"column": "region", "measure": "average", "lowest": True}),
        says=["**Northeast**: 820.53"],
    ),
    _one("Which month had the most orders?", ("trend", {"every": "month", "measure": "count"}), hides=["amount"]),
    _one("Which region has the most orders?", ("top_n", {"measure": "count"}), says=["151"], hides=["amount"]),
    _one("Number of orders per quarter", ("trend", {"every": "quarter", "measure": "count"}), hides=["amount"]),
    _one("Plot orders per month", ("chart", {"every": "month", "measure": "count"}), hides=["amount"]),
    _one("Plot the average amount by region", ("chart", {"measure": "average"}), says=["average amount by region"]),
    _one("Which product sold the most units?", ("top_n", {"column": "product", "value": "quantity"}), says=["591"]),
    _one("Plot units by month as a line", ("chart", {"kind": "line", "value": "quantity", "every": "month"})),
    _declined("How did sales in the South develop over the year?", "South"),
    _declined("What share of the amount comes from the East?", "East"),
    _declined("Show me the five biggest orders", "five"),
    _declined("How many orders were there in March?", "March"),
    _declined("Compare the first and the second half of the year", "half"),
    _declined("What is the median price?", "No tool fits"),
    _declined("Who are our best customers?", "customers"),
    _declined("What will sales be next month?", "next"),
)

DATA_CHINESE = (
    _one("哪个地区卖得最差", ("top_n", {"lowest": True}), says=["东北"]),
    _one("一共有多少条记录", says=["480"]),
    _one("总销售额是多少", says=["445,557.80"]),
    _one("各地区的平均单价", ("sum_by", {"column": "地区", "value": "单价", "measure": "average"})),
    _one("哪个月卖得最好", ("trend", {"every": "month"})),
    _one("每个季度的销量", ("trend", {"every": "quarter", "value": "数量"})),
    _one("卖得最好的三个产品", ("top_n", {"column": "产品", "n": 3})),
    _one("按件数排前五的产品", ("top_n", {"column": "产品", "value": "数量", "n": 5})),
    _one("画一张每周销售额的折线图", ("chart", {"kind": "line", "every": "week"})),
    _one("这个表有哪些列", ("describe", {}), says=["地区", "产品"]),
    _one("有多少种产品", says=["6"]),
    _declined("哪些客户买得最多", "客户"),
    _declined("各产品的利润率是多少", "利润率"),
    _declined("预测一下下个月的销售额", "没有合适的工具"),
    _one("各产品卖了多少件", ("sum_by", {"column": "产品", "value": "数量"})),
    _declined("三月份的销售额是多少", "没有运行趋势"),
    _one("单价最高的产品是哪个", ("top_n", {"column": "产品", "value": "单价"}), says=["平均单价", "285.37"]),
    _declined("华东卖了多少台灯", "没有合适的工具"),
    _one("平均每单多少钱", ("sum_by", {"measure": "average"}), says=["928.25"]),
    _one("每个月平均每单多少钱", ("trend", {"every": "month", "measure": "average"})),
    _one(
        "哪个地区平均每单金额最低",
        ("top_n", {"column": "地区", "measure": "average", "lowest": True}),
        says=["**东北**：820.53"],
    ),
    _one("每个季度的订单数", ("trend", {"every": "quarter", "measure": "count"}), hides=["金额"]),
    _one("哪个月订单最多", ("trend", {"every": "month", "measure": "count"}), hides=["金额"]),
    _one("各地区有多少单", says=["151"], hides=["金额"]),
    _one("每月的订单金额", ("trend", {"every": "month", "value": "金额"}), hides=["480"]),
    _one("哪个产品卖出的件数最多", ("top_n", {"column": "产品", "value": "数量"}), says=["591"]),
    _declined("华南的销售额全年走势怎么样", "华南"),
    _declined("华东占总金额的百分之多少", "华东"),
    _declined("金额最大的五笔订单是哪些", "五笔"),
    _declined("三月份一共有多少单", "三"),
    _declined("东北卖过耳机吗", "没有合适的工具"),
    _declined("我们最好的客户是谁", "客户"),
    _declined("下个月能卖多少", "没有合适的工具"),
    _declined("十二月比十一月多卖了多少钱", "没有合适的工具"),
    _declined("删掉华北的数据", "没有合适的工具"),
)


# Ordinary requests to the shipped agents with the offline planner: answered right, or declined in so many words.


async def last_turn(
    app: App, agent: str, session: str, turns: tuple[str, ...]
) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """The calls of the last turn, and its answer."""
    answer = ""
    for turn in turns:
        answer = (await app.ask(turn, session_id=session, agent=agent))["answer"]
    history = await app.history(session)
    since = max(place for place, message in enumerate(history) if message["role"] == "user")
    made = [call["function"] for message in history[since:] for call in message.get("tool_calls") or ()]
    return [(call["name"], json.loads(call["arguments"])) for call in made], answer


async def check(agent: str, rows: tuple[Ordinary, ...]) -> None:
    async with segue.open(":memory:") as app:
        for number, row in enumerate(rows):
            calls, answer = await last_turn(app, agent, f"s{number}", row.turns)
            said = (row.turns, calls, answer)
            for name, arguments in row.calls:
                assert any(name == called and arguments.items() <= given.items() for called, given in calls), said
            assert row.declined or calls, said
            assert not (row.declined and calls), said
            assert all(part in answer for part in row.says), said
            assert not any(part in answer for part in row.hides), said


async def test_the_travel_agent() -> None:
    await check("travel", TRAVEL)


@pytest.mark.parametrize(("language", "rows"), [("en", DATA_ENGLISH), ("zh", DATA_CHINESE)])
async def test_the_data_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: Language, rows: tuple[Ordinary, ...]
) -> None:
    monkeypatch.setenv("SEGUE_DATA", str(tmp_path))
    write_sales(tmp_path, language)
    await check("data", rows)
