"""LangGraph's own conformance tests for savers."""

from collections.abc import AsyncIterator

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES

from segue.checkpoints.sqlite.database import open_database
from segue.checkpoints.sqlite.saver import FencedSqliteSaver


@checkpointer_test(name="FencedSqliteSaver")
async def saver() -> AsyncIterator[FencedSqliteSaver]:
    async with await open_database(":memory:") as database:
        yield FencedSqliteSaver(database)


async def test_the_saver_passes_langgraphs_conformance_tests() -> None:
    """Copies, deletions and pruning are Segue's own: LangGraph's know nothing of tasks, calls and logs."""
    report = await validate(saver)
    failures = [failure for result in report.results.values() for failure in result.failures]
    assert not failures, "\n".join(map(str, failures))
    assert {name for name, result in report.results.items() if result.passed} == {*BASE_CAPABILITIES}
