"""Logins at MCP servers over HTTP: OAuth 2.1, with the tokens in files of the user."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
from filelock import AsyncFileLock, FileLock
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import calculate_token_expiry
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, BaseModel, ValidationError

from segue.core.agents import McpServer
from segue.core.errors import Clause, ToolServerUnavailable

PERSON_SECONDS = 600.0
"""How long a person may take to log in."""
LOCK_SECONDS = 60.0
"""How long another process may take with a login's file."""
CALLBACK = "/callback"
_Flow = AsyncGenerator[httpx2.Request, httpx2.Response]
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "segue", "version": "1"},
    },
}


class Login(BaseModel):
    """What is stored of a login."""

    url: str
    client: OAuthClientInformationFull | None = None
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970; None if the server did not say."""
    authorization_server: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    challenge: tuple[int, str] | None = None
    """The status and the WWW-Authenticate header of the response that asked for a login."""


class LoginFile:
    """The login at one server, in a file that only the user can read. It is the SDK's token storage."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        digest = sha256(server.url.encode()).hexdigest()[:12]
        self.path = folder() / f"{server.name}-{digest}.json"

    def read(self) -> Login:
        """The stored login; an empty one if there is none, or if it cannot be read."""
        try:
            return Login.model_validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return Login(url=self.server.url)

    def write(self, login: Login) -> None:
        """Replace the file, whose folder is there."""
        handle, name = tempfile.mkstemp(dir=self.path.parent)  # readable by the user only
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(login.model_dump_json(exclude_none=True))
        os.replace(name, self.path)

    def remove(self) -> bool:
        """Delete the file, once nobody refreshes its tokens; False if there was none."""
        with FileLock(self._beside(".lock"), timeout=LOCK_SECONDS):
            found = self.path.exists()
            self.path.unlink(missing_ok=True)
        return found

    def update(self, **fields: object) -> None:
        """Change some fields; what others change at the same time stays."""
        with FileLock(self._beside(".update"), timeout=LOCK_SECONDS):
            self.write(self.read().model_copy(update=fields))

    def refreshing(self) -> AsyncFileLock:
        """Keep other processes from refreshing or deleting the same tokens."""
        return AsyncFileLock(self._beside(".lock"), timeout=LOCK_SECONDS)

    def _beside(self, suffix: str) -> Path:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.path.with_suffix(suffix)

    async def get_tokens(self) -> OAuthToken | None:
        return self.read().tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.update(tokens=tokens, expires_at=calculate_token_expiry(tokens.expires_in), challenge=None)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that is configured, else the one that was registered."""
        oauth = self.server.oauth
        if not oauth.client_id:
            return self.read().client
        secret = oauth.client_secret.get_secret_value() if oauth.client_secret else None
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=secret,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.update(client=client_info)


def folder() -> Path:
    """Where logins are stored, in the user's state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "segue", "mcp")


def auth_for(server: McpServer, on_login_needed: Callable[[], None]) -> httpx2.Auth | None:
    """How requests to the server are authorized; None where its headers do that."""
    if any(name.lower() == "authorization" for name in server.headers):
        return None
    oauth = server.oauth
    if oauth.grant == "client_credentials" and oauth.client_secret:
        return ClientCredentialsOAuthProvider(
            server.url,
            _Unstored(),
            oauth.client_id,
            oauth.client_secret.get_secret_value(),
            issuer=oauth.issuer,
        )
    return StoredLogin(server, on_login_needed)


class _Unstored:
    """Tokens that are requested again by each process."""

    async def get_tokens(self) -> None: ...

    async def set_tokens(self, tokens: OAuthToken) -> None: ...

    async def get_client_info(self) -> None: ...

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None: ...


def _metadata(port: int) -> OAuthClientMetadata:
    return OAuthClientMetadata(client_name="Segue", redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}{CALLBACK}")])


class _Provider(OAuthClientProvider):
    """The SDK's provider over a login file."""

    def __init__(self, file: LoginFile, metadata: OAuthClientMetadata) -> None:
        super().__init__(
            file.server.url, metadata, file, client_metadata_url=file.server.oauth.client_metadata_url or None
        )
        self._file = file

    async def _initialize(self) -> None:
        await super()._initialize()
        login, context = self._file.read(), self.context
        context.token_expiry_time = login.expires_at
        context.oauth_metadata, context.protected_resource_metadata = login.authorization_server, login.resource


class StoredLogin(_Provider):
    """Sends the stored tokens and refreshes them; where they do not suffice, it says that a person has to log in."""

    def __init__(self, server: McpServer, on_login_needed: Callable[[], None]) -> None:
        super().__init__(LoginFile(server), _metadata(0))
        self._on_login_needed = on_login_needed

    async def _auth_flow(self, request: httpx2.Request) -> _Flow:
        await self._initialize()  # another process may have logged in, refreshed or logged out
        refresh = not self.context.is_token_valid()
        while True:
            if refresh and self.context.can_refresh_token():
                async with self._file.refreshing():
                    used = self.context.current_tokens
                    await self._initialize()
                    if self.context.current_tokens == used:
                        await self._handle_refresh_response((yield await self._refresh_token()))
            self._add_auth_header(request)
            response = yield request
            if response.status_code != 401 or refresh or not self.context.can_refresh_token():
                break
            refresh = True
        lacking = response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"
        if response.status_code == 401 or lacking:
            self._file.update(challenge=(response.status_code, response.headers.get("WWW-Authenticate", "")))
            self._on_login_needed()


