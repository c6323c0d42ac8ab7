"""A database whose file is deleted, replaced, or has a damaged write-ahead log."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.checkpoints.leases import Lease, Renewal
from segue.checkpoints.sqlite.database import DamagedLog, SqliteBackend, find_fault, open_database
from segue.core.errors import DatabaseUnavailable

PAGE, HEADER, FRAME_HEADER = 4096, 32, 24


@pytest.fixture
async def crashed(path: str, tmp_path: Path) -> str:
    """A database as a killed process leaves it: what was committed is in the write-ahead log alone."""
    copy = str(tmp_path / "crashed.db")
    async with await open_database(path) as database:
        for number in range(4):
            await Lease(database).acquire(f"s{number}", "me")
        await SqliteBackend(database).sync()
        await Lease(database).acquire("s4", "me")
        for end in ("", "-wal", "-anchor"):
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


@pytest.mark.parametrize("committed", [False, True])
def test_frames_of_a_transaction_that_a_kill_interrupted_may_follow(crashed: str, committed: bool) -> None:
    """The next process begins to write where that transaction began; if it is killed, too, the rest of it follows."""
    log = Path(f"{crashed}-wal")
    content = log.read_bytes()
    frame = content[HEADER : HEADER + 4] + bytes(4) + content[16:24] + bytes(8 + PAGE)
    append(str(log), frame + frame[:7] + bytes([committed]) + frame[8:])
    assert (find_fault(crashed) is not None) == committed


@pytest.mark.parametrize(
    "offset",
    [3, 17, 29, HEADER + 1, HEADER + 9, HEADER + 17, HEADER + FRAME_HEADER + 100],
    ids=["magic", "salt", "checksum", "page number", "salt of a frame", "checksum of a frame", "page"],
)
async def test_a_damaged_log_is_refused_and_its_beginning_can_be_kept(crashed: str, offset: int) -> None:
    flip(f"{crashed}-wal", offset + (0 if offset < HEADER else 2 * (PAGE + FRAME_HEADER)))
    damage = find_fault(crashed)
    assert isinstance(damage, DamagedLog)
    advice = f"truncate -s {damage.whole} {crashed}-wal && rm -f {crashed}-anchor"
    with pytest.raises(DatabaseUnavailable, match=f"is damaged .* {advice}$"):
        await open_database(crashed)
    assert find_fault(crashed) == damage
    os.truncate(f"{crashed}-wal", damage.whole)
    os.unlink(f"{crashed}-anchor")
    await (await open_database(crashed)).close()


async def test_a_log_that_lost_a_synced_end_is_refused(crashed: str) -> None:
    """SQLite takes every beginning of a log for a whole one."""
    size = os.stat(f"{crashed}-wal").st_size
    os.truncate(f"{crashed}-wal", size - 1)  # the last commit was not synced: a power cut may take it
    assert find_fault(crashed) is None
    frames = (size - HEADER) // (PAGE + FRAME_HEADER)
    for left in (frames - 3, 2, 0):
        os.truncate(f"{crashed}-wal", HEADER + left * (PAGE + FRAME_HEADER) + 7)
        damage = find_fault(crashed)
        assert isinstance(damage, DamagedLog) and (damage.frames, damage.whole) == (
            left,
            HEADER + left * (PAGE + FRAME_HEADER),
        )
    with pytest.raises(DatabaseUnavailable, match="is damaged"):
        await open_database(crashed)
    os.unlink(f"{crashed}-anchor")
    await (await open_database(crashed)).close()


def test_an_anchor_that_cannot_be_read_or_is_of_another_log_tells_nothing(crashed: str) -> None:
    noted = Path(f"{crashed}-anchor").read_bytes()
    os.truncate(f"{crashed}-wal", HEADER + PAGE)
    for other in (b"", noted[:-1], bytes([noted[0] ^ 1]) + noted[1:]):
        Path(f"{crashed}-anchor").write_bytes(other)
        assert find_fault(crashed) is None


async def test_a_database_that_is_closed_leaves_no_anchor(path: str) -> None:
    async with await open_database(path) as database:
        await SqliteBackend(database).sync()
        assert is_there(f"{path}-anchor")
    assert not is_there(f"{path}-anchor")
