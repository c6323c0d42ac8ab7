"""One owner at a time, whoever races for it."""

import asyncio
import time

import pytest

from segue.checkpoints.leases import LEASE_SECONDS, Found, Lease, Renewal, renew
from segue.checkpoints.sqlite.database import open_database
from segue.core.errors import DatabaseUnavailable, ThreadBusy

from .conftest import Clock, Store, locked


async def test_a_held_thread_is_busy_for_others_and_for_its_owner(store: Store, second: Store) -> None:
    await Lease(store).acquire("s", "me")
    with pytest.raises(ThreadBusy):
        await Lease(second).acquire("s", "you")
    with pytest.raises(ThreadBusy):
        await Lease(store).acquire("s", "me")
    assert await Lease(second).acquire("another", "you") == 1


async def test_the_fence_grows_with_every_owner(store: Store, clock: Clock) -> None:
    lease = Lease(store, clock)
    first = await lease.acquire("s", "me")
    await lease.release("s", first)
    second = await lease.acquire("s", "you")
    clock.now += 16
    third = await lease.acquire("s", "her")
    assert first < second < third
    assert await lease.holder("s") == "her"


async def test_a_released_thread_is_taken_at_once_and_another_one_only_looked_at(store: Store, clock: Clock) -> None:
    lease = Lease(store, clock)
    fence = (await lease.acquire_released("s", "me")).fence
    assert fence == 1
    assert await lease.acquire_released("s", "you") == Found(0, "me", LEASE_SECONDS)
    clock.now += 16
    assert await lease.acquire_released("s", "you") == Found(0, "me", -1.0)
    await lease.release("s", fence)
    assert (await lease.acquire_released("s", "you")).fence > fence


async def test_a_lease_ends_at_its_time_unless_renewed(store: Store, second: Store, clock: Clock) -> None:
    mine, yours = Lease(store, clock), Lease(second, clock)
    fence = await mine.acquire("s", "me", ttl=10)
    clock.now += 9
    assert await store.write(lambda connection: renew(connection, "s", fence, clock() + 10))
    clock.now += 9
    with pytest.raises(ThreadBusy):
        await yours.acquire("s", "you")
    clock.now += 1
    assert await mine.holder("s") is None
    assert await yours.acquire("s", "you") > fence


async def test_an_expired_lease_that_nobody_took_can_be_renewed(store: Store, clock: Clock) -> None:
    lease = Lease(store, clock)
    fence = await lease.acquire("s", "me", ttl=10)
    clock.now += 60
    assert await store.write(lambda connection: renew(connection, "s", fence, clock() + 10))
    assert await lease.holder("s") == "me"


async def test_a_lost_lease_is_neither_renewed_nor_released(store: Store, second: Store, clock: Clock) -> None:
    mine, yours = Lease(store, clock), Lease(second, clock)
    fence = await mine.acquire("s", "me")
    clock.now += 16
    await yours.acquire("s", "you")
    assert not await store.write(lambda connection: renew(connection, "s", fence, clock() + 10))
    await mine.release("s", fence)
    assert await yours.holder("s") == "you"


async def test_who_stands_in_line_comes_before_who_does_not(store: Store, second: Store, clock: Clock) -> None:
    mine, yours = Lease(store, clock), Lease(second, clock)
    fence = await mine.acquire("s", "me")
    first, second = await yours.join_queue("s"), await mine.join_queue("s")
    await mine.release("s", fence)
    with pytest.raises(ThreadBusy):
        await mine.acquire("s", "me")
    with pytest.raises(ThreadBusy):
        await mine.acquire("s", "me", place=second)
    fence = await yours.acquire("s", "you", place=first)
    await yours.leave_queue(first)
    await yours.release("s", fence)
    assert await mine.acquire("s", "me", place=second) > fence


async def test_a_place_in_line_lasts_as_long_as_somebody_asks(store: Store, second: Store, clock: Clock) -> None:
    mine, yours = Lease(store, clock), Lease(second, clock)
    fence = await mine.acquire("s", "me", ttl=60)
    alive, dead = await yours.join_queue("s"), await yours.join_queue("s")
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


async def test_two_connections_race_and_one_wins_each_thread(store: Store, second: Store) -> None:
    async def take(lease: Lease, thread: str, owner: str) -> str | None:
        try:
            await lease.acquire(thread, owner)
        except ThreadBusy:
            return None
        return owner

    leases = {"me": Lease(store), "you": Lease(second)}
    for n in range(48):
        winners = await asyncio.gather(*(take(lease, f"s{n}", owner) for owner, lease in leases.items()))
        assert len([w for w in winners if w]) == 1
        assert await leases["me"].holder(f"s{n}") in winners


async def test_many_leases_are_renewed_at_once_and_the_lost_ones_named(
    store: Store, second: Store, clock: Clock
) -> None:
    mine, yours, renewal = Lease(store, clock), Lease(second, clock), Renewal(store, clock)
    fences = {name: await mine.acquire(name, "me", ttl=10) for name in ("a", "b")}
    clock.now += 11
    await yours.acquire("b", "you", ttl=10)
    assert renewal.renew(fences, 10) == {"b"}
    clock.now += 9
    assert (await yours.holder("a"), await yours.holder("b")) == ("me", "you")
    renewal.close()


async def test_a_renewal_that_failed_opens_the_database_anew(path: str, clock: Clock) -> None:
    async with await open_database(path, lock_timeout=0.05) as database:
        lease, renewal = Lease(database, clock), Renewal(database, clock)
        fence = await lease.acquire("s", "me", ttl=0.03)
        with locked(path), pytest.raises(DatabaseUnavailable, match="locked by another process"):
            renewal.renew({"s": fence}, 0.03)
        assert renewal.renew({"s": fence}, 10) == set()
        clock.now += 9
        assert await lease.holder("s") == "me"
        renewal.close()


async def test_leases_are_renewed_while_the_same_process_writes_without_a_break(path: str) -> None:
    async with await open_database(path) as database:
        renewal, ended = Renewal(database), asyncio.Event()
        fences = {"s": await Lease(database).acquire("s", "me")}

        async def write() -> None:
            while not ended.is_set():
                await asyncio.gather(*(database.write(lambda _: time.sleep(0.01)) for _ in range(3)))

        writing = [asyncio.create_task(write()) for _ in range(3)]
        try:
            assert await asyncio.to_thread(renewal.renew, fences, 30) == set()
        finally:
            ended.set()
            await asyncio.gather(*writing)
            renewal.close()


async def test_no_write_begins_while_leases_are_renewed(path: str) -> None:
    began: list[float] = []
    async with await open_database(path) as database:
        with database.held():
            writing = database.submit(lambda _: began.append(time.monotonic()))
            await asyncio.sleep(0.05)
            let_go = time.monotonic()
        await writing
    assert began[0] >= let_go
