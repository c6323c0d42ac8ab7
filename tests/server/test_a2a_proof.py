"""The contract of `a2a-proof`, over each binding that the card names."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from segue.core.agents import Agent
from segue.server import ServerSettings
from tests.fakes import ScriptedChatModel

from .serving import KEY, KEYS, Served
from .shop import refund, reply


async def hold(name: str) -> str:
    """Wait a moment."""
    await asyncio.sleep(1)
    return f"held {name}"


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_every_scenario_passes(database: Path, binding: str) -> None:
    agent = Agent(agent_id="shop", model=ScriptedChatModel(reply), tools=(hold, refund), mode="react")
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000, push_hosts=("127.0.0.1",))
    contract = Path(__file__).with_name("a2a-proof.yaml")
    with Served(database, settings, agents=[agent]) as served:
        done = subprocess.run(
            [Path(sys.executable).with_name("a2a-proof"), "run", "--verbose", "--transport", binding, str(contract)],
            env={**os.environ, "SEGUE_URL": served.url, "SEGUE_KEY": KEY, "NO_PROXY": "*"},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 scenarios passed" in done.stdout
