"""The situations of docs/guides/chat-clients.md in the real Open WebUI, which `make open-webui` installs."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.cases import cases
from tests.loopback import Item, LoopbackServer, Text, ToolCalls
from tests.ports import free_port

from .models import InPieces
from .serving import Service, environment, wait_until

OPEN_WEBUI = Path(__file__).parents[1] / ".venv-open-webui/bin/open-webui"
STARTING_SECONDS = 300.0
ANSWER_SECONDS = 90.0
SETTLED = 1_500
"""Milliseconds without a further request of the page after which an answer has ended."""
CALLS = 2_000
AGENTS = "".join(
    f"""
[[agent]]
agent_id = "{name}"
model = "openai:scripted"
base_url = "{{base_url}}"
api_key = "unused"
protocol = "native"
tools = ["shop_tools:lookup", "shop_tools:slow_lookup", "shop_tools:note", "shop_tools:refund"]
accepts = {accepts}
budget = {{{{reply_chars = 64000}}}}
"""
    for name, accepts in (("support", "[]"), ("eyes", '["image"]'))
)
TOOLS = '''
import time
from pathlib import Path

import segue


def leave(name: str, line: object) -> None:
    with Path(name).open("a", encoding="utf-8") as effects:
        effects.write(f"{line}\\n")


@segue.tool(read_only=True)
def lookup(order_id: int) -> str:
    """Look up an order."""
    return f"Order {order_id} was shipped."


@segue.tool(read_only=True)
def slow_lookup(order_id: int) -> str:
    """Look up an order in a slow system."""
    leave("begun", order_id)
    time.sleep(4)
    return f"Order {order_id} is slow."


@segue.tool
def note(text: str) -> str:
    """Write a note."""
    leave("notes", text)
    return f"Noted: {text}"


@segue.tool(needs_approval=True)
def refund(order_id: int) -> str:
    """Refund an order."""
    leave("refunds", order_id)
    return f"Order {order_id} is refunded."
'''
WORDS = " ".join(f"word{n}" for n in range(1, 241))
META = {"follow_ups": ["Where is it?"], "tags": ["shop"], "title": "Shop", "queries": []}
"""What Open WebUI asks for itself, and a model's answer."""


def reply(body: dict[str, Any]) -> Item:
    """Do what the person's last message names; say what is known of it otherwise."""
    messages = body["messages"]
    place = max(n for n, each in enumerate(messages) if each["role"] == "user" and not _is_state(each))
    said = re.sub(r"<(\w+)[^>]*>.*?</\1>", "", _text(messages[place]), flags=re.DOTALL)
    if "### Task" in said and not body.get("tools"):
        return Text(json.dumps({name: made for name, made in META.items() if f'"{name}"' in said} or META))
    results = [_text(each) for each in messages[place:] if each["role"] == "tool"]
    found = re.search(r"(look up|work|refund|long) (\d+)", said)
    kind, number = (found[1], int(found[2])) if found else ("", 0)
    if kind == "long":
        return InPieces(("Line. " * number)[: number - 7] + "THE END", 400)
    calls = {"look up": ["lookup"], "work": ["slow_lookup", "note"], "refund": ["refund"]}.get(kind, [])
    if len(results) < len(calls):
        name = calls[len(results)]
        arguments = {"text": f"order {number}"} if name == "note" else {"order_id": number}
        return ToolCalls([(f"call_{place}_{len(results)}", name, json.dumps(arguments))], "I do that. ")
    if "slow" in said:
        return InPieces(f"{WORDS} THE END", 9, 0.1)
    images = sum(part.get("type") == "image_url" for each in messages for part in _parts(each))
    known = [_text(each) for each in messages if each["role"] == "tool"]
    return Text(f"I know {known}, and see {images} images.")


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _text(message: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in _parts(message))


def _is_state(message: dict[str, Any]) -> bool:
    return _text(message).startswith("# Current state")


