"""A conversation is shared as a link that shows it to whoever has it."""

import re

import pytest
from playwright.sync_api import expect

from .conftest import Visit
from .serving import Service
from .test_page_looks import check


@pytest.mark.parametrize(("width", "scheme", "locale"), [(1280, "light", "en-US"), (390, "dark", "zh-CN")])
def test_a_shared_conversation_is_read_and_revoked(
    service: Service, visit: Visit, width: int, scheme: str, locale: str
) -> None:
    look = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme, "locale": locale}
    name = f"{width}-{scheme}-{locale[:2]}"
    session = f"shared-{width}"
    body = {"message": f"A list of {width}:\n\n- *one*\n\n```py\nx = 1\n```", "session_id": session, "mode": "direct"}
    service.api.post("/api/chat", json=body).raise_for_status()
    page = visit(service, f"#/s/{session}", **look)
    page.get_by_role("button", name=re.compile("^(Share the conversation|共享对话)$")).click()
    page.get_by_role("combobox").select_option("24")
    page.get_by_role("button", name=re.compile("^(Create a link|创建链接)$")).click()
    link = page.get_by_role("textbox", name=re.compile("^(Link|链接)$")).input_value()
    expect(page.get_by_text(re.compile("works only on this machine|只能在这台机器上使用"))).to_be_visible()
    check(page, f"share-{name}")
    reader = visit(service, link.removeprefix(f"{service.url}/"), **look)
    expect(reader.locator(".said")).to_contain_text(f"A list of {width}")
    expect(reader.locator(".markdown em")).to_have_text("one")
    expect(reader.locator(".hljs-number")).to_have_text("1")
    expect(reader.get_by_role("textbox")).to_have_count(0)
    check(reader, f"shared-{name}")
    page.get_by_role("button", name=re.compile("^(Revoke|撤销)$")).click()
    expect(page.get_by_role("button", name=re.compile("^(Revoke|撤销)$"))).to_have_count(0)
    assert service.api.get(f"/api/shared/{link.partition('#')[2]}").status_code == 404
