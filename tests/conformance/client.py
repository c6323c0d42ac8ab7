"""Segue as the client under test: an agent calls every tool of the suite's server.

Where the server asks for a login, a browser follows the link and the message is sent again.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

import segue
from segue import Agent
from segue.core.agents import McpServer
from segue.core.errors import LoginRequired, SegueError
from segue.tools.adapters.mcp_login import login
from tests.fakes import ScriptedChatModel, answer, call_tool

ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}
"""What tools are called with; the others take nothing."""
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"
LOGINS = 3
"""The most of one run."""
PATIENCE = 60.0
"""Seconds: the suite runs all of its scenarios of a client at once."""


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """Run the client for each `command.py` that connects to the port."""

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        writer.write(json.dumps(await use(**asked)).encode())
        writer.close()

    async with await asyncio.start_server(run, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]


async def use(url: str, scenario: str, given: dict[str, Any]) -> list[str]:
    """Use the server at `url` as a person would; returns the errors that are left."""
    try:
        server = await _server(url, scenario, given)
        for _ in range(LOGINS):
            errors = await _ask(server, given.get("toolCalls"))
            if not errors or "requires a login" not in errors[0]:
                return errors
            await _log_in(server)
    except SegueError as error:
        errors = [str(error)]
    return errors


async def _server(url: str, scenario: str, given: dict[str, Any]) -> McpServer:
    """The server as an agents file describes it; `given` is what was registered for it."""
    oauth = {name: given[name] for name in ("client_id", "client_secret") if name in given}
    if "cimd" in scenario:
        oauth = {"client_metadata_url": CLIENT_METADATA}
    if "client-credentials" in scenario and "client_secret" in oauth:
        oauth |= {"grant": "client_credentials", "issuer": await _issuer(url)}
    return McpServer.model_validate({"name": "suite", "url": url, "oauth": oauth})


async def _issuer(url: str) -> str:
    """The authorization server, which a person would have been told."""
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        found = await http.get(f"{url.removesuffix('/mcp')}/.well-known/oauth-protected-resource/mcp")
    return str(found.json()["authorization_servers"][0])


async def _log_in(server: McpServer) -> None:
    """Log in as a person does who has nothing to type."""
    browsing: list[asyncio.Task[httpx2.Response]] = []
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False, timeout=PATIENCE) as browser:
        await login(server, lambda link: browsing.append(asyncio.create_task(browser.get(link))))
        await asyncio.gather(*browsing)


async def _ask(server: McpServer, calls: list[dict[str, Any]] | None) -> list[str]:
    """Have an agent make these calls, or call each tool once; returns the errors of the calls."""
    async with segue.open(":memory:", agents=[Agent(agent_id="probe", mcp=[server])]) as app:
        try:
            names = await app.agents.served_tools(app.agents["probe"])
        except LoginRequired as error:
            return [str(error)]
        wanted = [(call["name"], call["arguments"]) for call in calls or ()]
        wanted = wanted or [(name, ARGUMENTS.get(name, {})) for name in names]
        model = ScriptedChatModel([*map(call_tool, wanted), answer("Done.")])
        app.agents.register(Agent(agent_id="probe", model=model, mode="react", mcp=[server]))
        result = await app.ask("Call every tool.", agent="probe")
        while result.status == "waiting":
            result = await app.answer(result["task_id"], "accept")
        outcomes = [call.outcome for call in (await app.trace(result["task_id"])).calls]
    return [outcome["error"] for outcome in outcomes if outcome and "error" in outcome]
