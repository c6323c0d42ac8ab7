"""The string values of a JSON text, while it arrives."""

import re
from collections.abc import Iterator

Path = tuple[str | None, ...]
"""The keys that lead to a value; None stands for an array."""

MAX_DEPTH = 8
"""Strings that are nested deeper are passed over."""

KEY_CHARS = 100
"""What a key is longer is ignored."""

_BETWEEN = re.compile(r'[^"{}\[\],:]*')
_CONTENT = re.compile(r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^u]')
_UNFINISHED = re.compile(r"\\(u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?)?\Z")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JsonStrings:
    """Reads JSON objects piece by piece, each character once; text around them is passed over.

    What is not valid JSON is read as far as it makes sense: this is for showing a reply, not for acting on it.
    """

    def __init__(self) -> None:
        self._keys: list[str | None] = []
        self._key_next = False
        self._inside = False
        self._path: Path = ()
        self._rest = ""

    def feed(self, piece: str) -> Iterator[tuple[Path, str]]:
        """Yield what the piece adds to string values, each time with the value's path."""
        text, at = self._rest + piece, 0
        self._rest = ""
        while at < len(text):
            if not self._inside:
                at = self._structure(text, at)
            elif text[at] == '"':
                self._inside, at = False, at + 1
            elif _UNFINISHED.match(text, at):
                self._rest = text[at:]
                return
            else:
                content = _CONTENT.match(text, at)
                at = content.end() if content else at + 1
                if content and self._key_next:
                    self._keys[-1] = ((self._keys[-1] or "") + _decoded(content[0]))[:KEY_CHARS]
                elif content and self._path:
                    yield self._path, _decoded(content[0])

    def _structure(self, text: str, at: int) -> int:
        """Read on to the next character that means something, and that one; return the place after it."""
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        match text[at : at + 1]:
            case "{":
                self._keys.append("")
                self._key_next = True
            case "[" if self._keys:
                self._keys.append(None)
                self._key_next = False
            case "}" | "]" if self._keys:
                self._keys.pop()
                self._key_next = False
            case "," if self._keys and self._keys[-1] is not None:
                self._keys[-1] = ""
                self._key_next = True
            case ":":
                self._key_next = False
            case '"' if self._keys:
                self._inside = True
                self._path = tuple(self._keys) if len(self._keys) <= MAX_DEPTH else ()
        return at + 1


def _decoded(content: str) -> str:
    """A run of plain characters, or one escape."""
    if not content.startswith("\\"):
        return content
    if content[1] != "u":
        return _CONTROL.get(content[1], content[1])
    units = b"".join(int(unit, 16).to_bytes(2) for unit in content.split("\\u")[1:])
    return units.decode("utf-16-be", "replace")
