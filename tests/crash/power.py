"""A power cut, as far as it can be played: after a kill, take from the write-ahead log what no commit had synced.

A connection with `synchronous = FULL` syncs the log at its commits, and with it all that stands before. What other
connections committed since then may be gone after a power cut; here it always is.
"""

import json
import os
import struct
from pathlib import Path

DATABASE, MARKS = "segue.db", "synced.json"
_HEADER, _FRAME_HEADER, _SALT = 32, 24, slice(16, 24)

Mark = tuple[str, int]
"""A log's salt, which each log has its own, and how long it was when a synced commit began."""


def mark(folder: Path) -> None:
    """Note that a synced commit begins: what there is of the log, and this transaction, will be on the disk."""
    log = folder / f"{DATABASE}-wal"
    if log.exists() and log.stat().st_size >= _HEADER:
        with log.open("rb") as opened:
            now = (opened.read(_HEADER)[_SALT].hex(), os.fstat(opened.fileno()).st_size)
        Path(folder, MARKS).write_text(json.dumps([*marks(folder)[-1:], now]), encoding="utf-8")


def marks(folder: Path) -> list[Mark]:
    """The last two marks, the older one first."""
    file = folder / MARKS
    return [(salt, size) for salt, size in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []


def cut(folder: Path) -> int:
    """Take what was not synced from the log, and what does not outlive the machine; returns how many bytes."""
    log = folder / f"{DATABASE}-wal"
    Path(folder, f"{DATABASE}-shm").unlink(missing_ok=True)
    if not log.exists():
        return 0
    whole = log.read_bytes()
    kept = synced(whole, marks(folder))
    with log.open("r+b") as opened:
        opened.truncate(kept)
    return len(whole) - kept


def synced(log: bytes, noted: list[Mark]) -> int:
    """The length of the log up to the end of the last synced transaction.

    The last mark may be that of a commit that never was; then the log has nothing after it, and the one before counts.
    """
    for salt, size in reversed(noted):
        if log[_SALT].hex() == salt:
            ends = [end for end in _transaction_ends(log) if end > size]
            if ends:
                return ends[0]
    return 0


def _transaction_ends(log: bytes) -> list[int]:
    """Where transactions end: at frames that tell the size of the database."""
    step = _FRAME_HEADER + struct.unpack_from(">I", log, 8)[0]
    ends = range(_HEADER + step, len(log) + 1, step)
    return [end for end in ends if struct.unpack_from(">I", log, end - step + 4)[0]]
