"""The service inside another application: its lifespan, its users, and the paths below which it is."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from starlette.applications import Starlette
from starlette.routing import Mount

import segue
from segue import Agent
from segue.core.errors import ConfigurationError
from segue.server import ServerSettings
from segue.server.app import PAGE
from segue.server.asgi import EmbeddedService
from tests.fakes import ScriptedChatModel, answer

from .serving import Served


def _agents() -> list[Agent]:
    return [Agent(agent_id="shop", model=ScriptedChatModel(lambda _: answer("Hello.")))]


def _user(request: Request) -> str | tuple[str, set[str]] | None:
    name = request.headers.get("x-user", "")
    if name == "mallory":
        raise HTTPException(403, "Your account is closed.")
    return (name, {"finance"}) if name == "ann" else name or None


def _client(parent: object) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(parent)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"x-user": "ann"})


async def _ask(client: httpx.AsyncClient, at: str, session: str) -> str:
    response = await client.post(f"{at}/api/chat", json={"message": "hi", "session_id": session, "agent_id": "shop"})
    assert response.status_code == 200, response.text
    return response.text


def _mounted(service: EmbeddedService, lifespan: str) -> FastAPI | Starlette:
    """A parent that runs the service's lifespan as its own, inside its own, or not at all."""

    @asynccontextmanager
    async def own(_: object) -> AsyncIterator[None]:
        async with service.lifespan():
            yield

    parents = {"its": service.lifespan, "own": own, "none": None}
    if lifespan == "starlette":
        return Starlette(routes=[Mount("/agents", service)], lifespan=service.lifespan)
    parent = FastAPI(lifespan=parents[lifespan])
    parent.mount("/agents", service)
    return parent


@pytest.mark.parametrize("lifespan", ["its", "own", "none", "starlette"])
async def test_a_mounted_service_answers_with_any_lifespan(tmp_path: Path, lifespan: str) -> None:
    async with segue.open(tmp_path / "a.db", agents=_agents()) as app:
        parent = _mounted(segue.asgi(app, user=_user), lifespan)
        async with parent.router.lifespan_context(parent), _client(parent) as client:
            assert "Hello." in await _ask(client, "/agents", "s")
            assert (await client.get("/agents/api/sessions/s")).json()["title"] == "hi"
            assert (await client.get("/agents/healthz")).status_code == 200
            assert (await client.get("/api/sessions")).status_code == 404
        assert [thread.turns for thread in await app.sessions.list()] == [1]
    left = {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]
    assert not left & {"service", "auto-resume", "delete unstored"}


async def test_an_app_that_is_not_open_is_opened_and_closed_with_the_service(tmp_path: Path) -> None:
    service = segue.asgi(segue.open(tmp_path / "a.db", agents=_agents()), user=_user)
    for _ in range(2):
        parent = _mounted(service, "its")
        async with parent.router.lifespan_context(parent), _client(parent) as client:
            await _ask(client, "/agents", "s")
    async with segue.open(tmp_path / "a.db") as app:
        assert [thread.turns for thread in await app.sessions.list()] == [2]


async def test_each_user_has_sessions_and_roles_of_its_own_and_nobody_else_is_let_in(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "a.db", agents=_agents()) as app:
        parent = _mounted(segue.asgi(app, user=_user), "its")
        async with parent.router.lifespan_context(parent), _client(parent) as client:
            for user in ("ann", "bob@example.com", "bob@example.org"):
                client.headers["x-user"] = user
                await _ask(client, "/agents", "mine")
                listed = (await client.get("/agents/api/sessions")).json()["items"]
                assert [(row["session_id"], row["turns"]) for row in listed] == [("mine", 1)]
            for path in ("/api/sessions", "/v1/models", "/metrics", "/a2a/shop", "/mcp", "/ag-ui/shop"):
                assert (await client.get(f"/agents{path}", headers={"x-user": ""})).status_code == 401, path
            closed = await client.get("/agents/api/sessions", headers={"x-user": "mallory"})
            assert (closed.status_code, closed.json()["error"]["message"]) == (403, "Your account is closed.")
            foreign = {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}
            refused = await client.post("/agents/api/sessions", json={}, headers=foreign)
            assert refused.status_code == 403
        names = [thread.session_id for thread in await app.sessions.list()]
        assert "ann:mine" in names and len(names) == 3


