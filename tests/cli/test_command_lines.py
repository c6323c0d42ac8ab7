"""Commands: the sections of `segue --help`, the command lines that are suggested, audit, usage and files."""

import io
import json
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from getpass import getuser
from pathlib import Path

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner, Result

from segue.cli import app
from segue.cli.commands.doctor import doctor
from segue.cli.main import SECTIONS
from segue.cli.settings import Settings, continue_command, send_command, task_command
from tests.loopback import LoopbackServer, Text


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


# `segue audit`.


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


# `segue usage`.


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
            run_usage("chat", "hello", "--agents", "agents.toml", "--agent", agent)
        yield


def run_usage(*arguments: str) -> str:
    return CliRunner().invoke(app, [*arguments]).stdout


@pytest.mark.usefixtures("used")
def test_usage_lists_tokens_and_cost_and_what_is_not_known() -> None:
    report = json.loads(run_usage("usage", "--json"))
    assert (report["total"]["tasks"], report["total"]["cost"], report["total"]["unpriced"]) == (2, None, 1)
    (priced,) = [row for row in report["by_agent"] if row["agent"] == "priced"]
    assert priced["cost"] == pytest.approx((priced["input"] + priced["output"]) / 10)
    listed = run_usage("usage", "--by", "agent").splitlines()
    assert not [line for line in listed if line.endswith(" ")]
    assert [line.split()[0] for line in listed[:3]] == ["agent", "priced", "other"] or listed[1].startswith("other")
    assert f"at least {priced['cost']:.4f} EUR" in listed[3] and any(line.endswith("unknown") for line in listed[1:3])
    assert listed[4].startswith("Costs are computed from tokens and prices")
    assert listed[5] == ("Ended tasks whose cost is unknown: 1. To set a model's prices, use the agent's prices.")
    (day,) = [line for line in run_usage("usage").splitlines() if line.startswith(report["until"])]
    assert day.split()[1] == "2"
    assert run_usage("usage", "--agent", "nobody").startswith("No task was started since ")


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
        (waiting,) = json.loads(run_usage("waiting", "--json"))
        suggested, listed = waiting["spend"]["suggestion"], run_usage("waiting")
        assert f"segue answer {waiting['task_id'][:8]} {suggested}" in listed
        refused = CliRunner().invoke(app, ["answer", waiting["task_id"], "20"])
        assert refused.exit_code == 2 and "is too low" in refused.output
        assert CliRunner().invoke(app, ["answer", waiting["task_id"], suggested]).exit_code == 0
        report = json.loads(run_usage("usage", "--json", "--agents", "agents.toml"))
        assert [(use["limit_name"], use["name"], use["limit"]) for use in report["limits"]] == [
            ("per_session_tokens", "s", float(suggested))
        ]
        assert "per_session_tokens  s" in run_usage("usage", "--by", "user", "--agents", "agents.toml")


# Files that go along with messages from the terminal, and what the doctor says of them.


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "note.txt"
    path.write_text("the code is 17")
    return path


def test_a_file_goes_along_with_a_message(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackServer([Text("17")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = CliRunner().invoke(app, ["chat", "Which code?", "--mode", "direct", "--file", str(note)])
    assert done.exit_code == 0 and "17" in done.output
    assert "the code is 17" in server.requests[0].body["messages"][-1]["content"]


def test_in_a_conversation_it_goes_along_with_one_message(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = f"/file missing.txt\n/file {note}\nWhich code?\nAnd now?\n/exit\n"
    with LoopbackServer([Text("17"), Text("18")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        done = CliRunner().invoke(app, ["chat", "--interactive", "--mode", "direct"], input=lines)
    assert done.exit_code == 0
    assert "missing.txt cannot be read" in done.output
    said = [message["content"] for message in server.requests[1].body["messages"] if message["role"] == "user"]
    assert ["the code is 17" in text for text in said] == [True, False]


def test_the_doctor_finds_what_is_lost(note: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["chat", "Which code?", "--db", "s.db", "--model", "offline", "--file", str(note)])
    assert done.exit_code == 0, done.output
    assert "attached to messages: 1, 14 bytes" in report(tmp_path)
    (content,) = tmp_path.glob("s.db.files/*/*")
    content.unlink()
    assert "some are missing or damaged: note.txt (" in report(tmp_path)


def report(folder: Path) -> str:
    console = Console(file=io.StringIO(), width=400, color_system=None)
    doctor(console, Settings(str(folder / "s.db")))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_message_names_memory_files_for_a_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory" / "default").mkdir(parents=True)
    (tmp_path / "memory" / "default" / "rules.md").write_text("Write in verse.", encoding="utf-8")
    monkeypatch.setenv("SEGUE_MEMORY", "memory")
    files = ["--memory-file", "rules=rules.md", "--memory-file", "other=gone=1.md"]
    done = CliRunner().invoke(app, ["chat", "What is 2 + 2?", "--mode", "controller", "--json", *files])
    assert done.exit_code == 0
    assert (
        "There is no memory file gone=1.md: create it" in done.stdout and "no memory file rules.md" not in done.stdout
    )
    refused = CliRunner().invoke(app, ["chat", "What is 2 + 2?", "--mode", "react", *files])
    assert refused.exit_code == 2 and "The mode react reads no memory files" in refused.stderr
    unnamed = CliRunner().invoke(app, ["chat", "What is 2 + 2?", "--memory-file", "rules.md"])
    assert unnamed.exit_code == 2 and "'rules.md' is not NAME=PATH" in unnamed.stderr
