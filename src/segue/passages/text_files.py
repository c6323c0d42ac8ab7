"""Text files in whatever encoding they are."""

import codecs
import re
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 4 * 1024 * 1024
"""Bytes of one file that are read."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GUESSES = ("utf-8", "gb18030", "cp1252")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Characters that no text holds."""


class Unreadable(Exception):
    """A file holds no text that can be read; the message says why."""


def read_text(path: Path) -> tuple[str, bool]:
    """The text of a file, and whether it is all of it.

    Raises:
        Unreadable: it cannot be opened, or is not text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"it cannot be opened ({error.strerror or error})") from error
    whole = len(data) <= MOST_BYTES
    text = _decoded(data[:MOST_BYTES], whole)
    return text.replace("\r\n", "\n").replace("\r", "\n"), whole


def text_of(data: bytes) -> str:
    """The text of a file's whole content.

    Raises:
        Unreadable: it is not text.
    """
    encodings = [name for mark, name in _MARKS if data.startswith(mark)] or _GUESSES
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            if not _CONTROL.search(text):
                return text.replace("\r\n", "\n").replace("\r", "\n")
    raise Unreadable("it is not text")


def _decoded(data: bytes, whole: bool) -> str:
    """The text: by its mark, else by the first encoding that fits; a cut file may end within a character."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\0" in data:
        raise Unreadable("it is not text")
    for guess in (encoding,) if encoding else _GUESSES:
        try:
            return codecs.getincrementaldecoder(guess)().decode(data, final=whole)
        except UnicodeDecodeError:
            continue
    return data.decode(encoding or "latin-1", "replace")
