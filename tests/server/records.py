"""Records as the storage gives them."""

from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any

from segue.core.records import Task
from segue.core.task import TaskStatus


def stored_task(**fields: Any) -> Task:
    """A task that is done."""
    ids = {"task_id": "t", "session_id": "s", "agent_id": "a", "user_id": "u", "mode": "react", "model": "m"}
    needed = (field for field in fields_of(Task) if field.default is field.default_factory is MISSING)
    nothing = {field.name: None for field in needed}
    rest = {"message": "go", "notes": [], "created_at": 0.0, "updated_at": 0.0, "status": TaskStatus.DONE}
    return Task(**{**nothing, **ids, **rest, **fields})
