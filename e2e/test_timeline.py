"""The timeline in the inspector: its strip, and the states that its points lead to."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.fakes import answer, call_tool
from tests.loopback import Item, Json, LoopbackServer, Text

from .conftest import Visit
from .serving import Service, wait_until

AGENTS = """
[[agent]]
agent_id = "travel"
model = "openai:scripted"
base_url = "{base_url}"
api_key = "unused"
mode = "react"
max_iteration = 60
budget = {{tool_calls = 400}}
tools = ["travel_tools:book", "travel_tools:look", "travel_tools:pay"]
"""
TOOLS = '''
import segue


def cancel(call: segue.CallContext) -> str:
    return f"{call.result} is cancelled"


@segue.tool(undo=cancel)
def book(city: str) -> str:
    """Book a hotel."""
    return f"a room in {city}"


@segue.tool(read_only=True)
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: fine"


@segue.tool(needs_approval=True)
def pay(amount: float) -> str:
    """Pay."""
    return "paid"
'''
ROUNDS = 30


def reply(request: Json) -> Item:
    said = "\n".join(str(message["content"]) for message in request["messages"])
    found = re.search(r'"objective": "(.*?)"', said)
    objective, place = found[1] if found else "", re.search(r'"iteration": (\d+)', said)
    number = int(place[1]) if place else 1
    if "everything" in objective and number <= ROUNDS:
        looks = [("look", {"what": f"{number}-{n}"}) for n in range(9)]
        return Text(call_tool(*looks, ("book", {"city": f"City {number}"}), thought="All of it."))
    if "pay" in objective:
        return Text(call_tool(("pay", {"amount": 5.0}), thought="It is due."))
    if "book" in objective and number == 1:
        return Text(call_tool(("look", {"what": "hotels"}), ("book", {"city": "Chengdu"}), thought="I book."))
    return Text(answer(f"This answers: {objective}"))


@pytest.fixture(scope="module")
def travel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a session of two messages and a branch, and one with 300 calls."""
    folder = tmp_path_factory.mktemp("timeline")
    (folder / "travel_tools.py").write_text(TOOLS, encoding="utf-8")
    with (
        LoopbackServer([reply] * 200) as endpoint,
        Service(folder, AGENTS.format(base_url=endpoint.base_url)) as service,
    ):
        for session, message in (("trip", "book a room"), ("trip", "thanks"), ("long", "look at everything")):
            chat(service, session, message)
        (_, first) = service.api.get("/api/sessions/trip/tasks").json()["items"]
        service.api.post(f"/api/tasks/{first['task_id']}/branch", json={"session_id": "other", "message": "hello"})
        wait_until(lambda: service.api.get("/api/sessions/other").json()["status"] == "done")
        yield service


def chat(service: Service, session: str, message: str) -> None:
    body = {"session_id": session, "message": message}
    assert "error" not in service.api.post("/api/chat", json=body, timeout=120).text.rsplit("data:", 1)[-1]


def show(page: Page) -> Page:
    """Open the timeline's panel."""
    page.get_by_role("button", name="Open the inspector").click()
    page.get_by_role("tab", name="Timeline").click()
    return page


def points(page: Page) -> list[str]:
    """What the points are called."""
    expect(page.locator(".timeline-point").first).to_be_visible()
    return [str(each.get_attribute("aria-label")) for each in page.locator(".timeline-point").all()]


def test_the_strip_tells_calls_by_what_they_did_outside(travel: Service, visit: Visit) -> None:
    page = show(visit(travel, "#/s/trip"))
    named = "\n".join(points(page))
    assert "look(hotels): read-only" in named and "book(Chengdu): effect" in named
    expect(page.locator(".timeline-legend")).to_contain_text("Read-only 1")
    expect(page.locator(".timeline-legend")).to_contain_text("With effects 1")


