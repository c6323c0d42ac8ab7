"""Finding things by keys and by what was said; what is filed in the sidebar."""

import re

from playwright.sync_api import Locator, expect

from .conftest import Visit
from .serving import Service, wait_until
from .test_page_looks import check


def say(service: Service, message: str, session: str, **fields: str) -> None:
    body = {"message": message, "session_id": session, "mode": "direct", **fields}
    with service.api.stream("POST", "/api/chat", json=body) as response:
        response.read()


def test_a_session_is_pinned_archived_and_found_there_and_programs_are_apart(offline: Service, visit: Visit) -> None:
    say(offline, "apples of mine", "mine", origin="page")
    say(offline, "apples of a program", "theirs")
    page = visit(offline)
    own = page.get_by_role("region", name="Today").get_by_role("link", name="apples of mine")
    expect(own).to_be_visible()
    expect(page.get_by_role("region", name="Sent by programs").get_by_text("apples of a program")).to_be_visible()
    page.get_by_role("button", name="Actions for apples of mine").click()
    page.get_by_role("menuitem", name="Pin").click()
    pinned = page.get_by_role("region", name="Pinned").get_by_role("link", name="apples of mine")
    expect(pinned).to_be_visible()
    page.get_by_role("button", name="Actions for apples of mine").click()
    archive = page.get_by_role("button", name="Archived")
    expect(archive).to_have_count(0)
    page.get_by_role("menuitem", name="Archive").click()
    expect(pinned).to_have_count(0)
    archive.click()
    expect(page.locator(".session")).to_have_count(1)
    page.get_by_role("button", name="Actions for apples of mine").click()
    page.get_by_role("menuitem", name="Unarchive").click()
    expect(page.locator(".session")).to_have_count(0)
    archive.click()
    expect(pinned).to_be_visible()
    expect(archive).to_have_count(0)


def test_what_was_said_is_found_from_the_sidebar_and_the_palette(offline: Service, visit: Visit) -> None:
    for n in range(3):
        say(offline, f"第{n}次退款" if n == 1 else f"question {n}", "refunds", origin="page")
    page = visit(offline)
    page.get_by_role("searchbox").fill("退款")
    hit = page.get_by_role("region", name="Messages").get_by_role("link")
    expect(hit.locator("mark")).to_have_text("退款")
    hit.click()
    expect(page.locator(".turn")).to_have_count(3)
    expect(page.locator(".turn").nth(1)).to_be_in_viewport()
    page.get_by_role("searchbox").fill("")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("次退")
    expect(page.get_by_role("option", name="第1次退款")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_hit_opens_its_turn_however_old_it_is(offline: Service, visit: Visit) -> None:
    for n in range(24):
        say(offline, "the heron stood still" if n == 2 else f"water {n}", "birds", origin="page")
    page = visit(offline)
    page.get_by_role("searchbox").fill("heron")
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    found = page.locator(".turn", has_text="the heron stood still")
    expect(found).to_be_in_viewport()
    expect(page.locator(".turn")).to_have_count(24)
    page.get_by_role("button", name="Search this conversation").click()
    page.get_by_role("combobox").fill("water 23")
    page.get_by_role("option", name="water 23").click()
    expect(page.locator(".turn").last).to_be_in_viewport()
    expect(found).not_to_be_in_viewport()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Search this")
    expect(page.get_by_role("option").first).to_contain_text("Search this conversation")
    page.keyboard.press("Enter")
    page.get_by_role("combobox", name="Search this conversation").fill("stood")
    expect(page.get_by_role("option", name="the heron stood still")).to_be_visible()
    page.keyboard.press("Enter")
    expect(found).to_be_in_viewport()


def test_a_hit_opens_the_branch_that_has_it(offline: Service, visit: Visit) -> None:
    say(offline, "the old otter", "otters", origin="page")
    (task,) = offline.api.get("/api/sessions/otters/tasks").json()["items"]
    made = offline.api.post(f"/api/tasks/{task['task_id']}/branch", json={"message": "the new beaver"})
    page = visit(offline, f"#/s/{made.json()['session_id']}")
    expect(page.locator(".said")).to_contain_text("beaver")
    page.get_by_role("searchbox").fill("otter")
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    expect(page.locator(".said")).to_contain_text("the old otter")


def test_keys_open_the_palette_the_commands_the_help_and_a_new_chat(offline: Service, visit: Visit) -> None:
    say(offline, "hello", "old", origin="page")
    page = visit(offline, "#/s/old")
    expect(page.locator(".turn")).to_have_count(1)
    page.locator("textarea").press("Control+Shift+O")
    expect(page.locator(".turn")).to_have_count(0)
    page.locator("textarea").fill("/")
    page.get_by_role("combobox").fill("/react")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Mode: ")).to_contain_text("ReAct")
    expect(page.locator("textarea")).to_have_value("")
    page.locator("textarea").press("/")
    page.keyboard.press("Escape")
    expect(page.locator("textarea")).to_have_value("/")
    page.locator("textarea").fill("")
    page.locator(".bar").get_by_role("button").first.focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def test_the_palette_and_the_help_are_accessible(offline: Service, visit: Visit) -> None:
    say(offline, "apples and pears", "looks", origin="page")
    for width, scheme, locale in (
        (1280, "light", "en-US"),
        (1280, "dark", "zh-CN"),
        (390, "dark", "en-US"),
        (390, "light", "zh-CN"),
    ):
        page = visit(offline, viewport={"width": width, "height": 860}, color_scheme=scheme, locale=locale)
        expect(page.locator(".examples button").first).to_be_visible()
        look = f"{width}-{scheme}-{locale}"
        if page.locator(".sidebar").is_hidden():
            page.locator(".bar button").first.click()
        page.get_by_role("searchbox").fill("pears")
        expect(page.locator(".hit mark").first).to_be_visible()
        check(page, f"search-{look}")
        page.get_by_role("searchbox").fill("")
        page.keyboard.press("Control+k")
        expect(page.get_by_role("option").first).to_be_visible()
        check(page, f"palette-{look}")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.locator(".row").first.focus()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name=re.compile("Keyboard|键盘"))).to_be_visible()
        check(page, f"keys-{look}")
        page.keyboard.press("Escape")
        page.goto(f"{offline.url}/#/s/looks")
        page.reload()
        page.get_by_role("button", name=re.compile("Search this conversation|搜索此对话")).click()
        page.get_by_role("combobox").fill("pears")
        expect(page.get_by_role("option")).to_have_count(1)
        check(page, f"find-{look}")


