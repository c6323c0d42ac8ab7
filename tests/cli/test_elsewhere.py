"""Pause, cancel, steer and wait: what one terminal does to the task of another."""

import contextlib
import json
import re
import shlex
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.cli.commands.resume import code_of
from tests.loopback import Gate, LoopbackServer
from tests.polling import wait_until

from .conftest import PLAIN_TERMINAL, SECONDS, Shell
from .process import CommandProcess, Patches

AGENTS = ("--agents", "agents.toml")


def begin(
    pages: Shell, *options: str, session: str = "s1", patched: Patches | None = None, **environ: str
) -> CommandProcess:
    """A task that runs until `let_go`."""
    command = ("chat", "please fetch it, then store it", *AGENTS, "--session", session, *options)
    process = pages.begin(*command, patched=patched, **environ)
    pages.until("effects", "fetch begun")
    return process


def kill(pages: Shell, session: str) -> None:
    """A task whose process is gone in the middle of a call."""
    process = begin(pages, session=session)
    process.kill()
    process.wait(SECONDS)
    (pages.folder / "effects").unlink()


def latest(pages: Shell) -> str:
    return str(pages.rows("tasks")[0]["task_id"])


@pytest.mark.slow
def test_a_task_that_runs_elsewhere_is_paused_and_resumed_by_the_commands_that_are_printed(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin(pages)
    task_id = latest(pages)
    refused = pages("resume", task_id, *AGENTS)
    assert refused.returncode == 1
    runs, see, trace, pause, command = refused.stderr.decode().splitlines()
    assert runs == f"Task '{task_id}' is already running in another process."
    assert (see, pause) == ("see its progress:", "pause it, then resume it here:")
    assert task_id in pages(*shlex.split(trace)[1:]).stdout.decode()
    pausing = pages(*shlex.split(command)[1:])
    assert pausing.returncode == 0, pausing.stderr
    said, resume = pausing.stdout.decode().splitlines()
    assert said == f"Task {task_id} is pausing: it stops at its next checkpoint. To resume it then:"
    assert pages.rows("tasks")[0]["status"] == "pausing"
    assert pages("resume", task_id, *AGENTS).stderr.decode().splitlines() == [
        f"Task '{task_id}' is pausing in another process: resume it once it is paused.",
        *(see, trace),
    ]
    pages.until("err", "pausing at the next checkpoint, as requested by another process")
    let_go()
    assert process.wait(SECONDS) == 130
    assert resume in pages.read("err")
    assert pages(*shlex.split(resume)[1:]).returncode == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]
    ended = pages("pause", task_id)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert "only a running task can be paused" in ended.stderr.decode()


