"""MCP servers: what their tools become, what they answer, and what happens when they die."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import Agent
from segue.core.agents import McpServer, load_agents
from segue.core.calls import CallKey
from segue.core.errors import ConfigurationError, SegueError, ToolServerUnavailable
from segue.tools.adapters.mcp import McpTool, McpTools, ServerToolError
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json
from tests.tool_calls import run_call

pytestmark = pytest.mark.slow
PROGRAM = str(Path(__file__).parents[1] / "mcp_server.py")


def shop(**fields: Any) -> McpServer:
    return McpServer(**{"name": "shop", "command": sys.executable, "args": [PROGRAM]} | fields)


def broken(code: str, **fields: Any) -> McpServer:
    return shop(args=["-c", code], **fields)


@contextmanager
def http_shop(port: int = 0) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """The shop on a port of this machine, and its process."""
    command = [sys.executable, PROGRAM, "http", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@pytest.fixture
async def opened() -> AsyncIterator[McpTools]:
    tools = McpTools()
    yield tools
    await tools.close()


async def tools_of(opened: McpTools, *servers: McpServer) -> dict[str, McpTool]:
    return {tool.name: tool for tool in await opened.open(servers)}


async def test_a_tool_keeps_its_name_schema_and_hints(opened: McpTools) -> None:
    tools = await tools_of(opened, shop(needs_approval=["die"], read_only=["picture"], timeout=50))

    stock = tools["stock"]
    function = stock.spec["function"]
    assert (function["name"], function["description"]) == ("stock", "How many of an item there are.")
    assert list(function["parameters"]["properties"]) == function["parameters"]["required"] == ["item"]
    assert stock.spec["segue"] == {"keywords": [], "title": "Stock", "read_only": True}
    assert (stock.read_only, stock.idempotent, stock.needs_approval, stock.timeout) == (True, True, False, 50)
    assert (tools["label"].read_only, tools["label"].idempotent) == (False, True)
    assert (tools["die"].read_only, tools["die"].idempotent, tools["die"].needs_approval) == (False, False, True)
    assert tools["picture"].read_only


async def test_structured_content_texts_and_names_of_the_rest_are_results_and_errors_are_the_tools(
    opened: McpTools,
) -> None:
    tools = await tools_of(opened, shop())
    assert await tools["stock"].call({"item": "tea"}) == {"tea": 7}
    assert await tools["label"].call({"item": "tea"}) == "printed:\ntea"
    assert await tools["picture"].call({}) == "[image: image/png, 6 bytes]"
    with pytest.raises(ServerToolError, match="the shop is closed"):
        await tools["refuse"].call({})
    with pytest.raises(ServerToolError, match="item"):
        await tools["stock"].call({"item": ["tea"]})
    again = await tools_of(opened, shop())
    assert await again["whoami"].call({}) == await tools["whoami"].call({}), "a server is started once"


async def test_arguments_that_are_near_to_the_schema_are_sent_in_its_types(opened: McpTools) -> None:
    order = (await tools_of(opened, shop()))["order"]
    assert await order.call({"items": [{"tea": "[1, 2]"}], "note": None}) == {"-": [{"tea": [1, 2]}]}


async def test_the_command_gets_its_env_and_nothing_else_of_ours(
    opened: McpTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_MODEL", "ours")
    server = shop(env={"SHOP_TOKEN": "s3cret"})
    tools = await tools_of(opened, server)
    assert (await tools["whoami"].call({})).endswith(" s3cret nothing")
    assert "s3cret" not in repr(server)


async def test_an_allow_list_leaves_the_others_out(opened: McpTools) -> None:
    assert list(await tools_of(opened, shop(tools=["label", "stock"]))) == ["label", "stock"]


@pytest.mark.parametrize("field", ["tools", "read_only", "needs_approval"])
async def test_a_misspelt_tool_is_named(opened: McpTools, field: str) -> None:
    with pytest.raises(ConfigurationError, match='"shop" has no tool "stok"; use one of: stock'):
        await tools_of(opened, shop(**{field: ["stok"]}))


async def test_a_death_is_the_calls_error_and_the_next_call_starts_the_server_again(opened: McpTools) -> None:
    tools = await tools_of(opened, shop())
    before = await tools["whoami"].call({})
    with pytest.raises(ServerToolError, match='"shop" was lost during the call; the next call tries'):
        await tools["die"].call({})
    assert await tools["whoami"].call({}) != before


async def test_a_call_that_may_run_twice_does_after_a_death(opened: McpTools, tmp_path: Path) -> None:
    tools = await tools_of(opened, shop())
    assert await tools["die_once"].call({"marker": str(tmp_path / "died")}) == "survived"


async def test_a_call_that_kills_the_server_each_time_starts_it_again_once(opened: McpTools, tmp_path: Path) -> None:
    tools = await tools_of(opened, shop())
    nowhere = {"marker": str(tmp_path / "no" / "folder")}
    with pytest.raises(ServerToolError):
        await tools["die_once"].call(nowhere)
    await tools["whoami"].call({})


async def test_calls_side_by_side_that_lose_the_server_share_one_new_start(opened: McpTools) -> None:
    tools = await tools_of(opened, shop())
    await asyncio.gather(tools["die"].call({}), tools["die"].call({}), return_exceptions=True)
    said = await asyncio.gather(tools["whoami"].call({}), tools["whoami"].call({}))
    assert said[0] == said[1]


async def test_a_slow_call_is_given_up_and_the_session_stays(opened: McpTools) -> None:
    tools = await tools_of(opened, shop(timeout=20))
    before = await tools["whoami"].call({})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await tools["label"].call({"item": "tea"})
    assert await tools["whoami"].call({}) == before


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        (shop(command="/no/such/program"), "its command was not found. Check its command or url"),
        (broken("import wibble"), "it ended at once, saying: ModuleNotFoundError: No module named 'wibble'. Check"),
        (broken("import time; time.sleep(60)", timeout=0.3), "it took longer than 0.3 s to start. Check"),
        (McpServer(name="shop", url="http://127.0.0.1:9/mcp"), "All connection attempts failed. Check"),
    ],
    ids=["no command", "ends at once", "slow", "nobody there"],
)
async def test_a_server_that_cannot_be_used_says_why(opened: McpTools, server: McpServer, sentence: str) -> None:
    with pytest.raises(ToolServerUnavailable) as caught:
        await tools_of(opened, server)
    assert str(caught.value).startswith(f"The MCP server 'shop' cannot be used: {sentence}")


async def test_an_http_server_that_dies_is_reached_again_when_it_is_back(opened: McpTools) -> None:
    with http_shop() as (port, process):
        server = McpServer(name="shop", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer x"})
        tools = await tools_of(opened, server)
        before = await tools["whoami"].call({})
        assert await tools["stock"].call({"item": "tea"}) == {"tea": 7}
        process.kill()
        process.wait()
        with pytest.raises(ServerToolError):
            await tools["whoami"].call({})
        with pytest.raises(ServerToolError, match="All connection attempts failed"):
            await tools["whoami"].call({})
    with http_shop(port):
        assert await tools["whoami"].call({}) != before
        await opened.close()


async def test_a_death_in_a_run_call_is_an_error_outcome(opened: McpTools) -> None:
    tools = await tools_of(opened, shop())
    outcome = await run_call(tools, "die", {}, CallKey("t", "s", 0), None, 10)
    assert outcome.result["error"].startswith('ServerToolError: the MCP server "shop" was lost')


async def test_a_request_carries_the_idempotency_key_of_its_call(opened: McpTools) -> None:
    tools = await tools_of(opened, shop(timeout=30))
    first, again, other = [
        (await run_call(tools, "key", {}, CallKey("t", "s", index), None, 10)).result["success"] for index in (0, 0, 1)
    ]
    assert len(first) == 36
    assert first == again != other


# Through the app.


async def test_an_agent_calls_tools_of_its_server() -> None:
    script = [
        call_tool(("die", {})),
        call_tool(("stock", {"item": "tea"}), ("refuse", {})),
        answer("Seven."),
    ]
    with ScriptedChatModel(script) as model:
        agent = Agent(agent_id="clerk", model=model, mode="react", mcp=[shop()], tools=["clock"])
        async with segue.open(":memory:", agents=[agent]) as app:
            result = await app.ask("How much tea?", agent="clerk")
            calls = (await app.trace(result["task_id"])).calls
    assert result["success"]
    assert result["answer"] == "Seven."
    assert [call.name for call in calls] == ["die", "stock", "refuse"]
    assert "was lost during the call" in str(model.calls[1])
    assert calls[1].outcome == {"success": {"tea": 7}}
    assert "the shop is closed" in calls[2].outcome["error"]


async def test_a_call_of_a_server_waits_for_approval_and_runs_once_after_a_restart(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    server = shop(needs_approval=("die_once",), tools=("die_once",))
    script = [call_tool(("die_once", {"marker": str(marker)})), answer("It is done.")]
    fields = {"agent_id": "clerk", "model": ScriptedChatModel(script), "mode": "react", "mcp": [server]}
    async with segue.open(tmp_path / "segue.db", agents=[Agent(**fields)]) as app:
        asked = await app.ask("Go.", agent="clerk")
        question = await app.question(asked["task_id"])
    assert asked["status"] == "waiting" and not marker.exists()
    (call,) = question["calls"]
    assert call.pop("version")
    assert call == {"index": 0, "name": "die_once", "arguments": {"marker": str(marker)}}
    async with segue.open(tmp_path / "segue.db", agents=[Agent(**fields)]) as app:
        result = await app.answer(asked["task_id"], "approve")
        calls = (await app.trace(asked["task_id"])).calls
    assert result["answer"] == "It is done."
    assert [call.outcome for call in calls] == [{"success": "survived"}]


async def test_a_call_of_a_server_that_a_person_rejects_never_reaches_it(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    script = [plan_json("g", [{"action": "die_once", "params": {"marker": str(marker)}, "description": "go"}])] * 3
    model = ScriptedChatModel([*script, "It was not done."])
    agent = Agent(agent_id="clerk", model=model, mode="plan", mcp=[shop(needs_approval=("die_once",))])
    async with segue.open(":memory:", agents=[agent]) as app:
        task_id = (await app.ask("Go.", agent="clerk"))["task_id"]
        for _ in range(3):
            result = await app.answer(task_id, "reject")
    assert (result["success"], result["answer"], marker.exists()) == (False, "It was not done.", False)


async def test_a_server_that_does_not_start_is_said_before_anything_is_stored() -> None:
    agent = Agent(agent_id="clerk", model=ScriptedChatModel(), mcp=[shop(command="/no/such/program")])
    async with segue.open(":memory:", agents=[agent]) as app:
        with pytest.raises(ToolServerUnavailable):
            await app.ask("How much tea?", agent="clerk")
        assert await app.tasks.list() == []


async def test_two_tools_of_one_name_are_refused_naming_both() -> None:
    def stock(item: str) -> int:
        """Count."""
        return 1

    one = Agent(agent_id="clerk", model=ScriptedChatModel(), tools=[stock], mcp=[shop()])
    two = Agent(agent_id="two", model=ScriptedChatModel(), mcp=[shop(tools=["label"]), shop(name="mall")])
    async with segue.open(":memory:", agents=[one, two]) as app:
        with pytest.raises(ConfigurationError, match="called stock, the agent's own and that of the MCP server shop"):
            await app.ask("How much tea?", agent="clerk")
        with pytest.raises(ConfigurationError, match=r"that of the MCP server shop and that of .*mall"):
            await app.ask("How much tea?", agent="two")


async def test_a_wired_graph_has_the_tools_of_its_servers_too() -> None:
    with ScriptedChatModel([call_tool(("stock", {"item": "tea"})), answer("Seven.")]) as model:
        agent = Agent(agent_id="clerk", model=model, mode="react", mcp=[shop()])
        async with segue.open(":memory:", agents=[agent]) as app:
            out = await app.get_graph("clerk").ainvoke({"messages": [("user", "How much tea?")]})
    assert out["result"]["answer"] == "Seven."


def test_servers_are_read_from_the_agents_file(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(
        '[[agent]]\nagent_id = "clerk"\n'
        '[[agent.mcp]]\nname = "shop"\ncommand = "shop-mcp"\nargs = ["--fast"]\nneeds_approval = ["die"]\n'
        '[[agent.mcp]]\nname = "web"\nurl = "https://example.org/mcp"\nheaders = { Authorization = "Bearer x" }\n',
        encoding="utf-8",
    )
    shop_, web = load_agents(file)[0].mcp
    assert (shop_.command, shop_.args, shop_.needs_approval) == ("shop-mcp", ("--fast",), ("die",))
    assert web.headers["Authorization"].get_secret_value() == "Bearer x"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('name = "x"', "either a command or a url"),
        ('name = "x"\ncommand = "y"\nurl = "http://z"', "either a command or a url"),
        ('name = "x"\ncommand = "y"\nheaders = { a = "b" }', "headers and oauth go with a url"),
        ('name = "x"\nurl = "http://z"\nargs = ["a"]', "args and env go with a command"),
        ('name = "x"\nurl = "z"', "mcp.0.url"),
    ],
)
def test_a_server_that_is_half_described_is_refused(tmp_path: Path, fields: str, message: str) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(f'[[agent]]\nagent_id = "clerk"\n[[agent.mcp]]\n{fields}\n', encoding="utf-8")
    with pytest.raises(SegueError, match=message):
        load_agents(file)


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys, asyncio; sys.modules['mcp'] = None\n"
        "from segue.tools.adapters.mcp import McpTools\n"
        "from segue.core.agents import McpServer\n"
        "asyncio.run(McpTools().open([McpServer(name='x', command='y')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra: An agent with MCP servers needs an extra: pip install 'segue[mcp]'." in done.stderr