class Shop(Service):
    """The service, what its tools did, and what its model was asked."""

    def __init__(self, folder: Path, model: LoopbackServer) -> None:
        (folder / "shop_tools.py").write_text(TOOLS, encoding="utf-8")
        super().__init__(folder, AGENTS.format(base_url=model.base_url))
        self.folder, self.model = folder, model

    def effects(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def sessions(self) -> dict[str, str]:
        """The status of each session."""
        found = self.api.get("/api/sessions", params={"limit": 200}).json()["items"]
        return {each["session_id"]: each["status"] for each in found}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with (
        LoopbackServer([reply] * CALLS) as model,
        Shop(tmp_path_factory.mktemp("shop"), model) as shop,
    ):
        yield shop


@pytest.fixture(scope="module")
def webui(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Open WebUI with the settings of the guide."""
    assert OPEN_WEBUI.exists(), "There is no Open WebUI: run make open-webui, which installs it."
    folder, port = tmp_path_factory.mktemp("webui"), free_port()
    settings = {
        **{"WEBUI_AUTH": "False", "ENABLE_OLLAMA_API": "False", "ENABLE_FORWARD_USER_INFO_HEADERS": "true"},
        **{"OPENAI_API_BASE_URL": f"{shop.url}/v1", "OPENAI_API_KEY": "none", "AIOHTTP_CLIENT_TIMEOUT": "600"},
        **{"BYPASS_EMBEDDING_AND_RETRIEVAL": "True", "HF_HUB_OFFLINE": "1", "DATA_DIR": str(folder)},
        **{"WEBUI_SECRET_KEY": "unused", "HOME": str(folder)},
    }
    command = [str(OPEN_WEBUI), "serve", "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environment(), **settings}, stdout=log, stderr=log
        )

    def is_ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
        try:
            return httpx.get(f"{url}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(is_ready, STARTING_SECONDS)
        yield url
    finally:
        process.kill()
        process.wait()


class Chat:
    """A chat as a person has it in the browser, with what became of it in the service."""

    def __init__(self, page: Page, url: str, shop: Shop) -> None:
        self.page, self._url, self._shop = page, url, shop
        self._sessions = set(shop.sessions())

    def new(self, models: str = "support") -> "Chat":
        self.page.goto(f"{self._url}/?models={models}")
        self.page.locator("#chat-input").wait_for()
        self.page.wait_for_timeout(SETTLED)
        if (news := self.page.get_by_role("button", name="Okay, Let's Go!")).is_visible():
            news.click()
        return self

    def say(self, text: str) -> str:
        """Send a message, and return the end of the answer."""
        self.send(text)
        return self.wait()

    def send(self, text: str) -> None:
        self.page.locator("#chat-input").click()
        self.page.keyboard.insert_text(text)
        self.page.wait_for_timeout(300)
        self.page.keyboard.press("Enter")
        self.page.wait_for_timeout(700)

    def wait(self) -> str:
        def has_ended() -> bool:
            if not self.stop_button.count():
                self.page.wait_for_timeout(SETTLED)
            return not self.stop_button.count()

        wait_until(has_ended, ANSWER_SECONDS)
        return self.last

    @property
    def stop_button(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def answers(self) -> list[str]:
        return [each.inner_text() for each in self.page.locator("#response-content-container").all()]

    @property
    def last(self) -> str:
        return self.answers[-1]

    @property
    def sessions(self) -> dict[str, str]:
        """The sessions that were left since the test began."""
        return {name: status for name, status in self._shop.sessions().items() if name not in self._sessions}

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).last.click(force=True)
        self.page.wait_for_timeout(700)

    def stop(self) -> None:
        self.press("Stop")
        self.page.wait_for_timeout(SETTLED)

    def resume(self) -> str:
        self.press("Continue Response")
        return self.wait()

    def regenerate(self) -> str:
        self.press("Regenerate")
        if (again := self.page.get_by_text("Try Again", exact=True)).count():
            again.first.click()
        self.page.wait_for_timeout(700)
        return self.wait()

    def edit(self, place: int, text: str) -> str:
        """Edit one of the person's messages, and send it."""
        message = self.page.locator(".user-message").nth(place)
        message.hover()
        message.locator("button.edit-user-message-button").click()
        self.page.locator("textarea[id^=message-edit-]").first.fill(text)
        self.page.get_by_role("button", name="Send", exact=True).first.click()
        self.page.wait_for_timeout(700)
        return self.wait()

    def attach(self, name: str, kind: str, content: bytes) -> None:
        file: Any = {"name": name, "mimeType": kind, "buffer": content}
        self.page.locator("input[type=file]").first.set_input_files(file)
        self.page.wait_for_timeout(2 * SETTLED)


@pytest.fixture
def chat(browser: Browser, webui: str, shop: Shop) -> Iterator[Chat]:
    with browser.new_context(viewport={"width": 1280, "height": 1000}, locale="en-US") as context:
        context.set_default_timeout(20_000)
        yield Chat(context.new_page(), webui, shop).new()


def test_calls_and_titles(chat: Chat, shop: Shop) -> None:
    assert "Order 3 was shipped." in chat.say("look up 3")
    assert "Order 4 was shipped." in chat.say("look up 4")
    wait_until(lambda: sum("### Task" in str(each.body) for each in shop.model.requests) >= 3)
    chat.page.wait_for_timeout(SETTLED)
    assert [*chat.sessions.values()] == ["done"]


@cases("word", ["Yes, please do it", "go ahead", "👍", "好的，请继续"])
def test_a_word_approves(chat: Chat, shop: Shop, word: str) -> None:
    before = shop.effects("refunds")
    chat.say("refund 7")
    assert "Order 7 is refunded." in chat.say(word)
    assert shop.effects("refunds") == [*before, "7"]
    assert len(chat.sessions) == 1


def test_other_words_ask_again_or_reject(chat: Chat, shop: Shop) -> None:
    before = shop.effects("refunds")
    chat.say("refund 8")
    for undecided in ("how much is it?", "yes, but only 10"):
        assert "refund" in chat.say(undecided)
        assert [*chat.sessions.values()] == ["waiting"]
    chat.say("No, don't do that")
    assert [*chat.sessions.values()] == ["done"]
    assert shop.effects("refunds") == before


def test_stop(chat: Chat, shop: Shop) -> None:
    chat.send("slow please")
    chat.page.wait_for_timeout(2_000)
    chat.stop()
    assert "THE END" not in chat.last
    before = shop.effects("notes")
    chat.send("work 11")
    wait_until(lambda: "11" in shop.effects("begun"))
    chat.stop()
    assert "Order 11 is slow." in chat.say("what do you know?")
    assert shop.effects("notes") == before
    assert len(chat.sessions) == 1


def test_regenerate(chat: Chat, shop: Shop) -> None:
    before = shop.effects("refunds")
    chat.say("look up 20")
    assert "Order 20 was shipped." in chat.regenerate()
    assert "refund" in chat.say("refund 21")
    assert "refund" in chat.regenerate()
    assert "Order 21 is refunded." in chat.say("yes")
    assert shop.effects("refunds") == [*before, "21"]


@cases("place", [0, 1])
def test_edit(chat: Chat, shop: Shop, place: int) -> None:
    before = shop.effects("refunds")
    if place:
        chat.say("hello")
    chat.say("refund 23")
    assert "Order 24 was shipped." in chat.edit(place, "look up 24")
    chat.say("yes")
    assert "waiting" not in chat.sessions.values()
    assert shop.effects("refunds") == before


def test_continue_response(chat: Chat) -> None:
    chat.send("slow please")
    chat.page.wait_for_timeout(2_500)
    chat.stop()
    whole = chat.resume()
    assert whole.count("word1 ") == 1
    assert whole.rstrip().endswith("THE END")
    assert "refund" in chat.say("refund 31")
    assert chat.resume().count("31") >= 1
    assert [*chat.sessions.values()] == ["waiting"]


def test_two_chats_with_the_same_first_message(chat: Chat, shop: Shop) -> None:
    before = shop.effects("refunds")
    chat.say("refund 33")
    chat.new().say("refund 33")
    assert "Order 33 is refunded." in chat.say("yes")
    assert sorted(chat.sessions.values()) == ["done", "waiting"]
    assert shop.effects("refunds") == [*before, "33"]


def test_two_models(chat: Chat, shop: Shop) -> None:
    before = shop.effects("refunds")
    chat.new("support,eyes").say("hello both")
    chat.say("refund 41")
    chat.say("yes")
    assert ["Order 41 is refunded." in each for each in chat.answers[-2:]] == [True, True]
    assert [*chat.sessions.values()] == ["done"] * 2
    assert shop.effects("refunds") == [*before, "41", "41"]


def test_a_file(chat: Chat, shop: Shop) -> None:
    before = shop.effects("refunds")
    chat.attach("terms.txt", "text/plain", b"Refunds need a person who says: approve.\n" * 20)
    chat.say("refund 42")
    assert [*chat.sessions.values()] == ["waiting"]
    assert "Order 42 is refunded." in chat.say("yes")
    assert shop.effects("refunds") == [*before, "42"]


IMAGE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)


@cases("agent, seen", [("eyes", 1), ("support", 0)])
def test_an_image(chat: Chat, agent: str, seen: int) -> None:
    chat.new(agent)
    chat.attach("red.png", "image/png", IMAGE)
    chat.send("look at this")
    chat.wait()
    assert f"see {seen} images" in chat.say("and now?")


def test_a_long_answer(chat: Chat) -> None:
    answer = chat.say("long 40000")
    assert len(answer) > 39_000
    assert answer.rstrip().endswith("THE END")
    cut = chat.say("long 90000")
    assert "THE END" not in cut
    assert len(cut) > 63_000
    assert len(chat.sessions) == 1


def test_a_stop_of_the_service(chat: Chat, shop: Shop) -> None:
    chat.send("slow please")
    chat.page.wait_for_timeout(2_500)
    shop.stop()
    begun = chat.wait()
    shop.start()
    rest = chat.say("continue")
    assert "THE END" not in begun
    assert rest.rstrip().endswith("THE END")
    assert len(chat.sessions) == 1


def test_a_killed_service(chat: Chat, shop: Shop) -> None:
    before = shop.effects("notes")
    chat.say("hello")
    chat.send("work 61")
    wait_until(lambda: "61" in shop.effects("begun"))
    shop.stop(signal.SIGKILL)
    chat.wait()
    shop.start()
    wait_until(lambda: shop.effects("notes") != before)
    assert "Noted: order 61" in chat.say("what do you know?")
    assert shop.effects("notes") == [*before, "order 61"]
    assert len(chat.sessions) == 1
