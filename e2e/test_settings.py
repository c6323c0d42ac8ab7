"""The settings dialog, and the panel of what tasks used."""

import pytest
from playwright.sync_api import expect

from .conftest import Visit
from .serving import Service
from .test_page_looks import check

LOOKS = [(1280, "light", "en-US"), (1280, "dark", "zh-CN"), (390, "dark", "en-US"), (390, "light", "zh-CN")]
SETTINGS = {"en-US": "Settings", "zh-CN": "设置"}


def test_settings_are_kept_and_tell_what_the_service_is(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    page.get_by_role("button", name="Settings").click()
    dialog = page.get_by_role("dialog", name="Settings")
    limit = offline.api.get("/api/service").json()["limits"]["messages_a_minute"]
    expect(dialog.locator("dl div", has_text="Messages per minute")).to_have_text(f"Messages per minute{limit}")
    expect(dialog.get_by_role("row", name="travel")).to_contain_text("offline")
    dialog.get_by_role("combobox", name="Theme").select_option("Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dialog.get_by_role("combobox", name="Default mode").select_option("plan")
    dialog.get_by_role("combobox", name="Language").select_option("中文")
    expect(page.get_by_role("dialog", name="设置")).to_be_visible()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="设置").click()
    mode = page.get_by_role("combobox", name="默认模式")
    expect(mode).to_have_value("plan")
    mode.select_option("")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="设置")).to_be_focused()


def test_usage_is_listed_by_day_and_agent(offline: Service, visit: Visit) -> None:
    offline.api.post("/api/chat", json={"message": "hello", "session_id": "used"})
    page = visit(offline, "#/s/used")
    expect(page.locator(".turn-actions")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Workspace")
    page.get_by_role("option", name="Workspace").click()
    panel = page.get_by_role("region", name="Usage")
    used = offline.api.get("/api/usage").json()["total"]["tasks"]
    expect(panel.get_by_role("row")).to_have_count(2)
    expect(panel.get_by_role("row").last.get_by_role("cell").first).to_have_text(str(used))
    panel.get_by_role("combobox", name="By").select_option("Agent")
    expect(panel.get_by_role("row", name="travel")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme", "locale"), LOOKS)
def test_both_are_accessible(offline: Service, visit: Visit, width: int, scheme: str, locale: str) -> None:
    offline.api.post("/api/chat", json={"message": "hello", "session_id": "used"})
    viewport = {"width": width, "height": 860}
    page = visit(offline, "#/s/used", viewport=viewport, color_scheme=scheme, locale=locale)
    if page.locator(".sidebar").is_hidden():
        page.locator(".bar button").first.click()
    page.get_by_role("button", name=SETTINGS[locale]).click()
    dialog = page.get_by_role("dialog", name=SETTINGS[locale])
    expect(dialog.locator("dl")).to_be_visible()
    check(page, f"settings-{width}-{scheme}-{locale}")
    page.goto(f"{offline.url}/#/usage")
    expect(page.locator(".usage table")).to_be_visible()
    check(page, f"usage-{width}-{scheme}-{locale}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
