"""Many tasks and readers on one database: none of them keeps another from working."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from segue.checkpoints.sqlite.ledger import ToolLedger
from segue.core.errors import DatabaseUnavailable
from segue.core.ports import Claim
from tests.checkpoints import worlds


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[worlds.World]:
    async with worlds.world(str(tmp_path / "segue.db")) as world:
        world.register("a", worlds.note_up_to(1), "react")
        yield world


async def reading(world: worlds.World) -> None:
    """Read a session again and again, in every way that LangGraph's saver has."""
    saver, config = world.app._runner.saver, {"configurable": {"thread_id": "s"}}
    while True:
        assert await world.app.history("s")
        assert [found async for found in saver.alist(config, limit=5)]  # type: ignore[arg-type]


async def test_every_task_ends_well_beside_others_and_readers(world: worlds.World) -> None:
    await world.app.ask("note", session_id="s", agent="a")
    read = [asyncio.create_task(reading(world)) for _ in range(3)]
    asked = (world.app.ask("note", session_id=f"s{n}", agent="a") for n in range(20))
    results: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
    for reader in read:
        reader.cancel()
    await asyncio.gather(*read, return_exceptions=True)
    assert [result for result in results if not isinstance(result, dict) or not result["success"]] == []


async def full(world: worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full, and stays so."""
    await world.app._storage.database.write(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())


async def locked(world: worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has the lock for a while."""

    async def claim(self: ToolLedger, *call: Any) -> Claim:
        monkeypatch.undo()
        raise DatabaseUnavailable("The database is locked by another process.")

    monkeypatch.setattr(ToolLedger, "claim", claim)


@pytest.mark.parametrize(("trouble", "status"), [(full, "running"), (locked, "paused")])
async def test_a_task_that_the_database_failed_is_resumed_with_all_others(
    world: worlds.World, monkeypatch: pytest.MonkeyPatch, trouble: Any, status: str
) -> None:
    row = await world.app.start("note " * 2000, session_id="s", agent="a")
    await trouble(world, monkeypatch)
    async for _ in world.app.follow(row["task_id"]):
        pass
    (task,) = await world.app.resumable()
    assert (task["status"], task["wanted"]) == (status, None)
    await world.app._storage.database.write(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert (await world.app.resume(task["task_id"]))["answer"] == "all noted"
    assert set(world.noted) == {1}
