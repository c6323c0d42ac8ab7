"""LangGraph's store over the database: items that the threads of a tenant share."""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from ..checkpoints.graphs import GraphRows, GraphTables
from ..core.graph_objects import GraphObject
from ..core.sync import run_sync

KIND = "item"
_DECODER = json.JSONDecoder()


class GraphStore(BaseStore):
    """A tenant's items; texts are not searched by meaning, and items do not expire."""

    def __init__(self, tables: GraphTables, owner: str) -> None:
        self._tables = tables
        self._owner = owner
        self._loop = asyncio.get_running_loop()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations as one transaction."""
        given = [*ops]

        def work(rows: GraphRows) -> list[Result]:
            return [self._carry_out(rows, each) for each in given]

        writes = any(isinstance(each, PutOp) for each in given)
        return await (self._tables.write(work) if writes else self._tables.read(work))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """As `abatch`, for a node in a thread of its own."""
        return run_sync(self.abatch(ops), self._loop)

    def _carry_out(self, rows: GraphRows, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = rows.get(KIND, self._id(op.namespace, op.key))
            return _item(found) if found else None
        if isinstance(op, PutOp):
            self._put(rows, op)
            return None
        if isinstance(op, SearchOp):
            return [
                SearchItem(each.namespace, each.key, each.value, each.created_at, each.updated_at)
                for each in self._search(rows, op)
            ]
        return self._namespaces(rows, op)

    def _search(self, rows: GraphRows, op: SearchOp) -> list[Item]:
        prefix = self._prefix(op.namespace_prefix)
        if not op.filter:
            return [_item(each) for each in rows.starting(KIND, prefix, op.limit, op.offset)]
        items = [_item(each) for each in rows.starting(KIND, prefix)]
        fitting = [each for each in items if matches(each.value, op.filter)]
        return fitting[op.offset : op.offset + op.limit]

    def _put(self, rows: GraphRows, op: PutOp) -> None:
        object_id, now = self._id(op.namespace, op.key), time.time()
        if op.value is None:
            rows.delete(KIND, object_id)
            return
        body = {"namespace": [*op.namespace], "key": op.key, "value": op.value}
        new = GraphObject(kind=KIND, object_id=object_id, owner=self._owner, created_at=now, updated_at=now, body=body)
        if not rows.add(new):
            rows.put(new)

    def _namespaces(self, rows: GraphRows, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        start = len(self._owner)
        found = {tuple(_DECODER.raw_decode(each, start)[0]) for each in rows.ids_starting(KIND, f"{self._owner}[")}
        fitting = {each for each in found if all(_fits(each, condition) for condition in op.match_conditions or ())}
        if op.max_depth is not None:
            fitting = {each[: op.max_depth] for each in fitting}
        return sorted(fitting)[op.offset : op.offset + op.limit]

    def _prefix(self, namespace: Sequence[str]) -> str:
        return self._owner + _encoded(namespace)[:-1]

    def _id(self, namespace: Sequence[str], key: str) -> str:
        """The namespace comes first, so that those below it are one range."""
        return f"{self._owner}{_encoded(namespace)}{json.dumps(key)}"


def _encoded(namespace: Sequence[str]) -> str:
    return json.dumps([*namespace], separators=(",", ":"))


def _item(found: GraphObject) -> Item:
    return Item(
        namespace=tuple(found.body["namespace"]),
        key=found.body["key"],
        value=found.body["value"],
        created_at=datetime.fromtimestamp(found.created_at, UTC),
        updated_at=datetime.fromtimestamp(found.updated_at, UTC),
    )


_COMPARED: Mapping[str, Any] = {
    "$eq": lambda value, other: value == other,
    "$ne": lambda value, other: value != other,
    "$gt": lambda value, other: value > other,
    "$gte": lambda value, other: value >= other,
    "$lt": lambda value, other: value < other,
    "$lte": lambda value, other: value <= other,
}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the fields of a value are as a filter says; its operators compare them."""
    for name, expected in wanted.items():
        conditions = (
            expected if isinstance(expected, Mapping) and expected.keys() & _COMPARED.keys() else {"$eq": expected}
        )
        for operator, other in conditions.items():
            try:
                if operator not in _COMPARED or not _COMPARED[operator](value.get(name), other):
                    return False
            except TypeError:  # values of different types
                return False
    return True


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", own) for wanted, own in zip(path, part, strict=True))