class _Authorization(_Provider):
    """Logs in again, whatever is stored."""

    async def _initialize(self) -> None:
        await super()._initialize()
        self.context.token_expiry_time = None  # the tokens only say which scopes were granted
        self._challenge = self._file.read().challenge

    async def _auth_flow(self, request: httpx2.Request) -> _Flow:
        flow = super()._auth_flow(request)
        try:
            await anext(flow)
            response = yield request
            if response.status_code != 401:
                status, header = self._challenge or (401, "")
                headers = {"WWW-Authenticate": header} if header else {}
                response = httpx2.Response(status, request=request, headers=headers)
            while True:
                response = yield await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


async def login(server: McpServer, show: Callable[[str], None]) -> None:
    """Log in to a server: `show` is given the link that a person opens, and the browser comes back to this process."""
    file = LoginFile(server)
    try:
        async with _Callback.listening(server.oauth.redirect_port or _registered_port(file)) as callback:
            provider = _Authorization(file, _metadata(callback.port))
            known = file.read().client
            if known and AnyUrl(callback.url) not in (known.redirect_uris or ()):
                file.update(client=None)

            async def redirect(link: str) -> None:
                callback.expect(link)
                show(link)

            provider.context.redirect_handler, provider.context.callback_handler = redirect, callback.result
            headers = {name: secret.get_secret_value() for name, secret in server.headers.items()}
            headers |= {"Accept": "application/json, text/event-stream"}
            timeout = httpx2.Timeout(30.0)
            async with (
                httpx2.AsyncClient(headers=headers, timeout=timeout, auth=provider) as http,
                asyncio.timeout(PERSON_SECONDS),
                http.stream("POST", server.url, json=_INITIALIZE) as response,
            ):
                if response.status_code in (401, 403):
                    raise _failed(server, f"the server refused the new token with HTTP {response.status_code}")
    except TimeoutError as error:
        raise _failed(server, f"nobody logged in within {PERSON_SECONDS:g} s") from error
    except (OAuthFlowError, httpx2.HTTPError, OSError, ValidationError) as error:
        raise _failed(server, str(error) or type(error).__name__) from error
    context = provider.context
    file.update(authorization_server=context.oauth_metadata, resource=context.protected_resource_metadata)


def _failed(server: McpServer, reason: str) -> ToolServerUnavailable:
    return ToolServerUnavailable(server.name, Clause("the login failed: {reason}", reason=reason.rstrip(".")))


def _registered_port(file: LoginFile) -> int:
    """The port that the registered client comes back to; 0 if there is none."""
    client = file.read().client
    return next((uri.port or 0 for uri in (client and client.redirect_uris) or ()), 0)


class _Callback:
    """Waits for the browser that comes back from the authorization server."""

    def __init__(self) -> None:
        self._results: dict[str, asyncio.Future[AuthorizationCodeResult]] = {}
        """What the browser brings, by the `state` of the link that it was sent to."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{CALLBACK}"

    def expect(self, link: str) -> None:
        """Let the browser come back from this link, and from no former one."""
        (state,) = parse_qs(urlsplit(link).query)["state"]
        self._results = {state: asyncio.get_running_loop().create_future()}

    async def result(self) -> AuthorizationCodeResult:
        (result,) = self._results.values()
        return await result

    @classmethod
    @asynccontextmanager
    async def listening(cls, port: int) -> "AsyncIterator[_Callback]":
        """Listen on a port of this machine, or on a free one where it is taken."""
        callback = cls()
        try:
            listener = await asyncio.start_server(callback._answer, "127.0.0.1", port)
        except OSError:
            listener = await asyncio.start_server(callback._answer, "127.0.0.1", 0)
        async with listener:
            callback.port = listener.sockets[0].getsockname()[1]
            yield callback

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, target, *_ = (await reader.readline()).decode("latin-1").split(" ")
            while (await reader.readline()).strip():
                pass
            status, text = self._take(target)
            body = f"<!doctype html><meta charset=utf-8><title>Segue</title><p>{escape(text)}".encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close"
            writer.write(head.encode() + b"\r\n\r\n" + body)
            await writer.drain()
        except (ValueError, ConnectionError):  # no request, or nobody who reads the answer
            pass
        finally:
            writer.close()

    def _take(self, target: str) -> tuple[str, str]:
        parts = urlsplit(target)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        result = self._results.get(given.get("state", ""))
        if parts.path != CALLBACK or result is None or result.done() or not given.keys() & {"code", "error"}:
            return "404 Not Found", "There is nothing here."
        if "error" in given:
            reason = given.get("error_description") or given["error"]
            result.set_exception(OAuthFlowError(reason))
            return "200 OK", f"The login failed: {reason}."
        result.set_result(AuthorizationCodeResult(code=given["code"], state=given["state"], iss=given.get("iss")))
        return "200 OK", "You can close this window."
