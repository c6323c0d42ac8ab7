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
WITHIN = tuple(mark for mark in MARKS if mark != "<|channel|>commentary")
"""What opens a thought within a text; there a comment is a call, or words for the user."""
OPENING_WITHIN = re.compile(any_of(WITHIN), re.IGNORECASE)
CLOSING = re.compile(any_of(CLOSINGS), re.IGNORECASE)
EMPTY = re.compile(rf"(?:(?:{any_of(EMPTY_MARKS)})\s*)+", re.IGNORECASE)
LEAKED = re.compile(r"\A\s*+(?:assistant)?analysis(?=[A-Z{\[\"'(<])")
"""The beginning of a thought whose special tokens were removed; what follows is the thought without a space."""
_CLOSING_OF = {opening: re.compile(any_of(closings), re.IGNORECASE) for opening, closings in MARKS.items()}
LONGEST = max(map(len, (*MARKS, *CLOSINGS, *EMPTY_MARKS)))


def closing_of(opening: str) -> re.Pattern[str]:
    """What closes the thought that a mark opens."""
    return _CLOSING_OF[opening.lower()]


_PARTS = re.compile(r"\n|`+|[^\n`]+")
_FENCE = re.compile(r"[ >]*+(?:[-*+] |\d{1,9}[.)] )? *+(`{3,}+|~{3,}+)[^`]*+\Z")
_BEGINNING_CHARS = 200
QUOTES = ('"', "'", "“", "‘", "「")


class CodeMarks:
    """Whether what follows a Markdown text, as it arrives, is in code: in a block, or within backticks of its line."""

    def __init__(self) -> None:
        self._fence = ""
        """What opened the block."""
        self._beginning = ""
        """The beginning of the last line."""
        self._ticks = 0
        """The backticks that opened the code of the line."""
        self._run = 0
        """The backticks at the end of the text."""
        self._last = ""

    @property
    def is_open(self) -> bool:
        """Whether it is in code, or behind a quotation mark."""
        indented = self._beginning.startswith(("    ", "\t"))
        return bool(self._fence or self._opened()) or indented or self._last in QUOTES

    @property
    def begins_line(self) -> bool:
        return not self._beginning.strip()

    @property
    def ends_blank(self) -> bool:
        """Whether the text ends in a space, or is empty."""
        return not self._last or self._last.isspace()

    def add(self, text: str) -> None:
        for part in _PARTS.findall(text):
            if part == "\n":
                self._end_line()
                continue
            self._beginning += part[: max(0, _BEGINNING_CHARS - len(self._beginning))]
            if part.startswith("`"):
                self._run += len(part)
            else:
                self._ticks, self._run = self._opened(), 0
        self._last = text[-1:] or self._last

    def _opened(self) -> int:
        """The backticks that open code at the end of the text: so many close it again."""
        if not self._run or (self._ticks and self._run != self._ticks):
            return self._ticks
        return 0 if self._ticks else self._run

    def _end_line(self) -> None:
        fence = _FENCE.match(self._beginning)
        if fence and not self._fence:
            self._fence = fence[1]
        elif fence and self._beginning.strip().strip(self._fence[0]) == "" and fence[1].startswith(self._fence):
            self._fence = ""
        self._beginning, self._ticks, self._run = "", 0, 0


def begun_mark(text: str, marks: Iterable[str]) -> int:
    """How many characters at the end of a text may be the beginning of one of the marks."""
    end = text[-LONGEST:].lower()
    known = tuple(marks)
    return next((n for n in range(len(end), 0, -1) if any(mark.startswith(end[-n:]) for mark in known)), 0)
