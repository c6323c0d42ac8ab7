"""The agents of examples/migration do the same before and after; the guides show these files."""

import runpy
from pathlib import Path

import pytest

from tests.loopback import LoopbackServer
from tests.reference.test_examples import REFUND

MIGRATION = Path(__file__).parents[2] / "examples/migration"
ANSWER = "Order 17 is refunded."


@pytest.mark.parametrize(
    ("file", "package", "asked"),
    [
        ("create_agent_before.py", "langchain.agents", "approve? refund {'order_id': 17}"),
        ("openai_agents_before.py", "agents", 'approve? refund {"order_id": 17}'),
        ("support.py", "", "approve? refund {'order_id': 17}"),
        ("langgraph_before.py", "", "Refund order 17? (yes or no)"),
        ("langgraph_after.py", "", "Refund order 17? (yes or no)"),
    ],
)
def test_an_agent_asks_and_then_refunds(
    file: str,
    package: str,
    asked: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if package:
        pytest.importorskip(package, reason="it is in the group bench")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(MIGRATION))
    with LoopbackServer([] if file.startswith("langgraph") else REFUND) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        runpy.run_path(str(MIGRATION / file), run_name="__main__")
        server.assert_spent()
    assert capsys.readouterr().out == f"{asked}\n{ANSWER}\n"
