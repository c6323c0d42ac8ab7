"""Pause, cancel, steer and stand in line: what one terminal does to the task of another."""

import contextlib
import json
import re
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import SECONDS, Shell

AGENTS = ("--agents", "agents.toml")


def begin(pages: Shell, *options: str, session: str = "s1") -> "subprocess.Popen[bytes]":
    """A task that runs until `let_go`."""
    process = pages.begin("chat", "please fetch it, then store it", *AGENTS, "--session", session, *options)
    pages.until("effects", "fetch begun")
    return process


def latest(pages: Shell) -> str:
    return str(pages.rows("tasks")[0]["task_id"])


@pytest.mark.slow
def test_a_task_is_paused_from_another_terminal_and_resumed_by_the_command_that_is_printed(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin(pages)
    task_id = latest(pages)
    pausing = pages("pause", task_id[:6], *AGENTS)
    assert pausing.returncode == 0, pausing.stderr
    said, command = pausing.stdout.decode().splitlines()
    assert said == f"Task {task_id} is pausing: it stops at its next checkpoint. To resume it then:"
    assert pages.rows("tasks")[0]["status"] == "pausing"
    pages.until("err", "pausing at the next checkpoint, as requested by another process")
    let_go()
    assert process.wait(SECONDS) == 130
    assert command in pages.read("err")
    assert pages(*shlex.split(command)[1:]).returncode == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]
    ended = pages("pause", task_id)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert "only a task that runs can be paused" in ended.stderr.decode()


@pytest.mark.slow
def test_a_task_whose_process_is_gone_is_paused_at_once(pages: Shell) -> None:
    process = begin(pages)
    process.kill()
    process.wait(SECONDS)
    task_id = latest(pages)
    assert pages("pause", task_id, *AGENTS).stdout.decode().startswith(f"Task {task_id} is paused. To resume it:")