@pytest.mark.slow
def test_an_interrupted_task_is_listed_as_such_with_the_command_that_resumes_it(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin(pages)
    for listing in ("tasks", "threads"):
        assert [(row["status"], row["interrupted"]) for row in pages.rows(listing)] == [("running", False)]
        assert "interrupted" not in pages(listing).stdout.decode()
    process.kill()
    process.wait(SECONDS)
    let_go()
    assert pages("chat", "hello", "--session", "s2").returncode == 0
    task_id = next(row["task_id"] for row in pages.rows("tasks") if row["session_id"] == "s1")
    for listing in ("tasks", "threads"):
        told = {row["session_id"]: (row["status"], row["interrupted"], "hint" in row) for row in pages.rows(listing)}
        assert told == {"s1": ("running", True, True), "s2": ("done", False, False)}
        *rows, _, said, hint = pages(listing).stdout.decode().splitlines()
        assert any("s1" in row and "running (interrupted)" in row for row in rows)
        resuming = f"  segue resume {task_id[:8]}"
        assert (said, hint) == ("Interrupted when its process ended. To resume it:", resuming)
    assert "running (interrupted)" in pages("trace", task_id).stdout.decode()
    assert pages("pause", task_id, *AGENTS).stdout.decode().startswith(f"Task {task_id} is paused. To resume it:")
    assert pages(*shlex.split(hint)[1:]).returncode == 0
    assert not any(row["interrupted"] for row in pages.rows("tasks"))


@pytest.mark.slow
def test_a_task_is_cancelled_from_another_terminal(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages, **PLAIN_TERMINAL)
    task_id = latest(pages)
    cancelled = pages("cancel", task_id[:6])
    let_go()
    assert cancelled.returncode == 0, cancelled.stderr
    said, warning = cancelled.stdout.decode().splitlines()
    assert said == f"Task {task_id} was cancelled. Session s1 accepts the next message."
    assert warning == "These calls may or may not have taken effect. Check them: fetch."
    assert process.wait(SECONDS) == 1
    assert pages.read("err").splitlines() == ["The task was cancelled. You can send the next message."]
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
    for waiting in ((), ("--wait", "0.3")):
        refused = pages("chat", "store it, please", *AGENTS, "--session", "s1", *waiting)
        assert refused.returncode == 1
        assert "is busy with another task" in refused.stderr.decode()
    _, *choices = refused.stderr.decode().splitlines()
    assert choices == [
        "wait for it:",
        "  segue chat --session s1 --wait 60 --agents agents.toml 'store it, please'",
        "use another session:",
        "  segue chat --agents agents.toml 'store it, please'",
        "pause the running task:",
        f"  segue pause {latest(pages)[:8]}",
        "add the message to the running task, and continue it here:",
        "  segue chat --session s1 --steer --agents agents.toml 'store it, please'",
    ]
    terminal = pages.at_terminal("chat", *AGENTS, "--session", "s1")
    for said in ("/resume", "hello"):
        terminal.until("you>")
        terminal.type(f"{said}\n")
        terminal.until(f"Task '{latest(pages)}' is already running in another process.")
        terminal.until("  segue pause ")
    let_go()
    assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_a_message_waits_for_a_busy_session_until_it_is_free_or_the_person_leaves(
    pages: Shell, let_go: Callable[[], None]
) -> None:
    process = begin(pages)
    patient, leaving = (
        pages.at_terminal("chat", "store it", *AGENTS, "--session", "s1", "--wait", str(SECONDS)) for _ in range(2)
    )
    patient.until("Waiting for session 's1'")
    leaving.until("Waiting for session 's1'")
    leaving.type("\x03")
    leaving.until("You stopped waiting. The message was not sent. To send it:")
    leaving.until("segue chat --session s1 --wait 60 --agents agents.toml 'store it'")
    assert leaving.end() == 130
    let_go()
    assert process.wait(SECONDS) == 0
    assert patient.end() == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done", "store done"]
    assert len(pages.rows("tasks")) == 2


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
        f"  segue resume {task_id[:8]}",
        "cancel it:",
        f"  segue cancel {task_id[:8]}",
        "add the message to it, and resume it:",
        command,
    ]
    steered = pages(*shlex.split(command)[1:], **PLAIN_TERMINAL)
    assert steered.returncode == 0, steered.stderr
    said = steered.stdout.decode()
    assert "added: and quickly" in said
    assert "☑ 2 Store" in said, "the view knows the plan that was made before"
    assert [task["task_id"] for task in pages.rows("tasks")] == [task_id]
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]
    assert "added: and quickly" in pages("trace", task_id).stdout.decode()


@pytest.mark.slow
def test_a_message_is_added_to_a_task_that_runs_elsewhere(pages: Shell, let_go: Callable[[], None]) -> None:
    process = begin(pages, "--json")
    task_id = latest(pages)
    steering = pages.at_terminal("chat", "and quickly", *AGENTS, "--session", "s1", "--steer")
    steering.until("added: and quickly")
    let_go()
    assert process.wait(SECONDS) == 0
    result = json.loads(pages.read("out").splitlines()[-1])
    assert (result["type"], result["task_id"], result["status"]) == ("result", task_id, "done")
    assert steering.end() == 0
    assert [(task["task_id"], task["status"]) for task in pages.rows("tasks")] == [(task_id, "done")]
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]


@pytest.mark.parametrize("options", [("--steer",), ("--steer", "--session", "s1"), ("hello", "--steer")])
def test_steering_needs_a_message_and_a_session(shell: Shell, options: tuple[str, ...]) -> None:
    assert shell("chat", *options).returncode == 2


@pytest.mark.slow
def test_turn_by_turn_a_paused_task_is_steered(pages: Shell, let_go: Callable[[], None]) -> None:
    terminal = pages.at_terminal("chat", *AGENTS)
    terminal.until("you>")
    terminal.type("fetch it, then store it\n")
    pages.until("effects", "fetch begun")
    terminal.type("\x03")
    terminal.until("pausing at the next checkpoint")
    let_go()
    terminal.until("you>")
    terminal.type("hello\n")
    terminal.until("Here: /resume resumes it, /steer TEXT adds a message and resumes it, /cancel cancels it.")
    terminal.until("you>")
    terminal.type("/steer\n")
    terminal.until("Usage: /steer TEXT")
    terminal.type("/steer and quickly\n")
    terminal.until("added: and quickly")
    terminal.until("you>")
    terminal.type("/exit\n")
    assert terminal.end() == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]


