"""User preferences: the default mode, and the rated history of modes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from segue.core.actor import SEGUE
from segue.core.approval import Grant, PermissionRule
from segue.core.audit import Act
from segue.core.errors import InvalidAnswer, UnknownTask
from segue.core.records import (
    BEST,
    STORED_AS_JSON,
    Json,
    Name,
    Permission,
    RatedAnswer,
    Record,
    UserPreferences,
    read,
    readable,
)

from .audit import record
from .ports import ALL, Connection, Database

_GRANT = """
    INSERT INTO permissions (thread_id, agent_id, tool, scope, task_id, granted_at, version)
    VALUES (:thread_id, :agent_id, :tool, :scope, :task_id, :granted_at, :version)
    ON CONFLICT (thread_id, agent_id, tool, scope, task_id) DO UPDATE SET version = excluded.version
"""
_IN_TASK = """
    SELECT * FROM permissions
    WHERE thread_id = ? AND agent_id = ? AND (scope = 'session' OR task_id = ?) ORDER BY scope DESC
"""
# Those of a task end with it.
_LIST = """
    SELECT permissions.* FROM permissions LEFT JOIN tasks USING (task_id)
    WHERE (CAST(:thread_id AS TEXT) IS NULL OR permissions.thread_id = :thread_id)
        AND (:prefix = '' OR substr(permissions.thread_id, 1, length(:prefix)) = :prefix)
        AND (scope = 'session' OR NOT (status IN ('done', 'cancelled') OR status = 'error' AND result IS NOT NULL))
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


@dataclass(frozen=True)
class Preference(Record):
    """What a user prefers."""

    row_name = "preferences of user {user_id}"
    is_recoverable = False

    user_id: Name
    default_mode: str


@dataclass(frozen=True)
class _Rated:
    """What the history needs of a task."""

    message: str
    result: Annotated[Json | None, STORED_AS_JSON]
    rating: Literal[1, 2, 3, 4, 5] | None


_DEFAULT = "SELECT * FROM preferences WHERE user_id = ?"
# A copy counts where it was rated itself, or where its original is in another database.
_HISTORY = """
    SELECT message, result, rating, position FROM tasks
    WHERE user_id = ? AND position < ? AND result IS NOT NULL
        AND (rating IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tasks AS own WHERE own.task_id = tasks.copy_of))
    ORDER BY position DESC LIMIT ?
"""
_PUT = """
    INSERT INTO preferences (user_id, default_mode) VALUES (?, ?)
    ON CONFLICT (user_id) DO UPDATE SET default_mode = excluded.default_mode
"""
_RATE = "UPDATE tasks SET rating = ? WHERE task_id = ? RETURNING thread_id"


def default_mode(connection: Connection, user_id: str) -> str:
    """The user's default mode; empty where none is set, or it cannot be read."""
    found = readable(Preference, connection.fetched(_DEFAULT, (user_id,)))
    return found[0].default_mode if found else ""


class Preferences:
    """The preferences of every user."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def default_mode(self, user_id: str) -> str:
        """The user's default mode; empty where none is set."""
        return await self._database.read(lambda connection: default_mode(connection, user_id))

    async def get(self, user_id: str, limit: int = 50) -> UserPreferences:
        """The user's default mode, and the modes that answered them; what cannot be read is left out."""
        history = await self._database.read(partial(_history, user_id, limit))
        return UserPreferences(await self.default_mode(user_id), history)

    async def put(self, user_id: str, default_mode: str) -> None:
        """Set a user's default mode, which the caller has checked; an empty one takes it back."""
        await self._database.write(lambda connection: connection.execute(_PUT, (user_id, default_mode)))

    async def rate(self, task_id: str, rating: object) -> None:
        """Rate a task's answer, in place of an earlier rating.

        Raises:
            InvalidAnswer: the rating is no whole number from 1 to 5.
            UnknownTask: there is none.
        """
        if isinstance(rating, bool) or not isinstance(rating, int) or not 1 <= rating <= BEST:
            raise InvalidAnswer(
                "The rating {rating} is not valid: give a whole number from 1 to {most}.",
                rating=repr(rating),
                most=BEST,
            )

        act = Act("rated", {"rating": rating})

        def store(connection: Connection) -> None:
            row = connection.execute(_RATE, (rating, task_id)).fetchone()
            if row is None:
                raise UnknownTask(task_id)
            record(connection, act, row["thread_id"], task_id)

        await self._database.write(store)


def _history(user_id: str, limit: int, connection: Connection) -> list[RatedAnswer]:
    """The newest answers of a user: a task has one where its result names the mode."""
    found: list[RatedAnswer] = []
    before = ALL
    while len(found) < limit and (rows := connection.fetched(_HISTORY, (user_id, before, limit))):
        before = rows[-1]["position"]
        for row in rows:
            values, faults = read(_Rated, row)
            mode = (values.get("result") or {}).get("mode")
            if not faults and isinstance(mode, str):
                found.append(RatedAnswer(values["message"], mode, values["rating"]))
    return found[:limit]