@pytest.mark.slow
def test_a_task_that_was_cut_off_is_listed_as_such_with_the_command_that_goes_on(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin(pages)
    for listing in ("tasks", "threads"):
        assert [(row["status"], row["cut_off"]) for row in pages.rows(listing)] == [("running", False)]
        assert "interrupted" not in pages(listing).stdout.decode()
    process.kill()
    process.wait(SECONDS)
    let_go()
    assert pages("chat", "hello", "--session", "s2").returncode == 0
    task_id = next(row["task_id"] for row in pages.rows("tasks") if row["thread_id"] == "s1")
    for listing in ("tasks", "threads"):
        told = {row["thread_id"]: (row["status"], row["cut_off"], "hint" in row) for row in pages.rows(listing)}
        assert told == {"s1": ("running", True, True), "s2": ("done", False, False)}
        *_, row, _, said, hint = pages(listing).stdout.decode().splitlines()
        assert "running (interrupted)" in row
        assert (said, hint) == ("Interrupted when its process ended. To resume it:", f"  segue resume {task_id}")
    assert "running (interrupted)" in pages("trace", task_id).stdout.decode()
    assert pages(*shlex.split(hint)[1:], *AGENTS).returncode == 0
    assert not any(row["cut_off"] for row in pages.rows("tasks"))


@pytest.mark.slow
def test_a_task_is_cancelled_from_another_terminal(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages)
    task_id = latest(pages)
    cancelled = pages("cancel", task_id[:6])
    let_go()
    assert cancelled.returncode == 0, cancelled.stderr
    said, warning = cancelled.stdout.decode().splitlines()
    assert said == f"Task {task_id} is cancelled; session s1 accepts the next message."
    assert warning == "It is not known whether these calls took effect; check them: fetch."
    assert process.wait(SECONDS) == 1
    assert pages.read("err").splitlines() == ["The task was cancelled; its session accepts the next message."]
    out = pages.read("out")
    assert "Cancelled." in out
    assert "Check whether these calls took effect; they were not run again:\n  ? fetch(" in out
    tree = pages("trace", task_id).stdout.decode()
    assert "cancelled" in tree
    assert "? fetch" in tree
    assert "outcome unknown" in tree
    assert pages("chat", "hello", *AGENTS, "--session", "s1", "--mode", "direct").returncode == 0


@pytest.mark.slow
def test_a_busy_session_says_what_can_be_done(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages)
    refused = pages("chat", "store it, please", *AGENTS, "--session", "s1")
    assert refused.returncode == 1
    sentence, *choices = refused.stderr.decode().splitlines()
    assert "is busy with another task" in sentence
    assert choices == [
        "wait for it:",
        "  segue chat --session s1 --wait 60 --agents agents.toml 'store it, please'",
        "use another session:",
        "  segue chat --agents agents.toml 'store it, please'",
        "pause the running task:",
        f"  segue pause {latest(pages)} --agents agents.toml",
        "add the message to the running task, and continue it here:",
        "  segue chat --session s1 --steer --agents agents.toml 'store it, please'",
    ]
    let_go()
    assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_who_resumes_a_task_that_runs_is_told_so_and_how_to_see_and_pause_it(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin(pages)
    task_id = latest(pages)
    refused = pages("resume", task_id, *AGENTS)
    assert refused.returncode == 1
    runs, see, trace, pause, pausing = refused.stderr.decode().splitlines()
    assert runs == f"Task '{task_id}' is already running in another process."
    assert (see, pause) == ("see its progress:", "pause it, then resume it here:")
    assert task_id in pages(*shlex.split(trace)[1:]).stdout.decode()
    assert pages(*shlex.split(pausing)[1:]).returncode == 0
    again = pages("resume", task_id, *AGENTS)
    assert again.returncode == 1
    assert again.stderr.decode().splitlines() == [
        f"Task '{task_id}' is pausing in another process: resume it once it is paused.",
        *(see, trace),
    ]
    let_go()
    assert process.wait(SECONDS) == 130


@pytest.mark.slow
def test_turn_by_turn_a_task_that_runs_elsewhere_is_told_of(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages)
    terminal = pages.at_terminal("chat", *AGENTS, "--session", "s1")
    for said in ("/resume", "hello"):
        terminal.until("you> ")
        terminal.type(f"{said}\n")
        terminal.until(f"Task '{latest(pages)}' is already running in another process.")
        terminal.until("  segue pause ")
    let_go()
    assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_a_message_stands_in_line(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages)
    waiting = pages.at_terminal("chat", "store it", *AGENTS, "--session", "s1", "--wait", str(SECONDS))
    waiting.until("Waiting for session 's1'")
    let_go()
    assert process.wait(SECONDS) == 0
    assert waiting.end() == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done", "store done"]


@pytest.mark.slow
def test_who_waited_long_enough_is_told_that_it_is_busy(pages: Shell, let_go: Callable[[], None]) -> None:
    begin(pages)
    refused = pages("chat", "store it", *AGENTS, "--session", "s1", "--wait", "0.3")
    assert refused.returncode == 1
    assert "is busy with another task" in refused.stderr.decode()
    let_go()


@pytest.mark.slow
def test_who_leaves_the_line_has_sent_nothing(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages)
    waiting = pages.at_terminal("chat", "store it", *AGENTS, "--session", "s1", "--wait", str(SECONDS))
    waiting.until("Waiting for session")
    waiting.type("\x03")
    waiting.until("You stopped waiting, and the message was not sent. To send it:")
    waiting.until("segue chat --session s1 --wait 60 --agents agents.toml 'store it'")
    assert waiting.end() == 130
    let_go()
    assert process.wait(SECONDS) == 0
    assert len(pages.rows("tasks")) == 1


@pytest.mark.slow
def test_a_paused_task_is_steered(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages)
    process.send_signal(signal.SIGINT)
    pages.until("err", "pausing at the next checkpoint")
    let_go()
    assert process.wait(SECONDS) == 130
    task_id = latest(pages)
    refused = pages("chat", "and quickly", *AGENTS, "--session", "s1").stderr.decode().splitlines()
    command = "  segue chat --session s1 --steer --agents agents.toml 'and quickly'"
    assert refused[1:] == [
        "resume it:",
        f"  segue resume {task_id} --agents agents.toml",
        "cancel it:",
        f"  segue cancel {task_id} --agents agents.toml",
        "add the message to it, and resume it:",
        command,
    ]
    steered = pages(*shlex.split(command)[1:])
    assert steered.returncode == 0, steered.stderr
    said = steered.stdout.decode()
    assert "added: and quickly" in said
    assert "☑ 2 Store" in said, "the view knows the plan that was made before"
    assert [task["task_id"] for task in pages.rows("tasks")] == [task_id]
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]
    assert "added: and quickly" in pages("trace", task_id).stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_task_that_runs_elsewhere_is_taken_over_by_who_steers_it(
    pages: Shell, let_go: Callable[[], None], options: tuple[str, ...]
) -> None:
    patient = f"import segue.cli.dialog.conversation\nsegue.cli.conversation.TAKING_UP = {SECONDS}\n"
    (pages.folder / "sitecustomize.py").write_text(patient, encoding="utf-8")
    pages.environ["PYTHONPATH"] = str(pages.folder)  # however slow the machine, it is not what decides
    process = begin(pages, *options)
    task_id = latest(pages)
    steering = pages.at_terminal("chat", "and quickly", *AGENTS, "--session", "s1", "--steer")
    deadline = time.monotonic() + SECONDS
    while pages.rows("tasks")[0]["status"] != "pausing":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    let_go()
    assert process.wait(SECONDS) == 130
    *_, said, command = pages.read("err").splitlines()
    assert said == "The task was paused and resumed by another process. To see its progress:"
    if options:
        result = json.loads(pages.read("out").splitlines()[-1])
        assert (result["type"], result["task_id"]) == ("result", task_id)
        assert result["status"] in ("running", "done")
    assert pages(*shlex.split(command)[1:]).returncode == 0
    steering.until("added: and quickly")
    assert steering.end() == 0
    assert [(task["task_id"], task["status"]) for task in pages.rows("tasks")] == [(task_id, "done")]
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]


