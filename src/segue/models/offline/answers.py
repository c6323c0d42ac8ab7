"""The offline planner's answers: results as Markdown, questions, and what could not be done."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from ...prompts.language import Language
from ...prompts.offline import SENTENCES, sentence
from ..transcript import Made
from .card import Card, Parameter
from .intent import Call, Intent
from .text import CJK

MOST_ROWS = 20
_SAMPLES = 3
_LABEL = 90
_SHORT_LABEL = 8
_NOTICES = re.compile(r"\s*(?:" + "|".join(map(re.escape, SENTENCES["notice"])) + r")\s*")
_GREETING = re.compile(
    r"(?:你好|您好|嗨|哈喽|在吗|早上好|上午好|下午好|晚上好|大家好|你是谁|你能做什么|你会什么|帮助|[啊呀哦呢吗]|\W"
    r"|hello|hi|hey|good (?:morning|afternoon|evening|day)|there|everyone|who are you|what can you do|help)+",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:谢谢|多谢|感谢|谢了|thanks?|thank you|thx|cheers|a lot|very much|so much|你|您|[啊呀啦]|\W)+", re.IGNORECASE
)
_TRUNCATED = re.compile(r"… \[\d+ more characters[^\]]*\]$")


def small_talk(text: str, cards: Sequence[Card], language: Language) -> str:
    """The reply to a message that is nothing but a greeting or thanks; empty for any other."""
    if not re.search(r"\w", text):
        return ""
    if _GREETING.fullmatch(text.strip()):
        greeting = sentence("greeting", language, tools=_titles(cards, language))
        return greeting if cards else sentence("greeting_alone", language)
    return sentence("welcome", language) if _THANKS.fullmatch(text.strip()) else ""


def in_language(text: str, language: Language) -> str:
    """The half of a bilingual text that is in the language: of `标题 · Title`, or of `A label (标签)`."""
    chinese = re.compile(rf"[{CJK}]")
    parts = text.split(" · ")
    if len(parts) == 2 and bool(chinese.search(parts[0])) != bool(chinese.search(parts[1])):
        return next(part for part in parts if bool(chinese.search(part)) == (language == "zh"))
    bracketed = re.search(r"\s*[(（]([^()（）]*)[)）]", text)
    if not bracketed or not chinese.search(bracketed[1]) or chinese.search(text[: bracketed.start()]):
        return text
    return bracketed[1] if language == "zh" else text[: bracketed.start()] + text[bracketed.end() :]


def _titles(cards: Iterable[Card], language: Language) -> str:
    """One line a tool; a tool without a title is introduced by its description."""
    return "\n".join(f"- {_title(card, language)}" for card in cards)


def _title(card: Card, language: Language) -> str:
    if card.title != card.name or not card.description:
        return in_language(card.title, language)
    return re.split(r"(?<=[.。!！])(?:\s|$)|\n", card.description, maxsplit=1)[0][:_LABEL]


def _listed(texts: Iterable[str], language: Language) -> str:
    return ("、" if language == "zh" else ", ").join(dict.fromkeys(texts))


def _quoted(cards: Iterable[Card], language: Language) -> str:
    form = "「{}」" if language == "zh" else "“{}”"
    return _listed((form.format(in_language(card.title, language)) for card in cards), language)


def call_text(name: str, arguments: Mapping[str, Any], cards: Sequence[Card], language: Language) -> str:
    """A call as a person reads it: title and arguments."""
    card = next((card for card in cards if card.name == name), Card(name, name, "", (), False, ()))
    labels = {p.name: _short_label(p, language) for p in card.parameters if p.kind != "language"}
    given = {name: value for name, value in arguments.items() if name in labels or name not in card.parameter_names}
    texts = [f"{labels.get(name, name)}={_plain(value)}" for name, value in given.items()]
    title = in_language(card.title, language)
    if not texts:
        return title
    return f"{title}（{'，'.join(texts)}）" if language == "zh" else f"{title} ({', '.join(texts)})"


def _short_label(parameter: Parameter, language: Language) -> str:
    label = in_language(parameter.label, language)
    return label if len(label) <= _SHORT_LABEL else parameter.name


def _plain(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def written_out(call: Call) -> str:
    """A call in the form that the planner reads back."""
    return f"{call.card.name}({json.dumps(call.arguments, ensure_ascii=False)})"


def shortcomings(intent: Intent, language: Language) -> list[str]:
    """What is still needed, what was not run, and what of the message was not used."""
    parts = []
    if intent.asks:
        tools = _quoted((ask.card for ask in intent.asks), language)
        missing = {str(p.values or p.name): p for ask in intent.asks for p in ask.missing}
        lines = [f"- {_label(parameter, language)}" for parameter in missing.values()]
        parts.append("\n".join([sentence("ask", language, tools=tools), "", *lines]))
    if intent.held:
        card = intent.held[0]
        form = "`{}({})`".format(card.name, json.dumps({p.name: "…" for p in card.required}, ensure_ascii=False))
        parts.append(sentence("held", language, tools=_quoted(intent.held, language), form=form))
    if intent.unused and not intent.is_empty:
        parts.append(sentence("unused", language, parts=_listed(intent.unused, language)))
    return parts


def _label(parameter: Parameter, language: Language) -> str:
    label = in_language(parameter.label, language).rstrip(".。")
    values = [str(value) for value in parameter.values or ()]
    own = [value for value in values if bool(re.search(f"[{CJK}]", value)) == (language == "zh")]
    samples = _listed((own or values)[:_SAMPLES], language)
    text = f"**{label[:_LABEL]}** (`{parameter.name}`)"
    return f"{text} — {sentence('sample', language, samples=samples)}" if samples else text


def not_run(calls: Sequence[Call], language: Language) -> str:
    """Say which tools it takes where none was run."""
    return sentence("not_run", language, tools=_quoted((call.card for call in calls), language))


def no_fit(cards: Sequence[Card], language: Language) -> str:
    """Say that no tool fits, and what the tools can do."""
    if not cards:
        return sentence("no_tools", language)
    return "\n\n".join([sentence("no_fit", language), sentence("can", language, tools=_titles(cards, language))])


def recap(results: Sequence[str], language: Language) -> str:
    """What was found before."""
    return "\n\n".join([sentence("recap", language), *(rendered(_NOTICES.sub("\n\n", r), language) for r in results)])


def results_text(made: Sequence[Made], cards: Sequence[Card], language: Language) -> str:
    """The results one under the other, then what failed; calls that failed alike are told together."""
    good = [call for call in made if not call.error]
    parts = []
    for call in good:
        body = rendered(call.value, language)
        parts.append(
            body if len(good) == 1 and _summary(call.value) else f"### {heading(call, cards, language)}\n\n{body}"
        )
    errors: dict[str, list[str]] = {}
    for call in made:
        if call.error:
            name = "unknown" if call.is_unknown else "failed"
            errors.setdefault(sentence(name, language, call="\0", error=short_error(call.error)), []).append(
                heading(call, cards, language)
            )
    failures = [f"- {text.replace(chr(0), _listed(calls, language))}" for text, calls in errors.items()]
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


def heading(call: Made, cards: Sequence[Card], language: Language) -> str:
    """What a call is named in an answer."""
    return call.title or call_text(call.name, call.arguments, cards, language)


def observed(made: Sequence[Made], cards: Sequence[Card], language: Language) -> str:
    """What the rounds so far gave."""
    if not made:
        return sentence("first_round", language)
    ways = ("went_unknown" if call.is_unknown else "went_wrong" if call.error else "went_well" for call in made)
    told = (sentence(way, language, call=heading(call, cards, language)) for way, call in zip(ways, made, strict=True))
    return sentence("saw", language, results=_listed(told, language))


def thought(pending: Sequence[Call], cards: Sequence[Card], language: Language) -> str:
    """Why the next action is what it is."""
    if not pending:
        return sentence("think_answer", language)
    calls = (call_text(call.card.name, call.arguments, cards, language) for call in pending)
    return sentence("think_call", language, calls=_listed(calls, language))


def short_error(error: str) -> str:
    """The line of an error that says what went wrong: the last of a stack trace, else the first."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] or [error]
    return (lines[-1] if "Traceback" in error else lines[0])[:300]


