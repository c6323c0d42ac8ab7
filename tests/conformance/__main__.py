"""The figures of the protocols' own suites: `make conformance`.

MCP's is the npm package `@modelcontextprotocol/conformance` of `web/package.json`, or the one in the folder
`MCP_CONFORMANCE`. `A2A_TCK` is a checkout of A2A's official TCK, branch 1.0-dev, with its requirements in `.venv`.
`LANGGRAPH_SDK_TESTS` is the folder `libs/sdk-py` of a checkout of LangGraph, with its packages and those of its tests
in `.venv`. Its graphs need `deepagents` here, and its tests of RemoteGraph the port 2024.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from segue.server import ServerSettings
from tests.server.serving import Served

from . import a2a, client
from .agents import AGENTS
from .test_suite import HERE, NODE, REVISIONS, SUITE

LANGGRAPH_PORT = 2024
"""The one that the suite's tests of RemoteGraph name."""


async def run(*words: str, folder: Path | None = None) -> None:
    """Run a suite, which prints its own report."""
    suite = await asyncio.create_subprocess_exec(*words, cwd=folder, env={**os.environ, "NO_PROXY": "*"})
    await suite.wait()


async def run_mcp(package: Path, revision: str) -> None:
    words = (str(NODE), str(package / "dist/index.js"))
    required = ("--requirements", revision, "--timeout", "120000")
    async with client.listening() as port:
        command = f"{sys.executable} {HERE / 'command.py'} {port}"
        await run(*words, "client", *required, "--command", command)
    with Served(agents=AGENTS) as served:
        await run(*words, "server", *required, "--url", f"{served.url}/mcp")


async def run_a2a(checkout: Path) -> None:
    python = checkout / ".venv/bin/python"
    with a2a.served() as served:
        await run(str(python), "run_tck.py", "--sut-host", served.url, folder=checkout)


async def run_langgraph(folder: Path) -> None:
    graphs = folder / "integration/langgraph.json"
    settings = ServerSettings(graphs=graphs, chats_a_minute=10_000, requests_a_minute=100_000)
    with tempfile.TemporaryDirectory() as database, Served(f"{database}/segue.db", settings, port=LANGGRAPH_PORT):
        suite = ("-m", "pytest", "tests/integration", "-m", "integration", "-q", "-p", "no:cacheprovider")
        await run(str(folder / ".venv/bin/python"), *suite, folder=folder)


async def main() -> None:
    for revision in REVISIONS:
        await run_mcp(Path(os.environ.get("MCP_CONFORMANCE", SUITE)), revision)
    for variable, suite in (("A2A_TCK", run_a2a), ("LANGGRAPH_SDK_TESTS", run_langgraph)):
        if path := os.environ.get(variable):
            await suite(Path(path))
        else:
            sys.stdout.write(f"{variable} is not set: its suite does not run.\n")


with tempfile.TemporaryDirectory() as state:
    os.environ["XDG_STATE_HOME"] = state
    asyncio.run(main())