async def test_without_users_and_keys_only_this_machine_is_answered(tmp_path: Path) -> None:
    async with segue.open(tmp_path / "a.db") as app:
        service = segue.asgi(app, settings=ServerSettings())
        for host, client, status in (
            ("localhost", "127.0.0.1", 200),
            ("localhost", "10.0.0.1", 421),
            ("x", "::1", 421),
        ):
            transport = httpx.ASGITransport(service, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as visitor:
                assert (await visitor.get("/api/sessions")).status_code == status


@pytest.mark.parametrize("path", ["/api", "agents", "/agents/", "/a b", "//x", "/../x?"])
def test_a_path_that_cannot_be_told_from_the_services_own_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be below"):
        ServerSettings(path=path)
    with pytest.raises(ConfigurationError, match=r"pass segue\.open"):
        segue.asgi("segue.db")  # type: ignore[arg-type]


def test_the_page_loads_below_a_path_whether_or_not_a_proxy_strips_it() -> None:
    with Served(settings=ServerSettings(path="/agents")) as served, served.client() as client:
        assert client.get("/agents").headers["location"] == "/agents/"
        for place in ("/agents/", "/agents/docs", "/agents/shared", "/", "/docs"):
            page = client.get(place)
            links = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
            assert page.status_code == 200 and links
            for link in links:
                assert client.get(urljoin(place, link)).status_code == 200, (place, link)
        for prefix in ("", "/agents"):
            card = client.get(f"{prefix}/.well-known/agent-card.json").json()
            assert card["supportedInterfaces"][0]["url"].startswith(f"{served.url}/agents/a2a/")
            assert client.get(f"{prefix}/api/sessions").status_code == 200


def test_no_module_of_the_page_has_an_absolute_address() -> None:
    for file in [*PAGE.rglob("*.js"), *PAGE.rglob("*.html")]:
        text = file.read_text(encoding="utf-8")
        if "vendor" not in file.parts:
            assert not re.search(r"""(?:src|href|fetch\(|import\()=?\s*["'`]/""", text), file


@pytest.mark.parametrize(
    ("mount", "path", "at", "servers"),
    [
        ("/agents", "", "/agents", [{"url": "/agents"}]),
        ("", "/ai", "/ai", [{"url": "/ai"}]),
        ("", "/ai", "", [{"url": "/ai"}]),
        ("/agents", "/ai", "/agents/ai", [{"url": "/agents/ai"}]),
        ("", "", "", None),
    ],
)
async def test_openapi_names_the_path_that_the_service_is_at(
    mount: str, path: str, at: str, servers: list[dict[str, str]] | None
) -> None:
    service = segue.asgi(segue.open(":memory:"), path=path, user=_user)
    parent = Starlette(routes=[Mount(mount or "/", service)])
    async with service.lifespan(), _client(parent) as client:
        schema = (await client.get(f"{at}/openapi.json")).json()
        assert schema.get("servers") == servers
        assert "/api/chat" in schema["paths"]
        assert (await client.get(f"{(servers or [{'url': ''}])[0]['url']}/api/sessions")).status_code == 200


@pytest.mark.parametrize("package", ["fastapi", "nh3"])
def test_without_the_extra_the_error_names_it(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None\nimport segue\nsegue.asgi(segue.open(':memory:'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtra: The service needs an extra: pip install 'segue[serve]'." in done.stderr


# The service with the extra `serve` alone: what needs another one is a sentence with the command.


CODE = """
import asyncio, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"a2a", "google", "cryptography", "mcp", "numpy", "matplotlib", "jinja2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())

import httpx, os, segue
from segue.server import create_app, from_environment

async def main():
    os.environ["SEGUE_REHEARSALS"] = sys.argv[1]
    application = create_app(":memory:", from_environment())
    async with application.router.lifespan_context(application):
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            for path in ("/a2a/travel", "/.well-known/agent-card.json", "/mcp"):
                response = await client.get(path)
                print(response.status_code, response.json()["error"]["message"])
            body = {"name": "b", "workflow": "travel_change", "n": 2}
            assert (await client.post("/api/rehearsals", json=body)).status_code == 202
            while (batch := (await client.get("/api/rehearsals/b")).json())["running"]:
                await asyncio.sleep(0.1)
            print(batch["ended"], sorted(batch["report"]))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_protocol_or_report_that_needs_an_extra_names_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("501 The A2A protocol needs an extra: pip install 'segue[a2a]'.") == 2
    assert "501 The MCP server needs an extra: pip install 'segue[mcp]'." in done.stdout
    assert "\n2 ['conversations', 'judge', 'missing', 'pass_hat', 'scenarios', 'summary']" in done.stdout
    assert "Traceback" not in done.stderr
