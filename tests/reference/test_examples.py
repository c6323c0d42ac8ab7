"""Every example of the README and of the documentation runs as it stands."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from segue.core.agents import Agent
from tests.cli.conftest import Shell
from tests.fakes import ScriptedChatModel
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
SERVED = ("docs/guides/openai-clients.md", "docs/guides/a2a.md")
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
            with Served(agents=[Agent(agent_id="support", model=ScriptedChatModel(lambda _: SHIPPED))]) as served:
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
