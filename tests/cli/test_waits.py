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
