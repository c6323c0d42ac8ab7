"""The write-ahead log: its integrity, and where its last synced commit ends."""

import contextlib
import struct
import time
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from segue.core.errors import DatabaseDamaged

_HEADER, _FRAME_HEADER = 32, 24
_SALTS = slice(16, 24)
_MAGIC = 0x377F0682
"""Of a log whose checksums read little-endian words; the next number is that of big-endian ones."""
_ONCE_MORE = 0.05
"""Seconds until a damaged log is read again: another process may have been writing it."""
_ANCHOR = struct.Struct(">8sI")
"""The salts of a log, which each log has its own, and a number of its frames; a checksum follows."""


class Anchor:
    """Notes in a file of its own how far a log is on the disk: SQLite takes a log that was cut short for a whole one.

    For the connection that writes: `begin` before it commits a synced transaction, `end` after that.
    """

    def __init__(self, database: str) -> None:
        self._noted = open(anchor_of(database), "wb", buffering=0)  # noqa: SIM115 - as long as the connection
        self._log = open(f"{database}-wal", "rb", buffering=0)  # noqa: SIM115
        self._salts = b""
        self._frames = 0

    def begin(self) -> None:
        """Find the end of what others committed: it may not be on the disk."""
        while self._next():
            pass

    def end(self) -> None:
        """Note the end of the transaction, if it wrote anything."""
        if self._next():
            noted = _ANCHOR.pack(self._salts, self._frames)
            with contextlib.suppress(OSError):  # it is only needed where the log is damaged
                self._noted.seek(0)
                self._noted.write(noted + zlib.crc32(noted).to_bytes(4))

    def close(self) -> None:
        self._noted.close()
        self._log.close()

    def _next(self) -> bool:
        """Go to the end of the next transaction, if there is one."""
        header = self._read(_HEADER, 0)
        if header[_SALTS] != self._salts:
            self._salts, self._frames = header[_SALTS], 0
        place, step = self._frames, _step(header)
        while _belongs(frame := self._read(_FRAME_HEADER, _HEADER + place * step), self._salts):
            place += 1
            if _ends_transaction(frame):
                self._frames = place
                return True
        return False

    def _read(self, size: int, start: int) -> bytes:
        self._log.seek(start)
        return self._log.read(size) or b""


def anchor_of(database: str) -> Path:
    """The file of a database's anchor."""
    return Path(f"{database}-anchor")


def drop_anchor(database: str) -> None:
    """Delete the anchor of a log that SQLite deleted with the last connection."""
    if not Path(f"{database}-wal").exists():
        anchor_of(database).unlink(missing_ok=True)


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
    damage = damage_of(path)
    if damage is None:
        return
    time.sleep(_ONCE_MORE)
    if damage_of(path) == damage:
        raise DatabaseDamaged(
            "The write-ahead log {log} is damaged ({frames} of its {written} frames can be read), so the newest "
            "changes would be lost: restore both files from a copy. To go on without those changes: cp {log} "
            "{log}.damaged && truncate -s {whole} {log} && rm -f {anchor}",
            log=f"{path}-wal",
            frames=damage.frames,
            written=damage.written,
            whole=damage.whole,
            anchor=anchor_of(path),
        )


def damage_of(database: str) -> DamagedLog | None:
    """What of a log can be read, if it once had more that was on the disk; None if it is whole or not there.

    A frame that does not fit is the normal end of a log: the process was killed while it wrote, or older frames
    follow, also those of a transaction in which an earlier process was killed. It is damage where the last frame of a
    transaction of the same log comes after it, or where the log's anchor does.
    """
    salts, synced = _anchor(database)
    try:
        content = Path(f"{database}-wal").read_bytes()
    except FileNotFoundError:
        return None
    if len(content) <= _HEADER:
        return None
    step = _step(content)
    order = "<" if content[:4] == _MAGIC.to_bytes(4) else ">"
    sums = _checksum(content[:24], (0, 0), order)
    if struct.unpack_from(">I", content)[0] & ~1 != _MAGIC or sums != struct.unpack_from(">II", content, 24):
        frames = (len(content) - _HEADER) // (_FRAME_HEADER + 4096)
        return DamagedLog(0, 0, frames) if frames else None
    own = [_HEADER + n * step for n in _own(content, step)]
    whole = _whole(content, own, step, sums, order)
    end = _HEADER + whole * step
    committed = any(_ends_transaction(content[start : start + _FRAME_HEADER]) for start in own if start > end)
    written = max(len(own) if committed else whole, synced if salts == content[_SALTS] else 0)
    return DamagedLog(end, whole, written) if written > whole else None


def _whole(content: bytes, own: list[int], step: int, sums: tuple[int, int], order: str) -> int:
    """How many frames, from the first one on, are there and fit the ones before."""
    for place, start in enumerate(own):
        sums = _checksum(content[start : start + 8], sums, order)
        sums = _checksum(content[start + _FRAME_HEADER : start + step], sums, order)
        if start != _HEADER + place * step or sums != struct.unpack_from(">II", content, start + 16):
            return place
    return len(own)


def _anchor(database: str) -> tuple[bytes, int]:
    """The salts of the log that was synced last, and how many of its frames were; nothing where that is not known."""
    try:
        noted = anchor_of(database).read_bytes()
    except OSError:
        return b"", 0
    if len(noted) != _ANCHOR.size + 4 or noted[-4:] != zlib.crc32(noted[:-4]).to_bytes(4):
        return b"", 0
    salts, frames = _ANCHOR.unpack(noted[:-4])
    return salts, frames


def _step(header: bytes) -> int:
    """The size of a frame."""
    return _FRAME_HEADER + int.from_bytes(header[8:12])


def _own(content: bytes, step: int) -> Iterator[int]:
    """The numbers of the frames that belong to this log, and not to one before in the same file."""
    for number, start in enumerate(range(_HEADER, len(content) - step + 1, step)):
        if _belongs(content[start : start + _FRAME_HEADER], content[_SALTS]):
            yield number


def _belongs(frame: bytes, salts: bytes) -> bool:
    return len(frame) == _FRAME_HEADER and frame[8:16] == salts


def _ends_transaction(frame: bytes) -> bool:
    """Whether it is the last frame of a transaction, which has the size of the database."""
    return any(frame[4:8])


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
