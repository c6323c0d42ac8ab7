"""New ids for the tasks of a thread that is copied: in every row, also inside what is stored as bytes."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from segue.core.errors import TaskError
from segue.core.ids import Ids

from ..serializer import Undecodable, checksummed, compressed, decompressed, without_key

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# A whole id, or its beginning where it names a tool's result: `<task>.<scope>.<index>`.
_PLACES = r"[0-9a-f]{8}(?:-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=\.[^\s.]{1,64}\.\d))"
_IN_TEXT = re.compile(_PLACES)
_IN_BYTES = re.compile(_PLACES.encode())


def is_id(text: str) -> bool:
    """Whether a text is an id as Segue gives them to tasks."""
    return re.fullmatch(UUID, text) is not None


class Renaming:
    """A new id for each of some tasks.

    State, messages, ledger and events name a task by its id in many places. All ids are equally long, so one takes
    another's place in msgpack and JSON alike without being decoded.
    """

    def __init__(self, task_ids: Iterable[str], ids: Ids | None = None) -> None:
        mint = (ids or Ids()).task
        self.new: dict[str, str] = {}
        for old in task_ids:
            if not is_id(old):
                raise TaskError(
                    "The task {old} has an id that Segue did not give it: its session cannot be copied.", old=old
                )
            self.new[old] = mint()
        self._texts = {**self.new, **{old[:8]: new[:8] for old, new in self.new.items()}}
        self._bytes = {old.encode(): new.encode() for old, new in self._texts.items()}

    def of(self, value: Any) -> Any:
        """The value of a column with the new ids in it; numbers and None stay."""
        if isinstance(value, str):
            return _IN_TEXT.sub(lambda found: self._texts.get(found[0], found[0]), value)
        if isinstance(value, bytes):
            return _IN_BYTES.sub(lambda found: self._bytes.get(found[0], found[0]), value)
        return value

    def typed(self, kind: str | None, data: bytes | None) -> tuple[str | None, bytes | None]:
        """The type and bytes of a stored value with the new ids in it.

        Its checksum is computed again, unless it was wrong before.
        """
        if kind is None or data is None:
            return kind, data
        try:
            plain_kind, plain = decompressed(kind, data)
        except Undecodable:
            return kind, data
        if checksummed(plain_kind, plain) != without_key(plain_kind):
            return kind, self.of(data)
        renamed = self.of(plain)
        return compressed(str(checksummed(plain_kind, renamed)), renamed)

    @contextmanager
    def within(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Make the functions renamed(value), renamed_type(type, data) and renamed_data(type, data) known to SQL."""
        functions: tuple[tuple[str, int, Callable[..., Any]], ...] = (
            ("renamed", 1, self.of),
            ("renamed_type", 2, lambda kind, data: self.typed(kind, data)[0]),
            ("renamed_data", 2, lambda kind, data: self.typed(kind, data)[1]),
        )
        for name, arguments, function in functions:
            connection.create_function(name, arguments, function, deterministic=True)
        try:
            yield
        finally:
            for name, arguments, _ in functions:
                connection.create_function(name, arguments, None)


def copy_rows(
    connection: sqlite3.Connection, table: str, where: str, values: dict[str, Any], instead: dict[str, str]
) -> None:
    """Insert a renamed copy of the rows of `table` for which `where` holds; `instead` has SQL for some columns."""
    columns = [row["name"] for row in connection.execute(f"PRAGMA table_info({table})") if row["name"] != "position"]
    picked = [instead.get(name, f"renamed({name})") for name in columns]
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(picked)} FROM {table} WHERE {where}", values
    )
