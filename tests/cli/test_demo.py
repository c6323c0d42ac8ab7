"""`segue demo`: the trip, and the crash; both leave nothing behind."""

import re
from pathlib import Path

import pytest

from segue.cli.commands import demo

from .conftest import Shell


def row(printed: str, name: str) -> list[str]:
    """The cells of a row of the table."""
    return re.split(r"  +", next(line for line in printed.splitlines() if line.startswith(f"{name}  ")).strip())


@pytest.mark.slow
def test_the_crash_demo_pays_once_and_shows_the_peer_beside(shell: Shell) -> None:
    done = shell("demo", "--crash", SEGUE_MODEL="openai:none", SEGUE_LANGUAGE="en")
    printed = done.stdout.decode()
    assert done.returncode == 0, printed
    assert row(printed, "check_budget") == ["check_budget", "done before the kill", "done before the kill"]
    assert row(printed, "pay_invoice")[1:] == ["interrupted; checked, not repeated", "interrupted; made again"]
    assert row(printed, "close_invoice") == ["close_invoice", "done after the restart", "done after the restart"]
    assert row(printed, "The bank sent")[1:] == ["EUR 1,250, once", "EUR 2,500, in 2 payments"]
    assert not [*shell.folder.iterdir()]


@pytest.mark.slow
def test_without_langchain_the_peer_is_described(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    printed = shell("demo", "--crash", SEGUE_LANGUAGE="zh").stdout.decode()
    assert row(printed, "pay_invoice") == ["pay_invoice", "被中断；已核对，未重复"]
    assert "pip install langchain" in printed


def test_the_trip_leaves_nothing_behind_and_no_command_that_cannot_work(shell: Shell) -> None:
    done = shell("demo", SEGUE_LANGUAGE="en", TTY_COMPATIBLE="1", TERM="dumb")
    assert (done.returncode, "Beijing" in done.stdout.decode()) == (0, True)
    assert "segue chat" not in (done.stdout + done.stderr).decode()
    assert not [*shell.folder.iterdir()]
    kept = shell("demo", "--db", "trip.db", SEGUE_LANGUAGE="en", TTY_COMPATIBLE="1", TERM="dumb")
    assert "segue chat --session demo-" in (kept.stdout + kept.stderr).decode()
    assert Path(shell.folder, "trip.db").exists()


def test_the_crash_demo_refuses_a_database(shell: Shell) -> None:
    done = shell("demo", "--crash", "--db", "mine.db")
    assert (done.returncode, "--db" in done.stderr.decode()) == (2, True)


@pytest.mark.slow
def test_the_line_below_the_answer_counts_the_steps_of_the_plan(shell: Shell) -> None:
    terminal = shell.at_terminal("demo", "--db", ":memory:", SEGUE_LANGUAGE="en")
    terminal.until("5 steps")
    terminal.until("mode plan · 5 steps")
    assert terminal.end() == 0
