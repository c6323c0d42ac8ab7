"""Identity of the database's file, and integrity of its write-ahead log."""

import os
import struct
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from segue.core.errors import DatabaseDamaged, DatabaseUnavailable

_HEADER, _FRAME_HEADER = 32, 24
_MAGIC = 0x377F0682
"""Of a log whose checksums read little-endian words; the next number is that of big-endian ones."""
_ONCE_MORE = 0.05
"""Seconds until a damaged log is read again: another process may have been writing it."""


class File:
    """The file at a path, as it was when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def check(self) -> None:
        """Make sure that the path still names the file that was opened.

        Raises:
            DatabaseUnavailable: it was deleted or replaced; what is written now would be lost.
        """
        if _identity(self._path) != self._identity:
            raise DatabaseUnavailable(
                "The database {path} was deleted or replaced while it was open: nothing more is written. Restore "
                "the file, then start this process again.",
                path=self._path,
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@dataclass(frozen=True)
class DamagedLog:
    """What of a write-ahead log can be read: `whole` of its bytes, `frames` of the frames that were written."""

    whole: int
    frames: int
    written: int


def check_log(path: str) -> None:
    """Make sure that the write-ahead log is whole: SQLite would leave out what follows a damaged frame, silently.

    Raises:
        DatabaseDamaged: it is not; nothing was changed.
    """
    log = Path(f"{path}-wal")
    damage = damage_of(log)
    if damage is None:
        return
    time.sleep(_ONCE_MORE)
    if damage_of(log) == damage:
        raise DatabaseDamaged(
            "The write-ahead log {log} is damaged ({frames} of its {written} frames can be read), so the newest "
            "changes would be lost: restore both files from a copy. To go on without those changes: cp {log} "
            "{log}.damaged && truncate -s {whole} {log}",
            log=log,
            frames=damage.frames,
            written=damage.written,
            whole=damage.whole,
        )


def damage_of(log: Path) -> DamagedLog | None:
    """What of a log can be read, if frames follow that SQLite will not read; None if it is whole or not there.

    A frame that does not fit is the normal end of a log: the process was killed while it wrote, or older frames
    follow. It is damage where another frame of the same log comes after it.
    """
    try:
        content = log.read_bytes()
    except FileNotFoundError:
        return None
    if len(content) <= _HEADER:
        return None
    magic, _, page_size = struct.unpack_from(">III", content)
    step = _FRAME_HEADER + page_size
    order = "<" if magic == _MAGIC else ">"
    sums = _checksum(content[:24], (0, 0), order)
    if magic & ~1 != _MAGIC or sums != struct.unpack_from(">II", content, 24):
        frames = (len(content) - _HEADER) // (_FRAME_HEADER + 4096)
        return DamagedLog(0, 0, frames) if frames else None
    own = [_HEADER + n * step for n in _own(content, step)]
    for place, start in enumerate(own):
        sums = _checksum(content[start : start + 8], sums, order)
        sums = _checksum(content[start + _FRAME_HEADER : start + step], sums, order)
        in_order = start == _HEADER + place * step
        if not in_order or sums != struct.unpack_from(">II", content, start + 16):
            return DamagedLog(_HEADER + place * step, place, len(own)) if not in_order or own[place + 1 :] else None
    return None


def _own(content: bytes, step: int) -> Iterator[int]:
    """The numbers of the frames that belong to this log, and not to one before in the same file."""
    salts = content[16:24]
    for number, start in enumerate(range(_HEADER, len(content) - step + 1, step)):
        if content[start + 8 : start + 16] == salts:
            yield number


def _checksum(content: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum of a log, continued from `sums`."""
    words = array("I", content)
    if (order == "<") != (array("H", b"\x01\x00")[0] == 1):
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for one, two in zip(pairs, pairs, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
