"""`segue chat --at` and `segue schedules`."""

import json
import signal
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from segue.cli import app

from .conftest import SECONDS, Shell


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def test_a_message_for_later_is_stored_listed_paused_and_deleted() -> None:
    made = run("chat", "What time is it?", "--every", "0 9 * * mon", "--timezone", "Asia/Shanghai")
    assert made.exit_code == 0, made.output
    assert "next run" in made.stdout and "09:00 CST" in made.stdout and "segue schedules --run" in made.output
    (form,) = json.loads(run("schedules", "--json").stdout)
    name = form["schedule_id"]
    assert (form["message"], form["every"], form["last_status"]) == ("What time is it?", "0 9 * * mon", None)
    assert "What time is it?" in run("schedules").stdout
    assert "paused" in run("schedules", "--pause", name).stdout
    assert "09:00 CST" in run("schedules", "--resume", name).stdout
    assert run("schedules", "--delete", name).stdout == f"Schedule {name} was deleted.\n"
    assert run("schedules").stdout.startswith("There are no schedules")
    assert run("schedules", name).exit_code == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--at", "soon"], "is not a valid time"),
        (["--at", "2020-01-01"], "has passed"),
        (["--at", "18:00", "--timezone", "Mars"], "There is no time zone 'Mars'"),
        (["--every", "often"], "is not a cron expression"),
        (["--timezone", "UTC"], "Give either a time"),
        (["--at", "18:00", "--steer", "--session", "s"], "cannot have steer"),
    ],
)
def test_bad_input_says_what_to_give(options: list[str], says: str) -> None:
    refused = run("chat", "m", *options)
    assert (refused.exit_code, says in refused.output) == (2, True), refused.output


@pytest.mark.slow
def test_running_says_which_agents_are_missing_here(pages: Shell) -> None:
    (pages.folder / "clock.toml").write_text('[[agent]]\nagent_id = "clock"\ntools = ["clock"]\n', encoding="utf-8")
    assert pages("chat", "What time is it?", "--every", "0 9 * * mon", "--agents", "clock.toml").returncode == 0
    for options, is_missing in ((), True), (("--agents", "clock.toml"), False):
        running = pages.begin("schedules", "--run", *options)
        pages.until("err", "Ready: runs due schedules")
        running.send_signal(signal.SIGINT)
        assert running.wait(SECONDS) == 0
        assert ("Schedules of these agents do not run here: clock." in pages.read("err")) == is_missing


def test_the_sentences_are_chinese_where_they_are_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_LANGUAGE", "zh")
    assert "下次运行于" in run("chat", "几点了", "--at", "18:00").stdout
    assert "下次运行" in run("schedules").stdout
