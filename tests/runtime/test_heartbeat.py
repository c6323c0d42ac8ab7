"""One heartbeat keeps all leases of a process, and says so where it cannot."""

import threading
from collections.abc import Mapping

from segue.core.errors import DatabaseUnavailable
from segue.runtime.lease_holder import Heartbeat


class Storage:
    """Renews what it is asked to; `lost` are threads that another owner took, `broken` means no descriptor left."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self.broken = False
        self.renewed: list[set[str]] = []
        self.beats = threading.Semaphore(0)
        self.closed = False

    def renew(self, fences: Mapping[str, int], ttl: float) -> set[str]:
        self.beats.release()
        if self.broken:
            raise DatabaseUnavailable("Too many open files.")
        self.renewed.append(set(fences))
        return self.lost & fences.keys()

    def close(self) -> None:
        self.closed = True


class Watched:
    """A heartbeat by hand: `now` is its clock, and `said` what it reported."""

    def __init__(self) -> None:
        self.now = 100.0
        self.said: list[tuple[str, ...]] = []
        self.storage = Storage()
        self.heartbeat = Heartbeat(
            self.storage,
            lambda thread_id: self.said.append(("lost", thread_id)),
            lambda thread_id, why: self.said.append(("overdue", thread_id, why)),
            ttl=3600,  # its own thread does not beat during a test
            clock=lambda: self.now,
        )


def test_one_renewal_covers_every_thread_that_is_held() -> None:
    watched = Watched()
    for name in ("a", "b", "c"):
        watched.heartbeat.hold(name, 1)
    watched.heartbeat.drop("c")
    assert watched.heartbeat.beat()
    assert watched.storage.renewed == [{"a", "b"}]
    assert [thread.name for thread in threading.enumerate()].count("segue-heartbeat") == 1
    watched.heartbeat.close()
    assert watched.storage.closed


def test_a_lost_lease_is_reported_once() -> None:
    watched = Watched()
    watched.heartbeat.hold("a", 1)
    watched.heartbeat.hold("b", 1)
    watched.storage.lost = {"a"}
    assert watched.heartbeat.beat() and watched.heartbeat.beat()
    assert watched.said == [("lost", "a")]
    assert (watched.heartbeat.fence_of("a"), watched.heartbeat.fence_of("b")) == (False, True)
    watched.heartbeat.close()


def test_a_renewal_that_fails_is_tried_again_and_reported_only_when_the_lease_runs_out() -> None:
    watched = Watched()
    watched.heartbeat.hold("a", 1)
    watched.storage.broken = True
    watched.now += 3599
    assert not watched.heartbeat.beat()
    assert watched.said == []
    watched.now += 1
    assert not watched.heartbeat.beat() and not watched.heartbeat.beat()
    assert watched.said == [("overdue", "a", "Too many open files.")]
    watched.storage.broken = False
    assert watched.heartbeat.beat()
    assert watched.storage.renewed == [{"a"}]
    watched.heartbeat.close()


def test_the_thread_goes_on_after_failures_of_the_storage() -> None:
    storage = Storage()
    storage.broken = True
    heartbeat = Heartbeat(storage, lambda _: None, lambda *_: None, ttl=0.03)
    heartbeat.hold("a", 1)
    for _ in range(3):
        assert storage.beats.acquire(timeout=30)
    storage.broken = False
    assert storage.beats.acquire(timeout=30)
    heartbeat.close()
    assert storage.closed
