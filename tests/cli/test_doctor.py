"""What the doctor finds, and what it keeps to itself."""

import asyncio
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import segue
from segue.checkpoints.sqlite.database import saving
from segue.checkpoints.storage import open_storage
from segue.cli import app
from segue.cli.commands.doctor import _version, doctor, extras
from segue.cli.settings import Settings
from segue.core.agents import Agent
from segue.core.context import Services
from segue.core.models import PromptSize
from segue.core.records import NewTask
from segue.core.task import TaskStatus
from segue.nodes.react_prompt import prompt_costs
from tests.checkpoints.damage import damage


@pytest.fixture(scope="module", autouse=True)
def measured_once() -> Iterator[None]:
    """Look up the version of each package, and measure the prompts of an agent, once: a report does so each time."""
    measured: dict[tuple[str, str], dict[str, PromptSize]] = {}

    def costs(agent: Agent, services: Services, language: str) -> dict[str, PromptSize]:
        key = (agent.agent_id, language)
        return measured[key] if key in measured else measured.setdefault(key, prompt_costs(agent, services, language))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("segue.cli.commands.doctor._version", cache(_version))
        patch.setattr("segue.cli.commands.doctor.prompt_costs", costs)
        yield


def examined(settings: Settings) -> tuple[int, str]:
    console = Console(file=io.StringIO(), width=400, color_system=None)
    code = doctor(console, settings)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_nothing_configured_is_well(tmp_path: Path) -> None:
    code, report = examined(Settings(str(tmp_path / "x.db")))
    assert code == 0
    assert "model     offline, from the default" in report
    assert "✓ offline" in report
    assert {len(re.match(r". \S+ +", line)[0]) for line in report.splitlines()} == {12}, "one column"
    costs = {name: int(n) * 1000 for name, n in re.findall(r"[:;] (json|native) (\d+)k characters", report)}
    assert 20 * 20 / 2 * 1000 / 2 < costs["native"] < costs["json"]
    assert list(tmp_path.iterdir()) == [], "looking creates no database"


def test_the_report_is_in_the_language_of_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEGUE_LANGUAGE", "zh")
    code, report = examined(Settings(str(tmp_path / "x.db")))
    assert code == 0
    assert "模型      offline，来源：默认值（没有任何配置）" in report
    assert "还不存在；第一条消息会创建它" in report
    assert re.search("json [0-9]+k 字符（[^;]+；native ", report)
    assert "离线      内置规划器有应答" in report
    assert not re.search("^[!✓] (packages|database|agents|model|offline)", report, re.MULTILINE)


def test_a_key_is_never_shown_and_a_dead_endpoint_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:hush@127.0.0.1:9/v1?key=hush")
    code, report = examined(Settings(":memory:"))
    assert code == 0
    assert "OPENAI_API_KEY is set" in report
    assert "! endpoint  http://127.0.0.1:9/v1 could not be reached" in report
    assert "secret" not in report
    assert "hush" not in report


def test_a_missing_key_is_said() -> None:
    code, report = examined(Settings(":memory:", model="openai:gpt-x"))
    assert code == 0
    assert "none is set" in report
    assert "needs a key" in report


