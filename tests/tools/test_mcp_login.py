"""Logins at an MCP server: what asks for one, what is stored, and what refreshes it."""

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from typer.testing import CliRunner

import segue
from segue import Agent
from segue.cli.main import app as cli
from segue.core.agents import McpServer, OAuth
from segue.core.errors import LoginRequired, ToolServerUnavailable
from segue.tools.adapters.mcp_login import LoginFile, login
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.mcp_auth_server import GuardedShop
from tests.server.serving import ALPHA, KEYS, Served, ServerSettings

pytestmark = pytest.mark.slow
BUY = [call_tool(("stock", {"item": "tea"})), answer("Seven.")]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedShop]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with GuardedShop() as shop:
        yield shop


def clerk(shop: GuardedShop, **fields: object) -> Agent:
    server = McpServer.model_validate({"name": "shop", "url": shop.url} | fields)
    return Agent(agent_id="clerk", model=ScriptedChatModel([*BUY]), mode="react", mcp=[server])


async def log_in(server: McpServer) -> None:
    """As a person whose browser follows every redirect."""
    browsing: list[asyncio.Task[httpx2.Response]] = []
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        await login(server, lambda link: browsing.append(asyncio.create_task(browser.get(link))))
        (page,) = [await task for task in browsing]
    assert "close this window" in page.text


async def outcome(agent: Agent) -> object:
    """What the call of the shop's tool gave."""
    async with segue.open(":memory:", agents=[agent]) as app:
        result = await app.ask("How much tea?", agent="clerk")
        (call,) = (await app.trace(result["task_id"])).calls
    return call.outcome


async def test_a_login_is_asked_for_stored_for_the_user_alone_and_kept(shop: GuardedShop) -> None:
    agent = clerk(shop)
    async with segue.open(":memory:", agents=[agent]) as app:
        with pytest.raises(LoginRequired, match="run `segue mcp login shop`, then send"):
            await app.ask("How much tea?", agent="clerk")
        await log_in(agent.mcp[0])
        result = await app.ask("How much tea?", agent="clerk")
        assert result["answer"] == "Seven."
        exported = json.dumps(await app.sessions.export(result["session_id"]))
    path = LoginFile(agent.mcp[0]).path
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    (token,) = shop.issuer.access
    assert token in path.read_text() and token not in exported
    assert await outcome(clerk(shop)) == {"success": "7 tea"}
    assert len(shop.issuer.clients) == 1


async def test_an_expired_or_revoked_access_token_is_refreshed_and_the_new_refresh_token_kept(
    shop: GuardedShop,
) -> None:
    shop.issuer.seconds = 0
    agent = clerk(shop)
    await log_in(agent.mcp[0])
    assert await outcome(agent) == {"success": "7 tea"}
    shop.issuer.seconds = 3600
    assert await outcome(clerk(shop)) == {"success": "7 tea"}
    shop.issuer.access.clear()
    assert await outcome(clerk(shop)) == {"success": "7 tea"}
    assert len(shop.issuer.refresh) == 1


async def test_a_login_that_ends_during_a_task_is_the_calls_error(shop: GuardedShop) -> None:
    def lapse() -> str:
        """End every login."""
        shop.issuer.access.clear()
        shop.issuer.refresh.clear()
        return "ended"

    (server,) = clerk(shop).mcp
    await log_in(server)
    model = ScriptedChatModel([call_tool(("lapse", {})), *BUY])
    agent = Agent(agent_id="clerk", model=model, mode="react", mcp=[server], tools=[lapse])
    async with segue.open(":memory:", agents=[agent]) as app:
        result = await app.ask("How much tea?", agent="clerk")
        (_, call) = (await app.trace(result["task_id"])).calls
    assert "requires a login: run `segue mcp login shop`" in call.outcome["error"]
    await log_in(server)
    assert await outcome(clerk(shop)) == {"success": "7 tea"}


async def test_a_login_that_is_refused_or_answered_by_another_says_so(shop: GuardedShop) -> None:
    shop.issuer.denies = True
    with pytest.raises(ToolServerUnavailable, match="access_denied"):
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            await login(clerk(shop).mcp[0], lambda link: asyncio.ensure_future(browser.get(link)) and None)
    assert LoginFile(clerk(shop).mcp[0]).read().tokens is None


async def test_a_callback_without_the_state_of_the_login_ends_nothing(shop: GuardedShop) -> None:
    """A page of another site may send the browser to the callback's port."""

    async def browse(link: str) -> list[int]:
        async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            callback = httpx2.URL(link).params["redirect_uri"]
            forged = ({"error": "no"}, {"error": "no", "state": "y"}, {"code": "x", "state": "y"}, {"code": "x"})
            pages = [await browser.get(callback, params=params) for params in forged]
            return [page.status_code for page in (*pages, await browser.get(link))]

    browsing: list[asyncio.Task[list[int]]] = []
    await login(clerk(shop).mcp[0], lambda link: browsing.append(asyncio.create_task(browse(link))))
    assert [await task for task in browsing] == [[404, 404, 404, 404, 200]]
    assert LoginFile(clerk(shop).mcp[0]).read().tokens


