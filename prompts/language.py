"""Which of the two languages a person writes in."""

import re
from typing import Literal

Language = Literal["zh", "en"]
_CJK = re.compile(r"[\u3400-\u9fff]")


def language_of(text: str) -> Language:
    """Chinese as soon as a message holds a Chinese character, else English."""
    return "zh" if _CJK.search(text) else "en"
