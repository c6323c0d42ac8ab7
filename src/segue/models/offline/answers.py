"""The offline planner's answers: results as Markdown, questions, and what could not be done."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from ...prompts.catalogue import Texts
from ...prompts.language import Language
from ...prompts.words import joined
from ..transcript import PastCall
from .arguments import CJK, Card, Parameter
from .intent import Intent

sentence = Texts("offline")
MOST_ROWS = 20
_SAMPLES = 3
_GREETING = re.compile(
    r"(?:你好|您好|嗨|哈喽|在吗|早上好|上午好|下午好|晚上好|大家好|你是谁|你能做什么|你会什么|帮助|[啊呀哦呢吗]|\W"
    r"|hello|hi|hey|good (?:morning|afternoon|evening|day)|there|everyone|who are you|what can you do|help)+",
    re.IGNORECASE,
)
_THANKS = re.compile(r"(?:谢谢|多谢|感谢|thanks?|thank you|a lot|very much|so much|[你您啊啦]|\W)+", re.IGNORECASE)
_TRUNCATED = re.compile(r"… \[\d+ more characters")


def small_talk(text: str, cards: Sequence[Card], language: Language) -> str:
    """The reply to a message that is nothing but a greeting or thanks; empty for any other."""
    if not re.search(r"\w", text):
        return ""
    if _GREETING.fullmatch(text.strip()):
        name = "greeting" if cards else "greeting_alone"
        return sentence(name, language, tools=introduced(cards, language))
    return sentence("welcome", language) if _THANKS.fullmatch(text.strip()) else ""


def title(card: Card, language: Language) -> str:
    """The tool's title; of a title in both languages, `标题 · Title`, the reader's half."""
    halves = card.title.split(" · ")
    return next(iter(_in_language(halves, language)), halves[0])


def _in_language(texts: Iterable[str], language: Language) -> list[str]:
    return [text for text in texts if bool(re.search(f"[{CJK}]", text)) == (language == "zh")]


def introduced(cards: Iterable[Card], language: Language) -> str:
    """One line a tool; a tool without a title is introduced by the first line of its description."""
    return "\n".join(
        f"- {title(card, language) if card.title != card.name else (card.description or card.name).splitlines()[0]}"
        for card in cards
    )


def listed(texts: Iterable[str], language: Language) -> str:
    return joined(dict.fromkeys(texts), language)


def call_text(name: str, arguments: Mapping[str, Any], cards: Sequence[Card], language: Language) -> str:
    """A call as a person reads it: title and arguments, without the reader's language."""
    card = next((card for card in cards if card.name == name), None)
    known = {parameter.name: parameter for parameter in card.parameters} if card else {}
    given = ("，" if language == "zh" else ", ").join(
        _argument_text(key, value, known.get(key), language)
        for key, value in arguments.items()
        if key not in known or known[key].kind != "language"
    )
    named = title(card, language) if card else name
    if not given:
        return named
    return f"{named}（{given}）" if language == "zh" else f"{named} ({given})"


def _argument_text(name: str, value: Any, parameter: Parameter | None, language: Language) -> str:
    """A text alone, a number before its unit where the parameter is named for one, anything else behind its name."""
    if isinstance(value, str | list):
        return _inline(value, language)
    units = _in_language(parameter.keywords, language) if parameter and name in parameter.keywords else []
    if units and parameter and parameter.is_number:
        return f"{value} {units[0] if value == 1 or language == 'zh' else units[-1]}"
    return f"{name.replace('_', ' ')}{'：' if language == 'zh' else ': '}{_inline(value, language)}"


def shortcomings(intent: Intent, language: Language) -> list[str]:
    """What is still needed, what was not run, and what of the message was not used."""
    parts = []
    if intent.asks:
        tools = listed((title(ask.card, language) for ask in intent.asks), language)
        missing = {p.name: p for ask in intent.asks for p in ask.missing}
        lines = (_asked(parameter, language) for parameter in missing.values())
        parts.append("\n".join([sentence("ask", language, tools=tools), "", *lines]))
    if intent.held:
        form = json.dumps({p.name: "…" for p in intent.held[0].required}, ensure_ascii=False)
        tools = listed((title(card, language) for card in intent.held), language)
        parts.append(sentence("held", language, tools=tools, form=f"`{intent.held[0].name}({form})`"))
    if intent.unclear:
        tools = listed((title(fit.card, language) for fit in intent.unclear), language)
        parts.append(sentence("unclear", language, tools=tools, parts=listed(intent.unused, language)))
    elif intent.unused and not intent.is_empty:
        parts.append(sentence("unused", language, parts=listed(intent.unused, language)))
    return parts


def _asked(parameter: Parameter, language: Language) -> str:
    values = [str(value) for value in parameter.values]
    own = _in_language(values, language)
    line = f"- **{parameter.label.rstrip('.。')}** (`{parameter.name}`)"
    samples = listed((own or values)[:_SAMPLES], language)
    return f"{line} — {sentence('sample', language, samples=samples)}" if samples else line


def result_text(result: str, language: Language) -> str:
    """An earlier result, without the planner's notice."""
    for notice in (sentence("notice", "zh"), sentence("notice", "en")):
        result = "\n\n".join(map(str.strip, result.split(notice)))
    return rendered(result.strip(), language)


def results_text(made: Sequence[PastCall], cards: Sequence[Card], language: Language) -> str:
    """The results one under the other, then what failed."""
    parts, failures = list[str](), list[str]()
    for call in made:
        heading = call.title or call_text(call.name, call.arguments, cards, language)
        if call.error:
            name = "unknown" if call.unknown else "failed"
            failures.append(f"- {sentence(name, language, call=heading, error=short_error(call.error))}")
        else:
            body = rendered(call.value, language)
            parts.append(body if sum(not each.error for each in made) == 1 else f"### {heading}\n\n{body}")
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


def _without_mark(text: str) -> str:
    """The text without the brackets at its end that say how much was left out."""
    last = text.rfind("]")
    if text[last:] not in ("]", "]\n"):
        return text
    mark = _TRUNCATED.search(text, text.rfind("]", 0, last) + 1)
    return text[: mark.start()] + text[last + 1 :] if mark else text


def short_error(error: str) -> str:
    """The line of an error that says what went wrong: the last of a stack trace, else the first."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] or [error]
    return (lines[-1] if "Traceback" in error else lines[0])[:300]


def rendered(value: Any, language: Language) -> str:
    """A result's `summary` where it has one, else its values, a line each; a truncated one as far as it goes."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = from_json(_without_mark(value), allow_partial="trailing-strings")
        except ValueError:
            return str(value)
    if isinstance(value, Mapping):
        if isinstance(summary := value.get("summary"), str) and summary.strip():
            return summary.strip()
        return "\n".join(f"- **{name}**: {_inline(inner, language)}" for name, inner in value.items())
    if isinstance(value, list):
        more = [f"- {sentence('more', language, n=len(value) - MOST_ROWS)}"] if len(value) > MOST_ROWS else []
        return "\n".join([*(f"- {_inline(item, language)}" for item in value[:MOST_ROWS]), *more])
    return _inline(value, language)


def _inline(value: Any, language: Language) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_inline(inner, language)}" for name, inner in value.items())
    if isinstance(value, list):
        return joined((_inline(item, language) for item in value), language)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
