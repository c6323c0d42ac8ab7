"""What each command answers, and with which exit code."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from segue.cli import app
from tests.loopback import LoopbackServer, Text

from .conftest import PLAIN_TERMINAL


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(app, [*arguments], **options)


def sentence(result: Result) -> str:
    """The one sentence on standard error; nothing on standard output."""
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_an_answer_that_is_no_decision_is_remarked_on_and_flagged(here: Path) -> None:
    with LoopbackServer([Text("Nice weather today.")] * 6) as endpoint:
        agent = f'agent_id = "a"\nmodel = "openai:m"\nbase_url = "{endpoint.base_url}"\napi_key = "k"\nmode = "react"'
        (here / "agents.toml").write_text(f"[[agent]]\n{agent}\n")
        asked = ("chat", "Where is my order?", "--agents", "agents.toml", "--agent", "a")
        said, last = run(*asked), json.loads(run(*asked, "--json").stdout.splitlines()[-1])
    assert (said.exit_code, said.stdout) == (0, "Nice weather today.\n")
    assert "The model did not follow the protocol" in said.stderr
    assert 'set protocol = "native" in the agents file, or Agent(protocol="native")' in " ".join(said.stderr.split())
    assert last["result"]["malformed"] is True


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("chat", ""), 2, "The message is empty"),
        (("chat", "  \n "), 2, "The message is empty"),
        (
            ("chat", "长" * 11_000),
            2,
            "The message has 33000 bytes; the limit is 32768: shorten it, or raise",
        ),
        (("chat", "hi", "--mode", "wild"), 2, "There is no mode 'wild'; use one of: direct, "),
        (("chat", "hi", "--session", "a b"), 2, "The session name 'a b' cannot be used"),
        (("chat", "hi", "--model", "gpt"), 2, "The model 'gpt' is not known"),
        (("chat", "hi", "--model", "openai:gpt-x"), 1, "The model 'openai:gpt-x' needs a key: set OPENAI_API_KEY"),
        (("chat", "hi", "--agents", "none.toml"), 2, "The agents file none.toml cannot be read"),
        (("chat", "hi", "--db", "none/x.db"), 1, "The folder none does not exist"),
        (("chat", "hi", "--db", "."), 1, "'.' is a folder, not a database"),
        (("sessions",), 1, "There is no database segue.db yet"),
        (
            ("serve", "--port", "0", "--require-model"),
            2,
            "No model is configured for travel, data: set OPENAI_API_KEY or SEGUE_MODEL",
        ),
        (("serve", "--port", "0", "--agents", "unknown.toml"), 2, "The model 'm' is not known; use openai:<name>"),
        (("trace", "t", "--db", "none.db"), 1, "There is no database none.db yet"),
        (("tasks", "--db", "mysql://u:secret@h/d"), 1, "A database named mysql://… cannot be opened"),
        (("chat", "hi", "--db", "postgresql+psycopg://h/d"), 1, "A database named postgresql+psycopg://… cannot"),
        (("mcp", "login", "shop"), 2, "No agent has an MCP server with a url: name the agents file"),
        (("graph", "none"), 2, "There is no graph 'none'; use one of: chat, "),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    here: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    (here / "unknown.toml").write_text('[[agent]]\nagent_id = "a"\nmodel = "m"\n', encoding="utf-8")
    result = run(*arguments)
    assert sentence(result).startswith(said)
    assert result.exit_code == code


def test_a_busy_port_is_said_before_anything_is_opened(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port))
    assert sentence(result).startswith(f"Port {port} of 127.0.0.1 is in use: stop what listens there")
    assert (result.exit_code, list(here.iterdir())) == (2, [])


def test_an_unknown_agent_may_be_one_of_an_agents_file() -> None:
    result = run("chat", "hi", "--agent", "nobody")
    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr.splitlines() == [
        "There is no agent 'nobody'; use one of: travel, data.",
        "If it is defined in an agents file, pass the file with --agents FILE.",
    ]


def test_a_file_that_is_no_database_is_left_as_it_is(here: Path) -> None:
    (here / "x.db").write_text("a letter to a friend " * 40, encoding="utf-8")
    result = run("chat", "hi", "--db", "x.db")
    assert "is not a SQLite database" in sentence(result)
    assert result.exit_code == 1
    assert (here / "x.db").read_text(encoding="utf-8").startswith("a letter")


def test_only_asking_creates_no_database(here: Path) -> None:
    for command in (
        ["sessions"],
        ["tasks"],
        ["history", "s"],
        ["trace", "t"],
        ["resume", "t"],
        ["cancel", "t"],
        ["answer", "t"],
    ):
        assert run(*command).exit_code == 1
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[[agent]", "cannot be read"),
        (
            "[agents]",
            "[[notify]], [approvals], [modes], [flows], [spend], [audit], [quotas].",
        ),
        ('[[agent]]\nagent_id = "a"\ncolour = 9', "has an unknown field 'colour': use agent_id, "),
        ('[[agent]]\nagent_id = "a"\ntemprature = 0', "unknown field 'temprature': use temperature."),
        ('[[agent]]\nagent_id = "a"\n[[agent.mcp]]\nname = "m"\ncomand = "x"', "'mcp.0.comand': use command."),
        ('[[agent]]\nagent_id = "a"\ntools = ["none"]', "There is no tool 'none'"),
        (f"[[agent]]\nagent_id = {'[' * 5000}", "cannot be read"),
        ('[modes]\nshout = "none:graph"', "'none:graph' cannot be imported"),
    ],
)
def test_a_wrong_agents_file_is_a_usage_error(here: Path, written: str, said: str) -> None:
    (here / "a.toml").write_text(written, encoding="utf-8")
    result = run("chat", "hi", "--agents", "a.toml")
    assert said in sentence(result)
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("import os\nos.environ['NO_SUCH_KEY']", "KeyError: 'NO_SUCH_KEY'."),
        ("raise SystemExit('set it up first')", "SystemExit: set it up first."),
        ("import segue\n@segue.tool\ndef find(x):\n    'Find.'", "The function find cannot be a tool: give x a type."),
    ],
)
def test_a_module_of_tools_that_fails_or_ends_the_program_is_a_usage_error(
    here: Path, monkeypatch: pytest.MonkeyPatch, module: str, said: str
) -> None:
    monkeypatch.syspath_prepend(str(here))
    name = f"failing_{len(said)}"
    (here / f"{name}.py").write_text(module, encoding="utf-8")
    (here / "a.toml").write_text(f'[[agent]]\nagent_id = "a"\ntools = ["{name}:find"]', encoding="utf-8")
    result = run("chat", "hi", "--agents", "a.toml")
    assert sentence(result).endswith(said)
    assert result.exit_code == 2


def test_a_session_is_deleted() -> None:
    assert run("chat", "hello", "--session", "s").exit_code == 0
    assert run("delete", "s").stdout == "Session s was deleted.\n"
    assert json.loads(run("sessions", "--json").stdout) == []
    assert "There is no session 's'" in sentence(run("delete", "s"))


def test_a_task_is_named_by_the_beginning_of_its_id_and_one_that_is_done_stays_so() -> None:
    run("chat", "hello")
    run("chat", "hello", "--mode", "direct")
    latest, first = run("tasks").stdout.splitlines()[1:]
    assert "auto" not in latest
    assert "auto: direct" in first, "the mode that was picked"
    task_id = json.loads(run("tasks", "--json").stdout)[0]["task_id"]
    short = f"'{task_id[:5]}' is too short for a task id: write at least its first 6 characters"
    for command in ("trace", "resume", "cancel", "pause", "answer"):
        for name, said, code in (("nopenope", "There is no task 'nopenope' in", 2), (task_id[:5], short, 2)):
            result = run(command, name)
            assert sentence(result).startswith(said)
            assert result.exit_code == code
    for unknown in (("history", "nope"), ("tasks", "--session", "nope")):
        result = run(*unknown)
        assert (sentence(result)[:29], result.exit_code) == ("There is no session 'nope' in", 2)
    assert json.loads(run("trace", task_id[:6], "--json").stdout)["task"]["task_id"] == task_id
    assert f"Task {task_id} is done" in sentence(run("cancel", task_id[:8]))
    assert "there is nothing to resume" in sentence(run("resume", task_id))


def test_a_wrong_option_is_a_usage_error() -> None:
    assert run("chat", "hi", "--speed", "9").exit_code == 2
    for wrong, said in (
        (("chat", "--interactive", "--json"), "it needs a MESSAGE"),
        (("chat", "hi", "--interactive"), "it takes no MESSAGE"),
        (("chat", "hi", "-c", "--session", "s"), "give either --continue or --session"),
        (("trace",), "give either a TASK_ID or --last"),
        (("history", "s", "--last"), "give either a SESSION or --last"),
        (("resume", "abcdef", "--last"), "give a TASK_ID, --last or --all"),
    ):
        result = run(*wrong)
        assert result.exit_code == 2
        assert said in result.stderr


def test_a_pipe_is_read_and_standard_output_gets_the_answer_alone() -> None:
    for arguments in (("chat",), ("chat", "-")):
        result = run(*arguments, input="你好\n")
        assert result.exit_code == 0
        assert result.stdout.startswith("你好！")
        assert result.stderr == ""
    run("chat", "work this out", input="12*7\nand 2+3\n")
    assert json.loads(run("tasks", "--json").stdout)[0]["message"] == "work this out\n\n12*7\nand 2+3\n"
    assert run("chat").exit_code == 2, "nothing is asked"


def test_the_last_session_is_continued_and_the_last_task_needs_no_id() -> None:
    assert sentence(run("chat", "-c", "hello")).startswith("This database has no sessions yet")
    assert sentence(run("trace", "--last", "--db", "segue.db")).startswith("This database has no sessions yet")
    for session in ("first", "last"):
        run("chat", f"hello {session}", "--session", session)
    assert run("chat", "-c", "and again").exit_code == 0
    rows = json.loads(run("sessions", "--json").stdout)
    assert [(row["session_id"], row["turns"]) for row in rows] == [("last", 2), ("first", 1)]
    limited = run("sessions", "--limit", "1")
    assert ("last" in limited.stdout, "first" in limited.stdout) == (True, False)
    assert limited.stderr.strip() == "Sessions not listed: 1. Use --limit to list more."
    assert run("sessions", "--limit", "2").stderr == ""
    assert json.loads(run("trace", "--last", "--json").stdout)["task"]["message"] == "and again"
    assert "hello last" in run("history", "--last").stdout
    assert "there is nothing to resume" in run("resume", "--last").stderr
    assert "No task is waiting for an answer" in run("answer", "--last", "blue").stderr


def test_the_last_task_is_the_conversation_not_that_of_its_bot() -> None:
    said = ("--user", "scripted_user", "--say", "北京有什么景点？", "--bot", "segue:react", "--api", "tools")
    assert run("simulate", *said, "--session", "talk").exit_code == 0
    assert json.loads(run("trace", "--last", "--json").stdout)["task"]["session_id"] == "talk"
    assert "[USER] 北京有什么景点？" in run("history", "--last").stdout


@pytest.mark.slow
def test_output_that_cannot_be_written_ends_with_a_sentence(here: Path) -> None:
    run("chat", "hello")
    full_disk = "No space left on device"
    for name, why, words in (
        ("full", full_disk, ["sessions"]),
        ("closed", "closed", ["sessions"]),
        ("full", full_disk, ["chat", "hi"]),
    ):
        with open("/dev/full", "w") as full:
            code = f"import sys, segue.cli; sys.stdout = {'sys.stdout' if name == 'full' else None}; segue.cli.main()"
            ended = subprocess.run(
                [sys.executable, "-c", code, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        line, *hints = ended.stderr.splitlines()
        assert line == f"Writing to standard output failed ({why})."
        assert ["A running task is paused" in hint for hint in hints] == [True] * ("chat" in words)
        assert ended.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(("words", "said", "code"), [(["sessions"], "", 141), (["chat", "hi"], "Broken pipe", 1)])
def test_a_reader_that_has_read_enough_ends_a_listing_without_a_word(
    here: Path, words: list[str], said: str, code: int
) -> None:
    run("chat", "hello")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "segue", *words]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert ended.returncode == code
    assert said in ended.stderr and bool(said) == bool(ended.stderr)


def test_where_the_file_is_damaged_the_doctor_is_named(here: Path) -> None:
    run("chat", "hello")
    whole = (here / "segue.db").read_bytes()
    (here / "x.db").write_bytes(whole[: len(whole) // 2])
    result = run("tasks", "--db", "x.db")
    assert result.exit_code == 1
    said, hint = result.stderr.splitlines()
    assert "restore it from a copy" in said
    assert hint == "Or run a diagnosis: segue doctor --db x.db"


def test_the_environment_names_the_database(here: Path) -> None:
    result = run("chat", "hello", env={"SEGUE_DATABASE": "other.db", **PLAIN_TERMINAL})
    assert result.exit_code == 0
    assert (here / "other.db").exists()
    assert "--db other.db" in result.stdout


def test_that_no_language_model_answers_is_said_in_the_language_of_the_message() -> None:
    assert "NO LANGUAGE MODEL" in run("chat", "hello", env=PLAIN_TERMINAL).stdout
    assert "没有使用语言模型" in run("chat", "你好", env=PLAIN_TERMINAL).stdout


def test_json_is_events_and_then_the_result() -> None:
    result = run("chat", "hello", "--json", "--session", "s1")
    *events, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"task_started", "mode_selected", "token", "answer", "task_complete"} <= {event["type"] for event in events}
    assert all(event["task_id"] == last["task_id"] for event in events)
    assert (last["type"], last["session_id"], last["status"]) == ("result", "s1", "done")
    assert last["result"]["answer"] == next(e["data"]["answer"] for e in events if e["type"] == "answer")
    assert last["unknown_outcomes"] == []
    assert result.stderr == ""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_lists_wrap_at_every_width_and_lose_no_word(language: str) -> None:
    message = {"en": "hello " * 15 + "goodbye", "zh": "你好" * 20 + "再见"}[language]
    run("chat", message, "--session", "s", "--model", "offline")
    plain = re.compile(r"\x1b\[[0-9;]*m")
    lists = (
        ("tasks", {"en": "goodbye", "zh": "再见"}),
        ("sessions", {"en": "goodbye", "zh": "再见"}),
        ("agents", {"en": "clock", "zh": "clock"}),
        ("tools", {"en": "days, best match first.", "zh": "days, best match first."}),
        ("modes", {"en": "for each message", "zh": "为每条消息"}),
        ("preferences", {"en": "goodbye", "zh": "再见"}),
    )
    for width, (command, shown) in product((40, 60, 80, 200, 0), lists):
        at_terminal = {**PLAIN_TERMINAL, "TERM": "xterm", "COLUMNS": str(width), "NO_COLOR": "1"}
        environ = {"SEGUE_LANGUAGE": language, "COLUMNS": "", **(at_terminal if width else {})}
        lines = plain.sub("", run(command, env=environ).stdout).splitlines()
        assert max(map(cell_len, lines)) <= (width or 100), (command, width)
        words = "".join("".join(lines).split())
        assert shown[language].replace(" ", "") in words and "…" not in words, (command, width)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "asks", "answer", "tested"),
    [
        ("en", "Where is my order 17?", "Order 17 is shipped.", "2 tests passed"),
        ("zh", "我的订单 17 到哪里了？", "订单 17 已发货。", "2 个测试通过"),
    ],
)
def test_a_project_is_written_that_runs_at_once(
    language: str, asks: str, answer: str, tested: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = run("init", "my shop", env={"SEGUE_LANGUAGE": language})
    assert (written.exit_code, asks in written.stdout) == (0, True)
    going, asking, refunding, testing = [shlex.split(line) for line in written.stdout.splitlines()[1:]]
    again = run("init", "my shop")
    assert (sentence(again)[:30], again.exit_code) == (f"The file {Path('my shop', 'agents.toml')} already"[:30], 2)
    assert going == ["cd", "my shop"]
    monkeypatch.chdir(going[1])
    assert answer in run(*asking[1:], "--model", "offline").stdout
    assert run(*refunding[1:], "--model", "offline").exit_code == 3
    ran = subprocess.run([sys.executable, *testing[1:]], capture_output=True, text=True, check=False)
    assert ran.stdout == f"{tested}\n", ran.stderr


def test_the_agents_file_of_the_folder_is_used_where_none_is_named(here: Path) -> None:
    def agents(*options: str, **environ: str) -> list[str]:
        listed = json.loads(run("agents", "--json", *options, env=environ).stdout)
        return [agent["agent"] for agent in listed]

    run("chat", "hello", "--session", "before", "--model", "offline")
    for name in ("agents", "others"):
        (here / f"{name}.toml").write_text(f'[[agent]]\nagent_id = "{name}"\n')
    assert agents() == ["agents"]
    assert agents("--agents", "others.toml") == agents(SEGUE_AGENTS="others.toml") == ["others"]
    assert agents(SEGUE_AGENTS="") == ["travel", "data"]

    said = json.loads(run("chat", "hello", "--json", "--session", "s", "--model", "offline").stdout.splitlines()[-1])
    asked = json.loads(run("tasks", "--json", "--session", "s").stdout)[0]
    assert (said["result"]["success"], asked["agent_id"]) == (True, "agents")
    assert run("chat", "hello", "--session", "before", "--model", "offline").exit_code == 0, "it has an example's agent"
    assert "agents.toml of this folder, because neither --agents nor SEGUE_AGENTS names a file" in run("doctor").stdout
    named = run("doctor", "--agents", "agents.toml").stdout
    assert f"{here / 'agents.toml'}, named by --agents" in named
    assert "others.toml, named by SEGUE_AGENTS" in run("doctor", env={"SEGUE_AGENTS": "others.toml"}).stdout


def test_the_demo_speaks_the_language_of_the_terminal() -> None:
    for language, place in (("en", "Beijing"), ("zh", "北京")):
        assert place in run("demo", env={"SEGUE_LANGUAGE": language}).stdout


@pytest.mark.parametrize(
    ("goal", "beginning"),
    [
        ("plan 3 days in Beijing", "**Beijing, a route for 3 days**\n"),
        ("规划北京3天的路线", "### 计算预算（北京，3 天）\n"),
    ],
)
def test_a_run_without_a_model_begins_with_its_result(here: Path, goal: str, beginning: str) -> None:
    assert run("run", goal).stdout.startswith(beginning)


def test_an_answer_is_rated_and_a_default_mode_is_set(here: Path) -> None:
    run("chat", "What is 2 + 2?", "--mode", "react")
    assert "is rated 4" in run("rate", "4", "--last").stdout
    shown = run("preferences").stdout
    assert "no default mode" in shown and "What is 2 + 2?" in shown
    assert "Default mode: plan." in run("preferences", "--mode", "plan").stdout
    kept = json.loads(run("preferences", "--json").stdout)
    assert kept == {"default_mode": "plan", "mode_history": [{"query": "What is 2 + 2?", "mode": "react", "rating": 4}]}
    assert json.loads(run("preferences", "--mode", "", "--json").stdout)["default_mode"] == ""
    assert "This user has no answers" in run("preferences", "--user", "ann").stdout
    assert "1 to 5" in sentence(run("rate", "9", "--last"))
    assert "no mode 'bogus'" in sentence(run("preferences", "--mode", "bogus"))


def test_lists_of_modes_agents_and_graphs(here: Path) -> None:
    (here / "a.toml").write_text('[[agent]]\nagent_id = "mine"\ndescription = "[red]"\n', encoding="utf-8")
    modes = run("modes", "--json")
    assert {"direct", "react", "plan", "auto"} <= set(json.loads(modes.stdout))
    assert "react" in run("modes").stdout
    agents = run("agents", "--agents", "a.toml").stdout
    assert "[red]" in agents and "travel" not in agents
    assert "travel" in run("agents").stdout
    assert "MAKE_PLAN" in run("graph", "plan").stdout


def test_the_plan_of_a_controller_has_no_step_that_answers() -> None:
    goal = "Plan a weekend in Beijing: find the sights, estimate the budget"
    for mode, phases in (("controller", ["execution"] * 2), ("plan", ["execution", "execution", "generation"])):
        events = run("chat", goal, "--mode", mode, "--model", "offline", "--json").stdout.splitlines()
        (plan,) = (event for event in map(json.loads, events) if event["type"] == "plan_update")
        assert [step["phase"] for step in plan["data"]["steps"]] == phases


def test_a_shipped_workflow_is_listed_and_printed_to_be_changed(here: Path) -> None:
    assert re.search("^travel_change  +Change or cancel", run("workflows").stdout, re.MULTILINE)
    (here / "mine.md").write_text(run("workflows", "travel_change").stdout, encoding="utf-8")
    assert run("workflows", "mine.md").stdout == run("workflows", "travel_change").stdout
    (here / "mine.md").write_text("no front matter", encoding="utf-8")
    wrong = run("workflows", "mine.md")
    assert wrong.exit_code and "mine.md, line 1" in wrong.stderr


def test_modes_of_the_agents_file_are_listed_and_drawn(here: Path) -> None:
    (here / "shouting.py").write_text(
        "from langgraph.graph import END, START, MessagesState, StateGraph\n"
        "graph = StateGraph(MessagesState)\n"
        "graph.add_node('SHOUT', lambda state: {'messages': []})\n"
        "graph.add_edge(START, 'SHOUT')\n"
        "graph.add_edge('SHOUT', END)\n",
        encoding="utf-8",
    )
    (here / "a.toml").write_text('[modes]\nshout = "shouting:graph"\n', encoding="utf-8")
    assert "shout" in json.loads(run("modes", "--agents", "a.toml", "--json").stdout)
    assert "shout" in run("modes", "--agents", "a.toml").stdout
    assert "SHOUT" in run("graph", "shout", "--agents", "a.toml").stdout
    assert "shout" in sentence(run("graph", "none", "--agents", "a.toml"))
    assert run("graph", "shout").exit_code == 2


def test_help_waits_for_nothing_heavy() -> None:
    look = "import sys, segue.cli; print([m for m in ('langgraph', 'pydantic', 'openai') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout.strip() == b"[]"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tasks", "--session <str> Only the tasks of this session."),
        ("tasks", "--agent <str> Only the tasks of this agent."),
        ("tasks", "--json Print JSON."),
        ("chat", "--session <str> The session to continue; by default a new one."),
        ("chat", "its first agent is the default"),
        ("chat", "--json Print JSON: one event per line, then the result."),
        ("resume", "by default the one the task started with."),
        ("resume", "with --all one result per line, then a summary."),
        ("cancel", "use the one that the task was started with."),
        ("answer", "with these arguments, which replace its own:"),
    ],
)
def test_an_option_says_what_it_does_for_its_command(command: str, told: str) -> None:
    assert told in " ".join(run(command, "--help").stdout.split())


def test_the_version_and_the_help() -> None:
    assert run("--version").stdout.startswith("segue ")
    assert run().exit_code == 2


def test_in_a_conversation_the_model_is_switched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "/model\n/model wild\n/model offline\n12 * 12\n/exit\n"
    with LoopbackServer([]) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        done = CliRunner().invoke(app, ["chat", "--interactive"], input=lines, env=PLAIN_TERMINAL)
    assert done.exit_code == 0
    for said in ("Usage: /model NAME", "The model 'wild' is not known", "The model is now offline.", "--model offline"):
        assert said in done.output
    assert "144" in done.output
    assert endpoint.requests == []
