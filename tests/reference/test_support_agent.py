"""The project of `segue init`, the guide's MCP server and the tutorial's script, together with an endpoint."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import segue
from segue.cli import app
from tests.fakes import answer, call_tool
from tests.loopback import LoopbackServer, Text

from .blocks import ROOT, blocks_of

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
        "zh": "请退款订单 17",
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
