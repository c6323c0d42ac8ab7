"""The review of a plan on the page: it is read, edited in place, and asked for by the menu of modes."""

from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.fakes import answer, call_tool, plan_json
from tests.loopback import LoopbackServer, Text

from .conftest import Visit
from .serving import Service

AGENTS = """
[[agent]]
agent_id = "trip"
model = "openai:m"
base_url = "{base_url}"
api_key = "unused"
mode = "plan"
tools = ["trip_tools:book"]
"""
TOOLS = '''
from pathlib import Path


def book(city: str) -> str:
    """Book a city."""
    with Path(__file__).with_name("booked").open("a") as booked:
        booked.write(f"{city}\\n")
    return f"booked {city}"
'''


def step(number: int, city: str) -> dict[str, Any]:
    about = {"action": "book", "params": {"city": city}, "description": f"book {city}"}
    return {"step": number, **about, "depends_on": []}


PLAN = plan_json("a trip", [step(1, "Rome"), step(2, "Bern")])


def test_a_plan_is_edited_in_place_and_a_bad_edit_still_waits(tmp_path: Path, visit: Visit) -> None:
    (tmp_path / "trip_tools.py").write_text(TOOLS, encoding="utf-8")
    with (
        LoopbackServer([Text(PLAN), Text("Booked."), Text(PLAN), Text("Booked again.")]) as endpoint,
        Service(tmp_path, AGENTS.format(base_url=endpoint.base_url)) as service,
    ):
        page = visit(service)
        page.get_by_role("button", name="Mode: Plan").click()
        page.get_by_role("menuitemradio", name="Review the plan first").click()
        page.get_by_role("textbox").last.fill("book a trip")
        page.keyboard.press("Enter")
        card = page.get_by_role("region", name="Run this plan?")
        expect(card.get_by_role("listitem")).to_have_count(2)
        expect(card).to_contain_text("book Rome")
        page.get_by_role("button", name="Open the inspector").click()
        for panel in ("Timeline", "Trace"):
            page.get_by_role("tab", name=panel).click()
            expect(page.get_by_role("tabpanel")).to_contain_text("Run this plan?")
        page.get_by_role("complementary").get_by_role("button", name="Close the inspector").click()
        page.get_by_role("button", name="Inbox").click()
        expect(page.get_by_role("dialog").get_by_role("button", name="Run this plan?")).to_contain_text("book a trip")
        page.keyboard.press("Escape")
        card.get_by_role("button", name="Edit").click()
        form = card.locator("form")
        form.get_by_label("Tool").first.fill("fly")
        form.get_by_role("button", name="Run the edited plan").click()
        expect(page.get_by_text("names the unknown tool 'fly'")).to_be_visible()
        card.get_by_role("button", name="Change").click()
        card.get_by_role("button", name="Edit").click()
        form.get_by_label("Arguments").first.fill('{"city": "Oslo"}')
        form.get_by_role("button", name="Move step 1 down").click()
        form.get_by_role("button", name="Run the edited plan").click()
        expect(page.locator(".answer")).to_have_text("Booked.")
        expect(page.locator(".answered").last).to_contain_text("Approved with changes Plan a trip")
        expect(page.get_by_text("review_plan")).to_have_count(0)
        assert (tmp_path / "booked").read_text(encoding="utf-8").split() == ["Bern", "Oslo"]
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        page.get_by_role("textbox").last.fill("book it again")
        page.keyboard.press("Enter")
        card.get_by_role("button", name="Approve").click()
        expect(page.locator(".answer").nth(1)).to_have_text("Booked again.")


def test_a_mode_without_a_plan_has_none_to_review(tmp_path: Path, visit: Visit) -> None:
    with (
        LoopbackServer([Text("Hello.")]) as endpoint,
        Service(tmp_path, AGENTS.format(base_url=endpoint.base_url).replace("tools", "# tools")) as service,
    ):
        page = visit(service)
        entry = page.get_by_role("menuitemradio", name="Review the plan first")
        page.get_by_role("button", name="Mode: Plan").click()
        entry.click()
        page.get_by_role("button", name="Mode: Plan").click()
        expect(entry).to_be_checked()
        page.get_by_role("menuitemradio", name="Direct").click()
        page.get_by_role("button", name="Mode: Direct").click()
        expect(entry).to_be_disabled()
        expect(entry).not_to_be_checked()
        page.keyboard.press("Escape")
        page.get_by_role("textbox").last.fill("hello")
        page.keyboard.press("Enter")
        expect(page.locator(".answer")).to_have_text("Hello.")


def test_what_is_thought_after_the_plan_stands_below_it(tmp_path: Path, visit: Visit) -> None:
    (tmp_path / "trip_tools.py").write_text(TOOLS, encoding="utf-8")
    rounds = [
        call_tool(("book", {"city": "Rome"}), thought="I begin with Rome."),
        call_tool(("book", {"city": "Bern"}), thought="Now Bern."),
        answer("Booked."),
    ]
    with (
        LoopbackServer([Text(PLAN), *map(Text, rounds)]) as endpoint,
        Service(tmp_path, AGENTS.format(base_url=endpoint.base_url).replace('"plan"', '"plan_react"')) as service,
    ):
        page = visit(service)
        page.get_by_role("textbox").last.fill("book a trip")
        page.keyboard.press("Enter")
        for _ in range(2):
            expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
            expect(page.locator(".activity")).to_contain_text("2 of 2 steps")
            expect(page.locator(".thoughts .text")).to_contain_text("I begin with Rome.")
            expect(page.locator(".activity ~ .thoughts ~ .answer")).to_have_count(1)
            page.reload()
