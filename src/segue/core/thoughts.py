"""The marks of a model's thoughts: one list for all models and both protocols.

They are compared without regard to case. OpenAI's open models write channels; where an endpoint removes their special
tokens, `assistantfinal` is left of the end of the thoughts.
"""

import re
from collections.abc import Iterable, Mapping

_FINAL = ("<|channel|>final", "assistantfinal")
_CHANNEL = ("<|end|>", "<|call|>", *_FINAL)
MARKS: Mapping[str, tuple[str, ...]] = {
    "<think>": ("</think>",),
    "<thinking>": ("</thinking>",),
    "<thought>": ("</thought>",),
    "<thoughts>": ("</thoughts>",),
    "<reasoning>": ("</reasoning>",),
    "<seed:think>": ("</seed:think>",),
    "<mm:think>": ("</mm:think>",),
    "<longcat_think>": ("</longcat_think>",),
    "<scratchpad>": ("</scratchpad>",),
    "[think]": ("[/think]",),
    "◁think▷": ("◁/think▷",),
    "<|begin_of_thought|>": ("<|end_of_thought|>",),
    "<|start_thinking|>": ("<|end_thinking|>",),
    "<|begin_of_thinking|>": ("<|end_of_thinking|>",),
    "<|inner_prefix|>": ("<|inner_suffix|>",),
    "<|channel>thought": ("<channel|>",),
    "<unused94>thought": ("<unused95>",),
    "<|channel|>analysis": _CHANNEL,
    "<|channel|>commentary": _CHANNEL,
}
"""What closes a thought, by what opens it."""
CLOSINGS = tuple(dict.fromkeys(closing for each in MARKS.values() for closing in each if closing not in _CHANNEL[:2]))
"""What closes a thought even where nothing opens it, as the prompt did: some chat templates end in an opening mark."""
EMPTY_MARKS = ("<|start|>assistant", "<|channel|>final", "<|constrain|>json", "<|message|>", "<|end|>", "<|return|>")
"""What may stand around thoughts and means nothing by itself."""


def any_of(marks: Iterable[str]) -> str:
    """A pattern that finds any of the marks."""
    return "|".join(map(re.escape, marks))


OPENING = re.compile(any_of(MARKS), re.IGNORECASE)
CLOSING = re.compile(any_of(CLOSINGS), re.IGNORECASE)
EMPTY = re.compile(rf"(?:(?:{any_of(EMPTY_MARKS)})\s*)+", re.IGNORECASE)
LEAKED = re.compile(r"\A\s*+(?:assistant)?analysis(?=[A-Z{\[\"'(<])")
"""The beginning of a thought whose special tokens were removed; what follows is the thought without a space."""
_CLOSING_OF = {opening: re.compile(any_of(closings), re.IGNORECASE) for opening, closings in MARKS.items()}
LONGEST = max(map(len, (*MARKS, *CLOSINGS, *EMPTY_MARKS)))


def closing_of(opening: str) -> re.Pattern[str]:
    """What closes the thought that a mark opens."""
    return _CLOSING_OF[opening.lower()]


def begun_mark(text: str, marks: Iterable[str]) -> int:
    """How many characters at the end of a text may be the beginning of one of the marks."""
    end = text[-LONGEST:].lower()
    known = tuple(marks)
    return next((n for n in range(len(end), 0, -1) if any(mark.startswith(end[-n:]) for mark in known)), 0)
