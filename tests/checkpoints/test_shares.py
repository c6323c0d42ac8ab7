"""Links to threads, of each backend."""

import pytest

from segue.checkpoints.shares import Shares
from segue.checkpoints.tasks import Tasks
from segue.core.errors import DatabaseDamaged, UnknownThread

from .conftest import Clock, Store
from .test_tasks import create


async def test_a_link_works_until_it_expires_or_is_revoked(store: Store, second: Store, clock: Clock) -> None:
    tasks, mine, others = Tasks(store, clock), Shares(store, clock), Shares(second, clock)
    with pytest.raises(UnknownThread):
        await mine.create("s", 60)
    await create(tasks, "t", thread_id="s")
    (short, first), (long, last) = await mine.create("s", 60), await mine.create("s", 120)
    assert [await others.find(token) for token in (short, long, "other")] == [first, last, None]
    assert await others.list("s") == [first, last] or await others.list("s") == [last, first]
    clock.now += 60
    assert (await others.find(short), await others.list("s")) == (None, [last])
    assert await others.revoke("other", last.share_id) == 0 and await others.find(long) == last
    assert await others.revoke("s") == 2 and await mine.find(long) is None


async def test_a_link_that_cannot_be_read_is_named(store: Store, clock: Clock) -> None:
    await create(Tasks(store, clock), "t", thread_id="s")
    shares = Shares(store, clock)
    token, _ = await shares.create("s", 60)
    await store.write(lambda connection: connection.execute("UPDATE shares SET created_at = -1"))
    _, other = await shares.create("s", 60)
    assert await shares.list("s") == [other]
    with pytest.raises(DatabaseDamaged, match="shared link, created_at should be"):
        await shares.find(token)
