"""The web page in both themes and languages, wide and narrow: accessible, small, and kept as screenshots."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import Visit
from .serving import SCREENSHOTS, Json, Service

ROOT = Path(__file__).parents[1]
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
TRIP = {"en": "Plan 3 days in Beijing, with sights and food", "zh": "帮我规划一个北京3日游，包括景点和美食"}
WIDTHS = {1440: 900, 1024: 768, 390: 844}
MEASURE = """async () => {
  const paint = await new Promise((done) => new PerformanceObserver((seen, observer) => {
    const [found] = seen.getEntriesByName('first-contentful-paint');
    if (found) { observer.disconnect(); done(found); }
  }).observe({ type: 'paint', buffered: true }));
  const files = performance.getEntriesByType('resource').filter((entry) => entry.name.includes('/page/'));
  const [document] = performance.getEntriesByType('navigation');
  return {
    bytes: [...files, document].reduce((sum, entry) => sum + entry.decodedBodySize, 0),
    files: files.length,
    first_contentful_paint_ms: Math.round(paint.startTime),
  };
}"""


@pytest.fixture(scope="session")
def sessions(offline: Service) -> dict[str, str]:
    """By language a session with a plan and its answer."""
    for language, message in TRIP.items():
        body = {"message": message, "session_id": f"trip-{language}", "mode": "plan"}
        with offline.api.stream("POST", "/api/chat", json=body) as response:
            response.read()
    return {language: f"trip-{language}" for language in TRIP}


def check(page: Page, name: str) -> None:
    """Keep a screenshot, and look for serious faults in what can be perceived and operated."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[Json] = page.evaluate("async () => (await axe.run({ resultTypes: ['violations'] })).violations")
    serious = [
        {"rule": each["id"], "where": [node["html"][:200] for node in each["nodes"]], "why": each["help"]}
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert not serious, f"{name}: {json.dumps(serious, indent=1, ensure_ascii=False)}"


@pytest.mark.parametrize(
    ("width", "scheme", "language"),
    [(1440, "light", "en"), (1440, "dark", "zh"), (1024, "light", "zh"), (390, "dark", "en"), (390, "light", "zh")],
)
def test_every_look_is_accessible(
    offline: Service, visit: Visit, sessions: dict[str, str], width: int, scheme: str, language: str
) -> None:
    options = {
        "viewport": {"width": width, "height": WIDTHS[width]},
        "color_scheme": scheme,
        "locale": {"en": "en-US", "zh": "zh-CN"}[language],
    }
    look = f"{width}-{scheme}-{language}"
    page = visit(offline, **options)
    expect(page.locator(".examples button")).to_have_count(3)
    check(page, f"welcome-{look}")
    page.locator(".choice-menu button").nth(1).click()
    expect(page.get_by_role("menu")).to_be_visible()
    check(page, f"modes-{look}")
    page.keyboard.press("Escape")
    page.goto(f"{offline.url}/#/s/{sessions[language]}")
    expect(page.locator(".markdown h3").first).to_be_visible()
    page.locator(".activity > summary").click()
    page.locator(".call > summary").first.click()
    page.locator(".scroller").evaluate("box => box.scrollTo(0, 0)")
    check(page, f"conversation-{look}")
    page.locator(".bar button").last.click()
    expect(page.locator(".facts")).to_be_visible()
    check(page, f"inspector-{look}")
    page.locator(".inspector > header > button").click()
    expect(page.locator(".inspector")).to_have_count(0)
    if page.locator(".sidebar").is_hidden():
        page.locator(".bar button").first.click()
        expect(page.locator(".sidebar")).to_be_visible()
        check(page, f"sidebar-{look}")
    page.get_by_role("button", name=re.compile("^(Inbox|待办)")).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check(page, f"inbox-{look}")


def test_a_note_covers_little_of_a_phone(offline: Service, visit: Visit, sessions: dict[str, str]) -> None:
    page = visit(offline, f"#/s/{sessions['en']}", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Copy the answer").click()
    note = page.locator(".toast")
    expect(note).to_be_visible()
    assert note.evaluate("note => note.offsetHeight") < 100


@pytest.mark.parametrize(
    ("width", "scheme", "language"), [(390, "light", "zh"), (1280, "dark", "en"), (1920, "light", "en")]
)
def test_the_composer_of_an_empty_chat_stands_below_its_welcome(
    offline: Service, visit: Visit, width: int, scheme: str, language: str
) -> None:
    size = {"width": width, "height": 900}
    page = visit(offline, viewport=size, color_scheme=scheme, locale={"en": "en-US", "zh": "zh-CN"}[language])
    field = page.locator("textarea")
    expect(page.locator(".examples button")).to_have_count(3)
    expect(field).to_be_focused()
    welcome, empty = box(page, ".welcome"), box(page, ".composer")
    assert 0 <= empty["y"] - bottom(welcome) < 20
    assert abs(welcome["y"] - 52 - (900 - bottom(empty))) < 200, "above and below it is about as much room"
    top = box(page, "textarea")["y"]
    for _ in range(12):
        page.keyboard.type("line")
        page.keyboard.press("Shift+Enter")
    assert box(page, "textarea")["y"] == top
    assert bottom(box(page, ".composer")) < 900
    field.fill("what is 3 * 3")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("9")
    assert bottom(box(page, ".composer")) > 870
    expect(field).to_be_focused()


def test_a_low_window_has_the_composer_of_an_empty_chat_in_view(offline: Service, visit: Visit) -> None:
    page = visit(offline, viewport={"width": 390, "height": 420})
    expect(page.locator(".examples button")).to_have_count(3)
    assert bottom(box(page, ".composer")) < 420
    page.locator("textarea").fill("line\n" * 12)
    assert bottom(box(page, ".composer")) < 420


def box(page: Page, part: str) -> Json:
    """Where a part of the page stands."""
    found = page.locator(part).bounding_box()
    assert found, f"{part} is not shown"
    return {**found}


def bottom(place: Json) -> float:
    """The lower edge."""
    return float(place["y"] + place["height"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_choice_looks_like_a_field(offline: Service, visit: Visit, scheme: str) -> None:
    page = visit(offline, color_scheme=scheme)
    page.get_by_role("button", name="Settings").click()
    page.locator(".settings select").first.focus()
    check(page, f"settings-{scheme}")
    page.keyboard.type("E")
    expect(page.locator(".settings select").first).to_have_value("en")
    look = "field => [field.offsetHeight, getComputedStyle(field).font, getComputedStyle(field).borderRadius]"
    choice = page.locator(".settings select").first.evaluate(look)
    page.keyboard.press("Escape")
    assert page.get_by_role("searchbox").evaluate(look) == choice


def test_the_chosen_page_of_the_workspace_is_in_view_on_a_phone(offline: Service, visit: Visit) -> None:
    page = visit(offline, "#/ratings", viewport={"width": 390, "height": 844})
    chosen = page.get_by_role("navigation", name="Workspace").get_by_role("link", name="Ratings")
    expect(chosen).to_be_in_viewport(ratio=1)
    assert bottom(box(page, ".pages")) < 110, "in one line"
    page.goto(f"{offline.url}/#/usage")
    expect(page.get_by_role("link", name="Usage")).to_be_in_viewport(ratio=1)
    check(page, "workspace-390-light-en")


def test_the_page_is_small_and_says_when_it_painted(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    expect(page.locator(".examples button")).to_have_count(3)
    measured = page.evaluate(MEASURE)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "measured.json").write_text(json.dumps(measured), encoding="utf-8")
    assert measured["bytes"] < 169_000


def test_it_is_used_with_the_keyboard_alone(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    mode = page.get_by_role("button", name="Mode: ")
    expect(mode).to_be_enabled()
    expect(page.locator("textarea")).to_be_focused()
    page.get_by_role("link", name="Skip to the conversation").focus()
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if mode.evaluate("button => button === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Escape")
    expect(mode).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(mode).to_contain_text("ReAct")
    for _ in range(3):  # past the agent and the files
        page.keyboard.press("Shift+Tab")
    expect(page.locator("textarea")).to_be_focused()
    page.keyboard.type("what is 9 * 9")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("81")
    expect(page.locator("textarea")).to_be_focused()
