"""Reasoning that a model writes into its reply, between `<think>` and `</think>`."""

OPENING, CLOSING = "<think>", "</think>"


class ThinkTags:
    """Separates the thoughts with which a reply begins from its text, while it arrives."""

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self._thought = False
        self._writing = False

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what the piece adds to the thoughts, and to the text."""
        if self._writing:
            return "", piece
        self._held += piece
        thoughts = ""
        while True:
            if self._thinking:
                thoughts += self._take_thought()
                if self._thinking:
                    return thoughts, ""
            begun = self._held.lstrip()
            if begun.startswith(OPENING):
                self._thinking, self._held = True, begun.removeprefix(OPENING)
            elif OPENING.startswith(begun):
                return thoughts, ""
            else:
                self._writing = True
                text, self._held = begun if self._thought else self._held, ""
                return thoughts, text

    def close(self) -> tuple[str, str]:
        """Return what was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return (held, "") if self._thinking else ("", held)

    def _take_thought(self) -> str:
        """Take the thought up to its end, or up to what may be the beginning of the closing tag."""
        thought, closing, rest = self._held.partition(CLOSING)
        if closing:
            self._thinking, self._thought, self._held = False, True, rest
            return thought
        most = min(len(thought), len(CLOSING) - 1)
        kept = next((n for n in range(most, 0, -1) if thought.endswith(CLOSING[:n])), 0)
        end = len(thought) - kept
        self._held = thought[end:]
        return thought[:end]