@pytest.mark.parametrize("options", [("--steer",), ("--steer", "--session", "s1"), ("hello", "--steer")])
def test_steering_needs_a_message_and_a_session(shell: Shell, options: tuple[str, ...]) -> None:
    assert shell("chat", *options).returncode == 2


@pytest.mark.slow
def test_turn_by_turn_a_paused_task_is_steered(pages: Shell, let_go: Callable[[], None]) -> None:
    terminal = pages.at_terminal("chat", *AGENTS)
    terminal.until("you> ")
    terminal.type("fetch it, then store it\n")
    pages.until("effects", "fetch begun")
    terminal.type("\x03")
    terminal.until("pausing at the next checkpoint")
    let_go()
    terminal.until("you> ")
    terminal.type("hello\n")
    terminal.until("Here: /resume resumes it, /steer TEXT adds a message and resumes it, /cancel cancels it.")
    terminal.until("you> ")
    terminal.type("/steer\n")
    terminal.until("Usage: /steer TEXT")
    terminal.type("/steer and quickly\n")
    terminal.until("added: and quickly")
    terminal.until("you> ")
    terminal.type("/exit\n")
    assert terminal.end() == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]


@pytest.mark.slow
def test_all_that_was_cut_off_goes_on_at_once(pages: Shell, let_go: Callable[[], None]) -> None:
    for number in range(3):
        begun = begin(pages, session=f"s{number}")
        begun.kill()
        begun.wait(SECONDS)
        (pages.folder / "effects").unlink()
    let_go()
    pages("chat", "refund it", *AGENTS, "--agent", "shop")
    resumed = pages("resume", "--all", *AGENTS)
    said = resumed.stdout.decode()
    assert resumed.returncode == 0, resumed.stderr
    assert said.count("✓ done  ") == 3
    assert said.count("? fetch(") == 3, "what is unknown of each is said"
    waiting = pages.rows("tasks")[0]["task_id"]
    to_answer = ["Waiting for an answer:", f"  segue answer {waiting} --agents agents.toml"]
    assert said.splitlines()[-3:] == ["3 tasks: 3 done.", *to_answer]
    assert pages.read("effects").splitlines() == ["store done"] * 3
    again = pages("resume", "--all", *AGENTS)
    assert again.returncode == 0
    assert again.stdout.decode().splitlines() == ["No task can be resumed until it is answered.", *to_answer]
    assert pages("cancel", waiting).returncode == 0
    assert pages("resume", "--all", *AGENTS).stdout.decode() == "There is no task to resume.\n"


@pytest.mark.slow
def test_one_of_all_that_is_cancelled_meanwhile_is_no_success(pages: Shell) -> None:
    begun = begin(pages)
    begun.kill()
    begun.wait(SECONDS)
    (pages.folder / "effects").unlink()
    (pages.folder / "page_tools.py").write_text(
        (pages.folder / "page_tools.py").read_text().replace('@tool(keywords=("fetch",)', "@tool(idempotent=True")
    )
    everything = pages.begin("resume", "--all", *AGENTS)
    pages.until("effects", "fetch begun")
    assert pages("cancel", latest(pages), *AGENTS).returncode == 0
    (pages.folder / "go").touch()
    assert everything.wait(SECONDS) == 1
    assert pages.read("out").splitlines()[-1] == "1 task: 1 cancelled."


