"""Conversations between a user, a bot and an API on the page."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect

from .conftest import Visit
from .serving import Service, environment

AGENT = {"bot_mode": "segue:react", "bot_agent": "travel", "api_mode": "tools"}


def test_a_person_takes_part_as_the_user(offline: Service, visit: Visit) -> None:
    begun = offline.api.post("/api/conversations", json={"session_id": "talk", "user_mode": "input_user", **AGENT})
    assert begun.status_code == 201, begun.text
    page = visit(offline)
    page.get_by_role("link", name="input_user with segue:react, API: tools").click()
    expect(page.get_by_text("Your turn as USER.")).to_be_visible()
    page.locator("textarea").fill("What is there to see in Beijing?")
    page.locator("textarea").press("Enter")
    lines = page.locator(".transcript > li")
    for place, role in enumerate(("USER", "BOT", "API", "BOT")):
        expect(lines.nth(place)).to_have_attribute("data-role", role)
    expect(lines.nth(1)).to_contain_text("query_attractions cities: [Beijing]")
    lines.nth(2).locator("summary").click()
    expect(lines.nth(2)).to_contain_text("Forbidden City")
    expect(lines.nth(3)).to_contain_text("Forbidden City")
    page.locator("textarea").fill("END")
    page.locator("textarea").press("Enter")
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    expect(lines).to_have_count(4)
    page.reload()
    expect(lines).to_have_count(4)


def test_a_conversation_is_paused_and_goes_on(tmp_path: Path, visit: Visit) -> None:
    script = ["What is there to see in Beijing?", "And in Chengdu?", "Thank you."]
    with Service(tmp_path, SEGUE_OFFLINE_PACE="60") as service:
        config = {"session_id": "talk", "user_mode": "scripted_user", "script": script, **AGENT}
        assert service.api.post("/api/conversations", json=config).status_code == 201
        page = visit(service, "#/s/talk")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_text("Paused. Finished work is kept.")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".transcript > li[data-role=USER]").last).to_contain_text("Thank you.")
        expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()


def test_turns_that_are_forced_to_a_reference_show_what_the_bot_would_have_done(tmp_path: Path, visit: Visit) -> None:
    simulate = [str(Path(sys.executable).with_name("segue")), "simulate", "--db", "segue.db"]
    course = ["--workflow", "travel_change", "--scenario", "change_with_fee"]
    forced = ["--session", "forced", "--reference", "first.jsonl", "--bot", "dummy_bot"]
    for options in (["--session", "first", "--log", "first.jsonl"], forced):
        subprocess.run([*simulate, *course, *options], cwd=tmp_path, env=environment(), check=True, capture_output=True)
    with Service(tmp_path) as service:
        page = visit(service, "#/s/forced")
        expect(page.get_by_text("Turns where the bot would differ: 11.")).to_be_visible()
        call = page.locator(".transcript > li", has_text="find_booking").first
        expect(call.locator(".instead")).to_have_text("The bot would have answered: dummy_action({})")
        page.goto(f"{service.url}/#/s/first")
        expect(page.locator(".transcript > li").first).to_be_visible()
        expect(page.locator(".instead")).to_have_count(0)
