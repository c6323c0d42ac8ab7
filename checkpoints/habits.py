"""What endpoints require of requests, as it was learned from their refusals."""

import json
from collections.abc import Collection, Mapping

from .ports import Connection, Database, Row

_OF = "SELECT names FROM habits WHERE endpoint = ?"
_ALL = "SELECT endpoint, names FROM habits ORDER BY endpoint"
_PUT = """
    INSERT INTO habits (endpoint, names) VALUES (?, ?) ON CONFLICT (endpoint) DO UPDATE SET names = excluded.names
"""


class EndpointHabits:
    """The habits of endpoints, each with a model: "http://127.0.0.1:8085/v1#qwen3"."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def of(self, endpoint: str) -> Collection[str]:
        """The names of an endpoint's habits."""
        rows = await self._database.read(lambda connection: connection.fetched(_OF, (endpoint,)))
        return _names(rows[0]) if rows else []

    async def all(self) -> Mapping[str, Collection[str]]:
        """Those of every endpoint that has some."""
        rows = await self._database.read(lambda connection: connection.fetched(_ALL, ()))
        return {str(row["endpoint"]): names for row in rows if (names := _names(row))}

    async def put(self, endpoint: str, names: Collection[str]) -> None:
        """Store an endpoint's habits in place of what is stored."""
        values = (endpoint, json.dumps(sorted(names)))
        await self._database.write(lambda connection: connection.execute(_PUT, values))


def _names(row: Row) -> list[str]:
    """The names in a row; none where it cannot be read: they are learned again."""
    try:
        names = json.loads(row["names"])
    except (TypeError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
