"""The web page: conversations as people have them."""

import json
import re
import signal
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import Locator, Page, Route, expect

from .conftest import Visit
from .models import FIRST, PREAMBLE, QUESTION, REST, Model, scripted
from .serving import SCREENSHOTS, Json, Service, wait_until

TRIP = "帮我规划一个北京3日游，包括景点和美食"


KEY = "0123456789abcdef"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that asks for a key, and whose model takes images."""
    with Service(tmp_path_factory.mktemp("keyed"), SEGUE_API_KEY=f"me:{KEY}", SEGUE_ACCEPTS="image") as service:
        yield service


def give_key(page: Page, key: str) -> None:
    """Type a key where the page asks for one."""
    dialog = page.get_by_role("dialog", name="This service requires an API key")
    dialog.get_by_label("API key").fill(key)
    dialog.get_by_role("button", name="Save").click()


def say(page: Page, message: str, *, mode: str = "", agent: str = "") -> None:
    """Choose who answers how, and send a message once the task before it has ended: it would take it as a note."""
    for menu, choice in (("Agent", agent), ("Mode", mode)):
        if choice:
            page.get_by_role("button", name=f"{menu}: ").click()
            page.get_by_role("menuitemradio", name=re.compile(f"^{choice}")).click()
    field = page.get_by_role("textbox", name="Message", exact=True)
    field.fill(message)
    field.press("Enter")


def task_of(page: Page, service: Service) -> str:
    """The id of the shown session's latest task."""
    session = page.url.split("#/s/")[1]
    newest: str = service.api.get(f"/api/sessions/{session}/tasks").json()["items"][0]["task_id"]
    return newest


@pytest.fixture
def watchable(tmp_path: Path) -> Iterator[Service]:
    """A service whose offline planner writes for twenty seconds, so that it is paused while it does."""
    with Service(tmp_path, SEGUE_OFFLINE_PACE="60") as service:
        yield service


def test_a_trip_is_planned_paused_survives_a_restart_and_is_resumed(watchable: Service, visit: Visit) -> None:
    page = visit(watchable)
    page.get_by_role("button", name="Plan 3 days in Beijing").click()
    expect(page.locator("textarea")).to_be_focused()
    expect(page.locator("textarea")).to_have_value("Plan 3 days in Beijing, with sights and food")
    say(page, TRIP, mode="Plan")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused. Finished work is kept.")).to_be_visible()
    watchable.stop()
    expect(page.get_by_text("Connection lost")).to_be_visible()
    watchable.start(SEGUE_OFFLINE_PACE="0")
    page.reload()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".steps .step[data-status=done]")).to_have_count(5)
    expect(page.locator(".markdown h3").first).to_contain_text("查询景点")
    expect(page.get_by_text("5 of 5 steps")).to_be_visible()
    expect(page.locator(".thumbs")).to_be_visible()
    page.locator(".activity > summary").click()
    page.get_by_text("query_attractions", exact=True).click()
    expect(page.locator(".call .readable", has_text="故宫").first).to_be_visible()
    assert watchable.task(task_of(page, watchable))["status"] == "done"


