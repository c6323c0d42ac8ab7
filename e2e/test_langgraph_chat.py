"""The chat page of the guide to LangGraph's server API, built with `useStream`, on another origin than the service."""

import functools
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.node import command
from tests.reference.blocks import blocks_of

from .conftest import Visit
from .serving import Service

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs/guides/langgraph-server.md"
DOCUMENT = (
    '<!doctype html><html lang="en"><title>Chat</title><div id="root"></div><script src="chat.js"></script></html>'
)
LAST = "is it not?"
"""How each answer ends."""


class _Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A site of files, and its folder."""
    folder = tmp_path_factory.mktemp("page")
    handler = functools.partial(_Files, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, origin: tuple[str, Path]) -> Iterator[Service]:
    """Serves the graph to the pages of the origin."""
    folder = tmp_path_factory.mktemp("service")
    graphs = folder / "langgraph.json"
    graphs.write_text(json.dumps({"graphs": {"shop": f"{Path(__file__).with_name('chat_graph.py')}:graph"}}))
    with Service(folder, SEGUE_GRAPHS=str(graphs), SEGUE_CORS_ORIGINS=origin[0]) as started:
        (shown,) = (block.text for block in blocks_of(GUIDE) if block.title == "chat.tsx")
        sources = {"guide": shown, "channels": Path(__file__).with_name("chat_of_channels.tsx").read_text("utf-8")}
        for name, text in sources.items():
            place = origin[1] / name
            place.mkdir()
            (place / "chat.tsx").write_text(text.replace("http://127.0.0.1:8000", started.url), encoding="utf-8")
            (place / "index.html").write_text(DOCUMENT, encoding="utf-8")
            bundle = command(str(ROOT / "web/clients/bundle.mjs"), str(place / "chat.tsx"), str(place / "chat.js"))
            subprocess.run(bundle, check=True)
        yield started


@pytest.fixture(params=["guide", "channels"])
def page(service: Service, origin: tuple[str, Path], visit: Visit, request: pytest.FixtureRequest) -> Page:
    """The page of the guide, or the one with the protocol with channels."""
    opened = visit(service, "ok")
    opened.goto(f"{origin[0]}/{request.param}/")
    return opened


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def lines(page: Page) -> list[str]:
    return page.locator("p[data-type] > span").all_inner_texts()


def test_an_answer_is_streamed_and_goes_on_after_a_reload(page: Page) -> None:
    say(page, "hello")
    answer = page.locator("p[data-type=ai] > span")
    expect(answer).to_contain_text("You said hello")
    assert LAST not in answer.inner_text()
    page.reload()
    expect(answer).to_contain_text(LAST)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert lines(page) == ["hello", answer.inner_text()]


def test_a_question_is_answered_also_after_a_reload(page: Page) -> None:
    say(page, "refund it")
    question = page.get_by_role("alertdialog")
    expect(question).to_contain_text("Refund order 17?")
    page.reload()
    expect(question).to_contain_text("Refund order 17?")
    question.get_by_role("button", name="Yes").click()
    expect(page.locator("p[data-type=ai] > span")).to_have_text("Order 17 is refunded.")
    expect(question).to_have_count(0)


def test_a_message_that_is_edited_makes_a_branch(page: Page) -> None:
    say(page, "apples")
    answer = page.locator("p[data-type=ai] > span")
    expect(answer).to_contain_text(LAST)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.once("dialog", lambda dialog: dialog.accept("pears"))
    page.get_by_role("button", name="Edit").click()
    expect(answer).to_contain_text("You said pears")
    expect(answer).to_contain_text(LAST)
    assert lines(page)[0] == "pears" and len(lines(page)) == 2
    if "channels" in page.url:  # it has no branches to switch between
        return
    page.get_by_role("button", name="2 of 2").click()
    expect(answer).to_contain_text("You said apples")
    page.get_by_role("button", name="1 of 2").click()
    expect(answer).to_contain_text("You said pears")


def test_a_run_is_stopped(page: Page) -> None:
    say(page, "hello")
    expect(page.locator("p[data-type=ai] > span")).to_contain_text("You said")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    say(page, "again")
    expect(page.get_by_text("You said again")).to_contain_text(LAST)
