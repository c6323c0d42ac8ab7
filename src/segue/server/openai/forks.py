"""Forks of sessions behind an answer, for clients that continue from an earlier one."""

from ...core.errors import TaskError
from ...core.records import Task
from ..service import Service
from ..tenants import Tenant


async def fork_after(service: Service, tenant: Tenant, task: Task) -> str:
    """The stored name of a new session that is as a session was when the task had ended.

    Raises:
        TaskError: the snapshots of then were pruned.
    """
    snapshots = await service.app.sessions.snapshots(task.thread_id, -1)
    ends = [each for each in snapshots if each.task_id == task.task_id and not each.inside]
    if not ends:
        raise TaskError(
            "The snapshots before this message of session '{thread_id}' were pruned: start a new conversation.",
            thread_id=task.thread_id,
        )
    thread_id = await free_session(service, tenant, tenant.shown(task.thread_id))
    await service.app.sessions.fork(task.thread_id, ends[0].checkpoint_id, thread_id)
    return thread_id


async def free_session(service: Service, tenant: Tenant, session_id: str) -> str:
    """The stored name of a session that does not exist: the given one, else with a number."""
    name, number = session_id, 1
    sessions, tasks = service.app.sessions, service.app.tasks
    while await tasks.newest(tenant.stored(name)) or await sessions.choices(tenant.stored(name)):
        number += 1
        name = f"{session_id}.{number}"
    return tenant.stored(name)
