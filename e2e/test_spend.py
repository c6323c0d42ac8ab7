"""A limit of spending on the page: the question, the higher limit, and what is used."""

from pathlib import Path

from playwright.sync_api import expect

from tests.loopback import LoopbackServer, Text

from .conftest import Visit
from .serving import Service

AGENTS = """
[[agent]]
agent_id = "writer"
model = "openai:m"
base_url = "{base_url}"
api_key = "unused"
mode = "direct"
max_tokens = 100

[spend]
per_session_tokens = 20
"""


def test_a_limit_is_raised_by_a_button_and_listed_with_what_is_used(tmp_path: Path, visit: Visit) -> None:
    with (
        LoopbackServer([Text("It is done.")]) as endpoint,
        Service(tmp_path, AGENTS.format(base_url=endpoint.base_url)) as service,
    ):
        page = visit(service)
        page.get_by_role("textbox").last.fill("hello")
        page.keyboard.press("Enter")
        card = page.locator(".ask")
        expect(card).to_contain_text("The limit of this session is too low")
        card.get_by_role("button").first.click()
        expect(page.get_by_text("It is done.")).to_be_visible()
        page.get_by_role("link", name="Workspace").click()
        panel = page.get_by_role("region", name="Usage")
        expect(panel.locator(".limits")).to_contain_text("per_session_tokens")
        panel.get_by_role("combobox", name="By").select_option("User")
        expect(panel.get_by_role("row", name="default")).to_be_visible()
