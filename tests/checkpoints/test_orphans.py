"""Calls that the state knows nothing of any more: the same call is not made again, whatever its key is now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from segue.checkpoints.leases import Lease
from segue.checkpoints.ledger import ToolLedger
from segue.checkpoints.sqlite.database import open_database
from segue.core.calls import CallKey, Claim

KEY, LATER = CallKey("t1", "trace", 0), CallKey("t1", "trace later", 0)


@asynccontextmanager
async def orphans(path: Path, *labels: str, settled: bool = True) -> AsyncIterator[ToolLedger]:
    async with await open_database(str(path)) as database:
        ledger = ToolLedger(database, "s", await Lease(database).acquire("s", "me"))
        for place, label in enumerate(labels):
            key = CallKey("t1", "trace", place)
            await ledger.claim(key, "do", {"label": label})
            if settled:
                await ledger.settle(key, {"success": f"did {label} as call {place}"})
        await database.write(lambda connection: connection.execute("UPDATE calls SET orphaned = 1"))
        yield ledger


async def test_an_orphan_is_adopted_once_oldest_first(tmp_path: Path) -> None:
    async with orphans(tmp_path / "segue.db", "one", "two", "one") as ledger:
        keys = [CallKey("t1", "later", place) for place in range(3)]
        claims = [await ledger.claim(key, "do", {"label": "one"}) for key in keys]
        assert [claim.outcome for claim in claims[:2]] == [{"success": f"did one as call {n}"} for n in (0, 2)]
        assert claims[2] == Claim("fresh")
        assert (await ledger.claim(keys[0], "do", {"label": "one"})).outcome == {"success": "did one as call 0"}


async def test_an_orphan_is_found_by_its_key_first_and_is_none_any_more(tmp_path: Path) -> None:
    async with orphans(tmp_path / "segue.db", "one") as ledger:
        assert (await ledger.claim(KEY, "do", {"label": "one"})).state == "finished"
        assert (await ledger.claim(LATER, "do", {"label": "one"})).state == "fresh"


async def test_an_interrupted_orphan_says_that_its_key_was_another(tmp_path: Path) -> None:
    async with orphans(tmp_path / "segue.db", "one", settled=False) as ledger:
        assert await ledger.claim(LATER, "do", {"label": "one"}) == Claim("interrupted", moved=True)


async def test_another_decision_may_take_an_orphans_place(tmp_path: Path) -> None:
    async with orphans(tmp_path / "segue.db", "one") as ledger:
        assert (await ledger.claim(KEY, "do", {"label": "two"})).state == "fresh"
        await ledger.settle(KEY, {"success": "did two"})
        assert (await ledger.claim(LATER, "do", {"label": "one"})).outcome == {"success": "did one as call 0"}
        assert (await ledger.claim(KEY, "do", {"label": "two"})).outcome == {"success": "did two"}


async def test_an_orphan_of_another_task_is_none_of_ours(tmp_path: Path) -> None:
    async with orphans(tmp_path / "segue.db", "one") as ledger:
        assert (await ledger.claim(CallKey("t2", "trace", 0), "do", {"label": "one"})).state == "fresh"
