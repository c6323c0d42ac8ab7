"""Tasks that the database failed: they stay resumable."""

import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.checkpoints.ledger import ToolLedger
from segue.core.calls import Claim
from segue.core.errors import DatabaseUnavailable
from segue.graphs.direct import build_direct
from tests.checkpoints import worlds


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[worlds.World]:
    async with worlds.world(str(tmp_path / "segue.db")) as world:
        world.register("a", worlds.note_up_to(1), "react")
        yield world


async def full(world: worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full, and stays so."""
    session = world.app._storage.database._session
    connect = session._connect

    def bounded() -> sqlite3.Connection:
        connection = connect()
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(session, "_connect", bounded)
    await world.app._storage.database.write(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())


async def locked(world: worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has the lock for a while."""

    async def claim(self: ToolLedger, *call: Any, **options: Any) -> Claim:
        monkeypatch.undo()
        raise DatabaseUnavailable("The database is locked by another process.")

    monkeypatch.setattr(ToolLedger, "claim", claim)


@pytest.mark.parametrize(("trouble", "statuses"), [(full, {"running", "paused"}), (locked, {"paused"})])
async def test_a_task_that_the_database_failed_is_resumed_with_all_others(
    world: worlds.World, monkeypatch: pytest.MonkeyPatch, trouble: Any, statuses: set[str]
) -> None:
    """On a full disk, the last page may have room for the status or not."""
    row = await world.app.start("note " * 2000, session_id="s", agent="a")
    await trouble(world, monkeypatch)
    async for _ in world.app.follow(row.task_id):
        pass
    (task,) = await world.app.resumable()
    assert task.status in statuses
    assert task.requested is None
    await world.app._storage.database.write(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert (await world.app.resume(task.task_id))["answer"] == "all noted"
    assert set(world.noted) == {1}


async def test_an_app_that_cannot_be_built_leaves_no_database_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="reserved") as refused:
        await segue.open(":memory:", modes={"__start__": build_direct()})
    assert not os.listdir(tmp_path), refused.traceback
