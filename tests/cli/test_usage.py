"""`segue usage`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from segue.cli import app
from tests.loopback import LoopbackServer, Text


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database with a task of a model that has a price, and one of a model that has none."""
    monkeypatch.chdir(tmp_path)
    with LoopbackServer([Text("1"), Text("2")]) as endpoint:
        fields = f'model = "openai:m"\nbase_url = "{endpoint.base_url}"\napi_key = "k"\nmode = "direct"'
        prices = 'prices = {input = 100000.0, output = 100000.0, currency = "EUR"}'
        (tmp_path / "agents.toml").write_text(
            f'[[agent]]\nagent_id = "priced"\n{fields}\n{prices}\n[[agent]]\nagent_id = "other"\n{fields}\n'
        )
        for agent in ("priced", "other"):
            run("chat", "hello", "--agents", "agents.toml", "--agent", agent)
        yield


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, [*arguments]).stdout


@pytest.mark.usefixtures("used")
def test_usage_lists_tokens_and_cost_and_what_is_not_known() -> None:
    report = json.loads(run("usage", "--json"))
    assert (report["total"]["tasks"], report["total"]["cost"], report["total"]["unpriced"]) == (2, None, 1)
    (priced,) = [row for row in report["by_agent"] if row["agent"] == "priced"]
    assert priced["cost"] == pytest.approx((priced["input"] + priced["output"]) / 10)
    listed = run("usage", "--by", "agent").splitlines()
    assert not [line for line in listed if line.endswith(" ")]
    assert [line.split()[0] for line in listed[:3]] == ["agent", "priced", "other"] or listed[1].startswith("other")
    assert f"at least {priced['cost']:.4f} EUR" in listed[3] and any(line.endswith("unknown") for line in listed[1:3])
    assert listed[4].startswith("Costs are computed from tokens and prices")
    assert listed[5] == ("Ended tasks whose cost is unknown: 1. To set a model's prices, use the agent's prices.")
    (day,) = [line for line in run("usage").splitlines() if line.startswith(report["until"])]
    assert day.split()[1] == "2"
    assert run("usage", "--agent", "nobody").startswith("No task was started since ")


def test_a_limit_is_named_with_what_is_used_and_raised_by_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with LoopbackServer([Text(str(n)) for n in range(3)]) as endpoint:
        fields = (
            f'model = "openai:m"\nbase_url = "{endpoint.base_url}"\napi_key = "k"\nmode = "direct"\nmax_tokens = 100'
        )
        spend = "[spend]\nper_session_tokens = 20"
        (tmp_path / "agents.toml").write_text(f'[[agent]]\nagent_id = "a"\n{fields}\n{spend}\n')
        asked = CliRunner().invoke(app, ["chat", "hello", "--agents", "agents.toml", "--session", "s"])
        assert asked.exit_code == 3 and "The limit of this session is too low" in asked.output
        (waiting,) = json.loads(run("waiting", "--json"))
        suggested, listed = waiting["spend"]["suggestion"], run("waiting")
        assert f"segue answer {waiting['task_id'][:8]} {suggested}" in listed
        refused = CliRunner().invoke(app, ["answer", waiting["task_id"], "20"])
        assert refused.exit_code == 2 and "is too low" in refused.output
        assert CliRunner().invoke(app, ["answer", waiting["task_id"], suggested]).exit_code == 0
        report = json.loads(run("usage", "--json", "--agents", "agents.toml"))
        assert [(use["limit_name"], use["name"], use["limit"]) for use in report["limits"]] == [
            ("per_session_tokens", "s", float(suggested))
        ]
        assert "per_session_tokens  s" in run("usage", "--by", "user", "--agents", "agents.toml")
