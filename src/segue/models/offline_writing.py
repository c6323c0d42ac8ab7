"""The sentences that the offline planner writes, in Chinese and in English."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .offline_cards import Card, Parameter
from .offline_matching import Ask, Call, Intent
from .offline_reading import CJK
from .offline_rendering import rendered

Language = Literal["zh", "en"]
_SAMPLES = 3
_LABEL = 90
_SHORT_LABEL = 8


@dataclass(frozen=True)
class Phrases:
    """One language's sentences; braces are filled in."""

    comma: str
    items: str
    name: str
    call: str
    notice: str
    greeting: str
    greeting_alone: str
    welcome: str
    no_fit: str
    no_tools: str
    can: str
    ask: str
    sample: str
    failed: str
    error: str
    not_run: str
    recap: str
    first_round: str
    saw: str
    went_well: str
    went_wrong: str
    think_call: str
    think_answer: str
    think_ask: str
    think_no_fit: str
    goal: str
    write_answer: str


ZH = Phrases(
    comma="，",
    items="、",
    name="「{}」",
    call="{title}（{arguments}）",
    notice="*—— 由 Segue 的「离线规划器」按规则拼成：它不是语言模型。*",
    greeting="你好！我可以帮你做这些事：\n\n{tools}",
    greeting_alone="你好！这里没有绑定任何工具。",
    welcome="不客气！",
    no_fit="没有合适的工具能处理这句话。",
    no_tools="这里没有可用的工具，所以这个问题我答不了。",
    can="我的工具能做这些事：\n\n{tools}",
    ask="要用{tools}，还需要你告诉我：",
    sample="例如：{}",
    failed="{call} 没有成功：{error}",
    error="上一步出了错：{}",
    not_run="这要用{tools}，但这里没有运行工具，所以没有结果。",
    recap="没有需要新调用的工具。前面查到的是：",
    first_round="我观察到这是第一轮执行。",
    saw="我观察到到目前为止的结果：{}。",
    went_well="{} 成功",
    went_wrong="{} 失败",
    think_call="我分析出需要{calls}。综合以上，我决定接下来采取 CALL_TOOL。",
    think_answer="需要的调用都做过了，不重复调用。综合以上，我决定采取 ANSWER。",
    think_ask="{tools}合适，但缺少参数。综合以上，我决定采取 ANSWER，请用户补充。",
    think_no_fit="没有工具合适。综合以上，我决定采取 ANSWER，如实说明。",
    goal="完成：{}",
    write_answer="整理结果，生成回答",
)
EN = Phrases(
    comma=", ",
    items=", ",
    name="“{}”",
    call="{title} ({arguments})",
    notice="*— Put together by rules by Segue’s offline planner, which is not a language model.*",
    greeting="Hello! I can help with:\n\n{tools}",
    greeting_alone="Hello! No tools are bound here.",
    welcome="You’re welcome!",
    no_fit="No tool fits this message.",
    no_tools="There are no tools here, so I cannot answer this.",
    can="My tools can do this:\n\n{tools}",
    ask="To use {tools}, I still need:",
    sample="for example {}",
    failed="{call} did not succeed: {error}",
    error="The last step went wrong: {}",
    not_run="This takes {tools}, but no tool was run here, so there is no result.",
    recap="No new call is needed. This was found before:",
    first_round="I observe that this is the first round.",
    saw="I observe the results so far: {}.",
    went_well="{} succeeded",
    went_wrong="{} failed",
    think_call="I see that {calls} is needed. So I decide on CALL_TOOL.",
    think_answer="Every call that is needed was made, and none is repeated. So I decide on ANSWER.",
    think_ask="{tools} fits, but an argument is missing. So I decide on ANSWER, to ask for it.",
    think_no_fit="No tool fits. So I decide on ANSWER, to say so.",
    goal="Carry out: {}",
    write_answer="Put the results together and write the answer",
)
PHRASES: Mapping[str, Phrases] = {"zh": ZH, "en": EN}

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
    failures = [
        f"- {PHRASES[language].failed.format(call=_made(outcome, cards, language), error=_short(outcome.error))}"
        for outcome in outcomes
        if outcome.error
    ]
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


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
    said = [
        (phrases.went_wrong if outcome.error else phrases.went_well).format(_made(outcome, cards, language))
        for outcome in outcomes
    ]
    return phrases.saw.format(phrases.comma.join(said))


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