async def test_changes_of_a_login_at_the_same_time_are_all_kept(shop: GuardedShop) -> None:
    fields: list[dict[str, Any]] = [{"url": "u"}, {"expires_at": 1.0}, {"challenge": (403, "x")}]
    (server,) = clerk(shop).mcp

    def change(own: dict[str, Any]) -> None:
        file = LoginFile(server)
        for _ in range(20):
            file.update(**own)

    for _ in range(5):
        file = LoginFile(server)
        file.remove()
        await asyncio.gather(*(asyncio.to_thread(change, own) for own in fields))
        stored = file.read()
        assert (stored.url, stored.expires_at, stored.challenge) == ("u", 1.0, (403, "x"))


async def test_a_server_with_its_own_key_is_never_logged_in_to(shop: GuardedShop) -> None:
    agent = clerk(shop, headers={"authorization": "Bearer wrong"})
    async with segue.open(":memory:", agents=[agent]) as app:
        with pytest.raises(ToolServerUnavailable) as caught:
            await app.ask("How much tea?", agent="clerk")
    assert not isinstance(caught.value, LoginRequired) and shop.issuer.clients == {}


def test_over_http_the_error_has_a_link_that_begins_a_login(shop: GuardedShop) -> None:
    with Served(agents=[clerk(shop)]) as served, served.client() as client:
        refused = client.post("/api/chat", json={"message": "How much tea?", "agent_id": "clerk"})
        link = f"{served.url}/mcp/login/shop"
        error = refused.json()["error"]
        assert (refused.status_code, error["type"]) == (502, "LoginRequired")
        assert error["message"] == (
            f"The MCP server 'shop' requires a login: open {link}, then send the message again."
        )
        assert "close this window" in httpx.get(link, follow_redirects=True, trust_env=False).text
        served.do(_finished(served))
        sent = client.post("/api/chat", json={"message": "How much tea?", "agent_id": "clerk"})
        assert "Seven." in sent.text
        assert client.get("/mcp/login/mall").status_code == 404


async def _finished(served: Served) -> None:
    await asyncio.gather(*(task for task, _ in served.service.logins.values()))


def test_another_sites_page_begins_no_login_and_one_that_is_under_way_ends_with_the_service(shop: GuardedShop) -> None:
    with Served(agents=[clerk(shop)]) as served, served.client() as client:
        for site in ("cross-site", "same-site"):
            assert client.get("/mcp/login/shop", headers={"Sec-Fetch-Site": site}).status_code == 403
        assert not served.service.logins
        links = {client.get("/mcp/login/shop").headers["location"] for _ in range(2)}
        assert len(links) == 1, "the second request joins the login of the first"
        ((task, _),) = served.service.logins.values()
    assert task.cancelled()


def test_a_service_with_keys_gives_no_link_and_begins_no_login(shop: GuardedShop) -> None:
    with (
        Served(settings=ServerSettings(keys=KEYS), agents=[clerk(shop)]) as served,
        served.client(headers=ALPHA) as client,
    ):
        refused = client.post("/api/chat", json={"message": "How much tea?", "agent_id": "clerk"})
        assert "ask the service's administrator to log in" in refused.json()["error"]["message"]
        assert client.get("/mcp/login/shop").status_code == 404


def test_the_commands_log_in_and_out(shop: GuardedShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(f'[[agent]]\nagent_id = "clerk"\n[[agent.mcp]]\nname = "shop"\nurl = "{shop.url}"\n')
    opened: list[str] = []

    def browse(link: str) -> None:
        opened.append(link)
        httpx.get(link, follow_redirects=True, trust_env=False)

    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["mcp", *words, "--agents", str(file)])
        return result.exit_code, result.output

    assert "no stored login" in run("logout", "shop")[1]
    code, said = run("login", "mall")
    assert (code, "use one of: shop" in said) == (2, True)
    monkeypatch.setattr("webbrowser.open", browse)
    code, said = run("login", "shop")
    assert (code, "You are logged in" in said) == (0, True)
    assert opened[0].startswith(shop.url.removesuffix("mcp")) and opened[0] in said
    assert LoginFile(clerk(shop).mcp[0]).read().tokens
    assert "was deleted" in run("logout", "shop")[1] and not LoginFile(clerk(shop).mcp[0]).path.exists()
    monkeypatch.setattr("segue.tools.adapters.mcp_login.PERSON_SECONDS", 0.5)
    code, said = run("login", "shop", "--no-browser")
    assert (code, "nobody logged in within 0.5 s" in said, len(opened)) == (1, True, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"client_secret": "s"}, "goes with a client_id"),
        ({"grant": "client_credentials", "client_id": "c"}, "needs a client_id, a client_secret and an issuer"),
        ({"client_metadata_url": "http://x/y"}, "client_metadata_url"),
    ],
)
def test_a_client_that_is_half_described_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OAuth.model_validate(fields)
