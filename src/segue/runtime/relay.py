"""What happens to tasks, passed on: to observers and listeners here, and between processes as notices and deltas."""

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..checkpoints.ports import Workers
from ..core.events import AttemptRestarted, Event, Phase, RestartReason, Thinking, Token, from_dict
from ..core.records import Call, Json, Task
from .run import Run


class Observer:
    """Callbacks on what happens to tasks. Its methods neither raise nor block; each does nothing until overridden."""

    def stored(self, task: Task, event: Event) -> None:
        """An event of a task that runs here was stored."""

    def left_open(self, task: Task, call: Call) -> None:
        """A call was under way when its task was cancelled; its outcome says whether that is known to be harmless."""

    def stopped(self, task: Task) -> None:
        """A task ended, paused, or waits for a person."""

    def session_taken_over(self) -> None:
        """A session was taken from an owner that had not released it."""

    async def close(self) -> None:
        """The app closes: no task runs any more, the database is still open."""


Queue = asyncio.Queue[Event | None]


class Hub:
    """Passes events to the queues of a task's listeners; None ends a queue."""

    def __init__(self) -> None:
        self._queues: dict[str, set[Queue]] = defaultdict(set)

    @contextmanager
    def listening(self, task_id: str) -> Iterator[Queue]:
        """A queue that gets every event of the task from now on."""
        queue: Queue = asyncio.Queue()
        self._queues[task_id].add(queue)
        try:
            yield queue
        finally:
            self._queues[task_id].discard(queue)
            if not self._queues[task_id]:
                del self._queues[task_id]

    def publish(self, event: Event) -> None:
        for queue in self._queues.get(event.task_id, ()):
            queue.put_nowait(event)

    def end(self, task_id: str) -> None:
        """Tell the listeners that nothing more will come."""
        for queue in self._queues.get(task_id, ()):
            queue.put_nowait(None)


POLL_SECONDS = 0.1
"""Seconds between two polls where the database sends no notifications."""
FALLBACK_POLL_SECONDS = 2.0
"""Seconds between two polls where it does."""

REQUESTS = "requests"
"""In place of an id: requests to running tasks."""


class Notice:
    """Wakes who waits when a notification names one of its ids."""

    def __init__(self, notices: "Notices") -> None:
        self._notices = notices
        self._awake = asyncio.Event()
        self._notified = False

    async def wait(self, at_most: float = FALLBACK_POLL_SECONDS) -> bool:
        """Wait for a notification, or until the next poll is due; False where there was only a delta."""
        seconds = min(at_most, FALLBACK_POLL_SECONDS if self._notices.connected else POLL_SECONDS)
        try:
            await asyncio.wait_for(self._awake.wait(), seconds)
        except TimeoutError:
            self._notified = True
        notified, self._notified = self._notified, False
        self._awake.clear()
        return notified

    def notify(self) -> None:
        """Wake who waits: something was changed."""
        self._notified = True
        self._awake.set()

    def notify_delta(self) -> None:
        """Wake who waits: a delta came, and nothing was stored."""
        self._awake.set()


