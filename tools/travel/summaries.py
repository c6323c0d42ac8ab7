"""The travel tools' results as a few lines of Markdown that a person can read on their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.tools.travel.facts import Language

Result = Mapping[str, Any]
SHOWN = 5
"""Cities described in a search's summary; further ones are only named."""


def search_summary(matches: Sequence[Result], language: Language) -> str:
    zh = language == "zh"
    if not matches:
        return "没有合适的城市，可以放宽条件再找。" if zh else "No city fits; try asking for less."
    lines = [f"推荐 {len(matches)} 个城市，合适的在前：" if zh else f"{len(matches)} cities, the best match first:"]
    if len(matches) == 1:
        lines = ["推荐 1 个城市：" if zh else "One city fits:"]
    lines += [_match_line(match, language) for match in matches[:SHOWN]]
    if rest := [match["city"] for match in matches[SHOWN:]]:
        lines.append(f"- 另有：{'、'.join(rest)}" if zh else f"- Also: {', '.join(rest)}")
    return "\n".join(lines)


def _match_line(match: Result, language: Language) -> str:
    why, sights = match["reasons"] or match["tags"], match["sights"][:3]
    daily, days = match["daily_budget"], match["recommended_days"]
    if language == "zh":
        cost = f"日均约 {daily} 元，建议 {days} 天"
        return f"- **{match['city']}**（{'、'.join(why)}）：{cost}；景点有{'、'.join(sights)}"
    return f"- **{match['city']}** ({', '.join(why)}): about {daily} CNY a day, {days} days; see {', '.join(sights)}"


def sights_summary(city: str, sights: Sequence[Result], language: Language) -> str:
    if language == "zh":
        lines = [f"- {s['name']}（{s['type']}）：约 {s['hours']} 小时，{_ticket(s, language)}" for s in sights]
        return "\n".join([f"**{city}的景点**", *lines])
    lines = [f"- {s['name']} ({s['type']}): about {s['hours']} hours, {_ticket(s, language)}" for s in sights]
    return "\n".join([f"**Sights of {city}**", *lines])


def _ticket(sight: Result, language: Language) -> str:
    if language == "zh":
        return f"门票 {sight['ticket']} 元" if sight["ticket"] else "免费"
    return f"ticket {sight['ticket']} CNY" if sight["ticket"] else "free"


def info_summary(info: Result, language: Language) -> str:
    city, region, daily, days = (info[key] for key in ("city", "region", "daily_budget", "recommended_days"))
    if language == "zh":
        tags, seasons, foods = ("、".join(info[key]) for key in ("tags", "best_seasons", "foods"))
        about = f"**{city}**（{region}）：{tags}。最佳季节：{seasons}；建议 {days} 天，日均约 {daily} 元。"
        return f"{about}\n\n特色美食：{foods}。"
    tags, seasons, foods = (", ".join(info[key]) for key in ("tags", "best_seasons", "foods"))
    about = f"**{city}** ({region}): {tags}. Best in {seasons}; {days} days, about {daily} CNY a day."
    return f"{about}\n\nWhat to eat: {foods}."


def budget_summary(budget: Result, language: Language) -> str:
    city, days, total = budget["city"], budget["days"], budget["total"]
    labels = {
        "tickets": ("门票", "tickets"),
        "meals": ("餐饮", "meals"),
        "local_transport": ("市内交通", "local transport"),
        "lodging": ("住宿", "lodging"),
        "getting_there": ("往返交通", "getting there"),
    }
    if language == "zh":
        parts = " + ".join(f"{zh} {budget[key]}" for key, (zh, _) in labels.items())
        return f"**{city} {days} 天预算：约 {total} 元**\n\n{parts}"
    parts = " + ".join(f"{en} {budget[key]}" for key, (_, en) in labels.items())
    return f"**{city}, {_days(days)}: about {total} CNY**\n\n{parts}"


def route_summary(city: str, route: Sequence[Result], left_out: Sequence[str], language: Language) -> str:
    zh = language == "zh"
    lines = [f"**{city} {len(route)} 天路线**" if zh else f"**{city}, a route for {_days(len(route))}**"]
    lines += [_day_line(day, language) for day in route if day["attractions"]]
    if free := [day for day in route if not day["attractions"]]:
        lines.append(_free_line(free, language))
    if left_out:
        missing = ("、" if zh else ", ").join(left_out)
        lines.append(f"- 时间不够，未安排：{missing}" if zh else f"- No time for: {missing}")
    return "\n".join(lines)


def _day_line(day: Result, language: Language) -> str:
    if language == "zh":
        return f"- 第 {day['day']} 天：{'、'.join(day['attractions'])}（约 {day['hours']} 小时）；品尝{day['food']}"
    return f"- Day {day['day']}: {', '.join(day['attractions'])} (about {day['hours']} hours); try {day['food']}"


def _free_line(days: Sequence[Result], language: Language) -> str:
    """One line for all the free days, which come last: there may be thirty."""
    first, last = days[0]["day"], days[-1]["day"]
    when = f"{first}" if first == last else f"{first}–{last}"
    foods = list(dict.fromkeys(day["food"] for day in days))
    if language == "zh":
        return f"- 第 {when} 天：自由活动；品尝{'、'.join(foods)}"
    return f"- Day{'' if first == last else 's'} {when}: free; try {', '.join(foods)}"


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number} days"
