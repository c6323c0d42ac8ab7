"""User preferences: the default mode, and the rated history of modes."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

from segue.core.errors import InvalidAnswer, UnknownTask
from segue.core.records import BEST, Json, read

from .database import Database, fetched


@dataclass(frozen=True)
class _Rated:
    """What the history shows of a task."""

    message: str
    mode: str
    rating: Literal[1, 2, 3, 4, 5] | None


_DEFAULT = "SELECT default_mode FROM preferences WHERE user_id = ?"
# A copy counts where it was rated itself, or where its original is in another database.
_HISTORY = """
    SELECT message, json_extract(result, '$.mode') AS mode, rating FROM tasks
    WHERE user_id = ? AND iif(typeof(result) = 'text' AND json_valid(result), json_extract(result, '$.mode'), NULL)
        IS NOT NULL
        AND (rating IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tasks AS own WHERE own.task_id = tasks.copy_of))
    ORDER BY position DESC LIMIT ?
"""
_PUT = """
    INSERT INTO preferences (user_id, default_mode) VALUES (?, ?)
    ON CONFLICT (user_id) DO UPDATE SET default_mode = excluded.default_mode
"""
_RATE = "UPDATE tasks SET rating = ? WHERE task_id = ?"


class Preferences:
    """The preferences of every user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def default_mode(self, user_id: str) -> str:
        """The user's default mode; empty where none is set."""
        row = await self._database.read(lambda connection: connection.execute(_DEFAULT, (user_id,)).fetchone())
        return "" if row is None else str(row["default_mode"])

    async def get(self, user_id: str, limit: int = 50) -> Json:
        """{"default_mode", "mode_history": [{"query", "mode", "rating"}]}, the newest first.

        `mode` is the one that gave the answer, whatever was asked for; `rating` is 1…5 or None. What of it cannot be
        read is left out.
        """
        rows = await self._database.read(lambda connection: fetched(connection, _HISTORY, (user_id, limit)))
        rated = [values for values, faults in (read(_Rated, row) for row in rows) if not faults]
        history = [{"query": row["message"], "mode": row["mode"], "rating": row["rating"]} for row in rated]
        return {"default_mode": await self.default_mode(user_id), "mode_history": history}

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

        def store(connection: sqlite3.Connection) -> None:
            if connection.execute(_RATE, (rating, task_id)).rowcount != 1:
                raise UnknownTask(task_id)

        await self._database.write(store)
