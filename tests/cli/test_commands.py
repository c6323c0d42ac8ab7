"""What each command answers, and with which exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from segue.cli import app
from segue.cli.exits import EXIT_CODES

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **options: str) -> Result:
    return CliRunner().invoke(app, [*arguments], **options)  # type: ignore[arg-type]


def sentence(result: Result) -> str:
    """The one sentence on standard error; nothing on standard output."""
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("chat", ""), 2, "The message is empty"),
        (("chat", "  \n "), 2, "The message is empty"),
        (("chat", "长" * 11_000), 2, "The message has 33000 bytes and 32768 is the most"),
        (("chat", "hi", "--mode", "wild"), 2, "There is no mode 'wild'; use one of: direct, "),
        (("chat", "hi", "--agent", "nobody"), 2, "There is no agent 'nobody'; use one of: travel, data."),
        (("chat", "hi", "--session", "a b"), 2, "The session name 'a b' cannot be used"),
        (("chat", "hi", "--model", "gpt"), 2, "The model 'gpt' is not known"),
        (("chat", "hi", "--model", "openai:gpt-x"), 1, "The model 'openai:gpt-x' needs a key: set OPENAI_API_KEY"),
        (("chat", "hi", "--agents", "none.toml"), 2, "The agents file none.toml cannot be read"),
        (("chat", "hi", "--db", "none/x.db"), 1, "The folder none does not exist"),
        (("chat", "hi", "--db", "."), 1, "'.' is a folder, not a database"),
        (("threads",), 1, "There is no database segue.db yet"),
        (("trace", "t", "--db", "none.db"), 1, "There is no database none.db yet"),
        (("graph", "none"), 2, "There is no graph 'none'; use one of: chat, "),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = run(*arguments)
    assert sentence(result).startswith(said)
    assert result.exit_code == code


def test_a_file_that_is_no_database_is_left_as_it_is(here: Path) -> None:
    (here / "x.db").write_text("a letter to a friend " * 40, encoding="utf-8")
    result = run("chat", "hi", "--db", "x.db")
    assert "is not a SQLite database" in sentence(result)
    assert result.exit_code == 1
    assert (here / "x.db").read_text(encoding="utf-8").startswith("a letter")


def test_only_asking_creates_no_database(here: Path) -> None:
    for command in (
        ["threads"],
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
        ("[agents]", "has 'agents'; it may have [[agent]], [modes] and [flows]."),
        ('[[agent]]\nagent_id = "a"\nspeed = 9', "speed: Extra inputs are not permitted"),
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


def test_the_exit_codes_are_those_of_the_readme() -> None:
    told = f"Exit codes: {EXIT_CODES}."
    assert told in " ".join(README.read_text(encoding="utf-8").split())
    assert told in " ".join(run("--help").stdout.split())


def test_a_session_is_deleted() -> None:
    assert run("chat", "hello", "--session", "s").exit_code == 0
    assert run("delete", "s").stdout == "Session s is deleted.\n"
    assert json.loads(run("threads", "--json").stdout) == []
    assert "There is no session 's'" in sentence(run("delete", "s"))


def test_a_task_is_named_by_the_beginning_of_its_id_and_one_that_is_done_stays_so() -> None:
    run("chat", "hello")
    run("chat", "hello", "--mode", "direct")
    latest, first = run("tasks").stdout.splitlines()[1:]
    assert "auto" not in latest
    assert "auto: direct" in first, "the mode that was picked"
    task_id = json.loads(run("tasks", "--json").stdout)[0]["task_id"]
    short = f"'{task_id[:5]}' is too short for a task's id: write at least its first 6 characters"
    for command in ("trace", "resume", "cancel", "pause", "answer"):
        for name, said in (("nopenope", "There is no task 'nopenope' in"), (task_id[:5], short)):
            result = run(command, name)
            assert sentence(result).startswith(said)
            assert result.exit_code == 1
    result = run("history", "nope")
    assert (sentence(result)[:29], result.exit_code) == ("There is no session 'nope' in", 1)
    assert json.loads(run("trace", task_id[:6], "--json").stdout)["task"]["task_id"] == task_id
    assert f"Task {task_id} is done" in sentence(run("cancel", task_id[:8]))
    assert "there is nothing to resume" in sentence(run("resume", task_id))


def test_a_wrong_option_is_a_usage_error() -> None:
    assert run("chat", "hi", "--speed", "9").exit_code == 2
    result = run("chat", "--json")
    assert result.exit_code == 2
    assert "it needs a MESSAGE" in result.stderr


def test_the_message_can_come_from_standard_input() -> None:
    result = run("chat", "-", input="你好\n")
    assert result.exit_code == 0
    assert "你好！" in result.stdout


def test_where_the_file_is_damaged_the_doctor_is_named(here: Path) -> None:
    run("chat", "hello")
    whole = (here / "segue.db").read_bytes()
    (here / "x.db").write_bytes(whole[: len(whole) // 2])
    result = run("tasks", "--db", "x.db")
    assert result.exit_code == 1
    said, hint = result.stderr.splitlines()
    assert "restore it from a copy" in said
    assert hint == "Or see what this says: segue doctor --db x.db"


def test_the_environment_names_the_database(here: Path) -> None:
    result = run("chat", "hello", env={"SEGUE_DATABASE": "other.db"})  # type: ignore[arg-type]
    assert result.exit_code == 0
    assert (here / "other.db").exists()
    assert "--db other.db" in result.stdout


def test_that_no_language_model_answers_is_said_in_the_language_of_the_message() -> None:
    assert "NO LANGUAGE MODEL" in run("chat", "hello").stdout
    assert "没有使用语言模型" in run("chat", "你好").stdout


def test_json_is_events_and_then_the_result() -> None:
    result = run("chat", "hello", "--json", "--session", "s1")
    *events, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"task_started", "mode_selected", "token", "answer", "task_complete"} <= {event["type"] for event in events}
    assert all(event["task_id"] == last["task_id"] for event in events)
    assert (last["type"], last["session_id"], last["status"]) == ("result", "s1", "done")
    assert last["result"]["answer"] == next(e["data"]["answer"] for e in events if e["type"] == "answer")
    assert last["unknown_outcomes"] == []
    assert result.stderr == ""


def test_lists_of_modes_agents_and_graphs(here: Path) -> None:
    (here / "a.toml").write_text('[[agent]]\nagent_id = "mine"\ndescription = "[red]"\n', encoding="utf-8")
    modes = run("modes", "--json")
    assert {"direct", "react", "plan", "auto"} <= set(json.loads(modes.stdout))
    assert "react" in run("modes").stdout
    agents = run("agents", "--agents", "a.toml").stdout
    assert "travel" in agents
    assert "[red]" in agents
    assert "MAKE_PLAN" in run("graph", "plan").stdout


def test_a_shipped_workflow_is_listed_and_printed_to_be_changed(here: Path) -> None:
    assert "travel_change: Change or cancel" in run("workflows").stdout
    (here / "mine.md").write_text(run("workflows", "travel_change").stdout, encoding="utf-8")
    assert run("workflows", "mine.md").stdout == run("workflows", "travel_change").stdout
    (here / "mine.md").write_text("no front matter", encoding="utf-8")
    wrong = run("workflows", "mine.md")
    assert wrong.exit_code and "mine.md, line 1" in wrong.stderr


def test_modes_of_the_agents_file_are_listed_and_drawn(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
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
        ("chat", "--session <str> The session to continue; a new one without it."),
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
