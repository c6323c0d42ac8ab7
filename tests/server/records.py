"""Records as the storage gives them."""

from typing import Any

from segue.core.records import Task
from segue.core.task_status import TaskStatus


def stored_task(**fields: Any) -> Task:
    """A task that is done."""
    ids = {"task_id": "t", "thread_id": "s", "agent_id": "a", "user_id": "u", "mode": "react", "model": "m"}
    nothing = dict.fromkeys(("error", "result", "requested", "answer", "rating", "copy_of"))
    rest = {"message": "go", "notes": [], "created_at": 0.0, "updated_at": 0.0, "status": TaskStatus.DONE}
    return Task(**{**ids, **nothing, **rest, **fields})
