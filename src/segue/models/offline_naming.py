"""Where a text names a tool, and which of its lines are about it."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from .offline_cards import Card
from .offline_filling import Reading, read_arguments
from .offline_reading import CJK, Found, arithmetic, masked, occurrences, quotations, unwanted

FILLING = re.compile(
    r"那么|那|还有|以及|另外|换成|改成|改为|改|如果|要是|怎么样|如何|多少|等于|是|呢|吗|吧|啊|呀|的|了|再|也|和|换|到|去|在|请问|请|算一下|算算|算"
    r"|\b(?:and|or|what|how|about|for|in|to|with|of|the|a|an|is|are|it|that|then|also|instead|please|try|same|much|now|s)\b"
    rf"|[^A-Za-z{CJK}]",
    re.IGNORECASE,
)

_COMMON_WORDS = """
the and for with from that this what when where which who how are was can could would you your please about into than
get list find show give tell search look make let use all any one some its per explain does did has have not
查询 获取 列出 返回 信息 一个 什么 怎么 可以 如何 给出 按照 多少 一下 我的 帮我 计算
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def keyword_places(card: Card, spoken: str, text: str) -> set[int]:
    words = (*card.keywords, card.name) if "_" in card.name else card.keywords
    places = covered(hit for word in words for hit in occurrences(spoken, word))
    if any(parameter.kind == "arithmetic" for parameter in card.parameters) and _is_sum(text):
        places |= set(range(len(text)))
    return places


def is_declined(card: Card, spoken: str) -> bool:
    """Whether a keyword of the tool stands in the text only to say that it is not wanted."""
    return any(unwanted(spoken, [word]) and not occurrences(spoken, word) for word in card.keywords)


def covered(hits: Iterable[Found]) -> set[int]:
    return {place for hit in hits for place in range(hit.start, hit.end)}


def _is_sum(text: str) -> bool:
    """Whether the text asks for arithmetic: a lone dash or slash between numbers may be a range or a date."""
    expression = arithmetic(text)
    if expression is None:
        return False
    if expression not in text or re.search(r"[+*(]", expression):
        return True
    return not re.search(r"\d", rest := text.replace(expression, " ")) and not FILLING.sub("", rest)


def words_of(text: str) -> set[str]:
    """English words without plural endings, and pairs of Chinese characters."""
    english = (word for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in _COMMON)
    stems = {re.sub(r"(?<=\w\w)(?:ies|es|s|y)$", "", word) for word in english}
    runs = re.findall(rf"[{CJK}]+", re.sub(r"[的了和是把被]", " ", text))
    return stems | ({run[at : at + 2] for run in runs for at in range(len(run) - 1)} - _COMMON)


def name_of(card: Card) -> str:
    """The tool's name and title, in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", f"{card.name} {card.title}")


def read_by_lines(card: Card, rivals: Sequence[Card], text: str) -> list[Reading]:
    """What a text says of a tool's arguments, once more where another line gives other values.

    A line that names the tool comes first; what it lacks is taken from the lines before it, the nearest first.
    """
    passages = _passages(card, rivals, text)
    own: list[Reading] = []
    whole: list[Reading] = []
    before: Reading = {}
    for about, passage in passages:
        read = read_arguments(card, passage, loose=about != "other")
        if about == "own" and own and all(own[-1].get(name, values) == values for name, values in read.items()):
            own[-1], whole[-1] = own[-1] | read, whole[-1] | read
        elif about == "own":
            own.append(read)
            whole.append(before | read)
        before = before | read
    if not own:
        return [read_arguments(card, text)]
    needed = {parameter.name for parameter in card.required}
    for later in own[1:]:
        whole = [{name: values for name, values in later.items() if name in needed} | reading for reading in whole]
    return whole


_About = Literal["own", "other", ""]


def _passages(card: Card, rivals: Sequence[Card], text: str) -> list[tuple[_About, str]]:
    """The text cut before each line that names a tool: this one, or only another; quotations stay whole."""
    whole = masked(text, quotations(text))
    by_name = not keyword_places(card, whole, text)
    found: list[tuple[_About, str]] = []
    start = 0
    for spoken in whole.split("\n"):
        line = text[start : start + len(spoken)]
        start += len(spoken) + 1
        about = _about_by_name(card, rivals, spoken) if by_name else _about(card, rivals, spoken, line)
        if about or not found:
            found.append((about, line))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
    return found


def _about(card: Card, rivals: Sequence[Card], spoken: str, line: str) -> _About:
    """Whose line it is; a word that names an argument of the tool speaks for no other one."""
    if keyword_places(card, spoken, line):
        return "own"
    words = (word for parameter in card.parameters for word in parameter.keywords)
    arguments = covered(hit for word in words for hit in occurrences(spoken, word))
    return "other" if any(keyword_places(rival, spoken, line) - arguments for rival in rivals) else ""


def _about_by_name(card: Card, rivals: Sequence[Card], spoken: str) -> _About:
    """The same where no keyword is said: by the words of the names that the tools do not share."""
    there, own = words_of(spoken), words_of(name_of(card))
    others = {word for rival in rivals if rival != card for word in words_of(name_of(rival))}
    if there & (own - others):
        return "own"
    arguments = {word for parameter in card.parameters for word in words_of(" ".join(parameter.words))}
    return "other" if there & (others - own - arguments) else ""
