"""What a hostile MCP server may send, over stdio and HTTP: a call fails with a sentence, and the session goes on."""

import asyncio
import codecs
import io
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import segue
from segue import Agent
from segue.cli.commands.doctor import doctor
from segue.cli.settings import Settings
from segue.core.agents import Budget, McpServer
from segue.core.errors import ConfigurationError, ToolServerUnavailable
from segue.prompts.catalogue import error_text
from segue.registry import EXAMPLES, Registry
from segue.tools.adapters.client import MOST_BYTES, MOST_VALUES, over_limit
from segue.tools.adapters.mcp import McpTool, McpTools, ServerToolError, Tail
from segue.tools.adapters.mcp_limits import CODEC
from tests.fakes import ScriptedChatModel, answer
from tests.hostile_mcp_server import CALLS

PROGRAM = str(Path(__file__).parents[1] / "hostile_mcp_server.py")
VALUES = "more than 100,000 JSON values, which is the limit: ask it for less"
BYTES = "more than 20,000,000 bytes, which is the limit: ask it for less"


def test_a_message_has_the_limits_of_its_bytes_and_values() -> None:
    assert over_limit(b'"' + b"[{,}]," * 300_000 + b'"') == ""
    assert over_limit(b'"' + rb"\"," * 300_000 + b'"') == ""
    assert over_limit(b"[" + b"0," * (MOST_VALUES - 2) + b"0]") == ""
    assert "100,000 JSON values" in over_limit(b"[" + b"0," * MOST_VALUES + b"0]")
    assert "20,000,000 bytes" in over_limit(b" " * (MOST_BYTES + 1))
    assert over_limit(b"[" * 100 + b"]" * 100) == ""
    assert "100 levels" in over_limit(b"[" * 101 + b"]" * 101)


def test_lines_come_out_whole_until_one_is_refused() -> None:
    decoder = codecs.getincrementaldecoder(CODEC)("replace")
    assert decoder.decode(b'{"a":') == ""
    assert decoder.decode('"é"}\n'.encode()[:3]) == ""
    assert decoder.decode('"é"}\n'.encode()[3:] + b"\xff\n\nrest") == '{"a":"é"}\n�\n\n'
    refusals = [decoder.decode(b"x" * 1_000_000) for _ in range(30)]
    (refusal,) = filter(None, refusals)
    assert "20,000,000 bytes" in json.loads(refusal)["params"]["reason"]
    assert decoder.decode(b"more\n") == "", "nothing follows"
    assert "é".encode(CODEC) == "é".encode()


def test_a_long_line_of_stderr_is_not_kept_whole() -> None:
    tail = Tail()
    with tail:
        tail.stream.write("x" * 1_000_000 + "\nlast\n")
    assert tail.last() == "last"
    assert sum(map(len, tail._lines)) < 300_000


# Against a server.


@pytest.fixture
async def opened() -> AsyncIterator[McpTools]:
    tools = McpTools()
    yield tools
    await tools.close()


