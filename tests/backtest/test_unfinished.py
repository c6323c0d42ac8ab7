"""Unfinished tasks restored under other agents: what is said of each, and that nothing runs and nothing is stored."""

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.core.agents import Agent, McpServer
from segue.testing.backtest import Restored, UnfinishedTask
from tests.fakes import ScriptedChatModel, call_tool

SHOW = {"name": "show", "description": "Show.", "parameters": {"type": "object", "properties": {}}}
BATCH = call_tool(("show", {}), ("look", {"place": 1}))


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError("it ran")


def look(place: int) -> str:
    """Look."""
    raise AssertionError("it ran")


def dearer() -> Callable[..., Any]:
    @tool(needs_approval=True)
    def pay(amount: int, fee: int = 5) -> str:
        """Pay."""
        raise AssertionError("it ran")

    return pay


def in_words() -> Callable[..., Any]:
    def look(place: str, why: str) -> str:
        """Look."""
        raise AssertionError("it ran")

    return look


def agent(*script: str, tools: Any = (pay, look), **options: Any) -> Agent:
    return Agent(agent_id="a", model=ScriptedChatModel(script), tools=tools, mode="react", **options)


async def unfinished(file: Path, script: str) -> None:
    """A database with a task that waits."""
    async with segue.open(file, agents=[agent(script)]) as app:
        asked = await app.ask("pay", agent="a", client_tools=[SHOW])
        assert asked["status"] == "waiting"


def content(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return [*connection.iterdump()]


async def checked(file: Path, *agents: Agent, **options: Any) -> UnfinishedTask:
    """What the one task would meet; the database stays as it was."""
    before = content(file)
    async with segue.open(file, agents=agents, **options) as app:
        (found,) = await app.check_unfinished()
    assert content(file) == before
    return found


APPROVAL = call_tool(("pay", {"amount": 1}))


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A database whose task waits, by the script of its model."""
    folder = tmp_path_factory.mktemp("unfinished")
    files = {script: folder / f"{number}.db" for number, script in enumerate((APPROVAL, BATCH))}
    for script, file in files.items():
        asyncio.run(unfinished(file, script))
    return files


@pytest.mark.parametrize(
    ("script", "changes", "verdict", "reason"),
    [
        (APPROVAL, {}, Restored.SAME, ""),
        (BATCH, {}, Restored.SAME, ""),
        (APPROVAL, {"prompt": "Be kind."}, Restored.DIVERGES, "is not known here"),
        (APPROVAL, {"tools": (look,)}, Restored.TOOL_LOST, "The agent no longer has the tool pay."),
        (BATCH, {"tools": (pay,)}, Restored.TOOL_LOST, "The agent no longer has the tool look."),
        (
            APPROVAL,
            {"tools": (dearer(), look)},
            Restored.APPROVAL_INVALID,
            "pay has changed since its approval was requested",
        ),
        (BATCH, {"tools": (pay, in_words())}, Restored.SCHEMA_CHANGED, "The arguments are no longer valid for look"),
    ],
)
async def test_a_task_is_restored_under_other_agents(
    databases: dict[str, Path], script: str, changes: dict[str, Any], verdict: Restored, reason: str
) -> None:
    found = await checked(databases[script], agent(**changes))
    assert found.verdict is verdict
    assert reason in " ".join(found.reasons)
    assert (found.version == found.new_version) is (not changes)


async def test_a_version_that_is_there_beside_the_new_one_continues_its_tasks(databases: dict[str, Path]) -> None:
    found = await checked(databases[APPROVAL], agent(prompt="Be kind.", tools=(look,), older=[agent()]))
    assert (found.verdict, found.on_upgrade) == (Restored.SAME, None)


async def test_an_agent_that_is_gone_is_named(databases: dict[str, Path]) -> None:
    found = await checked(databases[APPROVAL])
    assert (found.verdict, found.new_version) == (Restored.DIVERGES, None)
    assert found.reasons == ["The agent a no longer exists."]


FILE = """
[[agent]]
agent_id = "a"
model = "offline"
mode = "direct"
version = "{version}"
prompt = "{prompt}"
"""


async def test_what_differs_is_named_where_the_file_of_the_task_is_still_there(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(FILE.format(version="1", prompt="Pay."), encoding="utf-8")
    new.write_text(FILE.format(version="2", prompt="Pay well."), encoding="utf-8")
    async with segue.open(tmp_path / "s.db", agents=segue.load_agents(old)) as app:
        app.agents.agents_file = str(old)
        task = await app.start("hello", agent="a")
        await app.pause(task.task_id)
        [_ async for _ in app.follow(task.task_id)]
        assert (await app.task(task.task_id)).status == "paused"
    found = await checked(tmp_path / "s.db", *segue.load_agents(new))
    assert found.reasons == ["Differences between the versions 1 and 2: prompt."]
    assert (found.version, found.new_version, found.on_upgrade) == ("1", "2", "continue")


SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("till", log_level="ERROR")

@server.tool()
def pay({parameters}) -> str:
    "Pay."
    return "paid"

server.run()
"""


@pytest.mark.slow
async def test_a_tool_that_an_mcp_server_changed_is_named_though_the_agent_is_the_same(tmp_path: Path) -> None:
    program = tmp_path / "till.py"
    till = McpServer(name="till", command=sys.executable, args=[str(program)], needs_approval=["pay"])
    program.write_text(SERVER.format(parameters="amount: int"), encoding="utf-8")
    async with segue.open(tmp_path / "s.db", agents=[agent(APPROVAL, tools=(), mcp=[till])]) as app:
        assert (await app.ask("pay", agent="a"))["status"] == "waiting"
    assert (await checked(tmp_path / "s.db", agent(tools=(), mcp=[till]))).verdict is Restored.SAME
    program.write_text(SERVER.format(parameters="amount: int, fee: int"), encoding="utf-8")
    found = await checked(tmp_path / "s.db", agent(tools=(), mcp=[till]))
    assert (found.verdict, len(found.reasons)) == (Restored.APPROVAL_INVALID, 2)
    assert found.version == found.new_version
