"""What endpoints require of requests, as it was learned from their refusals."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from segue.core.records import STORED_AS_JSON, Name, Record, readable

from .ports import Connection, Database

_OF = "SELECT * FROM habits WHERE endpoint = ?"
_PUT = """
    INSERT INTO habits (endpoint, names) VALUES (?, ?) ON CONFLICT (endpoint) DO UPDATE SET names = excluded.names
"""


@dataclass(frozen=True, kw_only=True)
class StoredHabits(Record):
    """The names of an endpoint's habits."""

    row_name = "habits of {endpoint}"

    endpoint: Name
    names: Annotated[list[str], STORED_AS_JSON]


class EndpointHabits:
    """The habits of endpoints, each with a model: "http://127.0.0.1:8085/v1#qwen3"."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def of(self, endpoint: str) -> Collection[str]:
        """The names of an endpoint's habits; none where they cannot be read: they are learned again."""
        rows = await self._database.read(lambda connection: connection.fetched(_OF, (endpoint,)))
        found = readable(StoredHabits, rows)
        return found[0].names if found else []

    async def put(self, endpoint: str, names: Collection[str]) -> None:
        """Store an endpoint's habits in place of what is stored."""
        values = (endpoint, json.dumps(sorted(names)))
        await self._database.write(lambda connection: connection.execute(_PUT, values))
