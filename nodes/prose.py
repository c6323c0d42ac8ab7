"""The prose of a digest: what a model writes of turns that leave the prompt, checked against what was said in them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final

from langchain_core.messages import HumanMessage, SystemMessage

from segue.core.models import ModelRequest, tokens
from segue.prompts.catalogue import render

from .context import truncate
from .digest import BINDING, NUMBER_WORDS, Digest, Entry, merge, most_share_of, of_text, share_of, turns_of
from .history import Exchange

MOST_LINES: Final = 4
"""Lines of a block of turns."""
MOST_ENTRIES: Final = 12
"""Lines that a digest keeps, the latest."""
_LINE_CHARS: Final = 240
_MESSAGE_CHARS: Final = 2_000
"""Characters of each message that the model reads."""
_LINE = re.compile(r"\[(turn-\d+)\]\s*(\S.*)")


def said_by_turn(left_out: Iterable[Exchange], turns: int) -> dict[str, str]:
    """What the user and the agent said in turns that are left out, by their receipts; so many began before them.

    What tools returned is not among it: nothing that they say may come back as a statement.
    """
    said: dict[str, str] = {}
    for turn, message in turns_of(chain.from_iterable(left_out), turns):
        if message.type in ("human", "ai") and message.text.strip():
            role = "user" if message.type == "human" else "agent"
            receipt = f"turn-{turn}"
            text = f"{role}: {truncate(message.text.strip(), _MESSAGE_CHARS)}"
            said[receipt] = f"{said[receipt]}\n{text}" if receipt in said else text
    return said


def prose_request(said: Mapping[str, str], language: str, most_tokens: int) -> ModelRequest:
    """The call that asks for the prose of these turns, of the latest of them that have room."""
    shown: list[str] = []
    for receipt, text in reversed([*said.items()]):
        shown.append(f"[{receipt}]\n{text}")
        if tokens("\n\n".join(shown)) > most_tokens and len(shown) > 1:
            shown.pop()
            break
    system = SystemMessage(render("digest", language, n=str(MOST_LINES)))
    return ModelRequest(purpose="digest", messages=[system, HumanMessage("\n\n".join(reversed(shown)))])


def read_prose(reply: str, said: Mapping[str, str], *, is_cut: bool = False) -> list[Entry]:
    """The lines of a reply that keep to what was said in the turn that they name; the last one is left out if cut.

    A line that orders or bounds something is none: rules are only in the words of those who gave them.
    """
    found: list[Entry] = []
    lines = [line.strip(" \t-*•") for line in reply.splitlines() if line.strip()]
    for line in lines[:-1] if is_cut else lines:
        named = _LINE.fullmatch(line)
        receipt, text = named.groups() if named else ("", "")
        is_sound = receipt in said and len(text) <= _LINE_CHARS and not invented(text, said[receipt])
        if is_sound and not any(entry.kind in BINDING for entry in of_text(text, receipt)):
            found.append(Entry("summary", text, receipt, "model"))
    return found[:MOST_LINES]


def with_prose(digest: Digest, found: Sequence[Entry], most_tokens: int) -> Digest:
    """The digest with these lines, and the latest before them, where messages have so many tokens."""
    written = [entry for entry in digest.entries if entry.writer == "model"]
    past = {*written[: max(0, len(written) + len(found) - MOST_ENTRIES)]}
    kept = replace(digest, entries=tuple(entry for entry in digest.entries if entry not in past))
    return merge(kept, found, share_of(most_tokens), most_share_of(most_tokens))


# What a sentence names that its source does not: numbers, names, identifiers, and words of a script without capitals.

_EDGES: Final = ".,;:!?()[]{}\"'“”‘’«»<>*`…—–-"
_NUMBERS = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NUMBER_WORD = re.compile(NUMBER_WORDS, re.IGNORECASE)
_IDENTIFIER = re.compile(r"[\d@_/\\#=]|\w\.\w")
_UNCASED_RUN = re.compile(r"[^\W\d_]+")
_STARTER = re.compile(
    r"the|a|an|this|that|these|those|it|its|he|his|she|her|they|their|there|here|in|on|at|by|for|from|with|about|after|"
    r"before|during|since|until|as|while|when|where|why|how|because|so|then|later|also|both|all|some|most|many|several|"
    r"no|not|nothing|nobody|user|user's|users|agent|agent's|assistant|what|who|which|i|we|our|you|your|my|mine"
)
"""Words that may begin a sentence with a capital."""
_ORDINARY: Final = frozenset(
    "的了在是和与及或而且也都就还又把被对向从到给让使因为所以但如果于其之这那些个有没无不要想会能可以用户智能体助手"
    "说问答谈讨论提到解释请求希望认为觉得关于情况问题原因目前已经正在后来然后先最后介绍太很更较挺"
)
"""Characters that say nothing by themselves."""


def invented(text: str, source: str) -> list[str]:
    """The numbers, names and identifiers of a text that its source lacks."""
    known, numbers = {*_words(source)}, {*_NUMBERS.findall(source)}
    lacking = [number for number in _NUMBERS.findall(text) if number not in numbers]
    begins = True
    for word in text.split():
        for part in _words(word):
            if part in known or part in lacking:
                continue
            is_name = any(map(str.isupper, word)) and not (begins and _STARTER.fullmatch(part))
            is_number = any(map(_NUMBER_WORD.fullmatch, part.split("-")))
            if is_name or is_number or _IDENTIFIER.search(part):
                lacking.append(part)
        begins = word.rstrip("\"'”’)")[-1:] in (".", "!", "?", ":")
    return lacking + _new_characters(text, source)


def _words(text: str) -> list[str]:
    """The words of a text without what surrounds them, in small letters."""
    words = (word.strip(_EDGES).casefold().replace("’", "'") for word in text.split())
    return [word.removesuffix("'s") for word in words if word]


def _new_characters(text: str, source: str) -> list[str]:
    """The pairs of letters without capitals, as in Chinese, that the source lacks; ordinary characters say nothing."""
    lacking: list[str] = []
    for run in _UNCASED_RUN.findall(text):
        telling = [char if _is_uncased(char) and char not in _ORDINARY else " " for char in run]
        lacking += (char for char in telling if char != " " and char not in source)
        lacking += ("".join(pair) for pair in pairwise(telling) if " " not in pair and "".join(pair) not in source)
    return lacking


def _is_uncased(char: str) -> bool:
    return char.isalpha() and not (char.islower() or char.isupper())
