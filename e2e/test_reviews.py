"""A review that a graph asks for as LangChain's middleware does, on the page: only what the graph takes is offered."""

from pathlib import Path

from playwright.sync_api import expect

from .conftest import Visit
from .serving import Service

MODE = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def review(state):
    allowed = [{"action_name": "mail", "allowed_decisions": ["approve", "respond"]}]
    given = interrupt({"action_requests": [{"name": "mail", "args": {"to": "ann"}}], "review_configs": allowed})
    return {"messages": [AIMessage(f"Decided: {given['decisions']}")]}


builder = StateGraph(MessagesState)
builder.add_node("review", review)
builder.add_edge(START, "review")
"""
AGENTS = """
[[agent]]
agent_id = "shop"
model = "offline"
mode = "reviews"

[modes]
reviews = "review_mode:builder"
"""


def test_a_person_writes_the_result_of_a_call(tmp_path: Path, visit: Visit) -> None:
    (tmp_path / "review_mode.py").write_text(MODE)
    with Service(tmp_path, AGENTS) as service:
        page = visit(service)
        page.get_by_role("textbox", name="Message", exact=True).fill("mail ann")
        page.keyboard.press("Enter")
        card = page.locator(".ask")
        expect(card.get_by_role("button", name="Write the result")).to_be_visible()
        for name in ("Edit", "Reject", "Always allow"):
            expect(card.get_by_role("button", name=name)).to_have_count(0)
        page.wait_for_timeout(600)  # a card that has just appeared takes no keys
        card.focus()
        page.keyboard.press("w")
        field = card.get_by_role("textbox")
        expect(field).to_be_focused()
        page.keyboard.press("Enter")
        expect(field).to_be_visible()  # it needs a text
        field.fill("sent by hand")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Decided: [{'type': 'respond', 'message': 'sent by hand'}]")).to_be_visible()
