import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

import segue
from tests.fakes import ScriptedChatModel

HERE = Path(__file__).parent
AGENTS = """
[[agent]]
agent_id = "shop"
mode = "react"
protocol = "native"
tools = ["payments:pay", "payments:pay_once"]
prompt = "You help."
"""
COMMAND = "chaos bought --agents agents.toml --world payments:World --faults kill,duplicate --yes --json"

pytestmark = pytest.mark.slow


def _chaos(folder: Path, command: str) -> tuple[int, dict[str, object]]:
    ran = subprocess.run(
        [sys.executable, "-m", "segue", *shlex.split(command)],
        cwd=folder,
        env={"PATH": "", "PAYMENTS": str(folder / "payments.jsonl")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


async def _record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "agents.toml").write_text(AGENTS)
    (folder / "payments.py").write_text((HERE / "payments.py").read_text())
    monkeypatch.setenv("PAYMENTS", str(folder / "payments.jsonl"))
    monkeypatch.syspath_prepend(str(folder))
    calls = [{"name": name, "args": {"order": 1}, "id": name} for name in ("pay", "pay_once")]
    replies = [AIMessage("", tool_calls=[call]) for call in calls]
    (agent,) = segue.load_agents(folder / "agents.toml")
    agent = agent.model_copy(update={"model": ScriptedChatModel([*replies, AIMessage("Paid.")])})
    async with segue.open(folder / "segue.db", agents=[agent]) as app:
        assert (await app.ask("Pay", session_id="bought", agent="shop"))["status"] == "done"


async def test_a_double_payment_is_found_and_repeated_and_a_keyed_one_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _record(tmp_path, monkeypatch)
    code, made = _chaos(tmp_path, COMMAND)
    (found,) = made["findings"]  # type: ignore[misc]
    assert code == 1
    assert (found["tool"], found["kind"], found["fault"]) == ("pay", "not_idempotent", "duplicate")  # type: ignore[index]
    again = str(found["repeat"]).removeprefix("segue ") + " --yes --json"  # type: ignore[index]
    code, repeated = _chaos(tmp_path, again)
    assert (code, repeated["findings"]) == (1, [found])


async def test_tools_of_production_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _record(tmp_path, monkeypatch)
    (tmp_path / "agents.toml").write_text("production = true\n" + AGENTS)
    with pytest.raises(AssertionError, match="says production = true"):
        _chaos(tmp_path, COMMAND)
