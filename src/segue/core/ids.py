"""Ids of threads, tasks and recursions."""

import uuid
from typing import NewType

ThreadId = NewType("ThreadId", str)
TaskId = NewType("TaskId", str)
TraceId = NewType("TraceId", str)


class Ids:
    """Mints ids: uuid4 here, a counted sequence in tests."""

    def task(self) -> TaskId:
        return TaskId(str(uuid.uuid4()))

    def trace(self) -> TraceId:
        return TraceId(str(uuid.uuid4()))

    def origin(self) -> str:
        """The part of the idempotency keys of a task's calls that forks keep."""
        return str(uuid.uuid4())

    def thread(self) -> ThreadId:
        return ThreadId(f"s-{uuid.uuid4().hex[:12]}")
