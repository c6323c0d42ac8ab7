"""Reasoning that a model writes into its reply, between `<think>` and `</think>` or before a lone `</think>`."""

import re
from typing import Literal

OPENING, CLOSING = "<think>", "</think>"
_OBJECT = re.compile(r"\s*\{")


class ThinkTags:
    """Separates the thoughts with which a reply begins from its text, while it arrives.

    Some chat templates put the opening tag into the prompt, so that the reply has the closing one alone. Where that is
    known, the reply begins as a thought (`opened`); else what was returned as text becomes one (`withdrawn`).
    """

    def __init__(self, opened: bool = False) -> None:
        self._opened = opened
        self._state: Literal["begin", "thought", "between", "text"] = "begin"
        self._blank: list[str] = []
        """Spaces before what is buffered, while it is open what begins there."""
        self._buffer = ""
        self._untagged = ""
        """What arrived before any tag."""
        self._searched = 0
        """How far it was searched for an opening tag."""
        self._tagged = False
        """Whether there is one in it."""
        self.withdrawn = False
        self.lone = False
        """Whether a closing tag came without an opening one."""

    @property
    def unclosed(self) -> str:
        """The text of a reply that was taken for a thought and had no tag at all."""
        return self._untagged if self._opened and self._state == "thought" else ""

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what the piece adds to the thoughts, and to the text."""
        self._buffer += piece
        thoughts = ""
        while True:
            if self._state == "thought":
                thoughts += self._take_thought()
                if self._state == "thought":
                    return thoughts, ""
            elif self._state == "text":
                if not self._take_lone_thought():
                    text, self._buffer = self._buffer, ""
                    return thoughts, text
                thoughts += self._untagged
            elif not self._begin():
                return thoughts, ""

    def close(self) -> tuple[str, str]:
        """Return what was held back, now that nothing follows."""
        rest = self._spaces() + self._buffer
        self._buffer = ""
        self._untagged += rest
        return (rest, "") if self._state == "thought" else ("", rest)

    def _begin(self) -> bool:
        """Distinguish a thought from a text, or return False until that is possible."""
        begun = self._buffer.lstrip()
        if not begun:
            self._blank.append(self._buffer)
            self._buffer = ""
            return False
        if begun.startswith(OPENING):
            self._spaces()
            self._state, self._opened, self._buffer = "thought", False, begun.removeprefix(OPENING)
        elif OPENING.startswith(begun):
            return False
        elif self._state == "between":
            self._spaces()
            self._state, self._buffer = "text", begun
        else:
            self._buffer = self._spaces() + self._buffer
            self._state = "thought" if self._opened and not begun.startswith("{") else "text"
        return True

    def _spaces(self) -> str:
        blank, self._blank = "".join(self._blank), []
        return blank

    def _take_thought(self) -> str:
        """Take the thought up to its end, or up to what may be the beginning of the closing tag."""
        thought, closing, rest = self._buffer.partition(CLOSING)
        if closing:
            self._state, self._buffer = "between", rest
            self.lone |= self._opened
            return thought
        most = min(len(thought), len(CLOSING) - 1)
        kept = next((n for n in range(most, 0, -1) if thought.endswith(CLOSING[:n])), 0)
        end = len(thought) - kept
        self._buffer = thought[end:]
        self._untagged += thought[:end]
        return thought[:end]

    def _take_lone_thought(self) -> bool:
        """Whether a text turns out to be a thought; a closing tag in code, JSON or after a thought is just text."""
        if self.lone:
            return False
        since = max(0, len(self._untagged) - len(CLOSING))
        self._untagged += self._buffer
        end = self._untagged.find(CLOSING, since)
        if end < 0:
            return False
        self._tagged = self._tagged or self._untagged.find(OPENING, self._searched, end) >= 0
        self._searched = max(0, end - len(OPENING) + 1)
        inside = _OBJECT.match(self._untagged) and not self._untagged.endswith(("\n", "}"), 0, end)
        if self._tagged or inside or self._untagged.endswith("`", 0, end):
            return False
        before, rest = self._untagged[:end], self._untagged[end + len(CLOSING) :]
        self._state, self._untagged, self._buffer = "between", before, rest
        self.lone = self.withdrawn = True
        return True
