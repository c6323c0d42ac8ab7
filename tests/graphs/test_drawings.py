"""Each graph's diagram stands in docs/architecture.md exactly as LangGraph draws it."""

import importlib
import re
from pathlib import Path

import pytest

from tests.cases import cases

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


@cases(
    "name",
    ["react", "direct", "plan", "plan_react", "lifecycle", "controller_executor", "controller", "conversation", "chat"],
)
def test_the_page_shows_the_true_diagram(name: str) -> None:
    drawn = importlib.import_module(f"segue.graphs.{name}").graph.get_graph().draw_mermaid()
    found = re.search(
        rf"^### {name}\n.*?```mermaid\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found, f"docs/architecture.md has no diagram under the heading {name}"
    assert found[1].strip() == drawn.strip(), f"replace the diagram of {name} by:\n{drawn}"


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        (
            "react",
            {
                ("__start__", "INIT"), ("INIT", "INPUT"), ("INPUT", "CALL_LLM"), ("INPUT", "FINISH"),
                ("CALL_LLM", "CALL_TOOL"), ("CALL_LLM", "PLAN"), ("CALL_LLM", "REMEND"), ("CALL_LLM", "ANSWER"),
                ("CALL_LLM", "INPUT"), ("CALL_TOOL", "INPUT"), ("CALL_TOOL", "CALL_TOOL"), ("PLAN", "INPUT"),
                ("REMEND", "CALL_TOOL"), ("REMEND", "PLAN"), ("REMEND", "INPUT"), ("ANSWER", "__end__"),
                ("FINISH", "__end__"), ("CALL_LLM", "ASK_USER"), ("ASK_USER", "INPUT"), ("ASK_USER", "FINISH"),
            },
        ),
        (
            "conversation",
            {
                ("__start__", "INIT"), ("INIT", "USER"), ("USER", "BOT"), ("USER", "FINISH"), ("BOT", "API"),
                ("BOT", "USER"), ("BOT", "FINISH"), ("API", "BOT"), ("API", "API"), ("FINISH", "__end__"),
            },
        ),
        (
            "lifecycle",
            {
                ("__start__", "RECEIVING"), ("__start__", "PAUSED"), ("RECEIVING", "CONTEXT_FETCHING"),
                ("RECEIVING", "ERROR"), ("CONTEXT_FETCHING", "DECOMPOSING"), ("CONTEXT_FETCHING", "ERROR"),
                ("DECOMPOSING", "DECOMPOSING"), ("DECOMPOSING", "SCHEDULING"), ("DECOMPOSING", "ERROR"),
                ("SCHEDULING", "EXECUTING"), ("SCHEDULING", "PAUSED"), ("SCHEDULING", "ERROR"),
                ("EXECUTING", "EXECUTE_SUBTASK"), ("EXECUTE_SUBTASK", "EXECUTING"), ("EXECUTING", "COMPLETED"),
                ("EXECUTING", "PAUSED"), ("EXECUTING", "ERROR"), ("PAUSED", "SCHEDULING"), ("PAUSED", "EXECUTING"),
                ("COMPLETED", "__end__"), ("ERROR", "__end__"),
            },
        ),
    ],
)  # fmt: skip
def test_the_state_machine_has_the_prescribed_edges(name: str, edges: set[tuple[str, str]]) -> None:
    drawn = importlib.import_module(f"segue.graphs.{name}").graph.get_graph()
    assert {(edge.source, edge.target) for edge in drawn.edges} == edges
