"""Permissions of tools that a person always allows."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.actor import SEGUE
from segue.core.approval import Grant, PermissionRule
from segue.core.audit import Act
from segue.core.records import Json, Permission, names_of, readable
from segue.core.task import ENDED, TaskStatus

from .audit import record
from .ports import Connection, Database, insert_into, sql_list

_GRANT = f"""
    {insert_into("permissions", names_of(Permission))}
    ON CONFLICT (thread_id, agent_id, tool, scope, task_id) DO UPDATE SET version = excluded.version
"""
_IN_TASK = """
    SELECT * FROM permissions
    WHERE thread_id = ? AND agent_id = ? AND (scope = 'session' OR task_id = ?) ORDER BY scope DESC
"""
# Those of a task end with it, as `Task.is_over` says.
_LIST = f"""
    SELECT permissions.* FROM permissions LEFT JOIN tasks USING (task_id)
    WHERE (CAST(:thread_id AS TEXT) IS NULL OR permissions.thread_id = :thread_id)
        AND (:prefix = '' OR substr(permissions.thread_id, 1, length(:prefix)) = :prefix)
        AND (scope = 'session' OR NOT (
            status IN ({sql_list(ENDED)}) OR status = '{TaskStatus.ERROR}' AND result IS NOT NULL
        ))
    ORDER BY granted_at, tool
"""
_REVOKE = """
    DELETE FROM permissions
    WHERE thread_id = :thread_id AND (:tool = '' OR tool = :tool OR substr(tool, 1, length(:tool) + 1) = :tool || ' ')
        AND (:agent_id = '' OR agent_id = :agent_id)
"""


def grant(connection: Connection, thread_id: str, event: Mapping[str, Any]) -> None:
    """Store the permission of a `permission_granted` event."""
    granted = {name: event["data"][name] for name in ("agent_id", "tool", "scope", "version")}
    about = {"thread_id": thread_id, "task_id": event["task_id"], "granted_at": event["timestamp"]}
    connection.execute(_GRANT, {**granted, **about})
    act = Act("granted", {name: granted[name] for name in ("agent_id", "tool", "scope")}, SEGUE)
    record(connection, act, thread_id, kept={"permissions": thread_id})


class Permissions:
    """The permissions of a database. The saver writes them with their event."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def in_task(self, thread_id: str, agent_id: str, task_id: str) -> Sequence[Grant]:
        """Return the rules for the tools of an agent that count in a task; one that cannot be read permits nothing."""
        values = (thread_id, agent_id, task_id)
        rows = await self._database.read(lambda connection: connection.fetched(_IN_TASK, values))
        return [Grant(PermissionRule.parse(each.tool), each.scope, each.version) for each in readable(Permission, rows)]

    async def list(self, thread_id: str | None = None, prefix: str = "") -> list[Permission]:
        """Return the permissions of a thread, or of those whose names begin with `prefix`, oldest first.

        Those that cannot be read are left out.
        """
        values: Json = {"thread_id": thread_id, "prefix": prefix}
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, values))
        return readable(Permission, rows)

    async def revoke(self, thread_id: str, tool: str = "", agent_id: str = "") -> int:
        """Delete a thread's permissions, of one tool, rule or agent where it is named; return how many there were."""
        values = {"thread_id": thread_id, "tool": tool, "agent_id": agent_id}
        act = Act("revoked", {"tool": tool, "agent": agent_id})

        def delete(connection: Connection) -> int:
            deleted = connection.execute(_REVOKE, values).rowcount
            if deleted:
                record(connection, act, thread_id, kept={"permissions": thread_id})
            return deleted

        return await self._database.write(delete)