class Notices:
    """Passes the database's notifications on, over one connection that is opened once somebody waits."""

    def __init__(self, workers: Workers | None) -> None:
        self._listen: Callable[..., Coroutine[Any, Any, None]] | None = workers.listen if workers else None
        self._waiting: dict[str, set[Notice]] = defaultdict(set)
        self._listening: asyncio.Task[None] | None = None
        self.connected = False
        self.on_message: Callable[[Json], None] = lambda message: None
        """What deltas, and who waits for them, are passed on to."""

    @contextmanager
    def subscribe(self, *ids: str) -> Iterator[Notice]:
        """A notice about threads, tasks or requests; it misses no notification from now on."""
        if self._listen and self._listening is None:
            self._listening = asyncio.create_task(
                self._listen(self.notify, self.on_message, self._connected), name="notices"
            )
        notice = Notice(self)
        for each in ids:
            self._waiting[each].add(notice)
        try:
            yield notice
        finally:
            for each in ids:
                self._waiting[each].discard(notice)
                if not self._waiting[each]:
                    del self._waiting[each]

    def notify(self, *ids: str) -> None:
        """Wake who waits for one of these ids."""
        for each in ids:
            for notice in self._waiting.get(each, ()):
                notice.notify()

    def notify_all(self) -> None:
        """Wake everybody."""
        self.notify(*self._waiting)

    def _connected(self, connected: bool) -> None:
        self.connected = connected
        self.notify_all()

    async def close(self) -> None:
        """Close the connection."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)


BATCH_SECONDS = 0.1
"""Seconds for which deltas are gathered."""
MAX_DELTA_CHARS = 600
"""Characters of a delta that is sent: a notification may have 8,000 bytes, and JSON escapes take 12 for one."""
MAX_PENDING = 1000
"""Deltas that wait to be sent, or to be read, at most; the oldest are dropped."""
WATCH_RENEW_SECONDS = 10.0
"""Seconds after which a follower says again that it is there."""
WATCH_SECONDS = 25.0
"""Seconds for which it is believed to be."""


@dataclass(frozen=True)
class Delta:
    """An event, what came before it: `after` is the number of the last stored event, `at` the length of its text."""

    event: Token | Thinking | Phase | AttemptRestarted
    after: int
    at: int

    def joined(self, other: "Delta") -> "Delta | None":
        """Both as one, where the other one continues this one's text."""
        this, that = self.event, other.event
        if isinstance(this, AttemptRestarted | Phase) or isinstance(that, AttemptRestarted | Phase):
            return None
        whole = replace(this, content=this.content + that.content)
        same = replace(that, content=whole.content, timestamp=this.timestamp) == whole
        fits = (
            other.after == self.after
            and other.at == self.at + len(this.content)
            and len(whole.content) <= MAX_DELTA_CHARS
        )
        return replace(self, event=whole) if same and fits else None


class Deltas:
    """The deltas of a task that another process runs, in their order among the stored events.

    What is lost on the way, or comes too late, is left out, with what continues it: the stored events have it all.
    """

    def __init__(self) -> None:
        self._waiting: deque[Delta] = deque(maxlen=MAX_PENDING)
        self._lengths: dict[tuple[str, str], int] = {}
        self.due = 0.0
        """When a follower is to say again that it is there."""

    def add(self, delta: Delta) -> None:
        self._waiting.append(delta)

    def passed(self, event: Event) -> None:
        """Note an event that was stored: the task may have gone to another process, which knows of no follower."""
        if event.type in ("state_changed", "resumed"):
            self.due = 0.0

    def up_to_date(self, seen: int) -> bool:
        """Whether all came after the stored event of that number, and there is nothing else to do."""
        return time.monotonic() < self.due and all(delta.after <= seen for delta in self._waiting)

    def until(self, seen: int) -> Iterator[Event]:
        """Those that came before the stored event that follows the one of that number."""
        while self._waiting and self._waiting[0].after <= seen:
            delta = self._waiting.popleft()
            if delta.after == seen:
                yield from self._fitting(delta)

    def _fitting(self, delta: Delta) -> Iterator[Event]:
        event = delta.event
        if isinstance(event, AttemptRestarted):
            self._restart(event.trace_id)
            yield event
            return
        key = (event.type, event.trace_id)
        if self._lengths.get(key) and delta.at == 0:  # the call is made again, by the process that took the task over
            self._restart(event.trace_id)
            reason = RestartReason.TAKEN_OVER.value
            yield AttemptRestarted(task_id=event.task_id, trace_id=event.trace_id, attempt=event.attempt, reason=reason)
        if delta.at == self._lengths.get(key, 0):
            self._lengths[key] = delta.at + len(event.content)
            yield event

    def _restart(self, trace_id: str) -> None:
        self._lengths = {key: length for key, length in self._lengths.items() if key[1] != trace_id}


