"""Task statuses and their transitions."""

from collections.abc import Mapping
from enum import StrEnum

from .errors import IllegalTransition


class TaskStatus(StrEnum):
    """The status of a task."""

    PENDING = "pending"
    """Written down, not begun."""
    RUNNING = "running"
    """A process works on it."""
    WAITING = "waiting"
    """A person is asked."""
    PAUSING = "pausing"
    """A pause was requested; the runner stops at the next boundary."""
    PAUSED = "paused"
    """It stopped at a boundary and can be resumed."""
    DONE = "done"
    """It has its answer."""
    ERROR = "error"
    """It failed; it may be run again."""
    CANCELLED = "cancelled"
    """It was cancelled."""


_S = TaskStatus

TASK_TRANSITIONS: Mapping[TaskStatus, frozenset[TaskStatus]] = {
    _S.PENDING: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSED, _S.CANCELLED, _S.ERROR}),
    # running to running is no change: a process resumes what a crash interrupted.
    _S.RUNNING: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSING, _S.PAUSED, _S.DONE, _S.ERROR, _S.CANCELLED}),
    _S.WAITING: frozenset({_S.RUNNING, _S.PAUSED, _S.CANCELLED, _S.ERROR}),
    _S.PAUSING: frozenset({_S.PAUSED, _S.RUNNING, _S.WAITING, _S.DONE, _S.ERROR, _S.CANCELLED}),
    _S.PAUSED: frozenset({_S.RUNNING, _S.WAITING, _S.CANCELLED}),
    _S.ERROR: frozenset({_S.RUNNING, _S.WAITING, _S.PAUSED, _S.CANCELLED}),
    _S.DONE: frozenset(),
    _S.CANCELLED: frozenset(),
}

OPEN = frozenset({_S.PENDING, _S.RUNNING, _S.WAITING, _S.PAUSING, _S.PAUSED})
"""It has not come to an end: the thread takes no other message meanwhile."""
ACTIVE = frozenset({_S.PENDING, _S.RUNNING, _S.PAUSING})
"""A process works on it, unless it was interrupted."""
ENDED = frozenset({_S.DONE, _S.CANCELLED})
"""It goes nowhere from there."""


def next_status(old: str, new: str) -> TaskStatus:
    """Return the new status.

    Raises:
        IllegalTransition: the table does not allow it.
    """
    if TaskStatus(new) not in TASK_TRANSITIONS[TaskStatus(old)]:
        raise IllegalTransition(old, new)
    return TaskStatus(new)