def test_a_database_that_cannot_be_used_fails(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database" * 100, encoding="utf-8")
    code, report = examined(Settings(str(tmp_path / "x.db")))
    assert code == 1
    assert "is not a SQLite database" in report
    code, report = examined(Settings(str(tmp_path / "none" / "x.db")))
    assert code == 1
    assert "✗ database" in report


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_database_that_is_read_only_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.touch(mode=0o400)
    assert examined(Settings(str(path)))[0] == 1


def test_an_agents_file_that_is_wrong_fails(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[[agent]]\nagent_id = "x"\ntools = ["none"]\n', encoding="utf-8")
    code, report = examined(Settings(":memory:", str(tmp_path / "a.toml")))
    assert code == 1
    assert "There is no tool 'none'" in report


def test_extras_say_what_is_missing_and_how_to_get_it() -> None:
    declared = [
        "pydantic>=2",
        "no-such-thing>=1; extra == 'odd'",
        "rich; extra == 'even'",
        "segue[odd]; extra == 'all'",
    ]
    found = extras(["odd", "even", "all"], declared, "en")
    assert (found.ok, found.detail) == (
        True,
        "installed: even; not installed: odd; pip install 'segue[NAME]' adds one",
    )


def test_an_agent_that_lacks_an_extra_fails_and_an_example_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, report = examined(Settings(":memory:"))
    assert code == 0
    assert "segue[data]" not in report
    (tmp_path / "a.toml").write_text('[[agent]]\nagent_id = "sales"\ntools = ["data"]\n', encoding="utf-8")
    code, report = examined(Settings(":memory:", str(tmp_path / "a.toml")))
    assert code == 1
    assert re.search(r"^✗ agents    sales cannot be used: .* pip install 'segue\[data\]'", report, re.MULTILINE)
    assert "travel" not in report


def test_tools_of_a_built_in_agent_that_lacks_an_extra_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    listed = CliRunner().invoke(app, ["tools"])
    assert listed.exit_code == 0 and "search_cities" in listed.stdout and "segue[data]" in listed.stderr
    assert CliRunner().invoke(app, ["tools", "data"]).exit_code == 1


async def written(path: Path, *sessions: str) -> dict[str, str]:
    """A database with an ended task in each session; the tasks' ids."""
    async with segue.open(path) as app:
        return {name: (await app.ask("1 + 1", session_id=name, model="offline"))["task_id"] for name in sessions}


async def test_damaged_rows_are_named_with_the_command_that_mends_them(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    tasks = await written(path, "s", "t", "u")
    damage(
        path,
        "UPDATE tasks SET notes = '{', answer = x'00' WHERE thread_id = 's'",
        "UPDATE events SET event = '' WHERE thread_id = 's'",
        "UPDATE calls SET state = 'odd' WHERE thread_id = 't'",
        "UPDATE checkpoints SET checkpoint = NULL WHERE thread_id = 't'",
    )
    code, report = await asyncio.to_thread(examined, Settings(str(path)))
    first, second = [line for line in report.splitlines() if line.startswith("✗ database")]
    assert code == 1
    faults = "notes is not valid JSON, answer should be a valid string"
    assert f"session 's' is damaged: task {tasks['s']} ({faults}), event 1 of task " in first
    assert first.endswith(f"To repair it: segue recover s --db {path}")
    assert "more rows: " in first
    faults = "state should be 'running' or 'done'"
    assert f"session 't' is damaged: call calculate of task {tasks['t']} ({faults}), " in second
    assert second.endswith(
        f"newest checkpoint (it cannot be decoded: TypeError). To repair it: segue recover t --db {path}"
    )


async def test_rows_that_belong_nowhere_can_be_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await written(path, "s")
    lost = "task_id = x'01', thread_id = NULL"
    damage(path, f"UPDATE tasks SET {lost}", f"UPDATE calls SET {lost}")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET task_id = x'00', thread_id = x'ff' WHERE seq = 1")
    for _ in range(2):
        _, report = await asyncio.to_thread(examined, Settings(str(path)))
        (line,) = [line for line in report.splitlines() if line.startswith("✗ database")]
        assert "its session is unknown" in line
        _, _, command = line.partition("make a copy first, then run: ")
        program, file, statements = shlex.split(command)
        assert (program, file) == ("sqlite3", str(path))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(statements)
        if (await asyncio.to_thread(examined, Settings(str(path))))[0] == 0:
            break
    else:
        raise AssertionError("they are still there")


async def test_no_more_than_some_sessions_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.cli.commands.doctor.THREADS", 2)
    await written(tmp_path / "x.db", "s", "t", "u")
    damage(tmp_path / "x.db", "UPDATE tasks SET status = 'odd'")
    _, report = await asyncio.to_thread(examined, Settings(str(tmp_path / "x.db")))
    assert "more damaged sessions: 1; repair those above, then run this again" in report


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="SQLite's command line is not installed")
def test_what_can_be_read_of_a_damaged_file_is_saved_by_the_commands(tmp_path: Path) -> None:
    folder = tmp_path / 'odd "names"'
    folder.mkdir()
    file = folder / "it's.db"
    asyncio.run(written(file, "s"))
    subprocess.run(saving(file), shell=True, check=True, capture_output=True)
    code, report = examined(Settings(str(folder / "it's-saved.db")))
    assert (code, "no damage found" in report) == (0, True)


async def test_a_session_of_which_nothing_can_be_read_is_not_sent_to_be_repaired(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await written(path, "s", "t")
    newest = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 't')"
    damage(
        path,
        "UPDATE checkpoints SET checkpoint = x'00ff' WHERE thread_id = 's'",
        f"UPDATE checkpoints SET checkpoint = x'00ff' WHERE checkpoint_id = {newest}",
    )
    code, report = await asyncio.to_thread(examined, Settings(str(path)))
    lines = {line.split("session '")[1][0]: line for line in report.splitlines() if line.startswith("✗ database")}
    assert code == 1
    assert "No checkpoint of session 's' can be read" in lines["s"]
    assert "continue in a new session" in lines["s"]
    assert "segue recover" not in lines["s"]
    assert lines["t"].endswith(f"To repair it: segue recover t --db {path}")


@pytest.mark.slow
def test_tools_of_mcp_servers_are_listed_and_a_dead_server_is_named(tmp_path: Path) -> None:
    program = Path(__file__).parents[1] / "mcp_server.py"
    servers = [("shop", sys.executable, f'args = ["{program}"]'), ("gone", "no-such-command", "")]
    (tmp_path / "a.toml").write_text(
        "\n".join(
            f'[[agent]]\nagent_id = "{name}"\n[[agent.mcp]]\nname = "{name}"\ncommand = "{command}"\n{rest}\n'
            for name, command, rest in servers
        ),
        encoding="utf-8",
    )
    code, report = examined(Settings(":memory:", str(tmp_path / "a.toml")))
    assert code == 1
    assert "✗ agents    gone cannot be used: The MCP server 'gone' cannot be used" in report
    listed = CliRunner().invoke(app, ["agents", "--agents", str(tmp_path / "a.toml")], env={"COLUMNS": "300"}).stdout
    for text in (report, listed):
        assert "stock, label, picture" in text
    wrapped = "The MCP server 'gone' cannot be used:"
    assert {*wrapped.split()} <= {*listed.split()}
    as_json = CliRunner().invoke(app, ["agents", "--json", "--agents", str(tmp_path / "a.toml")]).stdout
    assert {row["agent"]: row["mcp_servers"] for row in json.loads(as_json)[-2:]} == {
        "shop": ["shop"],
        "gone": ["gone"],
    }


def test_tasks_that_no_process_runs_are_named(tmp_path: Path) -> None:
    file = tmp_path / "x.db"

    async def left() -> None:
        storage = await open_storage(str(file))
        for number in range(7):
            new = NewTask(
                task_id=f"{number}234567890",
                session_id=f"s{number}",
                agent_id="travel",
                user_id="ann",
                mode="react",
                model="offline",
                message="hello",
            )
            await storage.tasks.create(new)
            await storage.tasks.move(new.task_id, TaskStatus.PAUSED if number == 6 else TaskStatus.RUNNING)
        await storage.close()

    asyncio.run(left())
    code, report = examined(Settings(str(file)))
    assert code == 0
    assert (
        "! tasks     unfinished, and not running in any process (6): 02345678, 12345678, 22345678, 32345678, 42345678"
        in report
    )
    assert f"`segue resume --all --db {file}` all of them" in report


def test_a_damaged_index_of_the_search_is_named_with_the_command_that_makes_it_again(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    segue.ask("kumquats", model="offline", mode="direct", db=database)
    cli = CliRunner()
    assert "kumquats" in cli.invoke(app, ["sessions", "--search", "KUMQ", "--db", str(database)]).stdout
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM search_terms WHERE term = 'kumquats'")
    code, report = examined(Settings(str(database)))
    assert code == 0 and "segue sessions --index" in report
    assert "No results" in cli.invoke(app, ["sessions", "--search", "kumq", "--db", str(database)]).stdout
    assert cli.invoke(app, ["sessions", "--index", "--db", str(database)]).exit_code == 0
    assert "--index" not in examined(Settings(str(database)))[1]
    assert json.loads(cli.invoke(app, ["sessions", "--search", "kumq", "--json", "--db", str(database)]).stdout)