class Relay:
    """Sends the deltas of tasks that run here to the processes that follow them, and receives those of others."""

    def __init__(self, workers: Workers | None, notices: Notices) -> None:
        self._send = workers.relay(self._outgoing) if workers else None
        self._sending: asyncio.TimerHandle | None = None
        self._outbox: deque[Delta | Json] = deque(maxlen=MAX_PENDING)
        self._watched: dict[str, float] = {}
        self._followers: dict[str, set[tuple[Deltas, Notice]]] = defaultdict(set)
        notices.on_message = self._receive

    def send(self, run: Run, event: Event) -> None:
        """Send a delta soon, if anybody follows its task in another process."""
        if self._send is None or not isinstance(event, Token | Thinking | Phase | AttemptRestarted):
            return
        for delta in _pieces(run, event):
            if time.monotonic() < self._watched.get(run.row.task_id, 0.0):
                self._outbox.append(delta)
                if self._sending is None:
                    self._sending = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)

    @contextmanager
    def following(self, task_id: str, notice: Notice) -> Iterator[Deltas]:
        """The deltas of a task that another process runs; the notice wakes for them."""
        deltas = Deltas()
        self._followers[task_id].add((deltas, notice))
        try:
            yield deltas
        finally:
            self._followers[task_id].discard((deltas, notice))
            if not self._followers[task_id]:
                del self._followers[task_id]

    def watch(self, task_id: str, deltas: Deltas) -> None:
        """Say that the task is followed, unless that was said recently."""
        if self._send and time.monotonic() >= deltas.due:
            deltas.due = time.monotonic() + WATCH_RENEW_SECONDS
            self._outbox.append({"watch": task_id})
            self._send()

    def _flush(self) -> None:
        self._sending = None
        if self._send:
            self._send()

    def _outgoing(self) -> list[str]:
        """What is to be sent now; from any thread."""
        found: list[Delta | Json] = []
        while self._outbox:
            each, last = self._outbox.popleft(), found[-1] if found else None
            if isinstance(each, Delta) and isinstance(last, Delta) and (both := last.joined(each)):
                found[-1] = both
            else:
                found.append(each)
        return [json.dumps(_message(each) if isinstance(each, Delta) else each) for each in found]

    def _receive(self, message: Json) -> None:
        """Take in what another process sent, or this one itself."""
        now, watched = time.monotonic(), message.get("watch")
        if isinstance(watched, str):
            self._watched = {task: until for task, until in self._watched.items() if until > now}
            self._watched[watched] = now + WATCH_SECONDS
        elif delta := _delta_of(message):
            for deltas, notice in self._followers.get(delta.event.task_id, ()):
                deltas.add(delta)
                notice.notify_delta()


def _pieces(run: Run, event: Token | Thinking | Phase | AttemptRestarted) -> Iterator[Delta]:
    """The deltas of an event, whose lengths the run counts whether they are sent or not."""
    if isinstance(event, AttemptRestarted):
        run.streamed = {key: length for key, length in run.streamed.items() if key[1] != event.trace_id}
        yield Delta(event, run.stored, 0)
        return
    key, text = (event.type, event.trace_id), event.content
    for start in range(0, len(text), MAX_DELTA_CHARS):
        piece = replace(event, content=text[start : start + MAX_DELTA_CHARS])
        yield Delta(piece, run.stored, run.streamed.get(key, 0))
        run.streamed[key] = run.streamed.get(key, 0) + len(piece.content)


def _message(delta: Delta) -> Json:
    return {"event": delta.event.json(), "after": delta.after, "at": delta.at}


def _delta_of(message: Json) -> Delta | None:
    """The delta that `_message` wrote; None for what this version cannot read."""
    try:
        event, after, at = from_dict(message["event"]), int(message["after"]), int(message["at"])
    except (KeyError, TypeError, ValueError):
        return None
    return Delta(event, after, at) if isinstance(event, Token | Thinking | Phase | AttemptRestarted) else None
