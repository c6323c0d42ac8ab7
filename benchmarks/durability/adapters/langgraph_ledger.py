"""The same with `segue.Ledger`, as docs/guides/keep-your-graph.md has it."""

from collections.abc import Mapping

import segue
from benchmarks.durability.adapters import langgraph
from benchmarks.durability.work import Outcome, Work

PACKAGES = ("segue", *langgraph.PACKAGES)
NOT_OFFERED = langgraph.NOT_OFFERED


def _ledger(work: Work) -> list[segue.Ledger]:
    return [segue.Ledger(work.folder / "ledger.db")]


async def run(work: Work) -> Outcome:
    return await langgraph.run(work, _ledger)


begin = run
remember = langgraph.remember


async def resume(work: Work) -> Outcome:
    return await langgraph.resume(work, _ledger)


async def decide(work: Work, approve: Mapping[str, bool]) -> Outcome:
    return await langgraph.decide(work, approve, _ledger)
