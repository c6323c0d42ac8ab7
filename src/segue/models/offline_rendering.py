"""JSON values as Markdown that a person can read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

MOST_ROWS = 20
MOST_CHARS = 4_000
_WORDS = {"zh": ("是", "否", "—", "（没有内容）", "另有 {} 项"), "en": ("yes", "no", "—", "(nothing)", "{} more")}


def rendered(value: Any, language: str) -> str:
    """A result's `summary` where it has one, else its values as a table, a list or plain text."""
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, Mapping) and isinstance(value.get("summary"), str) and value["summary"].strip():
        return str(value["summary"]).strip()
    text = "\n".join(_lines(value, language, 0)).strip() or _WORDS[language][3]
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"


def _parsed(text: str) -> Any:
    """What a text says as JSON if it holds an object or a list, else the text."""
    if text[:1] not in "{[":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _lines(value: Any, language: str, depth: int) -> list[str]:
    if isinstance(value, Mapping):
        return _of_mapping(value, language, depth)
    if isinstance(value, list):
        return _table(value, language) if depth == 0 and _is_table(value) else _of_list(value, language, depth)
    return [_scalar(value, language)]


def _of_mapping(value: Mapping[str, Any], language: str, depth: int) -> list[str]:
    lines: list[str] = []
    for name, inner in value.items():
        lead = f"{'  ' * depth}- **{name}**"
        if _is_nested(inner):
            lines += [f"{lead}:", *_lines(inner, language, depth + 1)]
        else:
            lines.append(f"{lead}: {_joined(inner, language)}")
    return lines


def _of_list(value: Sequence[Any], language: str, depth: int) -> list[str]:
    lines: list[str] = []
    for item in value[:MOST_ROWS]:
        if isinstance(item, Mapping):
            cells = (f"**{name}**: {_joined(inner, language)}" for name, inner in item.items())
            lines.append(f"{'  ' * depth}- {'; '.join(cells)}")
        else:
            lines.append(f"{'  ' * depth}- {_joined(item, language)}")
    return lines + [f"{'  ' * depth}- {text}" for text in _left_out(value, language)]


def _is_nested(value: Any) -> bool:
    return (isinstance(value, Mapping) and bool(value)) or (
        isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value)
    )


def _is_table(rows: Sequence[Any]) -> bool:
    """Whether all items are objects with the same few fields, none of them nested."""
    first = rows[0] if rows else None
    return (
        isinstance(first, Mapping)
        and 0 < len(first) <= 8
        and all(
            isinstance(row, Mapping) and list(row) == list(first) and not any(_is_nested(cell) for cell in row.values())
            for row in rows
        )
    )


def _table(rows: Sequence[Mapping[str, Any]], language: str) -> list[str]:
    heads = list(rows[0])
    body = [" | ".join(_joined(row[head], language).replace("|", "\\|") for head in heads) for row in rows[:MOST_ROWS]]
    table = [" | ".join(heads), " | ".join("---" for _ in heads), *body]
    return [*(f"| {line} |" for line in table), *(f"\n{text}" for text in _left_out(rows, language))]


def _left_out(items: Sequence[Any], language: str) -> list[str]:
    return [_WORDS[language][4].format(len(items) - MOST_ROWS)] if len(items) > MOST_ROWS else []


def _joined(value: Any, language: str) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_joined(inner, language)}" for name, inner in value.items()) or _WORDS[language][2]
    if isinstance(value, list):
        comma = "、" if language == "zh" else ", "
        return comma.join(_joined(item, language) for item in value) or _WORDS[language][2]
    return _scalar(value, language)


def _scalar(value: Any, language: str) -> str:
    yes, no, nothing, *_ = _WORDS[language]
    if isinstance(value, bool):
        return yes if value else no
    return nothing if value is None else str(value)
