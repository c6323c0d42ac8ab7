"""A person decides on calls: at a terminal, by options, or later."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import segue
from segue.cli import app
from segue.core.agents import Agent
from tests.checkpoints.damage import damage
from tests.fakes import ScriptedChatModel, choose
from tests.loopback import Call, LoopbackServer, Text, ToolCalls

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
    terminal.until("Your choice:")
    terminal.type("what\n")
    terminal.until("Your choice:")
    terminal.type("e\n")
    terminal.until("arguments as JSON:")
    terminal.type('\x15{"amount": 5, \n')
    terminal.until("That is not a JSON object")
    terminal.until("arguments as JSON:")
    terminal.type('\x15{"amount": 5, "note": "对不起"}\n')
    terminal.until("edited refund(amount=5")
    terminal.until("mail")
    terminal.until("Your choice:")
    terminal.type("r\n")
    terminal.until("reason (may be empty):")
    terminal.type("too late\n")
    assert terminal.end() == 0
    assert effects(pages) == ["store done", "refund 5 对不起"]
    said = terminal.text
    assert 'rejected mail(to="ann")  too late' in said
    assert "☑ 1 Store" in said
    assert 'segue chat --session s1 "…"' in said


@pytest.mark.slow
def test_arguments_are_edited_in_the_editor_that_the_environment_names(pages: Shell) -> None:
    editor = pages.folder / "editor"
    editor.write_text('#!/bin/sh\necho "[1]" > "$2"; [ -e second ] && echo \'{"amount": 7}\' > "$2"; touch second\n')
    editor.chmod(0o755)
    terminal = ask_at_terminal(pages, message="refund it", EDITOR=f"{editor} --flag")
    terminal.until("Your choice:")
    terminal.type("e\n")
    terminal.until("That is not a JSON object (it is a list)")
    terminal.type("\n")
    assert terminal.end() == 0
    assert effects(pages) == ["refund 7 sorry"]


@pytest.mark.slow
def test_who_leaves_the_question_leaves_the_task_waiting(pages: Shell) -> None:
    terminal = ask_at_terminal(pages)
    terminal.until("Your choice:")
    terminal.press("\x04", until="The task is waiting for an answer.")
    assert terminal.end() == 3
    (task,) = pages.rows("tasks")
    assert task["status"] == "waiting"
    commands = [line.strip() for line in terminal.text.splitlines() if line.startswith("  segue answer ")]
    assert commands[0] == f"segue answer {task['task_id'][:8]}"

    later = pages.at_terminal(*shlex.split(commands[0])[1:])
    later.until("Your choice:")
    later.type("a\n")
    later.until("mail")
    later.until("Your choice:")
    later.type("a\n")
    assert later.end() == 0
    assert effects(pages) == ["refund 50 sorry", "mail ann"]


def test_a_changed_agent_is_named_on_standard_error_where_no_terminal_is(pages: Shell) -> None:
    task_id = waiting(pages, "refund it")
    agents = pages.folder / "agents.toml"
    agents.write_text(agents.read_text() + 'prompt = "Refund what was paid."\n')
    answered = pages("answer", task_id, "--approve", "all")
    assert answered.returncode == 0, answered.stderr
    assert b"The agent has changed since the task started" in answered.stderr
    assert b"changed" not in answered.stdout


@pytest.mark.slow
def test_resuming_a_task_that_waits_asks_in_the_language_of_the_task(pages: Shell) -> None:
    task_id = waiting(pages, "请 refund 一下")
    terminal = pages.at_terminal("resume", task_id, "--agents", "agents.toml")
    terminal.until("有一个调用等待你批准：")
    terminal.until("请选择：")
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
    assert "The task is waiting for an answer." not in hints
    assert f"  segue answer {task['task_id'][:8]} --approve all" in hints
    assert effects(pages) == []

    refused = pages("chat", "hello", *SHOP)
    assert refused.returncode == 3
    assert f"  segue answer {task['task_id'][:8]}" in refused.stderr.decode().splitlines()
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


def test_a_task_and_its_session_remember_their_agents_file(
    pages: Shell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    task_id = waiting(pages, "refund it")
    elsewhere = replace(pages, folder=tmp_path_factory.mktemp("elsewhere"))
    database = ("--db", str(pages.folder / "segue.db"))
    hint = f"  segue answer {task_id[:8]} --approve all --db {database[1]}\n"
    assert hint in elsewhere("waiting", *database).stdout.decode()
    done = elsewhere(*shlex.split(hint)[1:])
    assert (done.returncode, done.stderr) == (0, b"")
    assert effects(pages) == ["refund 50 sorry"]
    again = elsewhere("chat", "-c", "refund it", *database)
    assert again.returncode == 3, again.stderr
    assert pages.rows("tasks")[0]["agent_id"] == "shop", "a session goes on with its agent"
    with_another = elsewhere("chat", "hello", "--session", "s2", "--agent", "data", "--model", "offline", *database)
    assert with_another.returncode == 0, with_another.stderr
    assert elsewhere("chat", "-c", "hello", "--model", "offline", *database).returncode == 0
    assert [row["agent_id"] for row in pages.rows("tasks")[:2]] == ["data", "data"]


def test_a_task_whose_agents_file_is_gone_says_so_and_goes_on_with_another(pages: Shell) -> None:
    task_id = waiting(pages, "refund it")
    (pages.folder / "agents.toml").rename(pages.folder / "moved.toml")
    for words in (("answer", task_id, "--approve"), ("chat", "-c", "hello"), ("chat", "hello", "--session", "s1")):
        refused = pages(*words)
        said = refused.stderr.decode()
        assert (refused.returncode, "no longer exists: name it with --agents." in said) == (2, True), said
    assert "agents.toml 已不存在" in pages("resume", task_id, SEGUE_LANGUAGE="zh").stderr.decode()
    assert pages("timeline", "s1").returncode == 0
    assert pages("answer", task_id, "--approve", "--agents", "moved.toml").returncode == 0
    assert pages("chat", "-c", "store it").returncode == 0, "the session remembers the file that it went on with"
    assert effects(pages) == ["refund 50 sorry", "store done"]


def test_all_tasks_are_resumed_each_with_its_own_agents_file(pages: Shell) -> None:
    other = pages.folder / "other"
    other.mkdir()
    agents = (pages.folder / "agents.toml").read_text(encoding="utf-8")
    (other / "own.toml").write_text(agents.replace('"shop"', '"stall"').replace("page_tools", "stall_tools"), "utf-8")
    (other / "stall_tools.py").write_bytes((pages.folder / "page_tools.py").read_bytes())
    for session, file, agent in (("s1", "agents.toml", "shop"), ("s2", "other/own.toml", "stall")):
        asked = pages("chat", "store it, then refund it", "--agents", file, "--agent", agent, "--session", session)
        assert asked.returncode == 3, asked.stderr
    damage(pages.folder / "segue.db", "UPDATE tasks SET status = 'running'")
    hints = pages("tasks").stdout.decode()
    assert all(f"  segue resume {row['task_id'][:8]}\n" in hints for row in pages.rows("tasks"))
    resumed = pages("resume", "--all")
    assert (resumed.returncode, "2 tasks: 2 waiting for an answer." in resumed.stdout.decode()) == (3, True), resumed
    assert effects(pages) == ["store done", "store done"]
    damage(pages.folder / "segue.db", "UPDATE tasks SET status = 'running'")
    (other / "stall_tools.py").rename(other / "page_tools.py")
    said = pages("resume", "--all").stdout.decode()
    assert "each have a module page_tools: resume the tasks of one of them with --agents." in said
    assert "1 of an agents file that cannot be used" in said
    assert re.search(r"  \d+\.\d 秒  ", pages("resume", "--all", SEGUE_LANGUAGE="zh").stdout.decode())


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
    assert "it is not waiting for an answer" in gone.stderr.decode()


def test_words_approve_and_reject(pages: Shell) -> None:
    task_id = waiting(pages)
    unclear = pages("answer", task_id, "why?", "--agents", "agents.toml")
    assert (unclear.returncode, "use --approve, --edit or --reject" in unclear.stderr.decode()) == (2, True)
    assert pages.rows("tasks")[0]["status"] == "waiting"
    assert pages("answer", task_id, "不要", "--agents", "agents.toml").returncode == 3
    assert pages("answer", "--last", "yes, please", "--agents", "agents.toml").returncode == 0
    assert len(effects(pages)) == 1 and "mail" in effects(pages)[0]


@pytest.mark.slow
def test_turn_by_turn_the_question_can_be_left_and_put_again(pages: Shell) -> None:
    terminal = pages.at_terminal("chat", *SHOP)
    terminal.until("you>")
    terminal.type("refund it\n")
    terminal.until("Your choice:")
    terminal.press("\x03", until="The task is waiting for an answer.")
    terminal.until("you>")
    terminal.type("hello\n")
    terminal.until("Here: /resume asks you again, /cancel cancels it.")
    terminal.until("you>")
    terminal.type("/resume\n")
    terminal.until("Your choice:")
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
    assert lines[-2:] == ["To continue:", f"segue answer {task_id[:8]}"]
    pages("answer", task_id, "--approve", *SHOP[:2])
    damage(pages.folder / "segue.db", "UPDATE tasks SET notes = '{'")
    lines = pages("recover", "s1", *SHOP[:2]).stdout.decode().splitlines()
    assert lines[-2:] == ["continue this session, from any process:", 'segue chat --session s1 "…"']


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
    for text in ("Which colour?", question[:8], "segue answer TASK_ID ANSWER", "segue answer TASK_ID --finish"):
        assert text in shown
    assert "A call is waiting for your approval:" in shown and "refund" in shown and "--approve all" in shown
    assert "有一个问题等待你回答" in pages("waiting", SEGUE_LANGUAGE="zh").stdout.decode()
    assert [row["kind"] for row in pages.rows("waiting")] == ["question", "approval"]


def test_where_no_task_is_named_the_only_or_the_newest_that_waits_is_answered(pages: Shell) -> None:
    first = waiting(pages, "please refund it")
    assert pages("chat", "please store it", *SHOP[:4], "--session", "later").returncode == 0
    assert pages("answer", "--approve", "all").returncode == 0
    assert "refund 50 sorry" in effects(pages)
    nothing = pages("answer", "--last")
    assert (nothing.returncode, nothing.stdout) != (0, b"") and b"`segue waiting`" in nothing.stderr

    for session in ("a", "b"):
        pages("chat", "please mail them", *SHOP[:4], "--session", session)
    shown = pages("waiting").stdout.decode()
    assert shown.count("--approve all") == shown.count("--reject REASON") == 1
    several = pages("answer", "--reject", "no")
    assert several.returncode == 2 and b"several tasks wait" in several.stderr
    assert "session a" in several.stdout.decode() and "session b" in several.stdout.decode()
    assert pages("answer", "--last", "--reject", "no").returncode == 0
    (left,) = pages.rows("waiting")
    assert (left["session_id"], first in left["task_id"]) == ("a", False)
    assert f"segue answer {left['task_id'][:8]} --approve all" in pages("waiting").stdout.decode()


def test_a_question_is_answered_from_the_command_line(pages: Shell) -> None:
    question = asked_question(pages)
    both = pages("answer", question, "blue", "--finish", "--agents", "agents.toml")
    assert both.returncode == 2
    done = pages("answer", question, "blue", "--agents", "agents.toml")
    assert done.returncode == 0, done.stderr
    assert "answered: blue" in pages("trace", question).stdout.decode()
    assert b"No task is waiting for an answer." in pages("waiting").stdout


def test_a_tool_that_is_always_allowed_runs_without_a_question_until_that_is_revoked(pages: Shell) -> None:
    task_id = waiting(pages, "refund it")
    done = pages("answer", task_id, "--always", "session", *SHOP[:2])
    assert done.returncode == 0, done.stderr
    again = pages("chat", "please refund it", *SHOP)
    assert (again.returncode, len(effects(pages))) == (0, 2)
    traced = pages("trace", pages.rows("tasks")[0]["task_id"]).stdout.decode()
    assert "approved refund  always allowed in this session" in traced
    assert 'approved refund(amount=50, note="sorry")  always in this session' in pages("trace", task_id).stdout.decode()
    for listed in (pages("permissions"), pages("permissions", "s1"), pages("permissions", "list", "s1")):
        assert {"s1", "shop", "refund", "session"} <= {*listed.stdout.decode().split()}, listed.stderr
    assert pages("permissions", "nowhere").returncode == 2
    assert pages("permissions", "revoke", "s1", "mail").returncode == 2
    revoked = pages("permissions", "revoke", "s1", "refund")
    assert (revoked.returncode, revoked.stdout) == (0, b"Permissions revoked: 1. These tools need approval again.\n")
    assert pages("permissions").stdout == b"No tool is always allowed.\n"
    assert pages("chat", "refund it", *SHOP).returncode == 3


def test_only_what_is_approved_can_be_allowed_always(pages: Shell) -> None:
    task_id = waiting(pages, "refund it")
    refused = pages("answer", task_id, "--always", "session", "--reject", "no", *SHOP[:2])
    assert (refused.returncode, b"Two options apply to all calls" in refused.stderr) == (2, True)
    assert pages("answer", task_id, "--always", "for-ever", *SHOP[:2]).returncode == 2
    assert effects(pages) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "made", "shown"),
    [("a\n", ["refund 50 sorry"], "refunded 50"), ("r\nno money\n", [], "rejected by the person")],
)
def test_the_person_of_a_conversation_decides_on_its_calls(
    pages: Shell, typed: str, made: list[str], shown: str
) -> None:
    bot = ("--user", "input_user", "--bot", "segue:plan", "--api", "tools", "--log", "talk.jsonl")
    terminal = pages.at_terminal("simulate", *SHOP, *bot, LC_ALL="zh_CN.UTF-8")
    terminal.until("[USER] ")
    terminal.type("please refund it\n")
    terminal.until("[BOT] refund(")
    terminal.until("A call is waiting for your approval:")
    terminal.until("Your choice:")
    for line in typed.splitlines(keepends=True):
        terminal.type(line)
        if line == "r\n":
            terminal.until("reason (may be empty):")
    terminal.until("[SYSTEM] ")
    terminal.until(shown)
    terminal.until("[USER] ")
    terminal.type("END\n")
    terminal.until("END!")
    assert terminal.end() == 0
    log = [json.loads(line) for line in pages.read("talk.jsonl").splitlines()]
    (result,) = [line for line in log if line.get("role") == "API"]
    assert shown in str(result["data"]) and log[0]["language"] == "en" and log[-1]["type"] == "end"
    assert result["approval"] == ("reject" if typed.startswith("r") else "approve")
    assert effects(pages) == made


# A task that waits for an event, in the terminal.


WAITING_SHOP = '''
import segue


@segue.tool
def sell(amount: int) -> str:
    """Sell something, and wait until it is paid."""
    raise segue.Wait("paid")
'''


@contextmanager
def shop(folder: Path) -> Iterator[None]:
    """A folder with an agent that sells and waits."""
    (folder / "waiting_shop.py").write_text(WAITING_SHOP, encoding="utf-8")
    with LoopbackServer([ToolCalls((Call("c1", "sell", '{"amount": 5}'),)), Text("Thanks.")]) as endpoint:
        fields = (
            f'model = "openai:m"\nbase_url = "{endpoint.base_url}"\napi_key = "k"\nmode = "react"\nprotocol = "native"'
        )
        agent = f'[[agent]]\nagent_id = "shop"\ntools = ["waiting_shop:sell"]\n{fields}\n'
        (folder / "agents.toml").write_text(agent, encoding="utf-8")
        yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def test_a_wait_is_shown_and_ended_by_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with shop(tmp_path):
        asked = run("chat", "sell it", "--agents", "agents.toml")
        assert asked.exit_code == 3 and "Waiting for the event paid." in asked.output
        assert "segue event" in asked.output and "segue schedules --run" in asked.output
        assert run("waiting").stdout.startswith("No task")
        (task,) = json.loads(run("tasks", "--json").stdout)
        assert "waits: paid" in run("trace", task["task_id"]).stdout
        assert run("event", task["task_id"][:8], "paid", "--data", "{").exit_code == 2
        assert run("resume", task["task_id"]).exit_code == 3
        sent = run("event", task["task_id"][:8], "paid", "--data", '{"amount": 5}')
        assert sent.stdout == f"The event paid was sent to task {task['task_id']}.\n"
        assert json.loads(run("tasks", "--json").stdout)[0]["status"] == "waiting", "no process is there"


@pytest.mark.slow
def test_a_terminal_follows_a_wait_until_its_event_comes_or_it_is_left(shell: Shell) -> None:
    with shop(shell.folder):
        terminal = shell.at_terminal("chat", "sell it", "--agents", "agents.toml")
        terminal.until("Waiting for the event paid.")
        terminal.until("leave it waiting.")
        terminal.press("\x03", until="segue event")
        assert terminal.end() == 3
        (task,) = shell.rows("tasks")
        terminal = shell.at_terminal("resume", task["task_id"])
        terminal.until("leave it waiting.")
        assert shell("event", task["task_id"], "paid", "--data", '{"amount": 5}').returncode == 0
        terminal.until("Thanks.")
        assert terminal.end() == 0


SELLER = '''
import segue
from segue.testing.rehearsal import BotOutput, BotOutputType


@segue.tool
def sell(amount: int) -> str:
    """Sell something, and wait until it is paid."""
    raise segue.Wait("paid")


class Seller:
    async def process(self, conversation):
        if conversation.actions:
            return BotOutput(action_type=BotOutputType.RESPONSE, text="Thanks.")
        return BotOutput(action_type=BotOutputType.ACTION, action="sell", action_input={"amount": 5})
'''
REHEARSAL = """
user_mode = "scripted_user"
script = ["Sell it."]
bot_mode = "waiting_seller:Seller"
api_mode = "tools"
tools = ["waiting_seller:sell"]
"""


def test_a_rehearsal_says_what_it_waits_for_and_continues_after_the_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "waiting_seller.py").write_text(SELLER, encoding="utf-8")
    (tmp_path / "c.toml").write_text(REHEARSAL, encoding="utf-8")
    waiting = run("simulate", "--config", "c.toml", "--session", "talk")
    assert waiting.exit_code == 3 and "Waiting for the event paid." in waiting.stdout
    task_id = waiting.stderr.partition("segue event ")[2].split()[0]
    assert "sell(amount=5)  waits" in run("trace", task_id).stdout
    assert run("event", task_id, "paid").exit_code == 0
    done = run("simulate", "--session", "talk")
    assert (done.exit_code, done.stderr) == (0, "") and "[BOT] Thanks." in done.stdout
    trace = run("trace", task_id).stdout
    assert "sell(amount=5)  done" in trace and "run again" not in trace


def test_a_rehearsal_that_asks_for_approval_says_how_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    asking = SELLER.replace("@segue.tool\n", "@segue.tool(needs_approval=True)\n")
    (tmp_path / "asking_seller.py").write_text(asking.replace('raise segue.Wait("paid")', 'return "sold"'), "utf-8")
    config = REHEARSAL.replace("waiting_seller", "asking_seller")
    (tmp_path / "c.toml").write_text(f'{config}approvals = "ask"\n', encoding="utf-8")
    asked = run("simulate", "--config", "c.toml", "--session", "talk")
    assert asked.exit_code == 3 and "--approve all" in asked.stderr
    assert run("answer", "--last", "--approve", "all").exit_code == 0
    assert run("simulate", "--session", "talk").exit_code == 0
    assert '"type": "end"' in Path("logs", "talk.jsonl").read_text(encoding="utf-8")