@pytest.mark.slow
def test_all_that_was_interrupted_is_resumed_at_once(pages: Shell, let_go: Callable[[], None]) -> None:
    for number in range(3):
        kill(pages, f"s{number}")
    let_go()
    pages("chat", "refund it", *AGENTS, "--agent", "shop")
    resumed = pages("resume", "--all", *AGENTS)
    said = resumed.stdout.decode()
    assert resumed.returncode == 0, resumed.stderr
    assert said.count("✓ done  ") == 3
    assert said.count("? fetch(") == 3, "what is unknown of each is said"
    waiting = pages.rows("tasks")[0]["task_id"]
    to_answer = ["Waiting for an answer:", f"  segue answer {waiting[:8]}"]
    assert said.splitlines()[-3:] == ["3 tasks: 3 done.", *to_answer]
    assert pages.read("effects").splitlines() == ["store done"] * 3
    again = pages("resume", "--all", *AGENTS)
    assert again.returncode == 0
    assert again.stdout.decode().splitlines() == ["No task can be resumed before it is answered.", *to_answer]
    assert pages("cancel", waiting).returncode == 0
    assert pages("resume", "--all", *AGENTS).stdout.decode() == "There is no task to resume.\n"


@pytest.mark.slow
def test_one_of_another_file_and_one_that_waits_are_told_apart(pages: Shell) -> None:
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
    assert resumed.returncode == 3
    (waits,) = (result["task_id"] for result in results if result["outcome"] == "waiting")
    assert summary == {"type": "summary", "done": 0, "waiting": 1, "paused": 0, "cancelled": 0, "failed": 0} | {
        "busy": 0,
        "left": 0,
        "skipped": 1,
        "to_answer": [waits],
    }
    assert sorted(result["outcome"] for result in results) == ["skipped", "waiting"]
    (skipped,) = (result for result in results if result["outcome"] == "skipped")
    assert skipped["error"].startswith("There is no agent 'pages'")


@pytest.mark.slow
def test_an_interrupt_pauses_all_that_was_resumed(pages: Shell) -> None:
    for number in range(5):
        kill(pages, f"s{number}")
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
    assert b"Session s1 is not damaged" in pages("recover", "s1").stdout
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
    assert re.match(r"Session s1 was restored to its snapshot of \d{4}-\d\d-\d\d \d\d:\d\d \(", back)
    assert re.fullmatch(r"Unreadable snapshots and step results removed: \d+\.", dropped)
    copy = re.fullmatch(r"The original database is kept in (.+)\.", kept)
    assert copy
    assert Path(copy[1]).stat().st_size > 0
    assert to_go_on == "continue this session, from any process:"
    went_on = pages(*shlex.split(command.replace('"…"', "hello"))[1:])
    assert went_on.returncode == 0, went_on.stderr
    assert pages.read("effects").splitlines() == ["store done"], "what was done is not done again"
    assert "went back to an older snapshot" in pages("trace", task).stdout.decode()


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ("", 0),
        ("done busy", 0),
        ("done cancelled waiting", 1),
        ("failed paused", 1),
        ("waiting paused", 3),
        ("done left", 130),
        ("paused", 130),
    ],
)
def test_the_exit_code_of_many_tasks_is_that_of_the_worst(outcomes: str, code: int) -> None:
    assert code_of(outcomes.split()) == code


@pytest.mark.slow
def test_an_answer_that_was_written_before_the_pause_is_shown_when_the_task_is_resumed(shell: Shell) -> None:
    goes_on = threading.Event()
    with LoopbackServer([Gate("It is ", "spring.", goes_on)]) as server:
        environ = {"OPENAI_BASE_URL": server.base_url}
        process = shell.begin("chat", "Which season is it?", "--mode", "direct", **environ)
        wait_until(lambda: bool(server.requests))
        pausing = threading.Thread(target=shell.process, args=("pause", "--last"))
        pausing.start()
        wait_until(lambda: shell.rows("tasks")[0]["status"] == "pausing")
        goes_on.set()
        pausing.join()
        assert process.wait(SECONDS) == 130
        resumed = shell("resume", "--last", **environ)
    assert (resumed.returncode, resumed.stdout) == (0, b"It is spring.\n")
