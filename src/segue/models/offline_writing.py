"""The sentences that the offline planner writes, in Chinese and in English."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .offline_cards import Card, Parameter
from .offline_matching import Ask, Call, Intent
from .offline_phrases import PHRASES, Language, Phrases
from .offline_reading import CJK
from .offline_rendering import rendered

_SAMPLES = 3
_LABEL = 90
_SHORT_LABEL = 8

_GREETING = re.compile(
    r"(?:你好|您好|嗨|哈喽|哈啰|在吗|在么|早上好|早安|上午好|中午好|下午好|晚上好|大家好"
    r"|hello|hi|hey|good (?:morning|afternoon|evening|day)|howdy|greetings|there|everyone"
    r"|你是谁|你能做什么|你会什么|帮助|who are you|what can you do|help|[啊呀哦呢吗]|\W)+",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"(?:谢谢|多谢|感谢|谢了|thanks?|thank you|thx|cheers|a lot|very much|so much|你|您|[啊呀啦]|\W)+", re.IGNORECASE
)
_RECAP = re.compile(
    r"总结|概括|回顾|刚才|之前|上面|前面|再说一遍"
    r"|\b(?:summar\w+|recap|repeat|say that again|earlier|previous|so far|above)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Outcome:
    """A call that was made and what it came to; `asked` is what was asked for, before a person edited it."""

    name: str
    arguments: Mapping[str, Any]
    value: Any = None
    error: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unknown(self) -> bool:
        """Whether nobody knows if it took effect."""
        return self.error.startswith("unknown_outcome:")


def greeting_or_thanks(text: str, cards: Sequence[Card], language: Language) -> str:
    """The reply to a message that is nothing but a greeting or thanks; empty for any other."""
    said, phrases = text.strip(), PHRASES[language]
    if not re.search(r"\w", said):
        return ""
    if _GREETING.fullmatch(said):
        return phrases.greeting.format(tools=_titles(cards, language)) if cards else phrases.greeting_alone
    return phrases.welcome if _THANKS.fullmatch(said) else ""


def in_language(text: str, language: Language) -> str:
    """The half of a bilingual text that the person reads: of «标题 · Title», of «A label (标签)»."""
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


def _named(cards: Iterable[Card], language: Language) -> str:
    phrases = PHRASES[language]
    titles = dict.fromkeys(in_language(card.title, language) for card in cards)
    return phrases.items.join(phrases.name.format(title) for title in titles)


def call_text(card: Card, arguments: Mapping[str, Any], language: Language) -> str:
    """A call as a person reads it: title and arguments."""
    phrases, title = PHRASES[language], in_language(card.title, language)
    unsaid = {parameter.name for parameter in card.parameters if parameter.kind == "language"}
    said = {name: value for name, value in arguments.items() if name not in unsaid}
    if not said:
        return title
    labels = {parameter.name: _short_label(parameter, language) for parameter in card.parameters}
    listed = phrases.comma.join(f"{labels.get(name, name)}={_plain(value)}" for name, value in said.items())
    return phrases.call.format(title=title, arguments=listed)


def _short_label(parameter: Parameter, language: Language) -> str:
    label = in_language(parameter.label, language)
    return label if len(label) <= _SHORT_LABEL else parameter.name


def _plain(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def no_fit(cards: Sequence[Card], language: Language) -> str:
    """Say that no tool fits, and what the tools can do."""
    phrases = PHRASES[language]
    if not cards:
        return phrases.no_tools
    return f"{phrases.no_fit}\n\n{phrases.can.format(tools=_titles(cards, language))}"


def ask_text(asks: Sequence[Ask], language: Language) -> str:
    """Ask for the missing arguments, each once, with a few of their values."""
    phrases = PHRASES[language]
    missing: dict[object, Parameter] = {}
    for parameter in (parameter for ask in asks for parameter in ask.missing):
        missing.setdefault(parameter.values or parameter.name, parameter)
    lines = [f"- {_label(parameter, language)}" for parameter in missing.values()]
    return "\n".join([phrases.ask.format(tools=_named((ask.card for ask in asks), language)), "", *lines])


def _label(parameter: Parameter, language: Language) -> str:
    phrases, label = PHRASES[language], in_language(parameter.label, language).rstrip(".。")
    label = label if len(label) <= _LABEL else f"{label[:_LABEL]}…"
    own = [value for value in parameter.values if bool(re.search(f"[{CJK}]", str(value))) == (language == "zh")]
    samples = phrases.items.join(map(str, (own or parameter.values)[:_SAMPLES]))
    return f"**{label}** (`{parameter.name}`)" + (f" — {phrases.sample.format(samples)}" if samples else "")


def not_run(calls: Sequence[Call], language: Language) -> str:
    """Say which tools it takes where none was run."""
    phrases = PHRASES[language]
    return phrases.not_run.format(tools=_named((call.card for call in calls), language))


def recap(turns_results: Sequence[str], text: str, language: Language) -> str:
    """What earlier turns found, if the message asks for it."""
    if not turns_results or not _RECAP.search(text):
        return ""
    return "\n\n".join([PHRASES[language].recap, *(rendered(result, language) for result in turns_results)])


def results_text(outcomes: Sequence[Outcome], cards: Sequence[Card], language: Language) -> str:
    """The results one under the other, then what failed."""
    good = [outcome for outcome in outcomes if not outcome.error]
    parts: list[str] = []
    for outcome in good:
        body = rendered(outcome.value, language)
        alone = isinstance(outcome.value, dict) and isinstance(outcome.value.get("summary"), str) and len(good) == 1
        parts.append(body if alone else f"### {_made(outcome, cards, language)}\n\n{body}")
    failures = [f"- {_failure(outcome, cards, language)}" for outcome in outcomes if outcome.error]
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


def _failure(outcome: Outcome, cards: Sequence[Card], language: Language) -> str:
    phrases, call = PHRASES[language], _made(outcome, cards, language)
    return (phrases.unknown if outcome.unknown else phrases.failed).format(call=call, error=_short(outcome.error))


def _made(outcome: Outcome, cards: Sequence[Card], language: Language) -> str:
    unknown = Card(outcome.name, outcome.name, "", (), False, ())
    card = next((card for card in cards if card.name == outcome.name), unknown)
    return call_text(card, outcome.arguments, language)


def _short(error: str) -> str:
    """The line of an error that says what went wrong: the last of a stack trace, else the first."""
    lines = [line.strip() for line in error.splitlines() if line.strip()] or [error]
    line = lines[-1] if "Traceback" in error else lines[0]
    return line if len(line) <= 300 else f"{line[:300]}…"


def error_text(error: str, language: Language) -> str:
    return PHRASES[language].error.format(_short(error))


def observed(outcomes: Sequence[Outcome], cards: Sequence[Card], language: Language) -> str:
    """What the rounds so far gave."""
    phrases = PHRASES[language]
    if not outcomes:
        return phrases.first_round
    said = [_went(outcome, phrases).format(_made(outcome, cards, language)) for outcome in outcomes]
    return phrases.saw.format(phrases.comma.join(said))


def _went(outcome: Outcome, phrases: Phrases) -> str:
    if outcome.unknown:
        return phrases.went_unknown
    return phrases.went_wrong if outcome.error else phrases.went_well


def thought(intent: Intent, pending: Sequence[Call], language: Language) -> str:
    """Why the next action is what it is."""
    phrases = PHRASES[language]
    if pending:
        calls = phrases.comma.join(call_text(call.card, call.arguments, language) for call in pending)
        return phrases.think_call.format(calls=calls)
    if intent.calls:
        return phrases.think_answer
    if intent.asks:
        return phrases.think_ask.format(tools=_named((ask.card for ask in intent.asks), language))
    return phrases.think_no_fit
