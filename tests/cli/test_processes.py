"""The command line in processes of their own: one goes on where another one ended."""

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from .conftest import PLAIN_TERMINAL, SECONDS, Shell
from .process import CommandProcess


def test_a_plan_from_the_message_to_the_trace(shell: Shell) -> None:
    planned = shell("chat", "帮我规划北京3日游，包括景点和预算", "--mode", "plan", **PLAIN_TERMINAL)
    said = planned.stdout.decode()
    assert planned.returncode == 0, planned.stderr
    assert planned.stderr == b""
    for phase in ("阶段一", "计划生成完成", "阶段三", "阶段四"):
        assert said.count(phase) == 1
    assert "☑ 1 " in said
    assert "2495" in said
    command = shlex.split(said.splitlines()[-1])
    assert command[:3] == ["segue", "chat", "--session"]

    followed = shell(*command[1:-1], "上海呢？预算多少，3天")
    assert followed.returncode == 0
    assert "上海" in followed.stdout.decode()

    (thread,) = shell.rows("sessions")
    assert (thread["session_id"], thread["turns"]) == (command[3], 2)
    second, first = shell.rows("tasks")
    assert [first["mode"], first["status"], second["status"]] == ["plan", "done", "done"]
    history = shell("history", command[3]).stdout.decode()
    assert "you: 帮我规划北京3日游" in history
    assert "you: 上海呢" in history
    roles = [message["role"] for message in json.loads(shell("history", command[3], "--json").stdout)]
    assert roles[0] == "user"
    assert {"assistant", "tool"} <= set(roles)
    tree = shell("trace", first["task_id"], SEGUE_LANGUAGE="en").stdout.decode()
    assert "plan: " in tree
    assert "calculate_budget(" in tree
    assert "ledger: " in tree
    trace = json.loads(shell("trace", first["task_id"], "--json").stdout)
    assert trace["task"]["task_id"] == first["task_id"]
    assert all(call["state"] == "done" for call in trace["calls"])


@pytest.mark.slow
def test_the_engine_of_the_data_tools_reports_no_leaks(shell: Shell) -> None:
    (shell.folder / "data").mkdir()
    (shell.folder / "data" / "sales.csv").write_text("city,units\nRome,2\nParis,3\nRome,4\n", encoding="utf-8")
    ran = shell.process("chat", "units by city", "--agent", "data", "--mode", "react")
    assert "| Rome | 6 |" in ran.stdout.decode()
    assert b"leak" not in ran.stderr + shell.process("doctor").stderr


