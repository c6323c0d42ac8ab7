"""Always allowing where values come from: on the page, over HTTP, and by `segue answer --flow`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.cli.process import begin
from tests.fakes import answer, call_tool
from tests.loopback import Item, Json, LoopbackServer, Text

from .conftest import Visit
from .serving import SECONDS, Service, environment, wait_until

AGENTS = """
[[agent]]
agent_id = "clerk"
model = "openai:m"
base_url = "{base_url}"
api_key = "unused"
mode = "react"
tools = ["mail_tools:read_mail", "mail_tools:read_page", "mail_tools:send_mail"]
"""
TOOLS = '''
import segue


@segue.tool(read_only=True)
def read_mail() -> list[dict[str, str]]:
    """Read the inbox."""
    return [{"sender": f"sender{number}@x.org"} for number in range(1, 4)]


@segue.tool(read_only=True, hidden=True)
def read_page() -> dict[str, str]:
    """Read a page: its contact."""
    return {"contact": "mallory@x.org"}


@segue.tool(approve="untrusted")
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"
'''
FLOW = 'send_mail flow {"to": ["tool read_mail"]}'


def clerk(request: Json) -> Item:
    """Answers the mail that the message names, or writes to the contact of the page, without seeing it."""
    said = "\n".join(str(message["content"]) for message in request["messages"])
    assert "mallory@x.org" not in said
    number = re.findall(r"answer mail (\d)", said)[-1:]
    to = f"sender{number[0]}@x.org" if number else None
    if f"sent to {to}" in said or ("write to the page" in said and said.count('"$ref') > 2):
        return Text(answer("Done."))
    if to:
        return Text(call_tool(("send_mail", {"to": to}) if "sender1@x.org" in said else ("read_mail", {})))
    found = re.findall(r"calls\.[^\s\"\\]+?\.result", said)
    sends = ("send_mail", {"to": {"$ref": f"{found[-1]}.contact"}}) if found else ("read_page", {})
    return Text(call_tool(sends))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Service]:
    """A service whose clerk reads mail, and writes where untrusted text says."""
    (tmp_path / "mail_tools.py").write_text(TOOLS, encoding="utf-8")
    with LoopbackServer([clerk] * 40) as endpoint, Service(tmp_path, AGENTS.format(base_url=endpoint.base_url)) as it:
        yield it


def say(page: Page, text: str) -> None:
    page.get_by_role("textbox").last.fill(text)
    page.keyboard.press("Enter")


def test_a_flow_is_allowed_by_a_button_and_covers_the_next_mail_only(desk: Service, visit: Visit) -> None:
    page = visit(desk)
    say(page, "answer mail 1")
    card = page.get_by_role("region", name="Approve this call?")
    expect(card).to_contain_text("from the result of read_mail in call 1, not from you")
    card.get_by_role("button", name="Always allow send_mail").click()
    page.get_by_role("menuitem", name="Allow in this session, if such values come from the same sources").click()
    expect(page.locator(".answer")).to_have_text("Done.")
    say(page, "answer mail 2")
    expect(page.locator(".answer").nth(1)).to_have_text("Done.")
    expect(page.locator(".answered")).to_have_count(1)


def test_what_the_model_does_not_see_is_shown_to_the_person(desk: Service, visit: Visit) -> None:
    page = visit(desk)
    say(page, "write to the page")
    card = page.get_by_role("region", name="Approve this call?")
    expect(card).to_contain_text("mallory@x.org")
    expect(card).to_contain_text("from the result of read_page in call 1, not from you")
    card.get_by_role("button", name="Approve").first.click()
    expect(page.locator(".answer")).to_have_text("Done.")
    page.reload()
    page.locator(".activity summary").first.click()
    page.locator(".call summary").first.click()
    expect(page.locator(".call").first).to_contain_text("Result, hidden from the model")
    expect(page.locator(".call").first).to_contain_text("mallory@x.org")


def test_a_flow_is_allowed_over_http_and_by_a_command(desk: Service, tmp_path: Path) -> None:
    asked = begun(desk, "one", "answer mail 1")
    verdict = {"index": 0, "verdict": "approve", "always": "session", "flow": True}
    given = desk.api.post(f"/api/tasks/{asked}/answer", json={"verdicts": [verdict]})
    assert given.is_success, given.text
    wait_until(lambda: desk.task(asked)["status"] == "done")
    again = begun(desk, "one", "answer mail 2")
    wait_until(lambda: desk.task(again)["status"] == "done")
    asked = begun(desk, "two", "answer mail 1")
    options = ("--always", "session", "--flow", "--agents", "agents.toml", "--db", "segue.db")
    command = begin(("answer", asked, *options), tmp_path, environment(), tmp_path / "answered")
    assert command.wait(SECONDS) == 0, (tmp_path / "answered").read_text(encoding="utf-8")
    again = begun(desk, "two", "answer mail 3")
    wait_until(lambda: desk.task(again)["status"] == "done")
    granted = desk.api.get("/api/permissions").json()["items"]
    assert [row["tool"] for row in granted] == [FLOW, FLOW]


def begun(desk: Service, session: str, message: str) -> str:
    """Send a message and wait until its task ends or asks; returns the task's id."""
    body = {"message": message, "session_id": session}
    with desk.api.stream("POST", "/api/chat", json=body) as response:
        response.read()
    tasks = desk.api.get(f"/api/sessions/{session}/tasks").json()["items"]
    return next(str(task["task_id"]) for task in tasks if task["message"] == message)