def test_the_desktop_is_notified_while_the_page_is_hidden(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    page.add_init_script(
        """window.said = [];
        window.Notification = class { constructor(title, { body }) { said.push(`${title}: ${body}`); }
          static requestPermission() { return Promise.resolve("granted"); } };
        Object.defineProperty(document, "hidden", { get: () => true });"""
    )
    page.reload()
    page.get_by_role("button", name=re.compile("^Inbox")).click()
    notify = page.get_by_role("button", name="Notify me on the desktop")
    notify.click()
    expect(notify).to_have_count(0)  # only now is it allowed
    page.keyboard.press("Escape")
    page.locator("textarea").fill("what is 6 * 7")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("42")
    wait_until(lambda: bool(page.evaluate("said.length > 0")))
    assert page.evaluate("said[0]") == "what is 6 * 7: Done"


def test_a_key_of_an_input_method_is_not_the_pages(offline: Service, visit: Visit) -> None:
    """Enter and Escape choose and leave what it offers; Safari says so by 229 alone."""
    say(offline, "hello", "typed", origin="page")
    page = visit(offline, "#/s/typed")
    expect(page.locator(".turn")).to_have_count(1)
    field = page.locator(".composer textarea")
    field.fill("ni hao")
    press(field, key="Enter", keyCode=229)
    press(field, key="Enter", isComposing=True)
    page.get_by_role("button", name="Edit the message").click()
    edited = page.get_by_role("form", name="Edit the message").get_by_role("textbox")
    press(edited, key="Enter", keyCode=229)
    press(edited, key="Escape", isComposing=True)
    expect(edited).to_have_value("hello")
    expect(field).to_have_value("ni hao")
    expect(page.locator(".turn")).to_have_count(1)
    press(edited, key="Escape")
    expect(edited).to_have_count(0)
    press(field, key="Enter")
    expect(field).to_have_value("")


def press(field: Locator, **event: object) -> None:
    """A key as an input method gives it."""
    field.dispatch_event("keydown", {"bubbles": True, "cancelable": True, **event})
