"""A batch of conversations: killed half-way, continued, reproduced, reported and compared."""

import asyncio
import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from io import StringIO
from math import comb
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

import segue
from segue.cli.main import app as cli
from segue.core.errors import ConfigurationError
from segue.testing.rehearsal import ConversationConfig, read_log
from segue.testing.rehearsal.batch import Counting, Manifest, batch_of, check, open_batch
from segue.testing.rehearsal.participants import workflow_file
from segue.testing.rehearsal.worker import work
from tests.cli.process import Begun, begin

ROOT = Path(__file__).parents[2]
WORKFLOW = "travel_change"
VARYING = ("task_id", "time", "seconds")


def simulate(out: Path, n: int, *options: str, workers: int = 2) -> Begun:
    """Start a batch."""
    batch = ["--n", str(n), "--workers", str(workers), "--out", str(out)]
    chosen = options or ("--workflow", WORKFLOW)
    return begin(("simulate", *chosen, *batch), ROOT, {**os.environ}, out.with_suffix(".log"))


def logs(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The logs of a batch, line by line, without ids and times."""
    found = {}
    for file in sorted((out / "logs").glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found[file.stem] = [{name: value for name, value in line.items() if name not in VARYING} for line in lines]
    return found


def report(out: Path, *options: str) -> tuple[dict[str, Any], Any]:
    """The report of a batch, and how the command ended."""
    ran = CliRunner().invoke(cli, ["report", str(out), *options])
    return json.loads((out / "report.json").read_text(encoding="utf-8")), ran


@pytest.mark.slow
def test_a_hundred_conversations_killed_half_way_go_on_and_the_report_is_what_the_logs_say(tmp_path: Path) -> None:
    out = tmp_path / "batch"
    first = simulate(out, 100)
    deadline = time.monotonic() + 300
    while len(list(out.glob("logs/*.jsonl"))) < 50:
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    begun = {file.name: file.stat().st_mtime_ns for file in out.glob("logs/*.jsonl")}
    assert 50 <= len(begun) < 100

    assert simulate(out, 100).wait(300) == 0
    after = {file.name: file.stat().st_mtime_ns for file in out.glob("logs/*.jsonl")}
    assert len(after) == 100
    assert {name: after[name] for name in begun} == begun
    assert Counter(len(set(_places(file))) == len(_places(file)) for file in out.glob("logs/*.jsonl")) == {True: 100}

    made, ran = report(out)
    assert ran.exit_code == 0, ran.output
    _recomputed(out, made)


def _places(file: Path) -> list[int]:
    return [utterance.index for utterance in read_log(file).utterances]


def _recomputed(out: Path, made: dict[str, Any]) -> None:
    """Work the report's numbers out again from the logs, without the report's code."""
    talks = logs(out)
    utterances = {name: [line for line in lines if line["type"] == "utterance"] for name, lines in talks.items()}
    turns = [sum(u["role"] == "BOT" and not u.get("action") for u in said) for said in utterances.values()]
    calls = sum(bool(u.get("action")) and u["role"] == "BOT" for said in utterances.values() for u in said)
    summary = made["summary"]
    assert summary["conversations"] == len(talks) == 100
    assert summary["turns_mean"] == pytest.approx(sum(turns) / len(turns))
    assert summary["calls"] == calls
    assert summary["end_reasons"] == dict(Counter(lines[-1]["reason"] for lines in talks.values()))
    succeeded = {row["conversation_id"]: row["success"] for row in made["conversations"]}
    assert summary["success"]["value"] == pytest.approx(sum(succeeded.values()) / 100)
    by_scenario: dict[str, list[bool]] = {}
    for name, success in succeeded.items():
        by_scenario.setdefault(re.sub(r"-\d+$", "", name), []).append(success)
    for k, estimate in made["pass_hat"].items():
        expected = [comb(sum(trials), int(k)) / comb(len(trials), int(k)) for trials in by_scenario.values()]
        assert estimate["value"] == pytest.approx(sum(expected) / len(expected))


@pytest.mark.slow
def test_one_seed_gives_the_same_conversations_however_many_workers_hold_them(tmp_path: Path) -> None:
    for place, workers in enumerate((1, 2)):
        assert simulate(tmp_path / str(place), 6, workers=workers).wait(300) == 0
    assert logs(tmp_path / "0") == logs(tmp_path / "1")
    assert simulate(tmp_path / "2", 2, "--workflow", WORKFLOW, "--seed", "7").wait(300) == 0
    assert logs(tmp_path / "0")["change_without_fee-001"] != logs(tmp_path / "2")["change_without_fee-001"]


@pytest.mark.slow
def test_a_worse_workflow_shows_up_as_worse_in_the_comparison(tmp_path: Path) -> None:
    worse = tmp_path / "worse.md"
    text = workflow_file(WORKFLOW).read_text(encoding="utf-8")
    shutil.copy(workflow_file(WORKFLOW).with_suffix(".yaml"), tmp_path)
    worse.write_text(_without_verification(text), encoding="utf-8")
    good, bad = tmp_path / "good", tmp_path / "bad"
    assert simulate(good, 16).wait(300) == 0
    assert simulate(bad, 16, "--workflow", str(worse)).wait(300) == 0
    report(good)
    made, ran = report(bad, "--against", str(good))
    assert ran.exit_code == 1
    assert "The new batch is worse, and the difference exceeds noise" in ran.output
    comparison = made["comparison"]
    assert len(comparison["worse"]) > 10
    assert comparison["better"] == []
    assert all(row["fault"]["party"] == "agent" for row in made["conversations"] if not row["success"])
    page = (bad / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 4
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def _without_verification(text: str) -> str:
    """The workflow without the step that verifies the passenger, and without the preconditions on it."""
    text = re.sub(r"requires: \[[^\]]*\]", "requires: []", text)
    return re.sub(r"(?m)^  - name: verify.*\n(?:    .*\n)+", "", text)


async def test_a_worker_knows_the_flows_of_the_agents_file(tmp_path: Path) -> None:
    agents = tmp_path / "agents.toml"
    agents.write_text("[flows.mine]\nmax_round = 3\n", encoding="utf-8")
    config = ConversationConfig(user_mode="scripted_user", script=("Hello",), bot_mode="segue:mine")
    open_batch(tmp_path / "out", batch_of(config, n=1, agents=str(agents)))
    await work(tmp_path / "out", 1, StringIO())
    assert read_log(tmp_path / "out/logs/conversation-001.jsonl").ending


async def test_the_calls_of_a_batch_count_in_the_database_whose_limits_they_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    config = ConversationConfig(
        user_mode="scripted_user", script=("Hello",), bot_mode="react_bot", bot_model="openai:x"
    )
    open_batch(tmp_path / "out", batch_of(config, n=1))
    reports, shared = StringIO(), str(tmp_path / "segue.db")
    await work(tmp_path / "out", 1, reports, counting=Counting(shared, limits={"per_day_tokens": 5}))
    last = json.loads(reports.getvalue().splitlines()[-1])
    assert last["status"] == "failed" and "5 tokens" in last["error"]
    async with segue.open(shared, spend={"per_day_tokens": 5}) as app:
        (limit,) = (await app.tasks.usage_report(1)).limits
    assert (limit.limit_name, limit.limit) == ("per_day_tokens", 5)


def test_nobody_is_asked_in_a_batch(tmp_path: Path) -> None:
    agents = tmp_path / "agents.toml"
    agents.write_text(
        '[[agent]]\nagent_id = "desk"\ntools = ["clock"]\napprove = {current_time = "always"}\n', encoding="utf-8"
    )
    config = ConversationConfig(user_mode="scripted_user", script=("Hello",), bot_agent="desk", api_mode="tools")
    with pytest.raises(ConfigurationError, match="in a batch, but the tools current_time need approval"):
        asyncio.run(check(batch_of(config, n=1, agents=str(agents))))
    asyncio.run(check(batch_of(config.model_copy(update={"approvals": "reject"}), n=1, agents=str(agents))))


def failing(setting: object) -> NoReturn:
    raise RuntimeError("the desk is closed")


async def test_a_conversation_that_fails_leaves_the_others_of_its_worker_alone(tmp_path: Path) -> None:
    config = ConversationConfig(bot_mode=f"{__name__}:failing")
    open_batch(tmp_path / "out", batch_of(config, n=2))
    reports = StringIO()
    await work(tmp_path / "out", 1, reports)
    said = [json.loads(line) for line in reports.getvalue().splitlines()]
    assert [form["status"] for form in said] == ["started", "failed"] * 2
    assert said[-1]["error"] == "RuntimeError: the desk is closed"


def test_a_folder_continues_its_own_batch_only_and_may_grow(tmp_path: Path) -> None:
    config = batch_of(_config(), n=4, workers=2)
    settled = open_batch(tmp_path / "b", config)
    assert [planned.worker for planned in settled.conversations()] == [1, 2, 1, 2]
    grown = open_batch(tmp_path / "b", batch_of(_config(), n=6, workers=2))
    assert list(grown.conversations())[:4] == list(settled.conversations())
    assert Manifest.read(tmp_path / "b").n == 6
    assert open_batch(tmp_path / "b", batch_of(_config(), n=6, workers=3)).workers == 2
    with pytest.raises(
        ConfigurationError, match=r"contains another batch, with config \{.*, seed 0: use the same options"
    ):
        open_batch(tmp_path / "b", batch_of(_config(seed=1, retry_limit=1), n=6, workers=2))
    with pytest.raises(ConfigurationError, match="is not empty and contains no batch"):
        open_batch(tmp_path, config)
    with pytest.raises(ConfigurationError, match="There is no batch in"):
        Manifest.read(tmp_path)


def _config(**values: Any) -> Any:
    from segue.core.conversation import config_of

    return config_of({"workflow": WORKFLOW, **values})
