"""The clock: what time it is in a time zone."""

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field

from segue.tools.registry import tool

PLACES = {
    **dict.fromkeys(("北京", "上海", "中国", "Beijing", "Shanghai", "China"), "Asia/Shanghai"),
    **dict.fromkeys(("香港", "Hong Kong"), "Asia/Hong_Kong"),
    **dict.fromkeys(("东京", "日本", "Tokyo", "Japan"), "Asia/Tokyo"),
    **dict.fromkeys(("新加坡", "Singapore"), "Asia/Singapore"),
    **dict.fromkeys(("伦敦", "London"), "Europe/London"),
    **dict.fromkeys(("巴黎", "Paris"), "Europe/Paris"),
    **dict.fromkeys(("柏林", "Berlin"), "Europe/Berlin"),
    **dict.fromkeys(("纽约", "New York"), "America/New_York"),
    **dict.fromkeys(("洛杉矶", "Los Angeles"), "America/Los_Angeles"),
    **dict.fromkeys(("悉尼", "Sydney"), "Australia/Sydney"),
}
"""What people say instead of a zone's name."""
WEEKDAYS = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")


@tool(
    read_only=True,
    title="现在时间 · Clock",
    keywords=[
        *("现在时间", "当前时间", "现在几点", "几点了", "几点钟", "时间几点", "现在是什么时间", "现在什么时间"),
        *("今天几号", "今天是几号", "几月几号", "日期", "今天星期几", "今天是星期几", "今天周几"),
        *("what time", "current time", "time is it", "time now", "what day is it", "what date", "today's date"),
        *("date today", "current date", "date is it"),
    ],
)
def current_time(
    timezone: Annotated[
        str,
        Field(
            description="An IANA time zone such as Asia/Shanghai, or a large city (时区).",
            examples=["UTC", *dict.fromkeys(PLACES.values()), *PLACES],
            json_schema_extra={"keywords": ["时区", "time zone", "timezone"]},
        ),
    ] = "UTC",
) -> dict[str, Any]:
    """Tell the date and time now in a time zone."""
    now = datetime.now(_zone(timezone))
    offset = now.strftime("%z")
    english, chinese = now.strftime("%A"), WEEKDAYS[now.weekday()]
    name = str(now.tzinfo)
    return {
        "timezone": name,
        "time": now.isoformat(timespec="seconds"),
        "weekday": english,
        "summary": f"**{now:%Y-%m-%d %H:%M}** {chinese} {english} ({name}, UTC{offset[:3]}:{offset[3:5]})",
    }


CLOCK = (current_time,)


def _zone(name: str) -> tzinfo:
    """The zone of an IANA name or a place, whatever its case; UTC needs no time-zone database.

    Raises:
        ValueError: there is no such zone, or no database to look it up in.
    """
    places = {place.casefold(): zone for place, zone in PLACES.items()}
    requested = places.get(name.strip().casefold(), name.strip())
    if requested.casefold() in {"utc", "gmt", "z"}:
        return UTC
    try:
        return ZoneInfo(requested)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = {zone.casefold(): zone for zone in available_timezones()}
        if requested.casefold() in known:
            return ZoneInfo(known[requested.casefold()])
        if not known:
            raise ValueError(
                "This system has no time-zone database, only UTC: pip install tzdata (系统没有时区数据)."
            ) from error
        raise ValueError(
            f"There is no time zone {name[:60]!r} (没有这个时区): write an IANA name such as Asia/Shanghai."
        ) from error
