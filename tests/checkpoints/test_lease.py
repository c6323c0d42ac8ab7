"""One owner at a time, whoever races for it."""

import asyncio
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from segue.checkpoints.sqlite.database import Database, open_database
from segue.checkpoints.sqlite.leases import Heartbeat, Lease, renew
from segue.core.errors import ThreadBusy

from .conftest import Clock, locked


async def test_a_held_thread_is_busy_for_others_and_for_its_owner(database: Database, other: Database) -> None:
    await Lease(database).acquire("s", "me")
    with pytest.raises(ThreadBusy):
        await Lease(other).acquire("s", "you")
    with pytest.raises(ThreadBusy):
        await Lease(database).acquire("s", "me")
    assert await Lease(other).acquire("another", "you") == 1


async def test_the_fence_grows_with_every_owner(database: Database, clock: Clock) -> None:
    lease = Lease(database, clock)
    first = await lease.acquire("s", "me")
    await lease.release("s", first)
    second = await lease.acquire("s", "you")
    clock.now += 16
    third = await lease.acquire("s", "her")
    assert first < second < third
    assert await lease.holder("s") == "her"


async def test_a_lease_ends_at_its_time_unless_renewed(database: Database, other: Database, clock: Clock) -> None:
    mine, yours = Lease(database, clock), Lease(other, clock)
    fence = await mine.acquire("s", "me", ttl=10)
    clock.now += 9
    assert await database.write(lambda connection: renew(connection, "s", fence, clock() + 10))
    clock.now += 9
    with pytest.raises(ThreadBusy):
        await yours.acquire("s", "you")
    clock.now += 1
    assert await mine.holder("s") is None
    assert await yours.acquire("s", "you") > fence


async def test_an_expired_lease_that_nobody_took_can_be_renewed(database: Database, clock: Clock) -> None:
    lease = Lease(database, clock)
    fence = await lease.acquire("s", "me", ttl=10)
    clock.now += 60
    assert await database.write(lambda connection: renew(connection, "s", fence, clock() + 10))
    assert await lease.holder("s") == "me"


async def test_a_lost_lease_is_neither_renewed_nor_released(database: Database, other: Database, clock: Clock) -> None:
    mine, yours = Lease(database, clock), Lease(other, clock)
    fence = await mine.acquire("s", "me")
    clock.now += 16
    await yours.acquire("s", "you")
    assert not await database.write(lambda connection: renew(connection, "s", fence, clock() + 10))
    await mine.release("s", fence)
    assert await yours.holder("s") == "you"


async def test_who_stands_in_line_comes_before_who_does_not(database: Database, other: Database, clock: Clock) -> None:
    mine, yours = Lease(database, clock), Lease(other, clock)
    fence = await mine.acquire("s", "me")
    first, second = await yours.join_line("s"), await mine.join_line("s")
    await mine.release("s", fence)
    with pytest.raises(ThreadBusy):
        await mine.acquire("s", "me")
    with pytest.raises(ThreadBusy):
        await mine.acquire("s", "me", place=second)
    fence = await yours.acquire("s", "you", place=first)
    await yours.leave_line(first)
    await yours.release("s", fence)
    assert await mine.acquire("s", "me", place=second) > fence


async def test_a_place_in_line_lasts_as_long_as_somebody_asks(
    database: Database, other: Database, clock: Clock
) -> None:
    mine, yours = Lease(database, clock), Lease(other, clock)
    fence = await mine.acquire("s", "me", ttl=60)
    alive, dead = await yours.join_line("s"), await yours.join_line("s")
    for _ in range(3):
        clock.now += 4
        with pytest.raises(ThreadBusy):
            await yours.acquire("s", "you", place=alive)
    await mine.release("s", fence)
    with pytest.raises(ThreadBusy):
        await mine.acquire("s", "me")
    clock.now += 6
    assert dead > alive
    assert await mine.acquire("s", "me") > fence


async def test_two_connections_race_and_one_wins_each_thread(database: Database, other: Database) -> None:
    async def take(lease: Lease, thread: str, owner: str) -> str | None:
        try:
            await lease.acquire(thread, owner)
        except ThreadBusy:
            return None
        return owner

    leases = {"me": Lease(database), "you": Lease(other)}
    for n in range(48):
        winners = await asyncio.gather(*(take(lease, f"s{n}", owner) for owner, lease in leases.items()))
        assert len([w for w in winners if w]) == 1
        assert await leases["me"].holder(f"s{n}") in winners


async def test_processes_race_and_one_wins_each_thread(path: str) -> None:
    await (await open_database(path)).close()
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        won = list(pool.map(_take_all, [path] * 4, range(4)))
    assert sorted(thread for threads in won for thread in threads) == sorted(f"s{n}" for n in range(40))


def _take_all(path: str, owner: int) -> list[str]:
    async def take() -> list[str]:
        won = []
        async with await open_database(path) as database:
            for n in range(40):
                try:
                    await Lease(database).acquire(f"s{n}", f"process {owner}", ttl=600)
                except ThreadBusy:
                    continue
                won.append(f"s{n}")
        return won

    return asyncio.run(take())


async def test_a_blocked_event_loop_keeps_its_lease(database: Database, other: Database) -> None:
    lease = Lease(database)
    fence = await lease.acquire("s", "me", ttl=0.6)
    async with Heartbeat(database, "s", fence, _unexpected, ttl=0.6):
        time.sleep(1.5)  # noqa: ASYNC251, the blocked loop is what is tested
        with pytest.raises(ThreadBusy):
            await Lease(other).acquire("s", "you")
    await asyncio.sleep(0.7)
    assert await Lease(other).acquire("s", "you") > fence


async def test_the_heartbeat_tells_once_that_the_lease_was_lost(database: Database, other: Database) -> None:
    lost: list[str] = []
    lease = Lease(database)
    fence = await lease.acquire("s", "me", ttl=0)
    await Lease(other).acquire("s", "you")
    heartbeat = Heartbeat(database, "s", fence, lambda: lost.append(threading.current_thread().name), ttl=0.15)
    async with heartbeat:
        await asyncio.sleep(0.5)
    assert lost == ["segue-heartbeat-s"]
    assert await lease.holder("s") == "you"


async def test_a_locked_database_is_no_lost_lease(path: str) -> None:
    async with await open_database(path, lock_timeout=0.05) as database:
        fence = await Lease(database).acquire("s", "me", ttl=0.3)
        async with Heartbeat(database, "s", fence, _unexpected, ttl=0.3):
            with locked(database.path):
                await asyncio.sleep(0.5)
            await asyncio.sleep(0.3)
            assert await Lease(database).holder("s") == "me"


def _unexpected() -> None:
    raise AssertionError("the lease was not lost")
