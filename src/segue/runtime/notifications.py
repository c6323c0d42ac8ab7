"""Delivery of notifications: what the outbox holds is sent by whichever process has its receiver."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import uniform
from typing import Protocol

from ..checkpoints.outbox import State
from ..checkpoints.storage import Storage
from ..checkpoints.tasks import Tasks
from ..core.actor import SEGUE, acting
from ..core.calls import REVIEW_PLAN
from ..core.errors import QuestionClosed, SegueError, UnknownTask
from ..core.notifications import Notification
from ..core.records import Task
from ..core.schedules import EXPIRY, ApprovalSettings
from ..prompts.catalogue import task_text
from .control import Control
from .relay import Observer
from .worker import Due

CLAIM_SECONDS = 60.0
"""How long no other process sends a notification that one is sending: longer than an attempt may take."""
MAX_CONCURRENT = 16
"""Notifications that are sent at once."""
MAX_OF_A_LANE = 4
"""Of these, those that one slow receiver may hold up."""
CLOSE_SECONDS = 3.0
"""How long a process that ends goes on sending; the rest is left to the next one."""
FIRST_RETRY, RETRY_FACTOR, LONGEST_RETRY = 5.0, 3.0, 6 * 3600.0
"""Seconds until a failed attempt is repeated: the first time, how much longer each time, and at most."""
MOST_ATTEMPTS = 12
"""Attempts, over about a day; then a notification is dead."""
JITTER = 0.2
"""How much longer or shorter a wait is, so that what failed together is not tried together."""

logger = logging.getLogger(__name__)


class Undelivered(Exception):
    """An attempt failed; the sentence says why, without the receiver's address or secrets."""


class Sender(Protocol):
    """Sends the notifications of a receiver."""

    async def send(self, notification: Notification) -> None:
        """Send one. Any error is a failed attempt; only the text of an `Undelivered` is kept."""
        ...

    def again_in(self, attempts: int) -> float | None:
        """Seconds until the next attempt after so many; None after the last one."""
        ...

    def lane(self, thread_id: str) -> str | None:
        """The beginning of the threads' names whose notifications can hold one another up; None: no others."""
        ...


def backoff(attempts: int) -> float | None:
    """Seconds until the next attempt after so many failed ones; None after the last one."""
    if attempts >= MOST_ATTEMPTS:
        return None
    return min(FIRST_RETRY * RETRY_FACTOR ** (attempts - 1), LONGEST_RETRY) * uniform(1 - JITTER, 1 + JITTER)


class _Expiry(Sender):
    """Carries out what becomes of a task whose approval expired; what was answered meanwhile is left alone."""

    def __init__(self, tasks: Tasks, control: Control, on_expiry: str) -> None:
        self._tasks = tasks
        self._control = control
        self._on_expiry = on_expiry

    def again_in(self, attempts: int) -> float | None:
        return backoff(attempts) or LONGEST_RETRY

    def lane(self, thread_id: str) -> str | None:
        return None

    async def send(self, notification: Notification) -> None:
        task_id, asked = notification.task_id, notification.body["data"]["question"]
        with suppress(UnknownTask, QuestionClosed), acting(SEGUE, None):
            question = await self._control.questions.open(task_id, asked["interrupt_id"], later=True)
            sentence = task_text("approval_expired", notification.body["data"]["language"])
            is_plan = any(each["name"] == REVIEW_PLAN for each in question["calls"])
            if self._on_expiry == "cancel" or (self._on_expiry == "reject" and is_plan):
                await self._control.cancel(task_id)
            elif self._on_expiry == "reject":
                calls = [
                    {"index": each["index"], "verdict": "reject", "reason": sentence} for each in question["calls"]
                ]
                open_id = question["interrupt_id"]
                await self._control.resume(task_id, answer={"verdicts": calls}, interrupt_id=open_id)
            else:
                await self._tasks.note_expiry(task_id, sentence)