def rendered(value: Any, language: Language) -> str:
    """A result's `summary` where it has one, else its values as a table, a list or plain text."""
    if isinstance(value, str):
        value = _parsed(value)
    if summary := _summary(value):
        return summary
    if _is_table(value):
        return _table(value, language)
    return "\n".join(_lines(value, language, "")).strip() or sentence("nothing", language)


def _parsed(text: str) -> Any:
    """A text that holds an object or a list as that, though its end may be missing; else the text."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return from_json(_TRUNCATED.sub("", text), allow_partial="trailing-strings")
    except ValueError:
        return text


def _summary(value: Any) -> str:
    found = value.get("summary") if isinstance(value, Mapping) else None
    return found.strip() if isinstance(found, str) else ""


def _lines(value: Any, language: Language, indent: str) -> list[str]:
    if isinstance(value, list):
        lines = [line for item in value[:MOST_ROWS] for line in _item(item, language, indent)]
        return lines + [f"{indent}- {more}" for more in _left_out(value, language)]
    if not isinstance(value, Mapping):
        return [indent + _scalar(value, language)]
    lines = []
    for name, inner in value.items():
        nested = bool(inner) and isinstance(inner, Mapping | list) and not _is_flat(inner)
        lines.append(f"{indent}- **{name}**:" + ("" if nested else f" {_scalar(inner, language)}"))
        lines += _lines(inner, language, indent + "  ") if nested else []
    return lines


def _item(item: Any, language: Language, indent: str) -> list[str]:
    if isinstance(item, Mapping):
        return [f"{indent}- " + "; ".join(f"**{name}**: {_scalar(inner, language)}" for name, inner in item.items())]
    return [f"{indent}- {_scalar(item, language)}"]


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value)


def _is_table(rows: Any) -> bool:
    """Whether all items are objects with the same few fields."""
    return (
        isinstance(rows, list)
        and bool(rows)
        and all(isinstance(row, Mapping) and 0 < len(row) <= 8 and list(row) == list(rows[0]) for row in rows)
    )


def _table(rows: Sequence[Mapping[str, Any]], language: Language) -> str:
    heads = list(rows[0])
    cells = [[_scalar(row[head], language).replace("|", "\\|") for head in heads] for row in rows[:MOST_ROWS]]
    lines = [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *cells)]
    return "\n".join([*lines, *(f"\n{text}" for text in _left_out(rows, language))])


def _left_out(items: Sequence[Any], language: Language) -> list[str]:
    return [sentence("more", language, n=len(items) - MOST_ROWS)] if len(items) > MOST_ROWS else []


def _scalar(value: Any, language: Language) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_scalar(inner, language)}" for name, inner in value.items()) or "—"
    if isinstance(value, list):
        return ("、" if language == "zh" else ", ").join(_scalar(item, language) for item in value) or "—"
    if isinstance(value, bool):
        return sentence(str(value).lower(), language)
    return "—" if value is None else str(value)