@pytest.fixture(params=["stdio", "http"])
def hostile(request: pytest.FixtureRequest) -> Iterator[McpServer]:
    if request.param == "stdio":
        yield server()
        return
    with subprocess.Popen([sys.executable, PROGRAM, "0", "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield McpServer(name="h", url=f"http://127.0.0.1:{int(process.stdout.readline())}/mcp", tools=CALLS)
        finally:
            process.kill()


def server(more: int = 0, **fields: Any) -> McpServer:
    return McpServer(**{"name": "h", "command": sys.executable, "args": [PROGRAM, str(more)], "tools": CALLS} | fields)


async def tools_of(opened: McpTools, server: McpServer) -> dict[str, McpTool]:
    return {tool.name: tool for tool in await opened.open([server])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "sentence"),
    [("million_blocks", VALUES), ("many_blocks", VALUES), ("sse_blocks", VALUES), ("endless", BYTES)],
)
async def test_a_result_that_is_too_large_is_the_calls_error_and_the_next_call_works(
    opened: McpTools, hostile: McpServer, tool: str, sentence: str
) -> None:
    tools = await tools_of(opened, hostile)
    before = await tools["kind"].call({})
    with pytest.raises(ServerToolError, match=sentence):
        await tools[tool].call({})
    again = await tools["kind"].call({})
    assert (again == before) is bool(hostile.url), "a command is started again"


@pytest.mark.slow
async def test_a_call_beside_one_whose_result_is_too_large_is_not_blamed_for_it(
    opened: McpTools, hostile: McpServer
) -> None:
    tools = await tools_of(opened, hostile)
    large, small = await asyncio.gather(
        tools["million_blocks"].call({}), tools["kind"].call({}), return_exceptions=True
    )
    assert isinstance(large, ServerToolError)
    if hostile.url:
        assert VALUES in str(large) and isinstance(small, str)
    else:
        assert "was lost during the call" in str(small), small
    assert isinstance(await tools["kind"].call({}), str)


@pytest.mark.slow
async def test_a_large_text_of_commas_and_brackets_is_a_result(opened: McpTools, hostile: McpServer) -> None:
    tools = await tools_of(opened, hostile)
    commas, escapes = await asyncio.gather(tools["commas"].call({}), tools["escapes"].call({}))
    assert (len(commas), len(escapes)) == (1_800_000, 1_800_000)
    assert escapes.startswith(r'"\,\"')


@pytest.mark.slow
async def test_a_response_that_is_compressed_is_refused(opened: McpTools, hostile: McpServer) -> None:
    tools = await tools_of(opened, hostile)
    with pytest.raises(ServerToolError, match="sent a compressed message" if hostile.url else BYTES):
        await tools["packed"].call({})
    await tools["kind"].call({})


@pytest.mark.slow
async def test_a_result_that_is_not_valid_is_said_without_its_thousands_of_faults(
    opened: McpTools, hostile: McpServer
) -> None:
    tools = await tools_of(opened, hostile)
    with pytest.raises(ServerToolError) as caught:
        await tools["wrong_blocks"].call({})
    assert re.fullmatch(
        r"the server sent a result that is not valid: [\d,]+ faults, such as [\w.-]+: [^\n]{,99}", str(caught.value)
    )


@pytest.mark.slow
@pytest.mark.parametrize("hostile", ["http"], indirect=True)
async def test_a_response_after_a_redirect_has_the_same_limits(opened: McpTools, hostile: McpServer) -> None:
    moved = hostile.model_copy(update={"url": hostile.url.replace("/mcp", "/moved")})
    tools = await tools_of(opened, moved)
    for tool in ("many_blocks", "sse_blocks"):
        with pytest.raises(ServerToolError, match=VALUES):
            await tools[tool].call({})


@pytest.mark.slow
async def test_bytes_that_are_no_text_do_not_stop_the_session(opened: McpTools) -> None:
    tools = await tools_of(opened, server())
    assert await tools["no_utf8"].call({}) == "��"


@pytest.mark.slow
async def test_half_a_character_does_not_lose_the_message(opened: McpTools, hostile: McpServer) -> None:
    tools = await tools_of(opened, hostile)
    assert await tools["half_character"].call({}) == "7 \ufffd and \U0001f600 \\ud83d"


@pytest.mark.slow
@pytest.mark.parametrize(("more", "sentence"), [(40_000, "100,000 JSON values"), (-1, "20,000,000 bytes")])
async def test_a_list_of_tools_that_is_too_large_is_said_when_it_is_opened(
    opened: McpTools, more: int, sentence: str
) -> None:
    with pytest.raises(ToolServerUnavailable, match=sentence) as caught:
        await opened.open([server(more)])
    assert "它发送的消息超过" in error_text(caught.value, "zh")


@pytest.mark.slow
async def test_a_list_of_tools_that_is_not_valid_is_said_in_one_line(opened: McpTools) -> None:
    with pytest.raises(ToolServerUnavailable, match=r"not valid: 40,000 faults, such as .*\. Check its command"):
        await opened.open([server(-2)])


@pytest.mark.slow
async def test_a_tool_whose_references_double_is_refused_by_name(opened: McpTools) -> None:
    with pytest.raises(ConfigurationError, match="The tool doubling of the MCP server h cannot be used") as caught:
        await opened.open([server(tools=["doubling"])])
    assert "其 schema 的引用会增加超过 10,000 个值" in error_text(caught.value, "zh")


@pytest.mark.slow
async def test_tools_that_leave_no_room_in_a_prompt_are_refused_until_fewer_are_chosen() -> None:
    with ScriptedChatModel([answer("Done.")]) as model:
        fields: dict[str, Any] = {"agent_id": "clerk", "model": model, "mode": "react"}
        wanted = (*CALLS, *(f"t{n}" for n in range(5000)))
        async with segue.open(":memory:", agents=[Agent(mcp=[server(5000, tools=wanted)], **fields)]) as app:
            with pytest.raises(ConfigurationError, match=r"clerk has 5,011 tools .* budget.prompt_tokens \(24,000\)"):
                await app.ask("Hello.", agent="clerk")
            assert await app.tasks.list() == []
        async with segue.open(":memory:", agents=[Agent(mcp=[server(5000)], **fields)]) as app:
            assert (await app.ask("Hello.", agent="clerk"))["answer"] == "Done."


def test_an_agents_own_tools_count_too_and_the_budget_decides() -> None:
    registry = Registry()
    agent = EXAMPLES[0].model_copy(update={"budget": Budget(prompt_tokens=1_500)})
    with pytest.raises(ConfigurationError, match="travel has 7 tools that take 1,"):
        registry.register(agent)
    registry.register(EXAMPLES[0].model_copy(update={"budget": Budget(prompt_tokens=2_500)}))


@pytest.mark.slow
def test_doctor_fails_for_an_agent_whose_tools_leave_no_room(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    tools = json.dumps([f"t{n}" for n in range(5000)])
    command = f'command = "{sys.executable}"\nargs = ["{PROGRAM}", "5000"]\ntools = {tools}'
    file.write_text(f'[[agent]]\nagent_id = "clerk"\n[[agent.mcp]]\nname = "h"\n{command}\n', encoding="utf-8")
    console = Console(file=io.StringIO(), width=400, color_system=None)
    assert doctor(console, Settings(":memory:", str(file))) == 1
    assert isinstance(console.file, io.StringIO)
    report = console.file.getvalue()
    assert "✗ agents    clerk cannot be used: The agent clerk has 5,000 tools that take" in report
