"""The messages that go into a prompt: whole exchanges, dropped in jumps so that the prompt's prefix stays the same."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple
from weakref import ReferenceType, ref

from langchain_core.messages import AIMessage, AnyMessage

from segue.core.attachments import ATTACHMENTS

from .prompt_budget import as_json, ref_of, tokens, truncate
from .task import is_steering

Exchange = list[AnyMessage]
MOST_FILE_TOKENS = 4_000
"""What the files of one message count for at most: what does not fit into the prompt is only named there."""
_LEFT_OUT = "results_left_out"
_sizes: dict[int, dict[int, "_Size"]] = {}
"""By `result_chars` and a message's identity, for as long as the message is in memory: none is ever changed."""


class _Size(NamedTuple):
    """Tokens of a message and of its files."""

    text: int
    files: int
    message: ReferenceType[AnyMessage]


def shown_text(message: AnyMessage, result_chars: int) -> str:
    """What a message costs in a prompt: a tool's result is truncated there."""
    if message.type == "tool":
        return truncate(message.text, result_chars, ref_of(message))
    calls = as_json(message.tool_calls) if isinstance(message, AIMessage) and message.tool_calls else ""
    return message.text + calls


def exchanges(messages: Sequence[AnyMessage]) -> list[Exchange]:
    """Messages that stay together: a call with all its results, anything else alone."""
    units: list[Exchange] = []
    for message in messages:
        if message.type == "tool" and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def kept_from(sizes: Sequence[int], most: int) -> int:
    """The place of the first unit that is kept; the last unit always is.

    Whenever the units kept so far outgrow `most`, the oldest go until half of it is left: units that are added later
    move the place seldom, and a prompt's prefix stays the same.
    """
    first = 0
    used = 0
    for place, size in enumerate(sizes):
        used += size
        if used > most:
            while first < place and used > most // 2:
                used -= sizes[first]
                first += 1
    return first


def split(
    messages: Sequence[AnyMessage], most_tokens: int, result_chars: int, *, files: bool = True
) -> tuple[list[Exchange], list[Exchange]]:
    """The exchanges that are left out and those that are kept; without `files` only texts count."""
    units, known = exchanges(messages), _sizes.setdefault(result_chars, {})
    measured = [known.get(id(each)) or _measured(each, result_chars, known) for each in messages]
    sizes = iter([size.text + size.files if files else size.text for size in measured])
    first = kept_from([sum(islice(sizes, len(unit))) for unit in units], most_tokens)
    return units[:first], units[first:]


def _measured(message: AnyMessage, result_chars: int, known: dict[int, _Size]) -> _Size:
    place, files = id(message), sum(form["tokens"] for form in message.additional_kwargs.get(ATTACHMENTS, ()))
    text = tokens(shown_text(message, result_chars))
    known[place] = size = _Size(text, min(files, MOST_FILE_TOKENS), ref(message, lambda _: known.pop(place, None)))
    return size


def latest(left_out: Sequence[Exchange], kept: Sequence[Exchange]) -> list[AnyMessage]:
    """What is kept, behind the user's message that it answers and what was added to it.

    Where results are left out, the first message is marked so.
    """
    shown = [message for unit in kept for message in unit]
    if shown and (shown[0].type != "human" or is_steering(shown[0])):
        shown = [*_asked(left_out), *shown]
    results = chain.from_iterable(unit for place, unit in enumerate(left_out) if len(unit) > 1 or place == 0)
    if shown and any(map(ref_of, results)):
        shown[0] = shown[0].model_copy(update={"additional_kwargs": {**shown[0].additional_kwargs, _LEFT_OUT: True}})
    return shown


def _asked(left_out: Sequence[Exchange]) -> list[AnyMessage]:
    """The latest user's message that began a task, and what was added to it."""
    asked: list[AnyMessage] = []
    for unit in reversed(left_out):
        if unit[0].type == "human":
            asked.insert(0, unit[0])
            if not is_steering(unit[0]):
                return asked
    return []


def window(messages: Sequence[AnyMessage], most_tokens: int, result_chars: int) -> list[AnyMessage]:
    """The latest exchanges that fit, behind the user's message that they answer."""
    return latest(*split(messages, most_tokens, result_chars))


def left_out_results(messages: Sequence[AnyMessage]) -> bool:
    """Whether results of earlier turns are left out of a window."""
    return any(message.additional_kwargs.get(_LEFT_OUT) for message in messages)
