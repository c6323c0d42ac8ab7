"""The ledger: one run per call, whatever happens to its process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from segue.checkpoints import ledger as ledger_module
from segue.checkpoints.leases import Lease
from segue.checkpoints.ledger import LedgerConflict, ToolLedger
from segue.checkpoints.sqlite.database import open_database
from segue.core.calls import CallKey, CallResult, Claim, Ledger
from segue.core.errors import DamagedRow, DatabaseUnavailable, StaleOwner
from segue.core.records import from_row

from .conftest import Clock, Store, locked
from .damage import damage

KEY = CallKey("t1", "trace", 0)


async def ledger_of(database: Store, thread_id: str = "s") -> ToolLedger:
    return ToolLedger(database, thread_id, await Lease(database).acquire(thread_id, "me"))


async def test_a_call_is_fresh_once_and_finished_ever_after(store: Store, second: Store) -> None:
    ledger: Ledger = await ledger_of(store)
    assert await ledger.claim(KEY, "refund", {"order": "4711", "amount": 10}) == Claim("fresh")
    await ledger.settle(KEY, {"success": {"refunded": 10, "note": "谢谢"}})
    again = await ledger.claim(KEY, "refund", {"amount": 10, "order": "4711"})
    assert again == Claim("finished", {"success": {"refunded": 10, "note": "谢谢"}})
    assert (await ToolLedger(second, "s").read(KEY) or {})["outcome"] == again.outcome


async def test_calls_differ_by_thread_task_scope_and_index(database: Store) -> None:
    ledger, elsewhere = await ledger_of(database), await ledger_of(database, "s2")
    keys = [KEY, CallKey("t1", "trace", 1), CallKey("t1", "step#2", 0), CallKey("t2", "trace", 0)]
    claims = [await ledger.claim(key, "refund", {}) for key in keys]
    assert [*claims, await elsewhere.claim(KEY, "refund", {})] == [Claim("fresh")] * 5


async def test_what_a_dead_owner_left_is_interrupted_until_settled(store: Store, second: Store) -> None:
    clock = Clock()
    dead = ToolLedger(store, "s", await Lease(store, clock).acquire("s", "me"))
    await dead.claim(KEY, "refund", {})
    clock.now += 16
    ledger = ToolLedger(second, "s", await Lease(second, clock).acquire("s", "you"))
    assert await ledger.claim(KEY, "refund", {}) == Claim("interrupted")
    assert await ledger.claim(KEY, "refund", {}) == Claim("interrupted")
    await ledger.settle(KEY, {"error": "unknown_outcome"})
    assert await ledger.claim(KEY, "refund", {}) == Claim("finished", {"error": "unknown_outcome"})


async def test_a_stale_owner_neither_claims_nor_settles(store: Store, second: Store, clock: Clock) -> None:
    stale = ToolLedger(store, "s", await Lease(store, clock).acquire("s", "me"))
    await stale.claim(KEY, "refund", {})
    clock.now += 16
    ledger = ToolLedger(second, "s", await Lease(second, clock).acquire("s", "you"))
    with pytest.raises(StaleOwner):
        await stale.settle(KEY, {"success": 1})
    with pytest.raises(StaleOwner):
        await stale.claim(CallKey("t1", "trace", 1), "refund", {})
    assert await ledger.claim(KEY, "refund", {}) == Claim("interrupted")
    assert await ledger.claim(CallKey("t1", "trace", 1), "refund", {}) == Claim("fresh")


async def test_a_released_owner_is_stale_as_well(store: Store) -> None:
    lease = Lease(store)
    fence = await lease.acquire("s", "me")
    await lease.release("s", fence)
    with pytest.raises(StaleOwner):
        await ToolLedger(store, "s", fence).claim(KEY, "refund", {})


async def test_a_ledger_without_a_fence_only_reads(store: Store) -> None:
    await (await ledger_of(store)).claim(KEY, "refund", {})
    reader = ToolLedger(store, "s")
    assert (await reader.read(KEY) or {})["state"] == "running"
    with pytest.raises(StaleOwner):
        await reader.settle(KEY, {"success": 1})


async def test_of_many_claims_at_once_one_is_fresh(store: Store) -> None:
    ledger = await ledger_of(store)
    claims = await asyncio.gather(*(ledger.claim(KEY, "refund", {}) for _ in range(30)))
    assert sorted(claim.state for claim in claims) == ["fresh"] + ["interrupted"] * 29


async def test_another_call_under_the_same_key_is_refused(store: Store) -> None:
    ledger = await ledger_of(store)
    await ledger.claim(KEY, "refund", {"amount": 10})
    with pytest.raises(LedgerConflict, match="is now refund"):
        await ledger.claim(KEY, "refund", {"amount": 11})
    with pytest.raises(LedgerConflict, match="is now lookup"):
        await ledger.claim(KEY, "lookup", {"amount": 10})


async def test_an_outcome_is_stored_once(store: Store) -> None:
    ledger = await ledger_of(store)
    with pytest.raises(LedgerConflict, match="never claimed"):
        await ledger.settle(KEY, {"success": 1})
    await ledger.claim(KEY, "refund", {})
    await ledger.settle(KEY, {"success": 1})
    await ledger.settle(KEY, {"success": 1})
    with pytest.raises(LedgerConflict, match="has an outcome already"):
        await ledger.settle(KEY, {"success": 2})
    assert (await ledger.read(KEY) or {})["outcome"] == {"success": 1}


async def test_the_trace_lists_a_tasks_calls_in_order(store: Store, clock: Clock) -> None:
    ledger = ToolLedger(store, "s", await Lease(store).acquire("s", "me"), clock)
    await ledger.claim(CallKey("t1", "z", 1), "lookup", {"b": 1, "a": [1.5, None]})
    clock.now += 2
    await ledger.settle(CallKey("t1", "z", 1), {"success": "found"})
    await ledger.claim(CallKey("t1", "a", 0), "refund", {})
    await ledger.claim(CallKey("t2", "a", 0), "second", {})
    assert [call.json() for call in await ledger.calls("t1")] == [
        {
            "name": "lookup",
            "arguments": {"b": 1, "a": [1.5, None]},
            "outcome": {"success": "found"},
            "state": "done",
            "started_at": 1000.0,
            "finished_at": 1002.0,
            "scope": "z",
            "idx": 1,
        },
        {
            "name": "refund",
            "arguments": {},
            "outcome": None,
            "state": "running",
            "started_at": 1002.0,
            "finished_at": None,
            "scope": "a",
            "idx": 0,
        },
    ]
    assert await ledger.calls("t9") == []
    assert await ledger.read(CallKey("t1", "z", 0)) is None


async def test_a_claim_whose_caller_was_cancelled_is_taken_back(store: Store, address: str) -> None:
    ledger = await ledger_of(store)
    with locked(address):
        claim = asyncio.ensure_future(ledger.claim(KEY, "refund", {}))
        await asyncio.sleep(0.05)
        claim.cancel()
        await asyncio.sleep(0.05)
    await asyncio.wait([claim])
    assert claim.cancelled()
    assert await ledger.claim(KEY, "refund", {}) == Claim("fresh")


async def test_an_outcome_is_stored_though_its_caller_was_cancelled(store: Store, address: str) -> None:
    ledger = await ledger_of(store)
    await ledger.claim(KEY, "refund", {})
    with locked(address):
        settle = asyncio.ensure_future(ledger.settle(KEY, {"success": 1}))
        await asyncio.sleep(0.05)
        settle.cancel()
        await asyncio.wait([settle])
    assert settle.cancelled()
    assert await ledger.claim(KEY, "refund", {}) == Claim("finished", {"success": 1})


UNKNOWN = {"error": "unknown_outcome: it was cut off", "unknown_outcome": True}


async def settled(ledger: ToolLedger, index: int, outcome: dict[str, object], name: str = "refund") -> None:
    key = CallKey("t1", "trace", index)
    await ledger.claim(key, name, {"order": "4711", "amount": 10})
    await ledger.settle(key, outcome)


async def test_a_call_like_one_of_unknown_outcome_is_doubtful(store: Store) -> None:
    ledger = await ledger_of(store)
    await settled(ledger, 0, UNKNOWN)
    like = CallKey("t1", "later", 0)
    assert await ledger.claim(like, "refund", {"amount": 10, "order": "4711"}) == Claim("doubtful")
    assert await ledger.claim(like, "refund", {"amount": 10, "order": "4711"}) == Claim("interrupted")


async def test_only_the_same_call_of_the_same_task_is_doubtful(database: Store) -> None:
    ledger, elsewhere = await ledger_of(database), await ledger_of(database, "s2")
    await settled(ledger, 0, UNKNOWN)
    await settled(ledger, 1, {"success": {"unknown_outcome": True}}, "lookup")
    same = {"order": "4711", "amount": 10}
    claims = [
        await ledger.claim(CallKey("t1", "later", 0), "refund", {"order": "4711", "amount": 11}),
        await ledger.claim(CallKey("t1", "later", 1), "lookup", same),
        await ledger.claim(CallKey("t2", "later", 0), "refund", same),
        await elsewhere.claim(CallKey("t1", "later", 0), "refund", same),
    ]
    assert claims == [Claim("fresh")] * 4


async def test_a_doubtful_claim_whose_caller_was_cancelled_is_taken_back(store: Store, address: str) -> None:
    ledger = await ledger_of(store)
    await settled(ledger, 0, UNKNOWN)
    like = CallKey("t1", "later", 0)
    with locked(address):
        claim = asyncio.ensure_future(ledger.claim(like, "refund", {"order": "4711", "amount": 10}))
        await asyncio.sleep(0.05)
        claim.cancel()
        await asyncio.sleep(0.05)
    await asyncio.wait([claim])
    assert await ledger.read(like) is None


async def test_a_locked_database_claims_nothing(path: str) -> None:
    async with await open_database(path) as database, await open_database(path, lock_timeout=0.05) as impatient:
        fence = await Lease(database).acquire("s", "me")
        ledger = ToolLedger(impatient, "s", fence)
        with locked(database.path), pytest.raises(DatabaseUnavailable, match="locked"):
            await ledger.claim(KEY, "refund", {})
        assert await ledger.claim(KEY, "refund", {}) == Claim("fresh")


async def test_a_damaged_call_is_none_that_was_interrupted(database: Store) -> None:
    ledger = await ledger_of(database)
    await ledger.claim(KEY, "refund", {})
    await ledger.settle(KEY, {"success": 1})
    for change in ("outcome = NULL", "outcome = x'00'", "state = 'odd'", "name = CAST(x'ff' AS TEXT)"):
        damage(Path(database.path), f"UPDATE calls SET {change}")
        for read in (ledger.claim(KEY, "refund", {}), ledger.read(KEY), ledger.calls("t1")):
            with pytest.raises(DamagedRow, match="segue recover s repairs it"):
                await read
        damage(Path(database.path), """UPDATE calls SET outcome = '{"success": 1}', state = 'done', name = 'refund'""")
    assert await ledger.claim(KEY, "refund", {}) == Claim("finished", {"success": 1})


async def test_calls_of_a_thread_above_are_decoded_once_and_again_where_they_changed(
    store: Store, second: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def noted(record: Any, row: Any) -> Any:
        decoded.append(row["name"])
        return from_row(record, row)

    above = await ledger_of(store)
    below = ToolLedger(second, "below", await Lease(second).acquire("below", "me"), above=["s"])
    first, waiting, last = (CallKey("t1", "trace", index) for index in range(3))
    await above.claim(first, "first", {})
    await above.claim(waiting, "waiting", {})
    await above.settle(waiting, CallResult.waiting(None, "paid").json())
    await above.claim(last, "last", {})
    await above.settle(last, {"success": 1})
    monkeypatch.setattr(ledger_module, "from_row", noted)
    assert [call.name for call in await below.finished()] == ["waiting", "last"]
    assert decoded == ["waiting", "last"]

    await above.settle(first, {"success": 1})
    await above.settle(waiting, {"success": 2})
    decoded.clear()
    calls = await below.finished()
    assert [(call.name, call.outcome) for call in calls[:2]] == [("first", {"success": 1}), ("waiting", {"success": 2})]
    assert [call.name for call in await below.finished()] == ["first", "waiting", "last"]
    assert decoded == ["first", "waiting"]
