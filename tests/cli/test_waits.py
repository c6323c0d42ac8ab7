"""A task that waits for an event, in the terminal."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from segue.cli import app
from tests.loopback import Call, LoopbackServer, Text, ToolCalls

from .conftest import Shell

SHOP = '''
import segue


@segue.tool
def sell(amount: int) -> str:
    """Sell something, and wait until it is paid."""
    raise segue.Wait("paid")
'''


@contextmanager
def shop(folder: Path) -> Iterator[None]:
    """A folder with an agent that sells and waits."""
    (folder / "waiting_shop.py").write_text(SHOP, encoding="utf-8")
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
