"""The figures of the protocols' own suites: `make conformance`.

MCP's is the npm package `@modelcontextprotocol/conformance` of `web/package.json`, or the one in the folder
`MCP_CONFORMANCE`. `A2A_TCK` is a checkout of A2A's official TCK, branch 1.0-dev, with its requirements in `.venv`.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.server.serving import Served

from . import a2a, client
from .agents import AGENTS
from .test_suite import HERE, NODE, REVISIONS, SUITE


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


async def main() -> None:
    for revision in REVISIONS:
        await run_mcp(Path(os.environ.get("MCP_CONFORMANCE", SUITE)), revision)
    if checkout := os.environ.get("A2A_TCK"):
        await run_a2a(Path(checkout))
    else:
        sys.stdout.write("A2A_TCK is not set: its suite does not run.\n")


with tempfile.TemporaryDirectory() as state:
    os.environ["XDG_STATE_HOME"] = state
    asyncio.run(main())
