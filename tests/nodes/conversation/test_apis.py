"""The API that sends HTTP requests."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, cast

import pytest

import segue
from segue import Agent
from segue.core.conversation import ConversationConfig, Participants, Role, Setting, Utterance
from segue.core.errors import ConfigurationError
from segue.nodes.participant_apis import HttpAPI
from segue.testing.rehearsal import converse
from tests.cases import cases
from tests.rehearsal.participants import Does, calls, says

ANY: dict[str, Any] = {"type": "object"}
SERVICES = cast(Any, SimpleNamespace(participants=Participants()))


class Backend(BaseHTTPRequestHandler):
    """Says what it was asked; /elsewhere redirects, /orders does not know anything."""

    def do_GET(self) -> None:
        self._answer(302 if self.path.startswith("/elsewhere") else 200, {"path": self.path})

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer(404, {"sent": sent})

    def _answer(self, status: int, form: Any) -> None:
        body = json.dumps(form).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", "http://elsewhere.invalid/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def place() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Backend) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


async def results(api: dict[str, Any], allowed: str, /, **arguments: Any) -> tuple[Utterance, ...]:
    """What one call of the API comes to."""
    async with segue.open(":memory:") as app:
        bot = Does(lambda c: says("ok") if c.actions else calls("it", **arguments))
        app.agents.participants.bots.register("own", lambda setting: bot)
        config = ConversationConfig(
            bot_mode="own",
            api_mode="request",
            apis=[{"name": "it", "parameters": ANY, **api}],
            allowed_hosts=[allowed],
            conversation_turn_limit=1,
        )
        return (await converse(app, config)).results


async def test_arguments_go_into_the_url_the_query_or_the_body(place: str) -> None:
    get = {"url": f"http://{place}/orders/{{id}}", "method": "get"}
    (got,) = await results(get, place, id="a/b", page=2)
    (posted,) = await results({"url": f"http://{place}/orders"}, "127.0.0.1", id="x")

    assert (got.status_code, got.data) == (200, {"path": "/orders/a%2Fb?page=2"})
    assert (posted.status_code, posted.data) == (404, {"sent": {"id": "x"}})


async def test_requests_go_to_allowed_hosts_only(place: str) -> None:
    (redirected,) = await results({"url": f"http://{place}/elsewhere", "method": "GET"}, place)

    assert redirected.status_code == 302
    for url in ("http://127.0.0.1:1/", f"http://{place}@evil.invalid/", "http://{host}/", "file:///etc/passwd", ""):
        config = ConversationConfig(apis=[{"name": "it", "url": url}], allowed_hosts=[place])
        with pytest.raises(ConfigurationError, match="allowed_hosts"):
            HttpAPI(Setting(role=Role.API, config=config, services=SERVICES, agent=Agent(agent_id="it")))


@cases(
    "value",
    ["..", ".", "../admin", "a/../../admin", "..\\admin", "%2e%2e", "%252E.", "..;x", "x/%2e%2e%2fadmin", "..?a"],
)
async def test_an_argument_that_leads_to_another_path_is_an_error_of_the_call(place: str, value: str) -> None:
    (failed,) = await results({"url": f"http://{place}/orders/{{id}}/items", "method": "GET"}, place, id=value)
    assert failed.status_code == 500
    assert re.search(r"the arguments put '\.\.?' into the URL, which changes its path", str(failed.data))


@cases("path", ["{a}{b}", "x{a}", "%2e{a}", "v1/{a};v=1"])
async def test_arguments_that_make_dots_together_are_refused_too(place: str, path: str) -> None:
    given = {"url": f"http://{place}/orders/{path}", "method": "GET"}
    (called,) = await results(given, place, a=".", b=".")
    assert called.status_code == (200 if path == "x{a}" else 500)


@pytest.mark.parametrize("given", [{}, {"id": ""}])
async def test_an_argument_of_the_path_is_needed(place: str, given: dict[str, str]) -> None:
    (failed,) = await results({"url": f"http://{place}/orders/{{id}}", "method": "DELETE"}, place, **given)
    assert failed.status_code == 500 and "the argument 'id' of the URL is empty" in str(failed.data)


async def test_dots_within_a_name_or_a_query_stay(place: str) -> None:
    get = {"url": f"http://{place}/orders/{{id}}?up=..", "method": "GET"}
    for value in ("a..b", "...", "1.5", "..a"):
        (got,) = await results(get, place, id=value, more="..")
        assert got.data["path"].startswith(f"/orders/{value}?")


@pytest.mark.parametrize("path", ["../x", "a/%2e%2e/x", "{id}/.."])
def test_a_configured_path_with_dots_is_refused(path: str) -> None:
    config = ConversationConfig(apis=[{"name": "it", "url": f"http://h.invalid/{path}"}], allowed_hosts=["h.invalid"])
    with pytest.raises(ConfigurationError, match=r"The URL of the API it has a segment '\.\.'"):
        HttpAPI(Setting(role=Role.API, config=config, services=SERVICES, agent=Agent(agent_id="it")))


async def test_a_host_that_does_not_answer_is_an_error_of_the_call() -> None:
    (failed,) = await results({"url": "http://127.0.0.1:9/"}, "127.0.0.1:9")

    assert failed.status_code == 500 and "Connect" in failed.data