def test_a_message_on_its_way_is_shown_and_leaves_another_session_alone(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    say(page, "echo first")
    expect(page.locator(".answer")).to_be_visible()
    first = page.url
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What can I do for you?")).to_be_visible()
    held: list[Route] = []
    page.route("**/api/chat", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/api/chat"):
        say(page, "echo second")
    expect(page.locator(".said")).to_have_text("echo second")
    expect(page.get_by_text("What can I do for you?")).to_have_count(0)
    page.get_by_role("navigation").get_by_role("link", name="echo first").first.click()
    expect(page.locator(".said p")).to_have_text("echo first")
    with page.expect_response("**/api/chat"):
        held[0].continue_()
    expect(page.get_by_role("navigation").get_by_role("link", name="echo second").first).to_be_visible()
    expect(page.locator(".said p")).to_have_text("echo first")
    assert page.url == first


def test_a_new_chat_begun_before_the_first_answer_stays_the_new_chat(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    held: list[Route] = []
    page.route("**/api/chat", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/api/chat"):
        say(page, "echo slow start")
    expect(page.locator(".said")).to_have_text("echo slow start")
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What can I do for you?")).to_be_visible()
    say(page, "echo another")
    expect(page.locator(".said p")).to_have_text("echo another")
    expect(page.locator(".answer")).to_be_visible()
    another = page.url
    with page.expect_response("**/api/chat"):
        held[0].continue_()
    expect(page.get_by_role("navigation").get_by_role("link", name="echo slow start").first).to_be_visible()
    expect(page.locator(".said p")).to_have_text("echo another")
    assert page.url == another


_FLICKER = """box => new Promise((done) => {
  const content = box.firstElementChild;
  let calls = 0;
  const watched = new ResizeObserver(() => {
    calls += 1;
    if (calls === 1) requestAnimationFrame(() => { content.style.display = 'none'; });
    if (calls === 2) setTimeout(() => { content.style.display = ''; });
    if (calls === 3) { watched.disconnect(); requestAnimationFrame(() => requestAnimationFrame(done)); }
  });
  watched.observe(content);
})"""
_REST = "box => box.scrollHeight - box.scrollTop - box.clientHeight"


def test_an_answer_that_is_drawn_anew_stays_scrolled_to_its_end(offline: Service, visit: Visit) -> None:
    page = visit(offline, viewport={"width": 1280, "height": 420})
    say(page, TRIP, mode="Plan")
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    scroller = page.locator(".scroller")
    wait_until(lambda: scroller.evaluate(_REST) < 2)
    scroller.evaluate(_FLICKER)
    wait_until(lambda: scroller.evaluate(_REST) < 2)
    expect(page.get_by_role("button", name="Go to the latest message")).to_have_count(0)
    scroller.hover()
    page.mouse.wheel(0, -200)
    expect(page.get_by_role("button", name="Go to the latest message")).to_be_visible()


MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
TABLE = "\n".join(
    [f"| Region | {' | '.join(MONTHS)} |", f"|--|{'--:|' * 10}", f"| North | {' | '.join(['123,456,789'] * 10)} |"]
)


SIGHTS = """| 景点 | 说明 | 门票 | 开放时间 |
|--|--|--:|--|
| 故宫博物院 | 明清两代的皇家宫殿，旧称紫禁城，建议预约上午的门票并预留半天时间参观 | €12.50 | 08:30–17:00 |
| 颐和园 | A palace beside a lake, with a long painted corridor and boats in summer | €4 | 06:00–20:00 |"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_cells_of_a_table_have_room_for_their_words(service: Service, visit: Visit, width: int) -> None:
    page = visit(service, viewport={"width": width, "height": 844})
    say(page, SIGHTS)
    table = page.locator(".markdown table")
    expect(table).to_be_visible()
    sizes = table.locator("td").evaluate_all("cells => cells.map(each => [each.offsetWidth, each.offsetHeight])")
    assert min(wide for wide, _ in sizes) >= 60
    assert all(wide >= 180 for wide, _ in (sizes[1], sizes[5]))
    assert sizes[0][1] < 160, "no column is as narrow as a character"
    assert table.evaluate("table => table.scrollWidth > table.clientWidth") is (width == 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wide_table_scrolls_and_code_is_copied(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, f"{TABLE}\n\n```\nprint(17)\n```", mode="Direct")
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    table = page.locator(".markdown table")
    assert table.evaluate("table => table.scrollWidth > table.clientWidth")
    assert table.evaluate("table => table.offsetHeight") < 120, "no word is broken"
    expect(table).to_have_attribute("tabindex", "0")  # the keyboard scrolls it
    expect(table.locator("td").last).to_have_css("text-align", "right")
    page.evaluate("delete Navigator.prototype.clipboard")  # as over plain HTTP from another machine
    page.get_by_role("button", name="Copy the code").click()
    page.locator("textarea").press("Control+V")
    expect(page.locator("textarea")).to_have_value("print(17)\n")


PICTURE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
RICH = f"""```py
def area(a):
    return a ** 2
```

It is $x^2$, costs $5 and $10, and $$\\frac{{1}}{{2$$ is wrong.

![dot]({PICTURE}) ![elsewhere](https://elsewhere.example/x.png)"""


def test_code_is_coloured_formulas_are_set_and_only_own_pictures_are_loaded(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, RICH, mode="Direct")
    code, bar = page.locator(".code pre"), page.locator(".code-bar")
    expect(code.locator(".hljs-keyword").first).to_have_text("def")
    expect(bar).to_contain_text("Python")
    assert bar.evaluate("bar => bar.getBoundingClientRect().bottom") <= code.evaluate(
        "code => code.getBoundingClientRect().top"
    )
    expect(page.locator("math")).to_have_count(1)
    expect(page.locator(".markdown")).to_contain_text("costs $5 and $10")
    expect(page.locator("code.math")).to_have_text(r"\frac{1}{2")
    expect(page.get_by_alt_text("dot")).to_have_js_property("naturalWidth", 1)
    expect(page.get_by_role("link", name="elsewhere", exact=True)).to_be_visible()


def test_what_is_thought_and_done_is_folded_under_an_answer(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    say(page, "what is 17 * 23", mode="ReAct")
    expect(page.locator(".answer")).to_contain_text("391")
    expect(page.get_by_text("1 tool call")).to_be_visible()
    thoughts = page.locator(".thoughts")
    expect(thoughts.locator(".text")).to_be_hidden()
    thoughts.get_by_text("Thoughts").click()
    expect(thoughts.locator(".text")).to_contain_text("Calling Calculator")
    page.reload()
    page.locator(".thoughts").get_by_text("Thoughts").click()
    expect(page.locator(".thoughts .text")).to_contain_text("Calling Calculator")


def test_calls_are_folded_once_the_answer_is_there_but_for_those_that_failed(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "please refund 17", agent="shop")
    page.get_by_role("region", name="Approve this call?").get_by_role("button", name="Reject").click()
    page.get_by_label("Reason").fill("too much")
    page.keyboard.press("Enter")
    for _ in range(2):
        expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
        expect(page.locator(".activity")).not_to_have_attribute("open", "")
        expect(page.locator(".activity + .calls .call")).to_contain_text("order_id: 17")
        page.locator(".activity > summary").click()
        expect(page.locator(".call")).to_have_count(1)
        expect(page.locator(".activity .call")).to_be_visible()
        page.reload()


def test_calls_that_a_person_looks_at_stay_open_under_the_answer(service: Service, model: Model, visit: Visit) -> None:
    page = visit(service)
    say(page, "where is order 17?", agent="desk")
    expect(page.locator(".answer")).to_have_text(FIRST)
    page.locator(".call > summary").click()
    model.go.set()
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    expect(page.locator(".activity .call .value").first).to_be_visible()


def test_a_text_before_calls_is_no_part_of_the_answer(service: Service, model: Model, visit: Visit) -> None:
    """Nor in another tab, after a reload, in the history, and in a shared conversation."""
    page = visit(service)
    say(page, "where is order 17?", agent="desk")
    expect(page.locator(".answer")).to_have_text(FIRST)
    second = visit(service, page.url.removeprefix(f"{service.url}/"))
    for joined in (page, second):
        expect(joined.locator(".answer")).to_have_text(FIRST)
        expect(joined.locator(".thoughts .text")).to_have_text(PREAMBLE)
    page.reload()
    expect(page.locator(".answer")).to_have_text(FIRST)
    model.go.set()
    for joined in (page, second):
        expect(joined.get_by_role("button", name="Copy the answer")).to_be_visible()
        expect(joined.locator(".answer")).to_have_text(FIRST + REST)
    page.reload()
    expect(page.locator(".thoughts .text")).to_have_text(PREAMBLE)
    expect(page.locator(".answer")).to_have_text(FIRST + REST)
    assert service.answer(task_of(page, service)) == f"{PREAMBLE}\n\n{FIRST}{REST}"
    made = service.api.post(f"/api/sessions/{page.url.split('#/s/')[1]}/share", json={"hours": 1}).json()
    expect(visit(service, made["path"].removeprefix("/")).locator(".answer")).to_have_text(FIRST + REST)


def test_a_reload_and_a_second_tab_join_a_running_task(service: Service, model: Model, visit: Visit) -> None:
    page = visit(service)
    say(page, "wait here")
    expect(page.locator(".answer")).to_contain_text(FIRST)
    second = visit(service, page.url.removeprefix(f"{service.url}/"))
    page.reload()
    for joined in (page, second):
        expect(joined.locator(".answer")).to_have_text(FIRST)
    model.go.set()
    for joined in (page, second):
        expect(joined.locator(".answer")).to_have_text(FIRST + REST)
        expect(joined.get_by_role("button", name="Copy the answer")).to_be_visible()


def test_a_task_that_could_not_be_joined_is_joined_once_it_can_be(service: Service, model: Model, visit: Visit) -> None:
    page = visit(service)
    say(page, "wait here")
    expect(page.locator(".answer")).to_contain_text(FIRST)
    page.route("**/api/tasks/*?html=true", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("Reconnecting").first).to_be_visible()
    page.unroute_all()
    expect(page.locator(".answer")).to_have_text(FIRST)
    model.go.set()
    expect(page.locator(".answer")).to_have_text(FIRST + REST)


def test_a_killed_service_is_waited_for(tmp_path: Path, model: Model, visit: Visit) -> None:
    with scripted(tmp_path, model) as service:
        page = visit(service)
        say(page, "wait here")
        expect(page.locator(".answer")).to_contain_text(FIRST)
        service.stop(signal.SIGKILL)
        expect(page.get_by_text("Reconnecting").first).to_be_visible()
        model.go.set()
        service.start()
        expect(page.locator(".answer")).to_have_text(FIRST + REST)
        expect(page.get_by_text("Reconnecting")).to_have_count(0)
        service.seqs(task_of(page, service))


def press(page: Page, card: Locator, key: str) -> None:
    """Go to the card with the Tab key, and press a key once it takes keys."""
    expect(card).to_be_visible()
    page.wait_for_timeout(600)
    while not card.evaluate("card => card === document.activeElement"):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press(key)


def test_a_call_is_edited_rejected_and_allowed_for_good(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "please refund 17", agent="shop")
    card = page.get_by_role("region", name="Approve this call?")
    expect(card.locator(".arguments")).to_have_text("order_id17amount20.5")
    page.reload()
    page.get_by_role("button", name=re.compile(r"Inbox, \d+ waiting")).click()  # other tests' tasks wait there, too
    page.get_by_role("button", name=re.compile("Approval of refund.*please refund 17")).click()
    expect(card).to_be_focused()
    press(page, card, "e")
    amount = card.get_by_label("amount")
    amount.fill("much")
    expect(card.get_by_role("alert")).to_have_text("Enter a number.")
    expect(card.get_by_role("button", name="Approve with these arguments")).to_be_disabled()
    amount.fill("5")
    amount.press("Enter")
    expect(page.locator(".answer")).to_have_text("Done: refunded 5.0 for order 17.")
    expect(page.locator("textarea")).to_be_focused()
    expect(page.locator(".turn-actions .about")).to_contain_text("shop · ReAct · refund · ")
    say(page, "please refund 18")
    card.get_by_role("button", name="Always allow refund").click()
    page.get_by_role("menuitem", name="Allow in this session", exact=True).click()
    expect(page.locator(".answer").nth(1)).to_have_text("Done: refunded 20.5 for order 18.")
    say(page, "please refund 19")
    expect(page.locator(".answer").nth(2)).to_have_text("Done: refunded 20.5 for order 19.")
    page.reload()
    decided = page.locator(".answered li")
    expect(decided).to_have_count(2)
    expect(decided.first).to_contain_text("Approved with changes refund order_id: 17, amount: 5")
    expect(decided.first).not_to_contain_text("http")
    expect(decided.last).to_contain_text("Allow in this session")

    page = visit(service)
    say(page, "please refund 20", agent="shop")
    press(page, page.get_by_role("region", name="Approve this call?"), "r")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("too much")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_have_text("Done: nothing was paid.")
    expect(page.locator(".answered")).to_contain_text("too much")
    expect(page.locator(".turn-actions .about")).not_to_contain_text("refund")


def test_several_calls_are_decided_together(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "together: please refund 31, please refund 32, please refund 33", agent="shop")
    card = page.get_by_role("region", name="Approve these 3 calls?")
    press(page, card, "r")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Enter")
    expect(card.locator("[data-verdict=reject]")).to_have_count(1)
    card.get_by_role("button", name="Change").click()
    page.keyboard.press("a")
    card.get_by_role("button", name="Approve the rest").click()
    expect(page.locator(".answered [data-verdict=approve]")).to_have_count(3)
    expect(page.locator(".answer")).to_have_text("Done: refunded 20.5 for order 33.")


def test_a_large_number_is_shown_and_sent_as_it_is(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "please refund 9007199254740993", agent="shop")
    card = page.get_by_role("region", name="Approve this call?")
    expect(card.locator(".arguments")).to_have_text("order_id9007199254740993amount20.5")
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("amount").fill("5")
    card.get_by_label("amount").press("Enter")
    expect(page.locator(".answer")).to_have_text("Done: refunded 5.0 for order 9007199254740993.")


PARAGRAPH = "are there any other orders? ere you refund it, read the rest: a rare error earns a rear row. "


def test_a_card_that_appears_while_a_person_writes_takes_no_focus_and_no_letter(
    service: Service, model: Model, visit: Visit
) -> None:
    """A paragraph is typed before, while and after a call asks; it is kept, and the call waits for a click."""
    page = visit(service)
    say(page, "please wait, then please refund 61", agent="shop")
    field = page.get_by_role("textbox", name="Add something to the running task")
    field.press_sequentially(PARAGRAPH)
    model.go.set()
    card = page.get_by_role("region", name="Approve this call?")
    while not card.is_visible():
        page.keyboard.type("are ")
    page.keyboard.type(PARAGRAPH)
    page.wait_for_timeout(600)
    page.keyboard.type(PARAGRAPH)
    page.keyboard.press("Enter")
    written = page.locator(".composer textarea")
    expect(written).to_be_focused()
    assert re.fullmatch(f"({re.escape(PARAGRAPH)})(are )*({re.escape(PARAGRAPH)}){{2}}", written.input_value())
    expect(page.locator(".composer").get_by_role("status")).to_have_text("Approve or reject the call first")
    task_id = task_of(page, service)
    assert service.task(task_id)["status"] == "waiting"
    page.locator("body").evaluate("() => document.activeElement.blur()")
    page.keyboard.type(PARAGRAPH)  # nothing has the focus
    card.get_by_role("button", name="Edit").focus()
    page.keyboard.type("a")  # a button of the card has it
    expect(card.get_by_role("button", name="Approve")).to_be_visible()
    assert service.task(task_id)["status"] == "waiting"
    card.get_by_role("button", name="Approve").click()
    expect(page.locator(".answer")).to_have_text("Done: refunded 20.5 for order 61.")
    assert PARAGRAPH in written.input_value()


def test_a_question_that_comes_while_a_person_writes_is_not_answered_with_it(
    service: Service, model: Model, visit: Visit
) -> None:
    page = visit(service)
    say(page, "1. please wait\n2. paint", mode="Controller")
    page.get_by_role("textbox", name="Add something to the running task").fill("use less")
    model.go.set()
    expect(page.get_by_text(QUESTION)).to_be_visible()
    field = page.locator(".composer textarea")
    expect(field).to_be_focused()
    field.press("Enter")
    note = page.locator(".composer").get_by_role("status")
    expect(note).to_contain_text("The agent has asked a question meanwhile.")
    expect(field).to_have_value("use less")
    field.fill("")
    field.fill("blue")
    field.press("Enter")
    expect(page.locator(".answered dd").first).to_have_text("blue")


def test_a_decision_is_shown_as_taken_once_the_service_took_it(service: Service, visit: Visit) -> None:
    """One that cannot be sent is kept on its card, which is still usable."""
    page = visit(service)
    say(page, "please refund 71", agent="shop")
    card = page.get_by_role("region", name="Approve this call?")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/answer", hold)
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("amount").fill("7")
    with page.expect_request("**/answer"):
        card.get_by_label("amount").press("Enter")
    expect(card).to_contain_text("Approve with changes · being sent")
    held[0].abort()
    expect(card.get_by_role("alert")).to_have_text("The decision was not sent. Send it again, or change it.")
    expect(page.get_by_text("Approved")).to_have_count(0)
    assert service.task(task_of(page, service))["status"] == "waiting"
    page.unroute_all()
    card.get_by_role("button", name="Send the decision").click()
    expect(page.locator(".answered")).to_contain_text("Approved with changes")
    expect(page.locator(".answer")).to_have_text("Done: refunded 7.0 for order 71.")


def test_a_long_argument_is_scrolled_by_the_keyboard(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "please write", agent="shop")
    card = page.get_by_role("region", name="Approve this call?")
    long, short = card.locator("dd").first, card.locator("dd").last
    expect(long).to_have_attribute("tabindex", "0")
    assert short.get_attribute("tabindex") is None
    long.focus()
    page.keyboard.press("End")
    wait_until(lambda: long.evaluate("box => box.scrollTop + box.clientHeight > box.scrollHeight - 4"))
    page.keyboard.type("a")
    expect(card.get_by_role("button", name="Approve")).to_be_visible()


def test_a_key_is_asked_for_once_a_person_has_left_the_field(keyed: Service, visit: Visit) -> None:
    page = visit(keyed)
    give_key(page, KEY)
    field = page.locator(".composer textarea")
    field.press_sequentially("a sentence ")
    page.route("**/api/**", lambda route: route.fulfill(status=401, json={"error": {"message": "no"}}))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("The service requires an API key.")).to_be_visible()
    page.keyboard.type("that goes on")
    expect(field).to_be_focused()
    expect(field).to_have_value("a sentence that goes on")
    page.get_by_role("searchbox").click()
    expect(page.get_by_role("dialog", name="This service requires an API key")).to_be_visible()


def test_a_key_approves_no_call_that_was_not_seen(service: Service, visit: Visit) -> None:
    """One that is held since the card before."""
    page = visit(service)
    say(page, "one by one: please refund 51, please refund 52", agent="shop")
    card = page.get_by_role("region", name="Approve this call?")
    expect(card.locator(".arguments")).to_have_text("order_id51amount20.5")
    press(page, card, "Shift+A")
    page.keyboard.down("a")
    for _ in range(40):
        page.wait_for_timeout(50)
        page.keyboard.down("a")
    expect(card.locator(".arguments")).to_have_text("order_id52amount20.5")
    page.keyboard.up("a")
    press(page, card, "a")
    expect(page.locator(".answer")).to_have_text("Done: refunded 20.5 for order 52.")


_DROP = """box => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File(["seventeen"], "n.txt", { type: "text/plain" }));
  for (const type of ["dragover", "drop"]) box.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true }));
}"""


def test_a_conversation_is_exported_and_files_are_dropped_anywhere_in_it(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    said = f"echo {uuid4().hex[:8]}"
    say(page, said)
    expect(page.locator(".answer")).to_be_visible()
    expect(page).to_have_title(re.compile(rf"{said} · Segue$"))
    for kind, holds in (("Markdown", f"# {said}\n\n## You\n\n{said}\n\n## "), ("JSON", '"messages_full"')):
        page.get_by_role("button", name=f"Actions for {said}").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=f"Export as {kind}").click()
        assert holds in Path(download.value.path()).read_text(encoding="utf-8")
    page.locator(".scroller").evaluate(_DROP)
    chip = page.get_by_role("button", name="Remove n.txt")
    expect(chip).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(chip).to_have_count(0)
    page.go_back()
    expect(chip).to_be_visible()
    chip.click()
    expect(chip).to_have_count(0)


ACTIVE = "![dot](http://elsewhere.example/x.png) [go](javascript:alert(1)) <img src=x> [page](https://there.example)"


def test_an_exported_conversation_loads_nothing_and_runs_nothing(service: Service, visit: Visit) -> None:
    page = visit(service)
    said = f"{uuid4().hex[:8]} {ACTIVE}"
    code = f"```html\n{ACTIVE}\n```"
    say(page, f"{said}\n\n{code}\n\n{ACTIVE}", mode="Direct")
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    page.get_by_role("button", name=f"Actions for {said[:8]}").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Export as Markdown").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.count(code) == 2
    shown = MarkdownIt("commonmark").render(text.replace(code, ""))
    assert "<img" not in shown and "elsewhere.example" in shown
    assert {*re.findall('href="([^"]*)"', shown)} == {"https://there.example"}


def test_a_message_is_edited_and_answered_again_in_one_conversation(service: Service, visit: Visit) -> None:
    page = visit(service)
    said = f"please refund {uuid4().int % 10**6}"
    say(page, said, agent="shop")
    press(page, page.get_by_role("region", name="Approve this call?"), "a")
    expect(page.locator(".answer")).to_contain_text("Done: refunded")
    rows = page.get_by_role("navigation").get_by_role("link", name=said)
    page.locator(".said").hover()
    page.get_by_role("button", name="Edit the message").click()
    form = page.get_by_role("form", name="Edit the message")
    form.get_by_role("textbox").fill("please look")
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("These calls have taken effect")
    expect(form.get_by_role("listitem")).to_contain_text(f"order_id: {said[14:]}")
    form.get_by_role("button", name="Continue anyway").click()
    expect(page.locator(".answer")).to_have_text("Sent.")
    versions = page.get_by_role("group", name="Versions of this message")
    expect(versions).to_have_text("2 of 2")
    page.get_by_role("button", name="Answer again").click()
    expect(versions).to_have_text("3 of 3")
    expect(page.locator(".answer")).to_have_text("Sent.")
    say(page, "please look")
    expect(page.locator(".answer")).to_have_count(2)
    expect(page.get_by_role("navigation").locator("[aria-current=page] .title")).to_have_text("please look")
    expect(rows).to_have_count(0)
    page.reload()
    expect(versions).to_have_text("3 of 3")
    for _ in range(2):
        versions.get_by_role("button", name="Previous version").click()
    expect(versions).to_have_text("1 of 3")
    expect(page.locator(".answer")).to_contain_text("Done: refunded")
    expect(page.get_by_role("navigation").locator("[aria-current=page]")).to_have_count(1)


def test_a_question_is_answered_by_its_choices_or_in_the_composer(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "1. ask\n2. paint", mode="Controller")
    card = page.get_by_role("region", name="The agent asks")
    expect(card).to_contain_text(QUESTION)
    expect(card.get_by_role("button")).to_have_text(["blue", "red"])
    card.get_by_role("button", name="blue").click()
    expect(page.locator(".answer")).to_have_text("It is blue.")
    say(page, "1. ask\n2. paint")
    expect(card).to_be_visible()
    page.get_by_label("Answer the question").fill("blue")
    page.keyboard.press("Enter")
    expect(page.locator(".answer").nth(1)).to_have_text("It is blue.")
    page.reload()
    expect(page.locator(".answered")).to_have_text([f"{QUESTION}blue"] * 2)


def test_a_running_task_is_steered(service: Service, model: Model, visit: Visit) -> None:
    page = visit(service)
    say(page, "please wait", agent="shop")
    page.get_by_label("Add something to the running task").fill("with gift wrap")
    page.keyboard.press("Enter")
    expect(page.locator(".said.note")).to_contain_text("with gift wrap")
    task_id = task_of(page, service)
    wait_until(lambda: service.task(task_id)["status"] == "pausing" or "steered" in service.types(task_id))
    model.go.set()
    expect(page.locator(".answer strong")).to_have_text("as advised")
    expect(page.locator(".turn")).to_have_count(1)
    for _ in range(2):
        expect(page.locator(".said.note")).to_have_count(1)
        expect(page.locator(".reply > .said.note ~ .answer")).to_have_count(1)
        page.reload()


def test_long_results_are_folded_and_whole_on_request(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "please look", agent="shop")
    expect(page.locator(".answer")).to_have_text("Sent.")
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    page.locator(".activity > summary").click()
    page.locator(".call summary").click()
    result = page.locator(".value").nth(1)
    assert len(result.locator("pre").inner_text()) < 1500
    result.get_by_role("button", name="Show all").click()
    wait_until(lambda: len(result.locator("pre").inner_text()) > 15_000)


def test_an_answer_that_is_no_decision_is_marked_also_after_a_reload(service: Service, visit: Visit) -> None:
    page = visit(service)
    say(page, "please ramble", agent="shop")
    for _ in range(2):
        expect(page.locator(".answer")).to_have_text("Nice weather today.")
        expect(page.get_by_text("The model did not follow the protocol")).to_contain_text("protocol to native")
        page.reload()


def test_an_address_that_cannot_be_read_is_a_new_conversation(offline: Service, visit: Visit) -> None:
    page = visit(offline, "#/s/%")
    expect(page.locator("textarea")).to_be_visible()
    page.evaluate("location.hash = '#/t/%E0%A4%A'")
    say(page, "echo hello")
    expect(page.locator(".answer")).to_be_visible()


def test_a_part_of_the_page_that_could_not_be_loaded_is_loaded_once_it_can_be(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    page.context.route("**/inspector.js", lambda route: route.abort())
    say(page, "echo hello")
    page.get_by_role("button", name="Inspector").first.click()
    expect(page.get_by_text("could not be loaded")).to_be_visible()
    page.context.unroute("**/inspector.js")
    expect(page.get_by_text("could not be loaded")).to_be_hidden()
    expect(page.locator(".inspector")).to_be_visible()


def test_a_running_task_is_stopped(service: Service, model: Model, visit: Visit) -> None:
    page = visit(service)
    say(page, "wait here")
    expect(page.locator(".answer")).to_contain_text(FIRST)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped. Finished work is kept")).to_be_visible()
    expect(page.locator(".answer")).to_have_text(FIRST)


def test_sessions_are_found_renamed_and_deleted(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    fox = f"fox{uuid4().hex[:8]}"  # sessions of an attempt before stay
    for message in (f"echo the quick {fox}", "echo the lazy dog"):
        page.get_by_role("button", name="New chat").click()
        expect(page.get_by_text("What can I do for you?")).to_be_visible()
        say(page, message)
        expect(page.locator(".answer")).to_be_visible()
    listed = page.locator(".session a:not(.hit)")
    page.get_by_label("Search all sessions").fill(fox)
    expect(listed).to_have_count(1)
    page.get_by_role("button", name=f"Actions for echo the quick {fox}").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Title").fill(f"My {fox}")
    page.keyboard.press("Enter")
    expect(listed).to_contain_text(f"My {fox}")
    expect(page.get_by_role("button", name=f"Actions for My {fox}")).to_be_focused()
    listed.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"My {fox}")
    page.get_by_role("button", name="Open the inspector").click()
    page.get_by_role("tab", name="Details").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Open the inspector")).to_be_focused()
    page.get_by_role("button", name=f"Actions for My {fox}").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No messages match.")).to_be_visible()
    expect(page.get_by_text("What can I do for you?")).to_be_visible()


def test_a_session_that_was_created_for_an_agent_is_answered_by_it(service: Service, visit: Visit) -> None:
    asked = {"session_id": "made", "title": "Returns", "agent_id": "shop"}
    service.api.post("/api/sessions", json=asked).raise_for_status()
    page = visit(service)
    page.get_by_role("navigation").get_by_role("link", name="Returns").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Returns")
    expect(page.get_by_role("button", name="Agent: shop")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_text("What can I do for you?")).to_be_visible()
    service.api.delete("/api/sessions/made").raise_for_status()


def test_an_answer_is_rated_and_a_mode_preferred(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    say(page, "what is 2 + 2", mode="ReAct")
    page.get_by_role("button", name="Poor answer").click()
    expect(page.get_by_role("button", name="Poor answer")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Good answer").click()
    expect(page.get_by_role("button", name="Poor answer")).to_have_attribute("aria-pressed", "false")
    assert offline.task(task_of(page, offline))["rating"] == 5
    page.get_by_role("button", name="Mode: ").click()
    page.get_by_role("menuitem", name="Use this mode by default").click()
    expect(page.get_by_text("ReAct is now your default mode.")).to_be_visible()
    assert offline.api.get("/api/users/default/preferences").json()["default_mode"] == "react"
    offline.api.put("/api/users/default/preferences", json={"default_mode": ""})


_BRIEF = "async value => (await import('/page/components/readable.js')).brief(value)"
_DRAWN = """async value => {
  const { html, render } = await import('/page/vendor/htm-preact.js');
  const { ArgumentList } = await import('/page/components/argument-list.js');
  const list = document.createElement("div");
  render(html`<${ArgumentList} values=${{ value }} />`, list);
  return list.innerHTML;
}"""
_PAID = {"items": [{"sku": "a", "price": 12.5, "currency": "EUR"}, {"sku": "b", "paid": True}], "tags": ["x", "y"]}


@pytest.mark.parametrize(("locale", "yes"), [("en-US", "Yes"), ("zh-CN", "是")])
def test_values_are_written_as_people_write_them(offline: Service, visit: Visit, locale: str, yes: str) -> None:
    page = visit(offline, locale=locale)
    expect(page.locator(".examples button").first).to_be_visible()
    written = f"items: [{{sku: a, price: €12.50 (12.5), currency: EUR}}; {{sku: b, paid: {yes}}}], tags: [x, y]"
    assert page.evaluate(_BRIEF, _PAID) == written


_ALIKE = [
    *(17, "17", 17.5, "17.5", None, "null", True, "Yes", "true", "", " ", [], "[]", {}, "{}"),
    *(["a", "b"], "a, b", ["a, b"], ["[a, b]"], [["a", "b"]], [["a"], ["b"]]),
    *({"a": "b", "c": "d"}, {"a": "b, c: d"}, {"a": {"b": "c"}}, {"a": "b: c"}, {"a, b": "c"}),
    *({"price": 12.5, "currency": "EUR"}, {"price": "€12.50 (12.5)", "currency": "EUR"}, {"price": 12.5}),
]


def test_no_two_arguments_of_an_approval_look_alike(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    expect(page.locator(".examples button").first).to_be_visible()
    shown = [page.evaluate(_BRIEF, {"value": value}) for value in _ALIKE]
    assert len({*shown}) == len(_ALIKE), sorted(shown)
    drawn = [page.evaluate(_DRAWN, value) for value in _ALIKE]
    assert len({*drawn}) == len(_ALIKE), sorted(drawn)


def test_a_file_stays_with_the_conversation_that_it_was_chosen_in(offline: Service, visit: Visit) -> None:
    """Its upload ends when another conversation is shown."""
    for session in ("one", "other"):
        offline.api.post("/api/chat", json={"session_id": session, "message": "hello", "origin": "page"})
    page = visit(offline, "#/s/one")
    expect(page.locator(".turn-actions")).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/attachments?*", hold)
    page.locator("input[type=file]").set_input_files({"name": "n.txt", "mimeType": "", "buffer": b"seventeen"})
    page.goto(f"{offline.url}/#/s/other")
    expect(page.locator(".session a[aria-current]")).to_have_attribute("href", "#/s/other")
    expect(page.locator(".turn-actions")).to_be_visible()
    with page.expect_response("**/api/attachments?*"):
        held[0].continue_()
    expect(page.locator(".composer .attachments")).to_have_count(0)
    page.goto(f"{offline.url}/#/s/one")
    expect(page.get_by_role("button", name="Remove n.txt")).to_be_visible()
    page.goto(f"{offline.url}/#/s/other")
    expect(page.get_by_role("button", name="Remove n.txt")).to_have_count(0)


def test_an_image_that_the_model_does_not_accept_is_refused_when_it_is_attached(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    expect(page.get_by_role("button", name="Agent: ")).to_be_enabled()
    page.locator("textarea").fill("what is this?")
    picture = {"name": "dot.gif", "mimeType": "image/gif", "buffer": b64decode(PICTURE.partition(",")[2])}
    page.locator("input[type=file]").set_input_files(picture)
    expect(page.locator(".toast")).to_contain_text("does not accept images: leave out dot.gif")
    expect(page.locator(".composer .attachments")).to_have_count(0)
    expect(page.locator("textarea")).to_have_value("what is this?")


def test_a_file_is_uploaded_and_a_chart_drawn(offline: Service, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("region,amount\n" + "".join(f"{name},{n}\n" for n, name in enumerate("北东南西" * 5)), "utf-8")
    page = visit(offline)
    page.get_by_role("button", name="Agent: ").click()
    page.get_by_role("menuitemradio", name=re.compile("^data")).click()
    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_role("button", name="Remove orders.csv")).to_be_visible()
    say(page, "draw a bar chart of amount by region")
    expect(page.get_by_role("img", name="Chart of orders.csv")).to_be_visible()
    wait_until(lambda: page.locator("canvas").evaluate("canvas => canvas.width") > 300)


_PASTE = """async field => {
  const canvas = new OffscreenCanvas(40, 30);
  canvas.getContext("2d").fillRect(0, 0, 40, 30);
  const clipboardData = new DataTransfer();
  clipboardData.items.add(new File([await canvas.convertToBlob()], "dot.png", { type: "image/png" }));
  field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
}"""


def test_a_pasted_image_is_a_thumbnail_of_its_message(keyed: Service, visit: Visit) -> None:
    page = visit(keyed)
    give_key(page, KEY)
    page.get_by_role("textbox", name="Message").evaluate(_PASTE)
    expect(page.get_by_role("button", name="Remove dot.png")).to_be_visible()
    page.locator("input[type=file]").set_input_files({"name": "n.txt", "mimeType": "", "buffer": b"seventeen"})
    expect(page.get_by_role("button", name="Remove n.txt")).to_be_visible()
    say(page, "what is 6 * 7")
    expect(page.locator(".answer")).to_contain_text("42")
    expect(page.locator(".composer .attachments")).to_have_count(0)
    page.reload()
    expect(page.locator(".said .attachments")).to_contain_text("n.txt")
    thumbnail = page.get_by_role("img", name="dot.png")
    wait_until(lambda: thumbnail.evaluate("canvas => [canvas.width, canvas.height]") == [40, 30])


def test_a_service_with_a_key_asks_for_it(keyed: Service, visit: Visit) -> None:
    page = visit(keyed)
    late: list[Route] = []
    page.route("**/api/agents", lambda route: late.append(route) if is_wrong(route) else route.continue_())
    give_key(page, "wrong")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("This key is not valid")
    give_key(page, KEY)
    expect(page.get_by_role("dialog")).to_have_count(0)
    with page.expect_response("**/api/agents"):
        late[0].continue_()  # a refusal of the key before
    say(page, "what is 6 * 7")
    expect(page.locator(".answer")).to_contain_text("42")


def is_wrong(route: Route) -> bool:
    return "wrong" in route.request.headers.get("authorization", "")


_COUNT = """() => {
  window.added = 0;
  const count = (node) => node.querySelectorAll?.('li').length + node.matches?.('li') || 0;
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) window.added += count(node);
  }).observe(document.body, { childList: true, subtree: true });
}"""


def test_a_long_answer_is_drawn_once_as_it_streams(service: Service, visit: Visit) -> None:
    page = visit(service)
    browser = page.context.browser
    assert browser
    page.evaluate(_COUNT)
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline", "__metadata"])
    say(page, "ten thousand characters", mode="Direct")
    expect(page.get_by_role("button", name="Copy the answer")).to_be_visible()
    longest = longest_task(json.loads(browser.stop_tracing()))
    expect(page.locator(".answer li")).to_have_count(500)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    added = page.evaluate("added")
    streamed = {"longest_task_ms": longest, "items_drawn": added}
    (SCREENSHOTS / "streamed.json").write_text(json.dumps(streamed), encoding="utf-8")
    assert added < 1500, "an item is drawn when it is new, and while it is the last one"


def longest_task(trace: Json) -> float:
    """Milliseconds of processor time that the longest task of a page's main thread took."""
    events = trace["traceEvents"]
    named = [event for event in events if event["name"] == "thread_name"]
    main = {(event["pid"], event["tid"]) for event in named if event["args"]["name"] == "CrRendererMain"}
    tasks = [event for event in events if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in main]
    return max((event.get("tdur", 0) / 1000 for event in tasks), default=0)


def test_a_conversation_that_fails_to_load_is_loaded_again(offline: Service, visit: Visit) -> None:
    page = visit(offline)
    say(page, "what is 6 * 7", mode="ReAct")
    expect(page.locator(".answer")).to_contain_text("42")
    page.route("**/tasks?html=true**", lambda route: route.abort())
    page.reload()
    failed = page.get_by_text("This conversation could not be loaded.")
    expect(failed).to_be_visible()
    expect(page.get_by_text("What can I do for you?")).to_have_count(0)
    expect(page.locator(".toast")).to_be_visible()
    page.locator("textarea").fill("a draft")
    page.get_by_role("button", name="Send").click(trial=True)  # no message covers it
    page.get_by_role("button", name="Try again").click()
    expect(failed).to_be_visible()
    page.unroute_all()
    expect(page.locator(".answer")).to_contain_text("42")
    expect(failed).to_have_count(0)
    wait_until(lambda: page.locator(".send svg").evaluate("icon => icon.getBBox().width") > 0)


def test_a_paused_answer_is_rendered(service: Service, model: Model, visit: Visit) -> None:
    page = visit(service)
    say(page, "wait for the pause")
    expect(page.locator(".answer")).to_contain_text(FIRST)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("Pausing").first).to_be_visible()
    model.go.set()
    expect(page.get_by_text("Paused. Finished work is kept.")).to_be_visible()
    page.reload()
    expect(page.locator(".answer .markdown")).to_contain_text(FIRST + REST)
