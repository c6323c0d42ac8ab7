"""A call that needs two persons with a role, on the page: what each of them may answer, and who decided."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.fakes import answer, call_tool
from tests.loopback import LoopbackServer, Text

from .conftest import Visit
from .models import TOOLS
from .serving import Service
from .test_page import give_key

AGENTS = """
[[agent]]
agent_id = "shop"
model = "openai:m"
base_url = "{base_url}"
api_key = "unused"
mode = "react"
tools = ["shop_tools:refund"]
approvals = {{refund = 2}}
not_by_asker = ["refund"]

[approvals]
approvers = ["finance"]
"""
KEYS = {name: f"key-of-{name}-0123456789" for name in ("max", "ann", "bob")}


def test_two_persons_with_the_role_approve_what_somebody_else_asked_for(tmp_path: Path, visit: Visit) -> None:
    (tmp_path / "shop_tools.py").write_text(TOOLS)
    keys = ",".join(f"{name}@acme+finance:{key}" for name, key in KEYS.items())
    script = [Text(call_tool(("refund", {"order_id": 17, "amount": 20.5}))), Text(answer("It is paid."))]
    with (
        LoopbackServer(script) as endpoint,
        Service(tmp_path, AGENTS.format(base_url=endpoint.base_url), SEGUE_API_KEY=keys) as service,
    ):
        asker = visit(service)
        give_key(asker, KEYS["max"])
        asker.get_by_role("textbox", name="Message", exact=True).fill("please refund 17")
        asker.keyboard.press("Enter")
        card = asker.locator(".ask")
        expect(card).to_contain_text("was requested by max")
        expect(card.get_by_role("button", name="Approve")).to_have_count(0)
        address = asker.url.removeprefix(f"{service.url}/")
        ann = _opened(visit, service, address, "ann")
        expect(ann.locator(".ask").get_by_role("button", name="Approve")).to_be_visible()
        expect(ann.locator(".ask").get_by_role("button", name="Always allow")).to_have_count(0)
        ann.locator(".ask").get_by_role("button", name="Approve").first.click()
        expect(ann.locator(".ask")).to_contain_text("Approved by ann; one more person must approve.")
        expect(ann.locator(".ask")).to_contain_text("already approved by ann")
        bob = _opened(visit, service, address, "bob")
        expect(bob.locator(".ask")).to_contain_text("Approved by ann")
        bob.locator(".ask").get_by_role("button", name="Approve").first.click()
        expect(bob.get_by_text("It is paid.")).to_be_visible()
        expect(bob.locator(".answered")).to_contain_text("by ann")
        expect(bob.locator(".answered")).to_contain_text("bob")


def _opened(visit: Visit, service: Service, address: str, name: str) -> Page:
    page = visit(service, address)
    give_key(page, KEYS[name])
    return page
