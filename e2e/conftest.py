"""One browser and one offline service for all tests; a page of its own for each."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from .models import Model, scripted
from .serving import SECONDS, Service

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-software-rasterizer",
    "--in-process-gpu",
    "--disable-site-isolation-trials",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
Open = Callable[[Service], Page]
expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium with a profile and a home of its own that finds no other machine."""
    found = [path for path in map(shutil.which, BROWSERS) if path]
    assert found, "There is no Chromium on the PATH: run make e2e, which fetches it."
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=found[0], args=FLAGS, env=own) as browser,
    ):
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What one person's tabs share."""
    asked: list[str] = []
    with browser.new_context(bypass_csp=True) as context:  # what is not escaped would run
        context.add_init_script(path=Path(__file__).with_name("client.js"))
        context.set_default_timeout(SECONDS * 1000)
        context.on("request", lambda request: asked.append(request.url))
        yield context
    assert {urlsplit(url).hostname for url in asked} <= {"127.0.0.1"}


@pytest.fixture
def tab(context: BrowserContext) -> Open:
    """Opens a tab on a page of a service, where the client's requests are of the same origin."""

    def opened(service: Service) -> Page:
        page = context.new_page()
        page.goto(f"{service.url}/healthz")
        return page

    return opened


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens the web page of a service, each time in a browser of its own, which must report no error.

    Further arguments are those of a context: `viewport`, `locale`, `color_scheme`.
    """
    problems: list[str] = []
    asked: list[str] = []

    def opened(service: Service, address: str = "", **options: Any) -> Page:
        usual = {"viewport": {"width": 1280, "height": 860}, "locale": "en-US", "reduced_motion": "reduce"}
        context = browser.new_context(**{**usual, **options})
        context.set_default_timeout(SECONDS * 1000)
        context.on("request", lambda request: asked.append(request.url))
        context.on("console", lambda message: problems.append(message.text) if is_problem(message) else None)
        context.on("weberror", lambda error: problems.append(str(error.error)))
        page = context.new_page()
        page.goto(f"{service.url}/{address}")
        return page

    yield opened
    for context in browser.contexts:
        context.close()
    assert {urlsplit(url).hostname for url in asked} <= {"127.0.0.1"}
    assert not problems


def is_problem(message: ConsoleMessage) -> bool:
    """Whether the page complains; that a service is away, asks for a key or refuses an answer is not its fault."""
    return message.type in ("error", "warning") and not re.search(r"net::ERR_|status of (401|422|503)", message.text)


@pytest.fixture(scope="session")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the offline planner, as `segue serve` starts it."""
    with Service(tmp_path_factory.mktemp("offline")) as service:
        yield service


@pytest.fixture(scope="session")
def models() -> Model:
    return Model()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, models: Model) -> Iterator[Service]:
    """A service with an agent that is said what to say."""
    with scripted(tmp_path_factory.mktemp("scripted"), models) as service:
        yield service


@pytest.fixture
def model(models: Model) -> Iterator[Model]:
    """The agent's model, which waits until `go` is set."""
    models.go.clear()
    yield models
    models.go.set()
