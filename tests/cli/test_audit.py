"""`segue audit`."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from getpass import getuser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from segue.cli import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A database with a log and a session, and its anchor."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGUE_LANGUAGE", "en")
    (tmp_path / "agents.toml").write_text('[audit]\nanchor = "anchor"\n')
    run("chat", "hello", "--session", "s1", "--model", "offline", "--agents", "agents.toml")
    yield tmp_path / "anchor"


@pytest.mark.usefixtures("logged")
def test_entries_say_who_did_what() -> None:
    run("export", "s1", "s1.json")
    entries = json.loads(run("audit", "--json").stdout)
    told = [(entry["actor"], entry["action"]) for entry in entries]
    terminal = f"terminal:{getuser()}"
    assert told == [(terminal, "exported"), ("segue", "done"), ("segue", "began"), (terminal, "enabled")]
    assert "exported" in run("audit", "--session", "s1").stdout
    assert [entry["action"] for entry in json.loads(run("audit", "--action", "done", "--json").stdout)] == ["done"]


def test_verification_names_a_row_that_was_changed(logged: Path) -> None:
    head = run("audit", "--head").stdout.strip()
    for options in ((), ("--expect", head), ("--anchor", str(logged)), ("--agents", "agents.toml")):
        checked = run("audit", "--verify", *options)
        assert (checked.exit_code, checked.stdout.split(".")[0]) == (0, "All rows are as they were stored")
    with closing(sqlite3.connect("segue.db")) as file, file:
        file.execute("UPDATE events SET event = event || ' ' WHERE seq = 2")
    checked = run("audit", "--verify")
    assert checked.exit_code == 1 and "changed: event 2 of table events, session s1" in checked.stdout
    assert json.loads(run("audit", "--verify", "--json").stdout)["findings"][0]["row"] == "event 2"
    with closing(sqlite3.connect("segue.db")) as file, file:
        file.execute("DELETE FROM audit WHERE position = (SELECT max(position) FROM audit)")
    assert "truncated: entry 3" in run("audit", "--verify", "--expect", head).stdout


def test_a_database_without_a_log_says_how_to_begin_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGUE_LANGUAGE", "en")
    run("chat", "hello", "--session", "s1", "--model", "offline")
    for options in ((), ("--verify",), ("--head",)):
        assert "segue audit --enable" in run("audit", *options).output
    assert run("audit", "--verify").exit_code == run("audit", "--head").exit_code == 1
    assert run("audit", "--enable").exit_code == 0
    assert run("audit", "--verify").exit_code == 0
    assert run("audit", "--head", "--expect", "x").exit_code == 2
    assert "is not a head" in run("audit", "--verify", "--expect", "x").output


def test_a_setting_that_is_not_known_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents.toml").write_text("[audit]\nancor = 1\n")
    said = run("chat", "hello", "--model", "offline", "--agents", "agents.toml")
    assert said.exit_code == 2 and "[audit] table" in said.output and "ancor" in said.output
