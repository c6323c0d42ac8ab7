"""The messages of a history that go into a prompt, and the digest in the place of those that do not.

Whole exchanges are left out, in jumps, so that the prompt's prefix stays the same; the digest changes with them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple
from weakref import ReferenceType, ref

from langchain_core.messages import AIMessage, AnyMessage

from segue.core.message import ATTACHMENTS
from segue.core.models import KEPT, tokens

from .context import KEPT_CHARS, as_json, conversation, excerpt_of, is_digest, is_steering, ref_of
from .digest import TURN, Digest, digest_in, fold, mark_changed, most_share_of, share_of, turns_of

Exchange = list[AnyMessage]
MOST_FILE_TOKENS = 4_000
"""What the files of one message count for at most: what does not fit into the prompt is only named there."""
_LEFT_OUT = "results_left_out"
_PART = 64
"""Messages that are folded at once."""
_sizes: dict[int, dict[int, "_Size"]] = {}
"""By `result_chars` and a message's identity, for as long as the message is in memory: none is ever changed."""
_folded: dict[int, "_Folded"] = {}
"""By the identity of the last message of a part that is left out, for as long as it is in memory."""


class _Size(NamedTuple):
    """Tokens of a message and of its files."""

    text: int
    files: int
    message: ReferenceType[AnyMessage]


class _Folded(NamedTuple):
    """What messages were folded into which digest, what came of it, and the message that stands for them."""

    made_of: tuple[Digest, int, tuple[int, int]]
    digest: Digest
    standing: AnyMessage | None
    message: ReferenceType[AnyMessage]


def shown_text(message: AnyMessage, result_chars: int) -> str:
    """What a message costs in a prompt: a tool's result is truncated there, what a model wants back is whole."""
    if message.type == "tool":
        return excerpt_of(message, result_chars)
    calls = as_json(message.tool_calls) if isinstance(message, AIMessage) and message.tool_calls else ""
    kept = message.additional_kwargs.get(KEPT)
    return message.text + calls + (as_json(kept) if kept else "")


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


def kept_beside_digest(sizes: Sequence[int], most: int, share: int, *, digested: bool = False) -> int:
    """The place of the first unit that is kept where a digest has its share once any is left out, or was before."""
    return kept_from(sizes, most - share) if digested or kept_from(sizes, most) else 0


def split(
    messages: Sequence[AnyMessage],
    most_tokens: int,
    result_chars: int,
    *,
    files: bool = True,
    digested: bool = False,
    share: int = 0,
) -> tuple[list[Exchange], list[Exchange]]:
    """The exchanges that are left out and those that are kept; without `files` only texts count.

    `digested`: a digest stands for others that are left out already. `share` is that of the digest, if not the usual.
    """
    units, known = exchanges(messages), _sizes.setdefault(result_chars, {})
    measured = [known.get(id(each)) or _measured(each, result_chars, known) for each in messages]
    sizes = iter([size.text + size.files if files else size.text for size in measured])
    counts = [sum(islice(sizes, len(unit))) for unit in units]
    first = kept_beside_digest(counts, most_tokens, share or share_of(most_tokens), digested=digested)
    return units[:first], units[first:]


def _measured(message: AnyMessage, result_chars: int, known: dict[int, _Size]) -> _Size:
    place, files = id(message), sum(form["tokens"] for form in message.additional_kwargs.get(ATTACHMENTS, ()))
    text = tokens(shown_text(message, result_chars))
    known[place] = size = _Size(text, min(files, MOST_FILE_TOKENS), ref(message, lambda _: known.pop(place, None)))
    return size


@dataclass(frozen=True)
class Window:
    """The messages that are shown, the digest before those that are kept, and the exchanges that were left out now.

    So many `turns` began before the exchanges.
    """

    shown: list[AnyMessage]
    left_out: list[Exchange]
    digest: Digest
    turns: int


def window(messages: Sequence[AnyMessage], most_tokens: int, result_chars: int) -> list[AnyMessage]:
    """The latest exchanges that fit, behind the user's message that they answer, and a digest of the others."""
    return compact(messages, most_tokens, result_chars).shown