def test_a_point_shows_its_state_and_its_effects_are_undone(travel: Service, visit: Visit) -> None:
    chat(travel, "undone", "book a room")
    page = show(visit(travel, "#/s/undone"))
    page.locator(".timeline-point").first.click()
    expect(page.get_by_role("heading", name="Message 1 · Message sent")).to_be_visible()
    expect(page.locator(".point summary", has_text="User: book a room")).to_be_visible()
    page.get_by_role("button", name="Undo effects (1)").click()
    page.get_by_role("button", name="Undo 1", exact=True).click()
    expect(page.get_by_text("a room in Chengdu is cancelled")).to_be_visible()
    expect(page.locator(".timeline-legend")).to_contain_text("Undone 1")


def test_two_points_are_compared_with_the_shift_key(travel: Service, visit: Visit) -> None:
    page = show(visit(travel, "#/s/trip"))
    page.locator(".timeline-point").first.click()
    page.locator(".timeline-point").last.click(modifiers=["Shift"])
    expect(page.locator(".difference .only summary", has_text="book city: Chengdu")).to_be_visible()


def test_the_state_is_edited_in_a_branch_of_the_conversation(travel: Service, visit: Visit) -> None:
    chat(travel, "edited", "book a room")
    page = show(visit(travel, "#/s/edited"))
    page.locator(".timeline-point").nth(1).click()
    page.get_by_role("button", name="Edit and continue").click()
    form = page.get_by_role("form", name="Edit and continue")
    form.get_by_role("combobox").select_option("iteration")
    form.get_by_role("textbox").fill("one")
    form.get_by_role("button", name="Continue").click()
    expect(form.get_by_role("alert")).to_have_text("This is not valid JSON.")
    form.get_by_role("combobox").select_option("objective")
    form.get_by_role("textbox").fill("be brief")
    form.get_by_role("button", name="Continue").click()
    expect(form.get_by_role("alert")).to_contain_text("These calls have taken effect")
    form.get_by_role("button", name="Undo, then continue").click()
    conversation = page.get_by_role("log", name="Conversation")
    expect(conversation.get_by_text("This answers: be brief")).to_be_visible()
    expect(conversation.get_by_role("group", name="Versions of this message")).to_contain_text("2 of 2")
    conversation.get_by_role("button", name="Previous version").click()
    expect(conversation.get_by_text("This answers: book a room")).to_be_visible()
    rows = travel.api.get("/api/sessions").json()["items"]
    assert len([row for row in rows if row["root"] == "edited"]) == 1
    expect(page.locator(".timeline-legend")).to_contain_text("Undone 1")


def test_branches_are_parallel_tracks(travel: Service, visit: Visit) -> None:
    page = show(visit(travel, "#/s/trip"))
    page.get_by_role("button", name="Message 1 of another branch").click()
    expect(page.get_by_role("log", name="Conversation").get_by_text("This answers: hello")).to_be_visible()
    expect(page.get_by_role("button", name="Message 2 of another branch")).to_be_visible()


def test_the_keyboard_moves_along_three_hundred_calls(travel: Service, visit: Visit) -> None:
    page = show(visit(travel, "#/s/long"))
    assert len(points(page)) > ROUNDS
    expect(page.locator(".timeline-mark[data-kind=read]")).to_have_count(9 * ROUNDS + 1)  # and that of the legend
    assert page.locator(".timeline-point[tabindex='0']").count() == 1
    page.locator(".timeline-point[tabindex='0']").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".timeline-about")).to_contain_text("Round 30")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Message 1 · Message sent")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_the_strip_follows_what_waits_at_phone_width(travel: Service, visit: Visit) -> None:
    page = visit(travel, viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.locator("textarea").fill("pay now")
    page.locator("textarea").press("Enter")
    expect(page.locator(".ask")).to_be_visible()
    assert page.locator(".timeline").count() == 0, "nothing lies above the conversation"
    show(page)
    expect(page.locator(".timeline-mark[data-kind=approval]").first).to_be_visible()
    expect(page.locator(".timeline-now:not([data-active=true])")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
