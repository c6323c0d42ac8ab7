"""The page of backtests: run one, read what would go differently, stop one."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from tests.fakes import answer, call_tool
from tests.loopback import Gate, Item, Json, LoopbackServer, Text

from .conftest import Visit
from .serving import Service
from .test_page_looks import check

AGENTS = """
[[agent]]
agent_id = "shop"
prompt = "Be careful."
model = "openai:shop"
base_url = "{base_url}"
api_key = "unused"
mode = "react"
tools = ["shop_tools:refund", "shop_tools:lookup"]
"""
TOOLS = '''
import segue


@segue.tool
def refund(order_id: int, amount: float, reason: str = "late") -> str:
    """Pay money back."""
    return f"refunded {amount} for order {order_id}"


@segue.tool(read_only=True)
def lookup(order_id: int) -> str:
    """Look up an order."""
    return f"order {order_id} is late"
'''
MESSAGES = {
    "refund": "Please refund order 17, it has not arrived",
    "cancel": "Cancel order 18 and pay me back",
    "delivery": "How long does the delivery of order 19 take?",
    "where": "Where is order 20?",
    "colours": "Which colours are there?",
}


@dataclass
class Shop:
    """The shop's model: with another prompt it refunds too much, forgets a refund, and looks nothing up."""

    go: threading.Event = field(default_factory=threading.Event)

    def reply(self, request: Json) -> Item:
        said = "\n".join(str(message["content"]) for message in request["messages"])
        if "slow" in said:
            return Gate("", "late", self.go)
        careless, asked = "careless" in said, {name for name, message in MESSAGES.items() if message in said}
        looked_up, refunded = "is late" in said, "refunded" in said
        if "refund" in asked and not refunded:
            return Text(call_tool(("refund", {"order_id": 17, "amount": 205.0 if careless else 20.5})))
        if "cancel" in asked and not refunded and not careless:
            return Text(call_tool(("refund", {"order_id": 18, "amount": 12.0})))
        if asked & {"delivery", "where"} and not looked_up and not (careless and "delivery" in asked):
            return Text(call_tool(("lookup", {"order_id": 19 if "delivery" in asked else 20})))
        if "colours" in asked:
            return Text(answer("Red and blue."))
        return Text(answer("It is on its way." if careless else "It is late, we are sorry. You will hear from us."))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A shop with five recorded conversations."""
    folder, model = tmp_path_factory.mktemp("shop"), Shop()
    (folder / "backtests").mkdir()
    (folder / "shop_tools.py").write_text(TOOLS, encoding="utf-8")
    with LoopbackServer([model.reply] * 200) as endpoint:
        try:
            agents = AGENTS.format(base_url=endpoint.base_url)
            with Service(folder, agents, SEGUE_BACKTESTS="backtests") as service:
                for session, message in MESSAGES.items():
                    body = {"session_id": session, "message": message}
                    assert '"status":"done"' in service.api.post("/api/chat", json=body).text
                yield service
        finally:
            model.go.set()


def start(page: Page, name: str, prompt: str) -> None:
    page.get_by_role("button", name="Run a backtest").click()
    form = page.get_by_role("form", name="Run a backtest")
    form.get_by_label("Name").fill(name)
    form.get_by_label("New prompt").fill(prompt)
    form.get_by_role("button", name="Run", exact=True).click()


def test_a_changed_prompt_shows_what_would_go_differently(shop: Service, visit: Visit) -> None:
    page = visit(shop, "#/backtests")
    start(page, "careless", "Be careless.")
    expect(page.locator(".verdict")).to_have_text(
        "Out of 5 recorded tasks, 2 would have different effects, 1 would look up or ask something different, "
        "1 would only be worded differently, 1 would stay the same."
    )
    expect(page.locator(".verdicts dd")).to_have_text(["1", "1", "1", "2", "0"])
    refund = page.locator(".differing li", has_text=MESSAGES["refund"])
    expect(refund).to_contain_text("Changed effect: refund")
    expect(refund.locator("mark")).to_have_text(["20.5", "205"])
    dropped = page.locator(".differing li", has_text=MESSAGES["cancel"])
    expect(dropped.locator(".both section").nth(1)).to_contain_text("Nothing")
    check(page, "backtest")
    refund.get_by_role("link").click()
    expect(page.locator(".conversation, main").first).to_contain_text(MESSAGES["refund"])
    expect(page).to_have_url(re.compile("#/[st]/"))


def test_a_confirmation_says_first_what_it_may_cost(shop: Service, visit: Visit) -> None:
    page, name = visit(shop, "#/backtests"), f"confirmed-{uuid4().hex[:6]}"
    page.get_by_role("button", name="Run a backtest").click()
    form = page.get_by_role("form", name="Run a backtest")
    form.get_by_label("Name").fill(name)
    form.get_by_label("New prompt").fill("Be careless.")
    form.get_by_label("Answer differing tasks five more times").check()
    form.get_by_role("button", name="Show the cost").click()
    expect(form.get_by_role("status")).to_contain_text("This answers 5 turns, with a confirmation up to 55.")
    form.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".verdict")).to_be_visible()
    assert shop.api.get(f"/api/backtests/{name}").json()["report"]["confirmation"]["groups"]


def test_a_backtest_is_stopped(shop: Service, visit: Visit) -> None:
    page, name = visit(shop, "#/backtests"), f"slow-{uuid4().hex[:6]}"
    start(page, name, "Be slow.")
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped after 0 of 5 tasks. There is no report.")).to_be_visible()
    page.get_by_role("link", name="All backtests").click()
    expect(page.locator(".batches li", has_text=name)).to_contain_text("Stopped after 0 of 5 tasks.")


def test_the_report_fits_a_phone_in_the_dark_and_in_chinese(shop: Service, visit: Visit) -> None:
    page = visit(shop, "#/backtests")
    if not shop.api.get("/api/backtests/careless").is_success:
        start(page, "careless", "Be careless.")
        expect(page.locator(".verdict")).to_be_visible()
    size = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "locale": "zh-CN"}
    page = visit(shop, "#/backtests", **size)
    page.get_by_role("link", name="careless").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_contain_text("2 个会造成不同的改动")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    edges = page.locator(".differing *").evaluate_all("found => found.map(e => e.getBoundingClientRect().right)")
    assert max(edges) <= 390
    check(page, "backtest-phone")
    page.get_by_role("link", name=MESSAGES["refund"]).click()
    expect(page.get_by_role("heading", name=MESSAGES["refund"]).first).to_be_visible()