@pytest.mark.slow
def test_one_that_fails_and_one_that_waits_are_told_apart(pages: Shell) -> None:
    for message, more in (("fetch it, then refund it", ("--agent", "shop")), ("fetch it", ())):
        begun = pages.begin("chat", message, *AGENTS, *more)
        pages.until("effects", "fetch begun")
        begun.send_signal(signal.SIGINT)
        pages.until("err", "pausing")
        begun.send_signal(signal.SIGINT)
        begun.wait(SECONDS)
        (pages.folder / "effects").unlink()
    assert {task["status"] for task in pages.rows("tasks")} == {"paused"}
    (pages.folder / "other.toml").write_text('[[agent]]\nagent_id = "shop"\ntools = ["page_tools:refund"]\n')
    resumed = pages("resume", "--all", "--agents", "other.toml", "--json")
    *results, summary = [json.loads(line) for line in resumed.stdout.splitlines()]
    assert resumed.returncode == 1
    (waits,) = (result["task_id"] for result in results if result["outcome"] == "waiting")
    assert summary == {"type": "summary", "done": 0, "waiting": 1, "paused": 0, "cancelled": 0, "failed": 1} | {
        "busy": 0,
        "left": 0,
        "to_answer": [waits],
    }
    assert sorted(result["outcome"] for result in results) == ["failed", "waiting"]
    (failed,) = (result for result in results if result["outcome"] == "failed")
    assert "There is no agent 'pages'" in failed["error"]


@pytest.mark.slow
def test_an_interrupt_pauses_all_that_was_resumed(pages: Shell) -> None:
    for number in range(5):
        begun = begin(pages, session=f"s{number}")
        begun.kill()
        begun.wait(SECONDS)
        (pages.folder / "effects").unlink()
    (pages.folder / "page_tools.py").write_text(
        (pages.folder / "page_tools.py").read_text().replace('@tool(keywords=("fetch",)', "@tool(idempotent=True")
    )
    everything = pages.begin("resume", "--all", *AGENTS)
    pages.until("effects", "fetch begun\n" * 4)
    everything.send_signal(signal.SIGINT)
    pages.until("err", "pausing at the next checkpoint")
    (pages.folder / "go").touch()
    assert everything.wait(SECONDS) == 130
    assert pages.read("out").splitlines()[-1] == "5 tasks: 4 paused, 1 not resumed."
    assert pages("resume", latest(pages), "--all").returncode == 2
    assert pages("resume").returncode == 2
    assert pages("resume", "--all", *AGENTS).stdout.decode().splitlines()[-1] == "5 tasks: 5 done."


def damage(pages: Shell) -> None:
    """Make the newest checkpoint of every namespace unreadable."""
    with contextlib.closing(sqlite3.connect(pages.folder / "segue.db")) as connection, connection:
        newest = "SELECT max(checkpoint_id) FROM checkpoints GROUP BY thread_id, checkpoint_ns"
        connection.execute(f"UPDATE checkpoints SET checkpoint = x'00ff' WHERE checkpoint_id IN ({newest})")


def test_a_damaged_session_is_recovered_and_goes_on(pages: Shell, let_go: Callable[[], None]) -> None:
    let_go()
    assert pages("chat", "store it", *AGENTS, "--session", "s1").returncode == 0
    assert b"Nothing of session s1 is damaged" in pages("recover", "s1").stdout
    damage(pages)
    refused = pages("chat", "hello", *AGENTS, "--session", "s1")
    assert refused.returncode == 1
    assert b"Traceback" not in refused.stderr
    assert "segue recover s1" in refused.stderr.decode()
    history = pages("history", "s1", "--db", "segue.db")
    assert history.stderr.decode().splitlines()[-1] == "segue recover s1"

    task = latest(pages)
    recovered = pages("recover", "s1", *AGENTS)
    assert recovered.returncode == 0, recovered.stderr
    back, dropped, kept, to_go_on, command = recovered.stdout.decode().splitlines()
    assert re.match(r"Session s1 went back to its snapshot of \d{4}-\d\d-\d\d \d\d:\d\d \(", back)
    assert re.fullmatch(r"Snapshots and results of steps that could not be read: \d+\.", dropped)
    copy = re.fullmatch(r"The database as it was is kept in (.+)\.", kept)
    assert copy
    assert Path(copy[1]).stat().st_size > 0
    assert to_go_on == "continue this session, from any process:"
    went_on = pages(*shlex.split(command.replace('"…"', "hello"))[1:])
    assert went_on.returncode == 0, went_on.stderr
    assert pages.read("effects").splitlines() == ["store done"], "what was done is not done again"
    assert "went back to an older snapshot" in pages("trace", task).stdout.decode()
