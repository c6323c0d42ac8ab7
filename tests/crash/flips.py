"""Single bits that change in the keys of a database's rows and in the log of a killed process, and logs cut short."""

import asyncio
import json
import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import segue
from segue.core.errors import DamagedSession, DatabaseDamaged
from tests.checkpoints.damage import copied
from tests.checkpoints.test_checksums import change, flips

from . import evidence, power
from .harness import Harness, orders
from .scenarios import SESSION

SAME, REFUSED, LAST = "all is there", "refused", "what was not synced is left out"
_KILLED = ("turns", "tool:k:before")
_HEADER = 32


@dataclass
class Flipped:
    """What came of the flips, by the words above; `silent` are those that lost something and nobody said so."""

    what: str
    ends: Counter[str] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)

    def __add__(self, other: "Flipped") -> "Flipped":
        return Flipped(self.what, self.ends + other.ends, self.silent + other.silent)


def keys(harness: Harness, count: int, seed: int) -> Flipped:
    """Flip a bit of so many keys, one at a time, and read the history."""
    folder = harness.reference("turns")
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))[SESSION]
    return asyncio.run(_keys(copied(folder / "segue.db", harness.new_folder("keys")), history, count, seed))


async def _keys(path: Path, history: object, count: int, seed: int) -> Flipped:
    result = Flipped("a key of a checkpoint or a write")
    found = list(flips(path))
    async with segue.open(path) as app:
        for table, column, row, value in random.Random(seed).sample(found, min(count, len(found))):
            changed, before = change(path, table, column, row, value)
            try:
                if await app.history(SESSION) == history:
                    result.ends[SAME] += 1
                else:
                    result.silent.append(f"another history with another {column} in row {row} of {table}")
            except DamagedSession:
                result.ends[REFUSED] += 1
            change(path, table, column, changed, before)
    return result


def log(harness: Harness, count: int, seed: int) -> list[Flipped]:
    """Flip a bit of a killed process's log, or cut the log, so many times, one at a time; then open the database."""
    killed = harness.new_folder("log")
    scenario, point = _KILLED
    with harness.zygote() as zygote:
        zygote.run(orders(scenario, killed, at={point: "kill"}, power=True))
    log = (killed / "segue.db-wal").read_bytes()
    synced = power.synced(log, power.marks(killed))
    whole = _opened(_copy(killed, harness.new_folder("log-whole")))
    chance = random.Random(seed)
    flipped, cut = Flipped("the write-ahead log of a killed process"), Flipped("the same, cut short")
    for bit in sorted(chance.randrange(len(log) * 8) for _ in range(count)):
        folder = _copy(killed, harness.new_folder("log-flipped"))
        _flip(folder / "segue.db-wal", bit)
        _tell(flipped, f"bit {bit} of", folder, whole, bit // 8 >= synced)
    for size in sorted(chance.randrange(_HEADER, len(log)) for _ in range(count)):
        folder = _copy(killed, harness.new_folder("log-cut"))
        os.truncate(folder / "segue.db-wal", size)
        _tell(cut, f"{size} bytes of", folder, whole, size >= synced)
    return [flipped, cut]


def _copy(killed: Path, folder: Path) -> Path:
    for suffix in ("", "-wal", "-anchor"):
        shutil.copy(killed / f"segue.db{suffix}", folder)
    return folder


def _opened(folder: Path) -> evidence.Rows:
    """Open and close the database as a process does that comes next; returns the session's rows."""

    async def opened() -> None:
        async with segue.open(folder / "segue.db"):
            pass

    asyncio.run(opened())
    return evidence.rows_of(folder / "segue.db", SESSION)


def _flip(file: Path, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def _tell(result: Flipped, what: str, folder: Path, whole: evidence.Rows, after_sync: bool) -> None:
    end = _end(folder, whole, after_sync)
    if end:
        result.ends[end] += 1
        shutil.rmtree(folder)
    else:
        result.silent.append(f"rows are lost with {what} the log in {folder}")


def _end(folder: Path, whole: evidence.Rows, after_sync: bool) -> str:
    try:
        rows = _opened(folder)
    except DatabaseDamaged:
        return REFUSED
    if rows == whole:
        return SAME
    return LAST if after_sync else ""
