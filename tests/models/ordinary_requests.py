"""Ordinary requests to the shipped travel and data agents, and the essence of the right answer to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
)
