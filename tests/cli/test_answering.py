"""A person decides on calls: at a terminal, by options, or later."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest

import segue
from segue.core.agents import Agent
from tests.checkpoints.damage import damage
from tests.fakes import ScriptedChatModel, choose

from .conftest import PLAIN_TERMINAL, Shell, Terminal

MESSAGE = "please refund it, then mail them"
SHOP = ("--agents", "agents.toml", "--agent", "shop", "--session", "s1")


def ask_at_terminal(pages: Shell, *options: str, message: str = MESSAGE, **environ: str) -> Terminal:
    return pages.at_terminal("chat", message, *SHOP, *options, **environ)


def waiting(pages: Shell, message: str = MESSAGE) -> str:
    """The id of a task that waits."""
    asked = pages("chat", message, *SHOP)
    assert asked.returncode == 3, asked.stderr
    (task,) = pages.rows("tasks")
    assert task["status"] == "waiting"
    return str(task["task_id"])


def effects(pages: Shell) -> list[str]:
    return pages.read("effects").splitlines()


@pytest.mark.slow
def test_one_call_after_the_other_is_approved_edited_and_rejected_in_the_same_view(pages: Shell) -> None:
    terminal = ask_at_terminal(pages, message="please store it, then refund it, then mail them")
    terminal.until("A call is waiting for your approval:")
    terminal.until("refund")
    terminal.until("approve, edit or reject? [a/e/r]")
    terminal.type("what\n")
    terminal.until("approve, edit or reject? [a/e/r]")
    terminal.type("e\n")
    terminal.until("arguments as JSON:")
    terminal.type('\x15{"amount": 5, \n')
    terminal.until("That is not a JSON object")
    terminal.until("arguments as JSON:")
    terminal.type('\x15{"amount": 5, "note": "对不起"}\n')
    terminal.until("edited refund(amount=5")
    terminal.until("mail")
    terminal.until("approve, edit or reject? [a/e/r]")
    terminal.type("r\n")
    terminal.until("reason (may be empty):")
    terminal.type("too late\n")
    assert terminal.end() == 0
    assert effects(pages) == ["store done", "refund 5 对不起"]
    said = terminal.text
    assert 'rejected mail(to="ann")  too late' in said
    assert "☑ 1 Store" in said
    assert "segue chat --session s1 --agents agents.toml --agent shop" in said


@pytest.mark.slow
def test_arguments_are_edited_in_the_editor_that_the_environment_names(pages: Shell) -> None:
    editor = pages.folder / "editor"
    editor.write_text('#!/bin/sh\necho "[1]" > "$2"; [ -e second ] && echo \'{"amount": 7}\' > "$2"; touch second\n')
    editor.chmod(0o755)
    terminal = ask_at_terminal(pages, message="refund it", EDITOR=f"{editor} --flag")
    terminal.until("[a/e/r]")
    terminal.type("e\n")
    terminal.until("That is not a JSON object (it is a list)")
    terminal.type("\n")
    assert terminal.end() == 0
    assert effects(pages) == ["refund 7 sorry"]


@pytest.mark.slow
def test_who_leaves_the_question_leaves_the_task_waiting(pages: Shell) -> None:
    terminal = ask_at_terminal(pages)
    terminal.until("[a/e/r]")
    terminal.press("\x04", until="The task is waiting for an answer.")
    assert terminal.end() == 3
    (task,) = pages.rows("tasks")
    assert task["status"] == "waiting"
    commands = [line.strip() for line in terminal.text.splitlines() if line.startswith("  segue answer ")]
    assert commands[0] == f"segue answer {task['task_id']} --agents agents.toml"

    later = pages.at_terminal(*shlex.split(commands[0])[1:])
    later.until("[a/e/r]")
    later.type("a\n")
    later.until("mail")
    later.until("[a/e/r]")
    later.type("a\n")
    assert later.end() == 0
    assert effects(pages) == ["refund 50 sorry", "mail ann"]


@pytest.mark.slow
def test_resuming_a_task_that_waits_asks_in_the_language_of_the_task(pages: Shell) -> None:
    task_id = waiting(pages, "请 refund 一下")
    terminal = pages.at_terminal("resume", task_id, "--agents", "agents.toml")
    terminal.until("有一个调用等待您批准：")
    terminal.until("批准、修改还是拒绝？[a/e/r]")
    terminal.type("a\n")
    assert terminal.end() == 0
    assert effects(pages) == ["refund 50 sorry"]


def test_without_a_terminal_what_waits_and_how_to_answer_is_printed(pages: Shell) -> None:
    asked = pages("chat", MESSAGE, *SHOP)
    assert asked.returncode == 3
    assert asked.stdout == b""
    (task,) = pages.rows("tasks")
    _, heading, call, *hints = asked.stderr.decode().splitlines()
    assert (heading, call) == ("A call is waiting for your approval:", "  0 refund")
    assert "The task is waiting for an answer." in hints
    assert f"  segue answer {task['task_id']} --approve all --agents agents.toml" in hints
    assert effects(pages) == []

    refused = pages("chat", "hello", *SHOP)
    assert refused.returncode == 1
    assert f"  segue answer {task['task_id']} --agents agents.toml" in refused.stderr.decode().splitlines()
    assert "--steer" not in refused.stderr.decode()

    again = pages("answer", task["task_id"][:6], "--agents", "agents.toml")
    assert again.returncode == 3
    assert "0 refund" in again.stderr.decode()


def test_what_waits_is_in_the_json_result(pages: Shell) -> None:
    asked = pages("chat", MESSAGE, *SHOP, "--json")
    assert asked.returncode == 3
    *_, result = [json.loads(line) for line in asked.stdout.splitlines()]
    assert (result["type"], result["status"]) == ("result", "waiting")
    assert [call["name"] for call in result["question"]["calls"]] == ["refund"]
    answered = pages("answer", result["task_id"], "--approve", "--json", "--agents", "agents.toml")
    assert answered.returncode == 3, "the next call waits"
    *_, second = [json.loads(line) for line in answered.stdout.splitlines()]
    assert [call["name"] for call in second["question"]["calls"]] == ["mail"]
    assert effects(pages) == ["refund 50 sorry"]


def test_options_decide_without_being_asked(pages: Shell) -> None:
    task_id = waiting(pages)
    edited = pages(
        "answer", task_id, "--edit", '0={"amount": 5, "note": "so"}', "--agents", "agents.toml", **PLAIN_TERMINAL
    )
    assert edited.returncode == 3, edited.stderr
    assert "edited refund(amount=5" in edited.stdout.decode()
    rejected = pages("answer", "--reject", "too dear", task_id[:8], "--agents", "agents.toml")
    assert rejected.returncode == 0, rejected.stderr
    assert effects(pages) == ["refund 5 so"]
    tree = pages("trace", task_id).stdout.decode()
    assert "approval requested" in tree
    assert 'edited refund(amount=5, note="so")  instead of (amount=50, note="sorry")' in tree
    assert 'rejected mail(to="ann")  too dear' in tree


def test_the_command_that_goes_on_after_an_answer_reaches_the_agent_of_the_task(pages: Shell) -> None:
    assert pages("chat", "refund it", *SHOP, "--user", "ann").returncode == 3
    approving = ("answer", pages.rows("tasks")[0]["task_id"], "--approve", "--agents", "agents.toml")
    answered = pages(*approving, **PLAIN_TERMINAL)
    command = answered.stdout.decode().splitlines()[-1]
    assert pages(*shlex.split(command.replace('"…"', "'refund it'"))[1:]).returncode == 3
    assert [(task["agent_id"], task["user_id"]) for task in pages.rows("tasks")] == [("shop", "ann")] * 2
    assert effects(pages) == ["refund 50 sorry"]


def test_the_history_says_that_a_task_is_under_way_and_how_to_see_what_it_did(pages: Shell) -> None:
    waiting(pages, "store it, then refund it")
    *_, said, command = pages("history", "s1").stdout.decode().splitlines()
    assert said == "The session has an unfinished task, whose steps are not in the history yet. To see them:"
    assert "store()" in pages(*shlex.split(command)[1:]).stdout.decode()
    assert pages("cancel", pages.rows("tasks")[0]["task_id"]).returncode == 0
    told = pages("history", "s1").stdout.decode()
    assert "store()" in told
    assert said not in told


def test_tasks_of_another_agents_file_are_left_alone_and_the_hints_name_it(pages: Shell) -> None:
    task_id = waiting(pages)
    assert f"  segue answer {task_id} --agents agents.toml\n" in pages("waiting").stdout.decode()
    damage(pages.folder / "segue.db", "UPDATE tasks SET status = 'running'")
    hint = f"segue resume {task_id} --agents agents.toml\n"
    assert hint in pages("tasks").stdout.decode()
    skipped = pages("resume", "--all")
    assert skipped.returncode == 0
    assert hint in skipped.stdout.decode()
    assert "1 task: 1 of another agents file." in skipped.stdout.decode()
    (pages.folder / "agents.toml").rename(pages.folder / "agents.old")
    assert f"segue resume {task_id} --agents FILE" in pages("tasks").stdout.decode()


def test_an_answer_that_does_not_fit_changes_nothing(pages: Shell) -> None:
    task_id = waiting(pages)
    for options, said in (
        (("--approve", "1"), "There is no call '1'; the calls are 0 (refund)."),
        (("--edit", "0=[1]"), "--edit 0=[1] is not a JSON object (it is a list)."),
        (("--approve", "--reject", "no"), "Two options apply to all calls"),
    ):
        refused = pages("answer", task_id, *options, "--agents", "agents.toml")
        assert (refused.returncode, refused.stderr.decode()[: len(said)]) == (2, said)
    assert pages.rows("tasks")[0]["status"] == "waiting"
    assert effects(pages) == []
    assert pages("cancel", task_id).returncode == 0
    gone = pages("answer", task_id, "--approve")
    assert gone.returncode == 1
    assert "it waits for no answer" in gone.stderr.decode()


@pytest.mark.slow
def test_turn_by_turn_the_question_can_be_left_and_put_again(pages: Shell) -> None:
    terminal = pages.at_terminal("chat", *SHOP)
    terminal.until("you>")
    terminal.type("refund it\n")
    terminal.until("[a/e/r]")
    terminal.press("\x03", until="The task is waiting for an answer.")
    terminal.until("you>")
    terminal.type("hello\n")
    terminal.until("Here: /resume asks you again, /cancel cancels it.")
    terminal.until("you>")
    terminal.type("/resume\n")
    terminal.until("[a/e/r]")
    terminal.type("a\n")
    terminal.until("you>")
    terminal.type("/exit\n")
    assert terminal.end() == 0
    assert effects(pages) == ["refund 50 sorry"]
    assert Path(pages.folder / "segue.db").exists()


def test_after_rows_were_repaired_the_next_command_answers_or_names_the_agent(pages: Shell) -> None:
    task_id = waiting(pages, "refund it")
    damage(pages.folder / "segue.db", "UPDATE tasks SET notes = '{'")
    lines = pages("recover", "s1", *SHOP[:2]).stdout.decode().splitlines()
    assert lines[-2:] == ["To continue:", f"segue answer {task_id} --agents agents.toml"]
    pages("answer", task_id, "--approve", *SHOP[:2])
    damage(pages.folder / "segue.db", "UPDATE tasks SET notes = '{'")
    lines = pages("recover", "s1", *SHOP[:2]).stdout.decode().splitlines()
    assert lines[-2] == "continue this session, from any process:"
    assert "--agent shop" in lines[-1]


def asked_question(pages: Shell) -> str:
    """The id of a task of the shop whose flow asks a question."""

    async def ask() -> str:
        async with segue.open(pages.folder / "segue.db") as app:
            model = ScriptedChatModel([choose("ask_user", question="Which colour?")])
            app.register(Agent(agent_id="shop", model=model, mode="controller"))
            result = await app.ask("1. ask\n2. paint", session_id="s1", agent="shop")
            return str(result["task_id"])

    return asyncio.run(ask())


def test_the_inbox_shows_questions_and_approvals_and_how_to_answer_them(pages: Shell) -> None:
    question = asked_question(pages)
    pages("chat", "please refund it", "--agents", "agents.toml", "--agent", "shop", "--session", "s2")
    shown = pages("waiting").stdout.decode()
    for text in ("Which colour?", f"segue answer {question} ANSWER", f"segue answer {question} --finish"):
        assert text in shown
    assert "A call is waiting for your approval:" in shown and "refund" in shown and "--approve all" in shown
    assert "有一个问题等待您回答" in pages("waiting", SEGUE_LANGUAGE="zh").stdout.decode()
    assert [row["kind"] for row in pages.rows("waiting")] == ["question", "approval"]


def test_a_question_is_answered_from_the_command_line(pages: Shell) -> None:
    question = asked_question(pages)
    both = pages("answer", question, "blue", "--finish", "--agents", "agents.toml")
    assert both.returncode == 2
    done = pages("answer", question, "blue", "--agents", "agents.toml")
    assert done.returncode == 0, done.stderr
    assert "answered: blue" in pages("trace", question).stdout.decode()
    assert b"No task waits for an answer." in pages("waiting").stdout
