"""Every example of the README and of the documentation runs as it stands."""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segue
from segue.cli import app
from segue.core.agents import Agent
from segue.server import ServerSettings
from tests.cli.conftest import Shell
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.loopback import LoopbackServer, Text, ToolCalls
from tests.loopback_script import Scripted
from tests.server.serving import Served

from .blocks import PAGES, ROOT, Reader, TerminalReader, blocks_of

REFUND = (
    ToolCalls([("call_1", "lookup", '{"order_id": 17}')]),
    ToolCalls([("call_2", "refund", '{"order_id": 17}')]),
    Text("Order 17 is refunded."),
)
REPLIES: dict[str, Sequence[Scripted]] = {
    "docs/guides/structured-output.md": (
        Text("Order 17 was shipped on Monday."),
        Text('{"order_id": 17, "status": "shipped"}'),
    ),
    "docs/guides/agents-as-tools.md": (
        ToolCalls([("call_1", "billing", '{"message": "Refund order 17."}')]),
        ToolCalls([("call_2", "refund", '{"order": 17}')]),
        Text("Order 17 is refunded."),
        Text("Your order 17 is refunded."),
    ),
    "docs/guides/keep-your-graph.md": (
        ToolCalls([("call_1", "pay", '{"order": 17}')]),
        Text("Order 17 is paid."),
        ToolCalls([("call_1", "ship", '{"order": 17}')]),
        Text("Order 17 is on its way."),
    ),
    "docs/guides/from-create-agent.md": REFUND,
    "docs/guides/from-openai-agents.md": REFUND,
    "docs/guides/files.md": (Text("The host was moved at 09:00."),),
}
"""What a language model says to the examples of a page that need one."""
SERVICE = "http://127.0.0.1:8000"
SHIPPED = '{"order_id": 17, "status": "shipped"}'
SERVED = ("docs/guides/openai-clients.md", "docs/guides/a2a.md", "docs/guides/langgraph-server.md")
"""Pages whose examples call the service."""
PROCESSES = ("docs/guides/mcp.md", "docs/guides/resume-safe-tools.md")
"""Pages whose examples start processes."""
AT_A_TERMINAL = ("README.md", "README.zh.md", "docs/tutorial.md", "docs/tutorial.zh.md")
"""Pages that show what a person at a terminal sees."""


def place(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Reader:
    monkeypatch.chdir(tmp_path)
    return Reader(monkeypatch, capsys)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=place(page), marks=[pytest.mark.slow] if place(page) in PROCESSES else [])
        for page in PAGES
        if any(blocks_of(page)) and place(page) not in AT_A_TERMINAL
    ],
)
def test_the_examples_of_a_page_run(page: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackServer(REPLIES.get(place(page), ())) as server:
        if place(page) in REPLIES:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")  # LangChain's client asks for one
        blocks = list(blocks_of(page))
        if place(page) in SERVED:
            for block in blocks:
                if block.title:
                    Path(block.title).write_text(block.text, encoding="utf-8")
            settings = ServerSettings(graphs=Path("langgraph.json")) if Path("langgraph.json").exists() else None
            agents = [Agent(agent_id="support", model=ScriptedChatModel(lambda _: SHIPPED))]
            with Served("segue.db", settings, agents=agents) as served:
                monkeypatch.setenv("NO_PROXY", "127.0.0.1")
                reader.follow([replace(block, text=block.text.replace(SERVICE, served.url)) for block in blocks])
        else:
            reader.follow(blocks)
        server.assert_spent()


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_A_TERMINAL)
def test_the_examples_of_a_page_run_at_a_terminal(
    name: str, shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shell.folder)
    TerminalReader(monkeypatch, capsys, shell).follow([*blocks_of(ROOT / name)])


# The project of `segue init`, the guide's MCP server and the tutorial's script, together with an endpoint.


SCRIPT = [
    call_tool(("lookup", {"order_id": 18})),
    call_tool(("stock", {"item": "lamp"})),
    call_tool(("refund", {"order_id": 18})),
    answer("Order 18 is refunded."),
]
COMMENTED = r"^# (\[\[agent\.mcp\]\]|name|command|args)"


@pytest.mark.slow
def test_a_support_agent_has_tools_approval_an_mcp_server_and_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    assert CliRunner().invoke(app, ["init", "."]).exit_code == 0
    agents = Path("agents.toml")
    (agent,) = segue.load_agents(agents)
    assert {language: agent.suggestions[language][1] for language in ("en", "zh")} == {
        "en": "Please refund order 17",
        "zh": "请给订单 17 退款",
    }
    agents.write_text(re.sub(COMMENTED, r"\1", agents.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    for page in ("docs/guides/mcp.md", "docs/tutorial.md"):
        for block in blocks_of(ROOT / page):
            if block.title in ("stock_server.py", "refunds.py"):
                Path(block.title).write_text(block.text, "utf-8")

    with LoopbackServer([Text(text) for text in SCRIPT]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        ran = subprocess.run([sys.executable, "refunds.py"], capture_output=True, text=True, timeout=300, check=False)
        server.assert_spent()

    assert (ran.stderr, ran.stdout) == ("", "done ['lookup', 'stock', 'refund']\n")
