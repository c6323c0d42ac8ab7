"""Turns that are forced to a reference conversation, and the differences that are reported."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segue
from segue.cli import app as command_line
from segue.core.errors import ConfigurationError
from segue.testing.rehearsal import ConversationConfig, converse, differences, read_log, write_log

COURSE = {"workflow": "travel_change", "scenario": "change_with_fee"}


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    file = tmp_path / "reference.jsonl"
    async with segue.open(":memory:") as app:
        write_log(await converse(app, ConversationConfig(**COURSE, seed=3)), file)
    return file


async def test_the_same_bot_does_the_same_and_another_is_compared_turn_by_turn(log: Path) -> None:
    async with segue.open(":memory:") as app:
        same = await converse(app, ConversationConfig(**COURSE, reference=str(log)))
        assert differences(same) == []
        other = await converse(app, ConversationConfig(**COURSE, reference=str(log), bot_mode="dummy_bot"))
    found = differences(other)
    assert [(each.text, each.action, each.data) for each in other.utterances] == [
        (each.text, each.action, each.data) for each in same.utterances
    ]
    assert len(found) == 11
    assert (found[1].turn, found[1].got) == (2, "dummy_action({})")
    assert found[1].expected.startswith("find_booking({")


async def test_what_cannot_be_forced_is_refused(log: Path, tmp_path: Path) -> None:
    async with segue.open(":memory:") as app:
        with pytest.raises(ConfigurationError, match="cannot be forced to a reference"):
            await converse(app, ConversationConfig(**COURSE, reference=str(log), bot_mode="segue:react"))
        with pytest.raises(ConfigurationError, match="cannot be read"):
            await converse(app, ConversationConfig(**COURSE, reference=str(tmp_path / "none.jsonl")))


async def test_a_log_that_ends_after_a_call_is_refused_before_anything_runs(log: Path, tmp_path: Path) -> None:
    whole = read_log(log)
    first = next(each.index for each in whole.utterances if each.is_action)
    cut, said = str(tmp_path / "cut.jsonl"), list[str]()
    async with segue.open(":memory:") as app:
        for rest in (), whole.utterances[first + 2 :]:
            write_log(replace(whole, utterances=(*whole.utterances[: first + 1], *rest)), cut)
            with pytest.raises(ConfigurationError, match="no result of the call 'find_booking' in turn 2"):
                await converse(
                    app, ConversationConfig(**COURSE, reference=cut), on_utterance=lambda each: said.append(each.text)
                )
    assert said == []


def test_the_terminal_shows_the_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def simulate(*more: str) -> str:
        course = ["simulate", "--workflow", "travel_change", "--scenario", "change_with_fee", "--seed", "3"]
        return CliRunner().invoke(command_line, [*course, *more]).output

    simulate("--log", "a.jsonl")
    assert "The bot does at each turn what the reference does." in simulate(
        "--reference", "a.jsonl", "--log", "b.jsonl"
    )
    shown = simulate("--reference", "a.jsonl", "--log", "c.jsonl", "--bot", "dummy_bot")
    assert "Differences from the reference: 11." in shown and "got      dummy_action({})" in shown
