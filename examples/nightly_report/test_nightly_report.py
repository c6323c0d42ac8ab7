"""Tests of the nightly report, without a key: pytest test_nightly_report.py"""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel

import segue

AGENTS = Path(__file__).with_name("agents.toml")
NIGHT = 86_400


@pytest.fixture(autouse=True)
def _own_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORTS", str(tmp_path / "reports"))


def test_each_night_has_its_report(tmp_path: Path) -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()

    async def three_nights() -> list[str]:
        nonlocal now
        (agent,) = segue.load_agents(AGENTS)
        agents = [agent.model_copy(update={"model": "offline"})]
        async with segue.open(":memory:", agents=agents, clock=lambda: now) as app:
            await app.start("Write the sales report", agent="reporter", every="0 6 * * *", timezone="UTC")
            for _ in range(3):
                now += NIGHT
                await app.schedules.run_due()
                (newest,) = await app.tasks.list(limit=1)
                _ = [event async for event in app.follow(newest.task_id)]
            return [task.status for task in await app.tasks.list()]

    assert asyncio.run(three_nights()) == ["done"] * 3
    assert "# Sales of 2026-11-23" in (tmp_path / "reports/2026-11-23.md").read_text("utf-8")


def test_a_report_that_costs_too_much_waits_and_goes_on_with_a_higher_limit() -> None:
    async def asked() -> tuple[segue.Result, segue.Result]:
        (agent,) = segue.load_agents(AGENTS)
        model = FakeListChatModel(responses=["A good day."])
        agents = [agent.model_copy(update={"model": model, "mode": "direct"})]
        async with segue.open(":memory:", agents=agents, spend={"per_task": 0.0001}) as app:
            first = await app.ask("Write the sales report", agent="reporter")
            return first, await app.answer(first.task_id, {"limit": 1.0})

    first, second = asyncio.run(asked())
    assert (first.status, first["question"]["kind"]) == ("waiting", "spend")
    assert (second.status, second.answer) == ("done", "A good day.")
