"""The figures of the protocols' own suites: `make conformance`.

MCP's is the npm package `@modelcontextprotocol/conformance` of `web/package.json`, or the one in the folder
`MCP_CONFORMANCE`. `A2A_TCK` is a checkout of A2A's official TCK, branch 1.0-dev, with its requirements in `.venv`.
`LANGGRAPH_SDK_TESTS` is the folder `libs/sdk-py` of a checkout of LangGraph, with its packages and those of its tests
in `.venv`. Its graphs need `deepagents` here, and its tests of RemoteGraph the port 2024: where that is taken, the
others run on another one. All ports are free below `unshare --map-root-user --net sh -c 'ip link set lo up; …'`.
"""

import asyncio
import os
import socket
import sys
import tempfile
from pathlib import Path

from segue.server import ServerSettings
from tests.server.serving import Served

from . import a2a, client
from .agents import AGENTS
from .test_suite import HERE, NODE, REVISIONS, SUITE

LANGGRAPH_PORT = 2024
REMOTE_GRAPH = "tests/integration/test_remote_graph_v3.py"
"""The suite's tests of RemoteGraph, which name that port."""


async def run(*words: str, folder: Path | None = None, **environ: str) -> None:
    """Run a suite, which prints its own report."""
    environ = {**os.environ, "NO_PROXY": "*", **environ}
    suite = await asyncio.create_subprocess_exec(*words, cwd=folder, env=environ)
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
    is_free = await asyncio.to_thread(_is_free, LANGGRAPH_PORT)
    suite = ["-m", "pytest", "tests/integration", "-m", "integration", "-q", "-p", "no:cacheprovider"]
    if not is_free:
        sys.stdout.write(f"Port {LANGGRAPH_PORT} is taken: the tests of RemoteGraph, which name it, do not run.\n")
        sys.stdout.flush()
        suite.append(f"--ignore={REMOTE_GRAPH}")
    port = LANGGRAPH_PORT if is_free else 0
    with tempfile.TemporaryDirectory() as database, Served(f"{database}/segue.db", settings, port=port) as served:
        url = served.url.replace("127.0.0.1", "localhost")
        await run(str(folder / ".venv/bin/python"), *suite, folder=folder, LANGGRAPH_INTEGRATION_URL=url)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


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
