"""A test of the coding agent, without a key: pytest test_coder.py"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

import segue

AGENTS = Path(__file__).with_name("agents.toml")
PLAN = "1. Write calc.py with add(a, b).\n2. Write its test.\n3. Run the tests."


def choose(branch: str, **arguments: Any) -> str:
    """What a model says to choose a branch."""
    return json.dumps({"decision": {"command": branch, "command_args": arguments}})


def test_a_failing_test_is_seen_and_the_program_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODING_FOLDER", str(tmp_path / "scratch"))
    script = [
        choose("write_file", path="calc.py", text="def add(a, b):\n    return a - b\n"),
        choose("write_file", path="test_calc.py", text="from calc import add\ndef test(): assert add(2, 3) == 5\n"),
        choose("run_tests"),
        choose("write_file", path="calc.py", text="def add(a, b):\n    return a + b\n"),
        choose("run_tests"),
        choose("finish", summary="The test passes.", result="calc.py"),
    ]

    async def asked() -> segue.Result:
        (agent,) = segue.load_agents(AGENTS)
        coder = agent.model_copy(update={"model": FakeListChatModel(responses=script)})
        async with segue.open(tmp_path / "segue.db", agents=[coder]) as app:
            return await app.ask(PLAN, agent="coder", session_id="calc")

    result = asyncio.run(asked())
    runs = [step["result"]["success"]["exit_code"] for step in result["history"] if step["action"] == "run_tests"]
    assert (result.status, runs) == ("done", [1, 0])
