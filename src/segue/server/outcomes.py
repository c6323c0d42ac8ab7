"""What a task came to, as the last frame of a stream and the routes tell it."""

from ..app import App
from .rows import Row
from .tenants import Tenant


async def outcome(app: App, tenant: Tenant, task_id: str) -> Row:
    """The task's result with its ids and its status; of one that has none, why: its error, or its question."""
    row = await app.task(task_id)
    result = row["result"] or {"success": False, "answer": "", "mode": row["mode"]}
    ids = {"task_id": task_id, "session_id": tenant.shown(row["thread_id"]), "status": row["status"]}
    told = {**result, **ids}
    if row["error"] or told.get("error"):
        told["error"] = tenant.told(str(row["error"] or told["error"]))
    if row["status"] == "waiting":
        told["question"] = await app.question(task_id)
    return told
