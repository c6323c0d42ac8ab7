"""`segue backtest` with a model that reads its prompt."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from segue.cli import app
from tests.fakes import answer, call_tool
from tests.loopback import Json, LoopbackServer, Request, Text

TOOLS = '''
import segue

@segue.tool(read_only=True)
def find_order(number: int) -> str:
    """Look an order up."""
    return f"order {number} is late"
'''
AGENTS = """
[[agent]]
agent_id = "shop"
mode = "react"
tools = ["ablated_shop:find_order"]
prompt = "Look orders up. Be brief. Never promise a date."
model = "openai:shop"
base_url = "{base_url}"
api_key = "unused"
"""
AT = ["--agents", "agents.toml", "--db", "segue.db"]


def reply(request: Json) -> Text:
    """Look the order up if the prompt says so; brief or not, an answer says the same."""
    said = str(request["messages"])
    if "Look orders up." in said and "is late" not in said:
        return Text(call_tool(("find_order", {"number": 17})))
    return Text(answer("Late." if "Be brief." in said else "I am sorry, it is late."))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Request]]:
    """The requests of the model, in a folder with a session that has looked an order up."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ablated_shop.py").write_text(TOOLS, encoding="utf-8")
    with LoopbackServer([reply] * 20) as endpoint:
        (tmp_path / "agents.toml").write_text(AGENTS.format(base_url=endpoint.base_url), encoding="utf-8")
        path = [*sys.path]
        run("chat", "Where is order 17?", "--session", "s1")
        yield endpoint.requests
        sys.path[:] = path
        sys.modules.pop("ablated_shop", None)


def run(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, *AT])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_ablate_lists_the_sentences_that_no_recorded_task_rests_on(asked: list[Request]) -> None:
    recorded = len(asked)
    made = json.loads(run("backtest", "s1", "--ablate", "--json"))
    assert made["unused"] == {"shop": ["Be brief.", "Never promise a date."]}
    assert len(asked) - recorded == 2 + 1 + 2 + 2  # as it is; without looking up; without each other sentence
    said = run("backtest", "s1", "--ablate")
    assert "Sentences of shop's prompt that no recorded task rests on: Be brief. · Never promise a date." in said
    assert "unused" not in run("backtest", "s1") and not json.loads(run("backtest", "s1", "--json"))["unused"]
