"""Which mode suits a message, by its words."""

import re
from typing import Literal

Picked = Literal["direct", "react", "plan"]

_GREETING = re.compile(
    r"^(你好|您好|嗨|哈喽|哈啰|在吗|在么|早上好|早安|下午好|晚上好|晚安|谢谢|多谢|再见|拜拜|"
    r"hello|hi|hey|hiya|good (morning|afternoon|evening|night)|thanks|thank you|bye|goodbye)"
    r"([呀啊哦吗]| there| all| everyone)?$",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[\s!！?？。.,，~～、]+")
_PLAN = re.compile(r"规划|计划|行程安排|行程|攻略|\b(plan|plans|planning|itinerary|itineraries)\b", re.IGNORECASE)


def pick_mode(message: str) -> Picked:
    """A mere greeting goes direct, a wish for a plan goes plan, all else goes react."""
    parts = [part for part in _MARKS.split(message) if part]
    if parts and (all(_GREETING.match(part) for part in parts) or _GREETING.match(" ".join(parts))):
        return "direct"
    return "plan" if _PLAN.search(message) else "react"
