"""What a person types: at the prompt, and while a task runs."""

import os
import threading
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from segue.cli.interrupts import Keyboard
from segue.cli.prompt import Choices, TerminalPrompt, Words
from tests.fakes import answer
from tests.loopback import Deltas, Gate, LoopbackServer, Text
from tests.polling import wait_until

from .conftest import Shell, Terminal

ABOUT = {"/mode": "switch the mode", "/steer": "add a message"}
CHOICES: Choices = {"/mode": ["plan", "plan_react", "react"], "/session": ["s1"], "/steer": ()}


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEGUE_HISTORY", str(tmp_path / "state" / "history"))
    return tmp_path / "state" / "history"


async def typed(keys: str) -> str | None:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        return await TerminalPrompt("you> ", ABOUT).read(CHOICES)


async def test_a_paste_is_one_message_and_the_next_run_knows_what_was_written(history: Path) -> None:
    assert await typed("\x1b[200~three\nlines\npasted\x1b[201~\r") == "three\nlines\npasted"
    assert await typed("two\x1b\rlines\r") == "two\nlines"
    assert await typed("\x1b[A\r") == "two\nlines", "the key that goes up"
    assert [await typed("\x03"), await typed("\x04")] == [None, None]
    assert await typed("a mistake\x03right\r") == "right", "Ctrl-C clears what is written"
    assert await typed("a mistake\x03\x03") is None, "and leaves where nothing is"
    assert oct(os.stat(history).st_mode)[-3:] == "600"


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("/", [*CHOICES]),
        ("/s", ["/session", "/steer"]),
        ("/mode pl", ["plan", "plan_react"]),
        ("/mode ", CHOICES["/mode"]),
    ]
    + [(text, []) for text in ("hello", "/steer ", "/nope x", "a\n/mode ")],
)
def test_commands_and_what_follows_them_are_completed(text: str, offered: list[str]) -> None:
    found = Words(CHOICES, ABOUT).get_completions(Document(text), CompleteEvent())
    described = [(each.text, each.display_meta_text) for each in found]
    assert described == [(name, ABOUT.get(name, "") if " " not in text else "") for name in offered]


def test_a_line_that_is_typed_while_a_task_runs_is_handed_on() -> None:
    lines: list[str] = []
    keyboard = Keyboard(lines.append, lambda _: None)
    for keys in (
        "添加".encode()[:4],
        "添加".encode()[4:],
        b"xy\x7f\x7f",
        b"\x1b[A\x1bOP ok",
        b"\n",
        b"gone\x15\n",
        b"a\nb\n",
    ):
        keyboard.take(keys)
    assert lines == ["添加 ok", "a b"]


@pytest.mark.slow
def test_in_a_terminal_typing_steers_the_task_that_runs(pages: Shell) -> None:
    terminal = pages.at_terminal("chat", "--agents", "agents.toml", "--agent", "pages", "--mode", "react")
    terminal.until("you>")
    terminal.type("please fetch it\r")
    pages.until("effects", "fetch begun")
    terminal.type("store it, too")
    terminal.until("> store it, too")
    terminal.type("\r")
    (pages.folder / "go").touch()
    terminal.until("added: store it, too")
    terminal.until("you>")
    terminal.type("/exit\r")
    assert terminal.end() == 0
    assert pages.read("effects").splitlines() == ["fetch begun", "fetch done", "store done"]
    (task,) = pages.rows("tasks")
    assert (task["status"], task["notes"]) == ("done", ["store it, too"])


def converse(pages: Shell, server: LoopbackServer) -> Terminal:
    """A conversation at a terminal in which the model is asked something, and begins to answer."""
    options = ("--agents", "agents.toml", "--agent", "pages", "--mode", "react")
    terminal = pages.at_terminal("chat", *options, OPENAI_BASE_URL=server.base_url)
    terminal.until("you>")
    terminal.type("Which season is it?\r")
    terminal.until("Phase 1")
    wait_until(lambda: server.requests)
    return terminal


@pytest.mark.slow
def test_a_line_that_comes_after_the_answer_is_the_next_message(pages: Shell) -> None:
    goes_on, reply = threading.Event(), answer("It is spring.")
    with LoopbackServer([Gate(reply[:20], reply[20:], goes_on), Text(answer("Then autumn."))]) as server:
        terminal = converse(pages, server)
        terminal.type("and in the south?\r")
        wait_until(lambda: pages.rows("tasks")[0]["notes"] == ["and in the south?"])
        goes_on.set()
        terminal.until("It is spring.")
        terminal.until("Then autumn.")
        terminal.until("you>")
        terminal.type("/exit\r")
        assert terminal.end() == 0
    assert "another process" not in terminal.text
    assert [task["status"] for task in pages.rows("tasks")] == ["done", "done"]


@pytest.mark.slow
def test_a_command_that_is_typed_while_a_task_runs_is_no_message(pages: Shell) -> None:
    with LoopbackServer([Gate("", answer("It is spring."), threading.Event())]) as server:
        terminal = converse(pages, server)
        terminal.type("/mode plan\r")
        terminal.until("A task is running.")
        terminal.type("/cancel\r")
        terminal.until("The task was cancelled")
        terminal.until("you>")
        terminal.type("/exit\r")
        assert terminal.end() == 0
        assert len(server.requests) == 1
    (task,) = pages.rows("tasks")
    assert (task["status"], task["notes"]) == ("cancelled", [])


@pytest.mark.slow
def test_an_interrupt_before_an_answer_stops_it_as_it_begins(shell: Shell) -> None:
    begins, never = threading.Event(), threading.Event()
    with LoopbackServer([Deltas([begins, {"content": "One line.\n"}, never, {"content": "Another."}])]) as server:
        terminal = shell.at_terminal("chat", "--mode", "direct", OPENAI_BASE_URL=server.base_url)
        terminal.until("you>")
        terminal.type("Write\r")
        wait_until(lambda: bool(server.requests))
        terminal.type("\x03")
        terminal.until("pausing at the next checkpoint")
        begins.set()
        terminal.until("The task is paused.")
        never.set()
        terminal.type("/exit\r")
        assert terminal.end() == 0


@pytest.mark.slow
def test_an_interrupt_stops_an_answer_that_is_written_and_a_resume_writes_only_the_rest(shell: Shell) -> None:
    never = threading.Event()
    whole = Text("One line.\nAnother line.\nThe last one.")
    with LoopbackServer([Gate("One line.\nAnother", " line.", never), whole]) as server:
        terminal = shell.at_terminal("chat", "--mode", "direct", OPENAI_BASE_URL=server.base_url)
        terminal.until("you>")
        terminal.type("Write three lines\r")
        terminal.until("Another")
        terminal.type("\x03")
        terminal.until("The task is paused.")
        terminal.until("you>")
        stopped = len(terminal.text)
        terminal.type("/resume\r")
        terminal.until("The last one.")
        terminal.until("mode direct")
        terminal.until("you>")
        never.set()
        terminal.type("/exit\r")
        assert terminal.end() == 0
    assert "One line." not in terminal.text[stopped:]
    assert [task["status"] for task in shell.rows("tasks")] == ["done"]
