"""The store of LangGraph's server API over both databases."""

from typing import Any

import pytest

from segue.checkpoints import graphs
from segue.checkpoints.graphs import GraphTables
from segue.core.records import readable
from segue.runtime.graph_store import GraphStore

from .conftest import Store


async def test_a_page_of_items_is_all_that_a_search_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, read = GraphTables(store), list[int]()
    items, others = GraphStore(tables, "acme:"), GraphStore(tables, "other:")

    def note(kind: Any, rows: Any) -> Any:
        read.append(len(rows))
        return readable(kind, rows)

    for number in range(5):
        await items.aput(("notes", "a"), f"key {number}", {"number": number})
    await items.aput(("notes",), "above", {"number": 9})
    await items.aput(("notes ab",), "beside", {"number": 9})
    await others.aput(("notes", "a"), "foreign", {"number": 9})
    monkeypatch.setattr(graphs, "readable", note)
    pages = [await items.asearch(("notes", "a"), limit=2, offset=offset) for offset in (0, 2, 4, 10**30)]
    assert [[each.key for each in page] for page in pages] == [["key 4", "key 3"], ["key 2", "key 1"], ["key 0"], []]
    assert read == [2, 2, 1, 0]
    found = await items.asearch(("notes",), filter={"number": {"$gte": 1}}, limit=2, offset=3)
    assert [each.key for each in found] == ["key 2", "key 1"]
    read.clear()
    assert await items.alist_namespaces() == [("notes",), ("notes", "a"), ("notes ab",)]
    assert await items.alist_namespaces(max_depth=1, limit=1) == [("notes",)]
    assert read == []