@pytest.mark.slow
def test_bytes_that_are_no_text_a_plain_locale_and_a_reader_that_goes_away_stop_nothing(shell: Shell) -> None:
    odd = shell.process(
        "chat", "北京\udcff".encode("utf-8", "surrogateescape"), LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii"
    )
    assert odd.returncode == 0, odd.stderr
    assert odd.stdout.isascii()
    (task,) = shell.rows("tasks")
    assert task["message"] == "北京\ufffd"
    with subprocess.Popen(
        [sys.executable, "-m", "segue", "history", task["session_id"]],
        cwd=shell.folder,
        env=shell.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as listing:
        assert listing.stdout and listing.stderr
        listing.stdout.close()
        assert b"Traceback" not in listing.stderr.read()


def begin_and_wait(pages: Shell, *options: str) -> CommandProcess:
    process = pages.begin("chat", "please fetch it, then store it", "--agents", "agents.toml", *options)
    pages.until("effects", "fetch begun")
    return process


@pytest.mark.slow
def test_an_interrupt_pauses_at_the_next_boundary_and_resume_finishes(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin_and_wait(pages)
    process.send_signal(signal.SIGINT)
    pages.until("err", "pausing at the next checkpoint")
    let_go()
    assert process.wait(SECONDS) == 130
    *_, command = pages.read("err").splitlines()
    (task,) = pages.rows("tasks")
    assert shlex.split(command) == ["segue", "resume", task["task_id"][:8]]
    assert task["status"] == "paused"
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done"]

    refused = pages("chat", "hello", "--session", task["session_id"], "--agents", "agents.toml")
    assert refused.returncode == 1
    assert command in refused.stderr.decode()

    resumed = pages(*shlex.split(command)[1:], **PLAIN_TERMINAL)
    assert resumed.returncode == 0, resumed.stderr
    assert "☑ 2 Store" in resumed.stdout.decode()
    assert "stored [red]" in resumed.stdout.decode()
    assert b"\x1b" not in resumed.stdout
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]


@pytest.mark.slow
def test_a_second_interrupt_does_not_wait_for_the_tool(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin_and_wait(pages)
    process.send_signal(signal.SIGINT)
    pages.until("err", "pausing at the next checkpoint")
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 130
    assert pages.read("effects") == "fetch begun\n", "the tool was never let go"
    (task,) = pages.rows("tasks")
    assert task["status"] == "paused"
    assert "started, outcome unknown" in pages("trace", task["task_id"]).stdout.decode()
    let_go()
    resumed = pages("resume", task["task_id"], "--agents", "agents.toml", **PLAIN_TERMINAL)
    said = resumed.stdout.decode()
    assert said.count("Fetch may or may not have taken effect, and was not run again") == 1
    assert "Check whether these calls took effect; they were not run again:\n  ? fetch()" in said
    trace = json.loads(pages("trace", task["task_id"], "--json").stdout)
    assert [call["name"] for call in trace["task"]["result"]["unknown_outcomes"]] == ["fetch"]
    assert pages.read("effects").splitlines() == ["fetch begun", "store done"]


@pytest.mark.slow
def test_a_termination_pauses_too_as_the_json_says_and_the_task_can_be_cancelled_then(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin_and_wait(pages, "--json")
    process.send_signal(signal.SIGTERM)
    pages.until("err", "pausing at the next checkpoint")
    let_go()
    assert process.wait(SECONDS) == 130
    lines = [json.loads(line) for line in pages.read("out").splitlines()]
    assert [lines[-2]["type"], lines[-1]["type"], lines[-1]["status"]] == ["paused", "result", "paused"]
    assert pages("cancel", lines[-1]["task_id"]).returncode == 0
    assert pages.rows("tasks")[0]["status"] == "cancelled"
    assert pages("resume", lines[-1]["task_id"], "--agents", "agents.toml").returncode == 1


@pytest.mark.slow
def test_an_endpoint_that_cannot_be_reached_leaves_a_task_to_resume(shell: Shell) -> None:
    failed = shell("chat", "hello", OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY="sk-x")
    assert failed.returncode == 1
    sentence, command = failed.stderr.decode().splitlines()
    assert "could not be reached" in sentence
    (task,) = shell.rows("tasks")
    assert shlex.split(command) == ["segue", "resume", task["task_id"][:8]]
    assert b"Traceback" not in failed.stderr + failed.stdout
    assert b"needs a key" in shell("resume", task["task_id"]).stderr
    assert shell("resume", task["task_id"], "--model", "offline").returncode == 0


def test_turn_by_turn_with_commands(shell: Shell) -> None:
    typed = [
        "hello",
        "/history",
        "/mode plan",
        "/mode wild",
        "/nope",
        "/sesions",
        "/help",
        "/resume",
        "",
        "帮我规划北京3日游",
        "/exit",
        "never",
    ]
    talk = shell("chat", "--interactive", stdin="\n".join(typed).encode(), **PLAIN_TERMINAL)
    said = talk.stdout.decode()
    assert talk.returncode == 0
    assert "NO LANGUAGE MODEL" in said
    assert "没有使用语言模型" not in said
    assert said.count("NO LANGUAGE MODEL") == 1, "it is said once, not at every turn"
    assert "you: hello" in said
    assert "The mode is now plan." in said
    assert "Usage: /mode NAME, where NAME is one of: " in said
    assert "There is no command /nope." in said
    assert "There is no command /sesions. Did you mean /sessions? /help lists them." in said
    assert "阶段四" in said
    assert said.splitlines()[-1].startswith("segue chat --session ")
    assert "there is nothing to resume" in talk.stderr.decode()
    assert [task["mode"] for task in shell.rows("tasks")] == ["plan", "auto"]


@pytest.mark.slow
def test_in_a_terminal_the_answer_is_drawn_and_colours_are_used(shell: Shell) -> None:
    terminal = shell.at_terminal("chat", "帮我规划北京3日游", "--mode", "plan")
    assert terminal.end() == 0
    assert "\x1b[" in terminal.raw
    assert "☑ 1 " in terminal.text
    assert " • " in terminal.text, "Markdown is drawn"
    assert "segue chat --session " in terminal.text
