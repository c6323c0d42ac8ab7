"""A database whose file is deleted, replaced, or has a damaged write-ahead log."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.checkpoints.sqlite.database import open_database
from segue.checkpoints.sqlite.file import damage_of
from segue.checkpoints.tables.leases import Lease, Renewal
from segue.core.errors import DatabaseUnavailable

PAGE, HEADER, FRAME_HEADER = 4096, 32, 24


@pytest.fixture
async def crashed(path: str, tmp_path: Path) -> str:
    """A database as a killed process leaves it: what was committed is in the write-ahead log alone."""
    copy = str(tmp_path / "crashed.db")
    async with await open_database(path) as database:
        for number in range(5):
            await Lease(database).acquire(f"s{number}", "me")
        for end in ("", "-wal"):
            shutil.copy(path + end, copy + end)
    return copy


def flip(file: str, offset: int) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ 1]))


def append(file: str, content: bytes) -> None:
    with open(file, "ab") as opened:
        opened.write(content)


def is_there(path: str) -> bool:
    return os.path.exists(path)


def replace(path: str) -> None:
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize("change", [os.unlink, replace])
async def test_nothing_is_written_once_the_file_is_another(path: str, change: Callable[[str], None]) -> None:
    async with await open_database(path) as database:
        fence = await Lease(database).acquire("s", "me")
        change(path)
        for attempt in (
            lambda: Lease(database).acquire("t", "me"),
            lambda: Lease(database).holder("s"),
        ):
            with pytest.raises(DatabaseUnavailable, match="was deleted or replaced while it was open"):
                await attempt()
        renewals = Renewal(database)
        with pytest.raises(DatabaseUnavailable, match="was deleted or replaced"):
            renewals.renew({"s": fence}, 15)
    assert is_there(path) is (change is replace)


async def test_a_log_that_a_killed_process_left_is_whole(crashed: str) -> None:
    append(f"{crashed}-wal", b"half a frame")
    async with await open_database(crashed) as database:
        assert await Lease(database).holder("s4") == "me"


@pytest.mark.parametrize(
    "offset",
    [3, 17, 29, HEADER + 1, HEADER + 9, HEADER + 17, HEADER + FRAME_HEADER + 100],
    ids=["magic", "salt", "checksum", "page number", "salt of a frame", "checksum of a frame", "page"],
)
async def test_a_damaged_log_is_refused_and_its_beginning_can_be_kept(crashed: str, offset: int) -> None:
    flip(f"{crashed}-wal", offset + (0 if offset < HEADER else 2 * (PAGE + FRAME_HEADER)))
    damage = damage_of(Path(f"{crashed}-wal"))
    assert damage is not None
    with pytest.raises(DatabaseUnavailable, match=rf"is damaged .* truncate -s {damage.whole} {crashed}-wal"):
        await open_database(crashed)
    assert damage_of(Path(f"{crashed}-wal")) == damage
    os.truncate(f"{crashed}-wal", damage.whole)
    await (await open_database(crashed)).close()
