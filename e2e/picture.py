"""The animated picture of the page while its service is killed: `python -m e2e.picture` draws it anew."""

import base64
import io
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.loopback import Item, Json, LoopbackServer, ToolCalls
from tests.loopback_wire import Wire

from .conftest import BROWSERS, FLAGS
from .serving import SECONDS, Service
from .test_page import task_of

PICTURE = Path(__file__).parents[1] / "docs" / "killed.webp"
MOST_BYTES = 400_000
WIDTH, HEIGHT, SHARPNESS = 830, 620, 1.5
AGENTS = """
[[agent]]
agent_id = "support"
model = "openai:scripted"
base_url = "{base_url}"
api_key = "unused"
protocol = "native"
mode = "react"
tools = ["shop_tools:look_up_order"]
"""
TOOLS = '''
import segue


@segue.tool(read_only=True)
def look_up_order(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} is packed."
'''
ORDERS = (17, 18, 19)
MESSAGE = "Where are my orders 17, 18 and 19?"
ANSWER = """Two of your three orders are on their way:

- **Order 17**, a desk lamp, was shipped on Monday and should arrive tomorrow.
- **Order 18**, two chairs, is packed. It leaves today, so expect it on Thursday.
- **Order 19**, a bookshelf, was delivered to your neighbour.

If the bookshelf is not there, tell me, and I will ask the carrier."""
PARTS = 10
"""Pieces of the answer; each is a frame."""
KILLED_AFTER = 5
SHOWN = "document.querySelector('.answer')?.innerText ?? ''"
"""The text of the answer on the page."""
START = "$ segue serve --agents agents.toml"
DESK = """<style>
  body {{ margin: 0; width: {width}px; background: #fff; }}
  img {{ display: block; width: 100%; }}
  pre {{
    margin: 0; padding: 10px 16px; height: 66px; border-top: 1px solid #d8d8d3; background: #f4f4f1;
    font: 15px/22px monospace; color: #222;
  }}
  b {{ color: #a3261b; }}
</style><img src="data:image/png;base64,{shot}"><pre>{terminal}</pre>"""


@dataclass
class Endpoint:
    """A model that looks the orders up, and then writes its answer as far as it may."""

    parts: int = 0

    def reply(self, request: Json) -> Item:
        if "is packed" in str(request["messages"]):
            return self
        return ToolCalls([(f"call_{order}", "look_up_order", f'{{"order_id": {order}}}') for order in ORDERS])

    def play(self, wire: Wire) -> None:
        wire.begin()
        for number in range(1, PARTS + 1):
            wire.wait(partial(self._may_write, number), SECONDS)
            wire.delta({"content": ANSWER[len(ANSWER) * (number - 1) // PARTS : len(ANSWER) * number // PARTS]})
        wire.finish("stop")

    def _may_write(self, part: int) -> bool:
        return self.parts >= part


@dataclass
class Film:
    """Frames of the page above the terminal of its service, and for how many milliseconds each is shown."""

    page: Page
    desk: Page
    frames: list[Image.Image] = field(default_factory=list)
    milliseconds: list[int] = field(default_factory=list)

    def take(self, milliseconds: int, terminal: str) -> None:
        shot = base64.b64encode(self.page.screenshot()).decode()
        self.desk.set_content(DESK.format(width=WIDTH, shot=shot, terminal=terminal))
        self.frames.append(Image.open(io.BytesIO(self.desk.screenshot(full_page=True))).convert("RGB"))
        self.milliseconds.append(milliseconds)

    def save(self) -> None:
        first, *rest = self.frames
        made = io.BytesIO()
        first.save(made, "WEBP", save_all=True, append_images=rest, duration=self.milliseconds, quality=70, method=4)
        assert made.tell() < MOST_BYTES, f"The picture has {made.tell()} bytes: take fewer PARTS."
        PICTURE.write_bytes(made.getvalue())


def write(film: Film, endpoint: Endpoint, parts: int, terminal: str) -> None:
    """Have the model write this many parts, and take a frame once the page shows each."""
    for _ in range(parts):
        before = film.page.evaluate(SHOWN)
        endpoint.parts += 1
        film.page.wait_for_function(f"before => ({SHOWN}) !== before", arg=before)
        film.take(450, terminal)


def play(film: Film, service: Service, endpoint: Endpoint) -> None:
    page = film.page
    page.goto(service.url)
    message = page.get_by_role("textbox", name="Message", exact=True)
    message.fill(MESSAGE)
    film.take(1500, START)
    message.press("Enter")
    write(film, endpoint, KILLED_AFTER, START)
    page.wait_for_timeout(3000)  # what the page loads when it is needed
    service.stop(signal.SIGKILL)
    expect(page.get_by_text("Reconnecting").first).to_be_visible()
    film.take(3000, killed := f"{START}\n<b>Killed</b>")
    endpoint.parts = 0
    again = f"{killed}\n{START}"
    film.take(600, again)
    service.start()
    expect(page.get_by_text("Reconnecting")).to_have_count(0)
    write(film, endpoint, PARTS, again)
    expect(page.get_by_role("button", name="Copy").first).to_be_visible()
    film.take(5000, again)


def main() -> None:
    endpoint = Endpoint()
    path = next(path for path in map(shutil.which, BROWSERS) if path)
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackServer([endpoint.reply] * 10) as server,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=FLAGS) as browser,
    ):
        Path(folder, "shop_tools.py").write_text(TOOLS, encoding="utf-8")
        with Service(Path(folder), AGENTS.format(base_url=server.base_url)) as service:
            film = Film(*(sharp_page(browser) for _ in range(2)))
            play(film, service, endpoint)
            task_id = task_of(film.page, service)
            assert service.answer(task_id) == ANSWER
            assert service.types(task_id).count("tool_result") == len(ORDERS)
    film.save()


def sharp_page(browser: Browser) -> Page:
    options = {"locale": "en-US", "color_scheme": "light", "reduced_motion": "reduce"}
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SHARPNESS, **options)
    page.set_default_timeout(SECONDS * 1000)
    return page


if __name__ == "__main__":
    main()
