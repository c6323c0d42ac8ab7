"""What people write is data: no page that a browser can open on the service carries it out."""

import re

import pytest
from playwright.sync_api import Page

from .conftest import Open
from .serving import Service

INJECTION = '</pre></script><script>window.hit=1</script><img src=x onerror="window.hit=1"><svg onload=window.hit=1>'


def hit(page: Page, url: str) -> bool:
    """Open an address as a page; whether what was injected ran in it."""
    page.goto(url)
    page.wait_for_load_state("load")
    return bool(page.evaluate("Boolean(window.hit)"))


@pytest.fixture(scope="module")
def task_id(offline: Service) -> str:
    """A task whose message, session, user and answer hold a script."""
    body = {"message": f"echo {INJECTION}", "mode": "react", "session_id": "injected", "user_id": "injected"}
    with offline.api.stream("POST", "/api/chat", json=body) as response:
        assert "window.hit" in response.read().decode()
    found: str = response.headers["x-task-id"]
    return found


def test_a_script_in_a_message_does_not_run_in_any_page(offline: Service, tab: Open, task_id: str) -> None:
    page = tab(offline)
    page.goto("about:blank")
    page.set_content(INJECTION)
    assert page.evaluate("Boolean(window.hit)"), "it would run where it is taken for HTML"
    for path in (
        f"/api/tasks/{task_id}",
        f"/api/tasks/{task_id}/events",
        "/api/sessions",
        "/api/sessions/injected/history",
        "/api/agents/travel/tasks",
    ):
        assert "window.hit" in offline.api.get(path).text, path
        assert not hit(page, offline.url + path), path
    for path in ("/docs", "/redoc", "/openapi.json", "/#/s/injected", f"/{INJECTION}", f"/api/tasks/{INJECTION}"):
        assert not hit(page, offline.url + path), path


def test_no_answer_of_the_service_is_a_page_of_its_own_making(offline: Service, task_id: str) -> None:
    described = offline.api.get("/openapi.json").json()["paths"]
    for path in (path.replace("{task_id}", task_id) for path in described):
        kind = offline.api.get(re.sub(r"\{\w+\}", "injected", path)).headers["content-type"]
        assert kind.partition(";")[0] in ("application/json", "application/yaml", "text/event-stream", "text/plain"), (
            path
        )


def test_a_client_is_told_the_script_as_the_text_that_it_is(offline: Service, tab: Open) -> None:
    page = tab(offline)
    heard = page.evaluate("message => listen(message, 'react')", f"echo {INJECTION}")
    (started,) = [frame for frame in heard["frames"] if frame["type"] == "task_started"]
    assert started["message"] == f"echo {INJECTION}"
    assert not page.evaluate("Boolean(window.hit)")


def test_a_page_of_another_origin_is_refused(offline: Service, service: Service, tab: Open) -> None:
    sent = """async (url) => {
      try {
        const headers = { 'Content-Type': 'text/plain' };
        return (await fetch(`${url}/api/chat`, { method: 'POST', headers, body: '{"message":"hi"}' })).status;
      } catch (error) {
        return error.name;
      }
    }"""
    before = len(offline.api.get("/api/sessions?limit=500").json()["items"])
    assert tab(service).evaluate(sent, offline.url) == "TypeError"
    assert len(offline.api.get("/api/sessions?limit=500").json()["items"]) == before
