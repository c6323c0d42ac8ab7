"""Tests of the data analyst, without a key: pytest test_data_analyst.py"""

import asyncio
from pathlib import Path

import pytest

import segue

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _own_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_DATA", str(HERE / "data"))
    monkeypatch.setenv("SEGUE_CHARTS", str(tmp_path / "charts"))
    monkeypatch.setenv("FINDINGS", str(tmp_path / "findings"))


def ask(message: str) -> segue.Result:
    async def asked() -> segue.Result:
        async with segue.open(":memory:", agents=segue.load_agents(HERE / "agents.toml")) as app:
            return await app.ask(message, agent="analyst", model="offline")

    return asyncio.run(asked())


def test_figures_are_those_of_the_file() -> None:
    result = ask("Which region has the highest revenue?")
    assert "South" in result.answer


def test_a_chart_is_drawn(tmp_path: Path) -> None:
    assert ask("Draw the revenue by month as a line chart").status == "done"
    assert [file.suffix for file in (tmp_path / "charts").iterdir()] == [".png"]


def test_a_finding_is_saved_once_however_often_it_is_told(tmp_path: Path) -> None:
    for _ in range(2):
        assert ask('Save "South sells most"').status == "done"
    assert [file.name for file in (tmp_path / "findings").iterdir()] == ["south-sells-most.md"]