def compact(
    messages: Sequence[AnyMessage],
    most_tokens: int,
    result_chars: int,
    *,
    digest: Digest | None = None,
    files: bool = True,
) -> Window:
    """The window of messages, some of which the `digest` holds already: by itself, or as the first message.

    Where results are left out, the first message is marked so.
    """
    if digest is None or not _is_of(digest, messages):
        digest = digest_in(messages[0]) if messages and is_digest(messages[0]) else Digest()
    before, rest = messages[: digest.messages], messages[digest.messages :]
    held, usual, most = digest, share_of(most_tokens), most_share_of(most_tokens)
    for share in (usual, most):
        if share < held.tokens and share < most:
            continue  # what was said has outgrown it before
        left_out, kept = split(rest, most_tokens, result_chars, files=files, digested=bool(before), share=share)
        if not left_out and not before:
            return Window([*messages], [], digest, held.turns)
        gone = [message for unit in left_out for message in unit]
        digest, standing = _fold(held, before, gone, (usual, most))[1:3]
        if digest.tokens <= share:
            break
    shown, turn = [message for unit in kept for message in unit], digest.turns + 1
    if shown and (shown[0].type != "human" or is_steering(shown[0])):
        shown, turn = [*_asked([*before, *gone]), *shown], digest.turns
    if shown and shown[0].type == "human":
        shown[0] = _marked(shown[0], {TURN: turn, **shown[0].additional_kwargs})
    if standing:
        numbered = turns_of(chain.from_iterable(kept), digest.turns)
        said = ((message.text, f"turn-{number}") for number, message in numbered if message.type == "human")
        changed = mark_changed(digest, said)
        shown.insert(0, standing if changed is digest else changed.message() or standing)
    if shown and (standing or digest.results):
        shown[0] = _marked(shown[0], {_LEFT_OUT: True})
    return Window(shown, left_out, digest, held.turns)


def _is_of(digest: Digest, messages: Sequence[AnyMessage]) -> bool:
    """Whether the messages begin with those that the digest holds: nothing of them was removed since."""
    count = digest.messages
    return count == 0 or (count <= len(messages) and messages[count - 1].id == digest.last)


def _marked(message: AnyMessage, marks: Mapping[str, Any]) -> AnyMessage:
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, **marks}})


def _fold(
    digest: Digest, before: Sequence[AnyMessage], gone: Sequence[AnyMessage], most_tokens: tuple[int, int]
) -> "_Folded":
    """The digest with these messages, which are folded in the same parts whenever: each part is folded once."""
    ends = [len(gone)]
    for place in range(_PART, len(gone), _PART):
        if gone[place].type != "tool":
            ends.insert(-1, place)
    folded, parts = _Folded((digest, 0, most_tokens), digest, None, ref(gone[-1] if gone else before[-1])), [*ends]
    while parts:
        last, made_of = gone[parts[-1] - 1] if gone else before[-1], (digest, parts[-1], most_tokens)
        if (known := _folded.get(id(last))) and known.made_of == made_of:
            folded = known
            break
        parts.pop()
    for end in ends[len(parts) :]:
        folded = _with_part(folded, gone[folded.made_of[1] : end], gone[end - 1] if gone else before[-1])
    return folded


def _with_part(folded: "_Folded", part: Sequence[AnyMessage], last: AnyMessage) -> "_Folded":
    """What was folded, with these messages behind it, the last of which is `last`."""
    (of, count, most_tokens), place = folded.made_of, id(last)
    digest = fold(folded.digest, part, *most_tokens)
    if part:
        results = digest.results or any(ref_of(each) or each.additional_kwargs.get(_LEFT_OUT) for each in part)
        digest = replace(digest, messages=digest.messages + len(part), last=last.id or "", results=results)
    made_of = (of, count + len(part), most_tokens)
    forget: Callable[[Any], object] = lambda _: _folded.pop(place, None)  # noqa: E731
    _folded[place] = known = _Folded(made_of, digest, digest.message(), ref(last, forget))
    return known


def _asked(left_out: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The latest user's message that began a task, and what was added to it."""
    asked: list[AnyMessage] = []
    for message in reversed(left_out):
        if message.type == "human" and not is_digest(message):
            asked.insert(0, message)
            if not is_steering(message):
                return asked
    return []


def left_out_results(messages: Iterable[AnyMessage]) -> bool:
    """Whether results of earlier turns are left out of a window."""
    return any(message.additional_kwargs.get(_LEFT_OUT) for message in messages)


def turn_text(messages: Sequence[AnyMessage], turn: int) -> str | None:
    """The messages of a turn of the session, by its number, as text; None where there is none."""
    found = [message for number, message in turns_of(messages) if number == turn]
    lines = (f"{entry['role']}: {entry['content']}" for entry in conversation(found, KEPT_CHARS) if entry["content"])
    return "\n\n".join(lines) or None