class Notifications(Observer):
    """Notifications that were not delivered yet; those whose receivers this process has are sent while it is open.

    They are stored with what they report, so none is lost; one may come twice, with the same id.
    """

    def __init__(self, storage: Storage, control: Control, due: Due) -> None:
        self._outbox = storage.outbox
        self._tasks = storage.tasks
        self._control = control
        self._senders: dict[str, Sender] = {}
        self._due = due
        self._sending: dict[asyncio.Task[None], tuple[str, str] | None] = {}
        """Each with its receiver and lane."""
        due.jobs["notification"] = self

    def add(self, receiver: str, sender: Sender) -> None:
        """Send this receiver's notifications from now on."""
        self._senders[receiver] = sender
        self._due.watch("notification")

    def expire(self, deadlines: ApprovalSettings) -> None:
        """Carry out from now on what becomes of approvals that expire."""
        self.add(EXPIRY, _Expiry(self._tasks, self._control, deadlines.on_expiry))

    async def list(
        self, state: State | None = None, *, prefix: str = "", limit: int = 100, before: str | None = None
    ) -> Sequence[Notification]:
        """The undelivered notifications, the newest first: all, or those that are `pending` or `dead`.

        They are of sessions whose names begin with `prefix`; `before` is the id that the last page ended with.
        """
        return await self._outbox.list(state, prefix, limit, before)

    async def replay(self, notification_id: str, *, prefix: str = "") -> bool:
        """Send one again now, with all its attempts; False where none of that id is undelivered."""
        replayed = await self._outbox.replay(notification_id, prefix)
        self._due.look()
        return replayed > 0

    async def replay_dead(self, *, prefix: str = "") -> int:
        """Send all again that are dead; returns how many."""
        replayed = await self._outbox.replay(None, prefix)
        self._due.look()
        return replayed

    def stopped(self, task: Task) -> None:
        self._due.look()

    async def sent(self) -> None:
        """Wait until what is being sent was delivered, or has failed."""
        while self._sending:
            await asyncio.wait([*self._sending])

    async def close(self) -> None:
        """Send what is due for a few seconds; what is not sent by then is left to the next process."""
        with suppress(TimeoutError, SegueError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._send_due()
                while self._sending:
                    await asyncio.wait([*self._sending], return_when=asyncio.FIRST_COMPLETED)
                    await self._send_due()
        for each in self._sending:
            each.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def take(self, now: float) -> None:
        """Begin to send what is due."""
        await self._send_due()

    async def _send_due(self) -> None:
        """Begin to send what is due, as far as there is room."""
        while len(self._sending) < MAX_CONCURRENT and (
            claimed := await self._outbox.claim(self._senders, 1, CLAIM_SECONDS, self._busy())
        ):
            (notification,) = claimed
            sender = self._senders[notification.receiver]
            lane = sender.lane(notification.session_id)
            sending = asyncio.create_task(self._send(notification, sender), name="notification")
            self._sending[sending] = None if lane is None else (notification.receiver, lane)
            sending.add_done_callback(self._sent)

    def _busy(self) -> Sequence[tuple[str, str]]:
        """The receivers and lanes with as many notifications as may be sent at once."""
        count = Counter(lane for lane in self._sending.values() if lane is not None)
        return [lane for lane, number in count.items() if number >= MAX_OF_A_LANE]

    def _sent(self, sending: asyncio.Task[None]) -> None:
        del self._sending[sending]
        self._due.look()  # there is room for another one

    async def _send(self, notification: Notification, sender: Sender) -> None:
        """Make an attempt. Addresses hold secrets, and are never logged."""
        with suppress(SegueError):  # it is due again once its claim ends
            try:
                await sender.send(notification)
            except asyncio.CancelledError:
                await asyncio.shield(self._outbox.release(notification))
                raise
            except Exception as error:  # noqa: BLE001  nobody waits for it: it is logged, and due again
                why = str(error) if isinstance(error, Undelivered) else type(error).__name__
                again = sender.again_in(notification.attempts)
                logger.warning(
                    "Notification %s of task %s was not delivered to %s (attempt %d): %s",
                    notification.notification_id, notification.task_id, notification.receiver,
                    notification.attempts, why,
                )  # fmt: skip
                await self._outbox.fail(notification, again, why)
            else:
                await self._outbox.settle(notification)
