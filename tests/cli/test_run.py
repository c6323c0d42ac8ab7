"""A goal with subtasks on the command line: the table, the pause in the middle, and the files that come with it."""

import json
import re
import shlex
import signal
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from segue.cli import app
from segue.core import environment

from .conftest import PLAIN_TERMINAL, SECONDS, Shell

SALES = "date,region,amount\n2024-01-01,East,10\n2024-02-01,West,25\n2024-03-01,East,30.5\n"
GOAL = "please fetch it, then store it"
PAGES = ("--agents", "agents.toml", "--agent", "pages")


@pytest.fixture
def sales(shell: Shell) -> Shell:
    """A shell with a file beside the data folder."""
    pytest.importorskip("duckdb")
    (shell.folder / "given").mkdir()
    (shell.folder / "given" / "sales.csv").write_text(SALES, encoding="utf-8")
    return shell


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def engine(said: str, kind: str) -> list[dict[str, Any]]:
    """The details of the engine's events of a type."""
    told = [event["data"] for event in events(said) if event["type"] == "lifecycle"]
    return [data["details"] for data in told if data["event_type"] == kind]


def test_a_file_is_copied_in_and_the_figures_are_its_own(sales: Shell) -> None:
    ended = sales("run", "Which region has the highest amount?", "--file", "given/sales.csv", **PLAIN_TERMINAL)
    said = ended.stdout.decode()
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == b""
    assert sales.read("data/sales.csv") == SALES
    assert "agent data" in said
    assert re.search(r"☐ 1 .*  priority \d", said)
    assert re.search(r"☑ 1 .* s  1/2\n    The region with the highest amount is East: 40\.5", said)
    assert re.search(r"☑ 2 .* s  2/2", said)
    assert "\x1b" not in said
    (task,) = sales.rows("tasks")
    assert (task["mode"], task["agent_id"], task["status"]) == ("lifecycle", "data", "done")
    assert task["message"].endswith("(data files: sales.csv)")


def test_a_file_of_another_content_gets_another_name_and_the_text_says_that_one(sales: Shell) -> None:
    (sales.folder / "elsewhere").mkdir()
    (sales.folder / "elsewhere" / "sales.csv").write_text("region,amount\nNorth,99\n", encoding="utf-8")
    ended = sales("run", "sales.csv 里哪个地区的 amount 最高？", "--file", "elsewhere/sales.csv", SEGUE_DATA="given")
    assert ended.returncode == 0, ended.stderr
    assert "'sales-2.csv'" in ended.stderr.decode()
    assert "North" in ended.stdout.decode()
    assert "East" not in ended.stdout.decode()
    assert sales.read("given/sales.csv") == SALES
    (task,) = sales.rows("tasks")
    assert task["message"] == "sales-2.csv 里哪个地区的 amount 最高？"


def test_a_file_that_cannot_be_used_is_said_and_nothing_is_sent(sales: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sales.folder)
    (sales.folder / "given" / "notes.txt").write_text("hello", encoding="utf-8")
    for file, why in (("none.csv", "There is no file none.csv"), ("given/notes.txt", "cannot be read as data")):
        refused = CliRunner().invoke(app, ["run", "Which region?", "--file", file])
        assert refused.exit_code == 2
        assert why in refused.stderr
    assert not (sales.folder / "segue.db").exists()
    assert not (sales.folder / "data").exists()


def test_without_the_extra_it_says_what_to_install(sales: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    find = environment.find_spec
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name == "duckdb" else find(name))
    refused = sales("run", "Which region?", "--file", "given/sales.csv")
    assert refused.returncode == 1
    assert "segue[data]" in refused.stderr.decode()
    assert not (sales.folder / "data").exists()


def test_json_is_the_engines_events_and_then_the_result(pages: Shell, let_go: Callable[[], None]) -> None:
    let_go()
    ended = pages("run", "-", *PAGES, "--json", stdin=GOAL.encode())
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.decode()
    (planned,) = engine(said, "task_decomposed")
    done = engine(said, "task_completed")
    assert [task["id"] for task in planned["tasks"]] == [details["task_id"] for details in done]
    assert done[-1]["progress"] == 1
    (whole,) = engine(said, "engine_completed")
    assert whole["completed_tasks"] == whole["total_tasks"] == planned["task_count"]
    assert (events(said)[-1]["type"], events(said)[-1]["status"]) == ("result", "done")


@pytest.mark.slow
def test_the_table_shows_the_progress_and_an_interrupt_pauses_in_the_middle(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    terminal = pages.at_terminal("run", GOAL, *PAGES)
    terminal.until("priority")
    terminal.until("▶ running")
    terminal.until("0/3")
    pages.until("effects", "fetch begun")
    terminal.type("\x03")
    terminal.until("pausing at the next checkpoint")
    let_go()
    terminal.until("The task is paused.")
    assert terminal.end() == 130
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done"]
    (task,) = pages.rows("tasks")
    assert task["status"] == "paused"

    resumed = pages.at_terminal("resume", task["task_id"], "--agents", "agents.toml")
    resumed.until("3/3")
    assert resumed.end() == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]
    for place, result in (("1", "fetched"), ("2", "stored"), ("3", "")):
        assert re.search(rf"^{place} .* ☑ done +\d+\.\d +.*{result}", resumed.text, re.MULTILINE), resumed.text


def test_a_goal_that_goes_on_shows_its_subtasks_as_they_stand_and_whose_calls_come(pages: Shell) -> None:
    assert pages("run", "store it, then refund it", "--agents", "agents.toml", "--agent", "shop").returncode == 3
    approving = ("answer", pages.rows("tasks")[0]["task_id"], "--approve", "--agents", "agents.toml")
    answered = pages(*approving, **PLAIN_TERMINAL)
    told = [line for line in answered.stdout.decode().splitlines() if re.match(r" *[☑▶☐→✓] ", line)]
    first, second, third, approved, heading, call, done, *_ = told
    assert re.fullmatch(r"  ☑ 1 Store.*  priority \d", first)
    assert re.fullmatch(r"  ▶ 2 Refund.*  priority \d", second)
    assert third.startswith("  ☐ 3 ")
    assert approved.startswith("  ✓ approved refund(")
    assert heading.startswith("▶ 2 Refund")
    assert call.startswith("  ✓ refund(")
    assert done.startswith("☑ 2 Refund")


@pytest.mark.slow
def test_a_paused_goal_takes_another_one_in_by_the_command_that_is_printed(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = pages.begin("run", "please fetch it", *PAGES, "--session", "s1")
    pages.until("effects", "fetch begun")
    process.send_signal(signal.SIGINT)
    pages.until("err", "pausing at the next checkpoint")
    let_go()
    assert process.wait(SECONDS) == 130
    *_, steer = pages("run", "store it", *PAGES, "--session", "s1").stderr.decode().splitlines()
    assert steer == "  segue run --session s1 --steer --agents agents.toml --agent pages 'store it'"
    steered = pages(*shlex.split(steer)[1:], **PLAIN_TERMINAL)
    assert steered.returncode == 0, steered.stderr
    assert "added: store it" in steered.stdout.decode()
    (task,) = pages.rows("tasks")
    assert (task["mode"], task["status"]) == ("lifecycle", "done")
