"""LangGraph's own conformance tests for savers, and what they leave out: logs that are rebuilt from writes."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from segue.checkpoints.export import threads_of
from segue.checkpoints.rows import delete_rows
from segue.checkpoints.saver import FencedSaver

from .conftest import Store, opened
from .graphs import Steps, build


async def test_the_saver_passes_langgraphs_conformance_tests_completely(address: str) -> None:
    @checkpointer_test(name="FencedSaver")
    async def saver() -> AsyncIterator[FencedSaver]:
        async with await opened(address) as database:
            await database.write(lambda connection: [delete_rows(connection, name) for name in threads_of(connection)])
            yield FencedSaver(database)

    report = await validate(saver)
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert not failures, "\n".join(map(str, failures))
    assert {name for name, result in report.results.items() if result.passed} == {*ALL_CAPABILITIES}


RUNS = [str(uuid4()) for _ in range(3)]


@pytest.fixture
async def graph(store: Store) -> Any:
    """A graph that ran three times on thread t; its messages are a log."""
    graph = build(Steps()).compile(checkpointer=FencedSaver(store))
    for run in RUNS:
        config: Any = {"configurable": {"thread_id": "t"}, "metadata": {"run_id": run}}
        await graph.ainvoke({"messages": [("user", f"{run} {'x' * 300}")]}, config)
    return graph


async def state(graph: Any, thread_id: str = "t") -> Any:
    return (await graph.aget_state({"configurable": {"thread_id": thread_id}})).values


async def test_a_pruned_and_a_copied_thread_read_as_before(graph: Any) -> None:
    before, all_of_it = await state(graph), [each async for each in graph.checkpointer.alist(None)]
    await graph.checkpointer.aprune(["t"])
    await graph.checkpointer.acopy_thread("t", "copy")
    assert await state(graph) == await state(graph, "copy") == before
    kept = [each async for each in graph.checkpointer.alist({"configurable": {"thread_id": "t"}})]
    assert len(kept) < len(all_of_it)
    await graph.checkpointer.aprune(["t"], strategy="delete")
    assert await state(graph) == {} and await state(graph, "copy") == before
    with pytest.raises(ValueError, match="use one of keep_latest, delete"):
        await graph.checkpointer.aprune(["t"], strategy="all")


async def test_runs_whose_checkpoints_later_ones_are_rebuilt_from_stay(graph: Any) -> None:
    before = await state(graph)
    with pytest.raises(ValueError, match="are rebuilt from those of the runs"):
        await graph.checkpointer.delete_run("t", RUNS[1])
    with pytest.raises(ValueError, match="are rebuilt from those of the runs"):
        await graph.checkpointer.adelete_for_runs(RUNS[1:2])
    assert await state(graph) == before
    await graph.checkpointer.adelete_for_runs(RUNS)
    assert await state(graph) == {}


async def test_what_a_run_made_is_deleted_in_one_thread(graph: Any) -> None:
    await graph.checkpointer.acopy_thread("t", "copy")
    before = await state(graph)
    await graph.checkpointer.delete_run("t", RUNS[2])
    assert len((await state(graph))["messages"]) < len(before["messages"])
    assert await state(graph, "copy") == before
