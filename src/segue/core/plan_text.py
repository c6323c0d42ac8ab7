"""Plans that a model writes as text, in English and Chinese numbering."""

import re
from typing import Any

_NUMBER = r"(?>\d+(?:\.\d+)*|[一二三四五六七八九十]+(?!\d))"
_NUMBERED = re.compile(
    rf"""[\s\-*\#>•]*(?:
        (?: step\s*({_NUMBER}) | 步骤\s*({_NUMBER}) | 第\s*({_NUMBER})\s*步骤? )(?!\d)\s*+[.)）、:：．，,-]?
      | [(（]?({_NUMBER})(?: [)）、:：．] | [.] )(?!\d)
      | (\d+(?:\.\d+)+)(?=\s)
    )\s*+(.*)$""",
    re.VERBOSE | re.IGNORECASE,
)
_BOLD = re.compile(r"^([\s\-#>•]*)\*\*(.+?)\*\*")
_CHINESE = {"": 0} | {digit: value for value, digit in enumerate("一二三四五六七八九", start=1)}


def lines_of(text: str) -> list[Any]:
    """A plan in text: its numbered lines with what follows each, or every line where none is numbered."""
    steps: list[tuple[str, list[str]]] = []
    plain: list[str] = []
    for line in text.splitlines():
        if numbered := numbered_line(line):
            steps.append((numbered["step_id"], [numbered["description"]]))
        elif not (content := line.strip(" \t-*•")):
            continue
        elif not steps:
            plain.append(content)
        elif content.strip():
            steps[-1][1].append(content.rstrip())
    return [{"step_id": step_id, "description": " ".join(parts).strip()} for step_id, parts in steps] or [*plain]


def numbered_plan(text: str) -> list[dict[str, str]]:
    """The numbered lines of a text that is a plan: two of them at least, else none."""
    steps = [step for line in text.splitlines() if (step := numbered_line(line)) and step["description"]]
    ids = [step["step_id"] for step in steps]
    return steps if len(steps) > 1 and len({*ids}) == len(ids) else []


def numbered_line(line: str) -> dict[str, str] | None:
    """The step of a line such as "1. look", "第一步：看" or "Step 1: look"; None if it has no number."""
    found = _NUMBERED.match(_BOLD.sub(r"\1\2", line))
    if not found:
        return None
    number = next(group for group in found.groups() if group)
    return {"step_id": _in_digits(number), "description": found[6].strip()}


def _in_digits(number: str) -> str:
    """ "十一" as "11"; digits stay as they are."""
    if number[0] not in _CHINESE and number[0] != "十":
        return number
    tens, ten, ones = number.rpartition("十")
    value = (_CHINESE.get(tens) or 1) * 10 + _CHINESE.get(ones, 0) if ten else _CHINESE.get(number, 0)
    return str(value) if value else number
