"""The threads of a database as they are listed: one row for each conversation."""

import re
from dataclasses import asdict, fields

from segue.core.errors import UnknownThread
from segue.core.origin import PEOPLE
from segue.core.records import Thread, read
from segue.core.session_filter import SessionFilter
from segue.core.task_status import TaskStatus

from ..ports import ALL, Connection, Database, Row
from .tasks import EMPTY

_PEOPLE = ", ".join(f"'{origin}'" for origin in PEOPLE)
_COLUMNS = """
    SELECT last.thread_id, turns, titles.title, first.message AS first_message, last.message,
        last.agent_id, last.mode, last.model, last.status, last.updated_at AS updated_at,
        coalesce(sessions.agent_id, '') AS default_agent, coalesce(sessions.model, '') AS default_model,
        coalesce(root, last.thread_id) AS root, first.origin AS origin,
        coalesce(filed.is_pinned, 0) AS pinned, coalesce(filed.is_archived, 0) AS archived, last.position AS position
    FROM (
        SELECT counted.*, root,
            row_number() OVER (
                PARTITION BY coalesce(root, counted.thread_id)
                ORDER BY CASE WHEN turns < turn THEN 1 ELSE 0 END, last DESC
            ) AS place
        FROM (
            SELECT thread_id, count(*) AS turns, min(position) AS first, max(position) AS last FROM tasks {of_tasks}
            GROUP BY thread_id
        ) AS counted LEFT JOIN branches ON branches.thread_id = counted.thread_id
    ) AS counted
    JOIN tasks AS first ON first.position = counted.first
    JOIN tasks AS last ON last.position = counted.last
    LEFT JOIN titles ON titles.thread_id = last.thread_id
    LEFT JOIN sessions ON sessions.thread_id = last.thread_id
    LEFT JOIN sessions AS filed ON filed.thread_id = coalesce(root, last.thread_id)
    WHERE place = 1
    UNION ALL
    SELECT sessions.thread_id, 0, titles.title, '', '', sessions.agent_id, '', sessions.model, 'done',
        sessions.created_at, sessions.agent_id, sessions.model, sessions.thread_id, 'api', is_pinned, is_archived, 0
    FROM sessions LEFT JOIN titles ON titles.thread_id = sessions.thread_id
    WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.thread_id = sessions.thread_id) {of_sessions}
"""
# Of the branches of a conversation the one that was used last; one whose own turn was not stored is none yet.
_OF_ALL = _COLUMNS.format(of_tasks="", of_sessions="")
_OF_ONE = _COLUMNS.format(of_tasks="WHERE thread_id = :thread_id", of_sessions="AND sessions.thread_id = :thread_id")
# The thread of a conversation's bot is a part of the conversation.
_LISTED = f"""
    FROM ({_OF_ALL}) AS every
    WHERE (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
        AND (:search = '' OR lower(coalesce(title, '')) LIKE lower(:pattern) ESCAPE '!'
            OR lower(first_message) LIKE lower(:pattern) ESCAPE '!')
        AND (CAST(:bots AS INTEGER) = 1
            OR NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.bot_session = every.thread_id))
        AND (CAST(:archived AS INTEGER) IS NULL OR archived = CAST(:archived AS INTEGER))
        AND (CAST(:sender AS TEXT) IS NULL
            OR CASE WHEN origin IN ({_PEOPLE}) THEN 'people' ELSE 'programs' END = :sender)
"""
_LIST = f"""
    SELECT * {_LISTED}
    ORDER BY CASE WHEN CAST(:pinned_first AS INTEGER) = 1 THEN pinned ELSE 0 END DESC, updated_at DESC, position DESC
    LIMIT :limit
"""
_COUNT = f"SELECT count(*) AS threads {_LISTED}"
_WILDCARD = re.compile("[!%_]")
_IS_THREAD = """
    SELECT 1 FROM tasks WHERE thread_id = :thread_id
    UNION ALL SELECT 1 FROM sessions WHERE thread_id = :thread_id LIMIT 1
"""
_NAME = """
    INSERT INTO titles (thread_id, title) VALUES (:thread_id, :title)
    ON CONFLICT (thread_id) DO UPDATE SET title = excluded.title
"""
_UNNAME = "DELETE FROM titles WHERE thread_id = :thread_id"


class ThreadList:
    """Reads and names the threads of a database. Of a damaged row it shows what can be read, with the status error."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def list(self, which: SessionFilter, limit: int = -1, *, pinned_first: bool = False) -> list[Thread]:
        """Return threads, last used first; one for each conversation."""
        values = {**_values(which), "limit": ALL if limit < 0 else limit, "pinned_first": int(pinned_first)}
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, values))
        return [_shown(row) for row in rows]

    async def count(self, which: SessionFilter) -> int:
        """Count the threads that `list` returns without a limit."""
        (row,) = await self._database.read(lambda connection: connection.fetched(_COUNT, _values(which)))
        return int(row["threads"])

    async def get(self, thread_id: str) -> Thread:
        """Return one thread.

        Raises:
            UnknownThread: it has no task, and was not created without one.
        """
        rows = await self._database.read(lambda connection: connection.fetched(_OF_ONE, {"thread_id": thread_id}))
        if not rows:
            raise UnknownThread(thread_id)
        return _shown(rows[0])

    async def name(self, thread_id: str, title: str) -> None:
        """Give a thread a title; an empty one leaves it with its first message.

        Raises:
            UnknownThread: it has no task, and was not created without one.
        """
        values = {"thread_id": thread_id, "title": title}

        def name(connection: Connection) -> None:
            if not connection.fetched(_IS_THREAD, values):
                raise UnknownThread(thread_id)
            name_thread(connection, thread_id, title)

        await self._database.write(name)


def name_thread(connection: Connection, thread_id: str, title: str) -> None:
    """Give a thread a title, in the transaction of what else is stored; an empty one takes it back."""
    connection.execute(_NAME if title else _UNNAME, {"thread_id": thread_id, "title": title})


def _values(which: SessionFilter) -> dict[str, object]:
    archived = None if which.archived is None else int(which.archived)
    pattern = "%" + _WILDCARD.sub(r"!\g<0>", which.search) + "%"
    return {**asdict(which), "bots": int(which.bots), "archived": archived, "pattern": pattern}


def _shown(row: Row) -> Thread:
    title = row["title"] if isinstance(row["title"], str) else row["first_message"]
    flags = {name: row[name] != 0 for name in ("pinned", "archived")}
    values, faults = read(Thread, {**dict(row), "title": title, **flags})
    if faults:
        unread = {**EMPTY, "turns": 0, "title": "", "default_agent": "", "default_model": "", "root": ""}
        values = {**unread, "origin": "python", **values, "status": TaskStatus.ERROR}
    return Thread(**{field.name: values[field.name] for field in fields(Thread)})
