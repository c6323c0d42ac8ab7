"""The sections of `segue --help`, and the commands that the command line suggests."""

import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from segue.cli import app
from segue.cli.main import SECTIONS
from segue.cli.settings import Settings, continue_command, send_command, task_command


def test_every_command_is_in_one_section() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(name for name, command in commands.items() if not command.hidden)


def test_help_lists_the_sections() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout.splitlines()
    assert [line for line in shown if line[:-1] in SECTIONS] == [f"{title}:" for title in SECTIONS]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_help_wraps_and_loses_no_word(width: int) -> None:
    shown = CliRunner().invoke(app, ["--help"], terminal_width=width).stdout
    assert "..." not in shown.replace("[ARGS]...", "") and max(map(len, shown.splitlines())) <= width
    assert "Break a goal down into subtasks and run them." in " ".join(shown.split())


def test_the_plain_case_is_short() -> None:
    assert continue_command(Settings(), "s1") == 'segue chat --session s1 "…"'
    assert task_command(Settings(), "resume", "t1") == "segue resume t1"


def test_what_is_not_the_default_is_said_again_and_quoted() -> None:
    settings = Settings("my data.db", "a b.toml", agent="x", model="openai:m")
    words = shlex.split(continue_command(settings, "s1"))
    assert words[4:] == ["--db", "my data.db", "--agents", "a b.toml", "--agent", "x", "--model", "openai:m", "…"]
    assert shlex.split(task_command(settings, "cancel", "t1"))[2:] == ["t1", "--db", "my data.db"]


def test_the_first_agent_of_the_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text('[[agent]]\nagent_id = "first"\n[[agent]]\nagent_id = "second"\n', encoding="utf-8")
    assert Settings(agents_file=str(file)).chosen_agent() == "first"
    assert Settings(agents_file=str(file), agent="second").chosen_agent() == "second"
    assert Settings().chosen_agent() == ""


def test_a_message_is_sent_again_by_the_command_that_was_used() -> None:
    chat = Settings(session="s1", mode="plan", user="ann")
    assert send_command(chat, "hi", "--steer") == "segue chat --steer --user ann --mode plan hi"
    run = Settings(verb="run", mode="lifecycle", agent="data", files=("a b.csv", "c.csv"), message="look at it")
    sent = send_command(run, "look at it\n\n(data files: a-b.csv, c.csv)", "--wait", "60")
    assert sent == "segue run --wait 60 --agent data --file 'a b.csv' --file c.csv 'look at it'"
    assert continue_command(run, "s1") == 'segue chat --session s1 --agent data "…"'


def known_options(command: str) -> set[str]:
    return {option for parameter in get_command(app).commands[command].params for option in parameter.opts}


@pytest.mark.parametrize("verb", ["resume", "answer", "pause", "cancel", "recover", "trace"])
def test_a_command_that_is_proposed_has_the_options_that_are_proposed(verb: str) -> None:
    proposed = shlex.split(task_command(Settings("x.db", "a.toml"), verb, "t1"))
    assert {word for word in proposed if word.startswith("-")} <= known_options(verb)


@pytest.mark.parametrize("verb", ["chat", "run"])
def test_a_command_that_sends_has_the_options_that_are_proposed(verb: str) -> None:
    files = ("a.csv",) if verb == "run" else ()
    settings = Settings("x.db", "a.toml", "x", "plan", "offline", "ann", verb=verb, files=files)
    proposed = shlex.split(send_command(settings, "hi", "--session", "s1", "--wait", "60", "--steer"))
    assert {word for word in proposed if word.startswith("-")} <= known_options(verb)
