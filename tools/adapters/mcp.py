"""The tools of MCP servers, as the graphs see tools."""

import asyncio
import json
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from langgraph.types import interrupt
from pydantic import SecretStr, ValidationError

from segue.core.agents import McpServer
from segue.core.environment import need_extra
from segue.core.errors import ConfigurationError, LoginRequired, ToolServerUnavailable, listed
from segue.core.json import Outline, UnusableSchema, inlined
from segue.core.provenance import SourceKind

from ..bound_tool import Job, Marked, Marks, current_call, current_job, fit_arguments
from .client import MOST_BYTES, MOST_SHOWN, MOST_VALUES, REFUSALS, TOO_LONG, TOO_MANY

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ElicitationFnT
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData, RequestParamsMeta, Tool

    from .mcp_questions import Asking

CONNECT_SECONDS = 30.0
"""How long a server may take to start and say its tools, where it sets no timeout."""
CLOSE_SECONDS = 10.0
"""How long a server may take to end, before its task is cancelled."""
MOST_PAGES = 1000
"""Of a list of tools."""
READ_SECONDS = 300.0
"""How long an HTTP server may be silent in the middle of a reply."""
LINE_CHARS = 10_000
"""Of a command's stderr: a longer line is several."""


class ServerDown(Exception):
    """The server does not start or answer, or was lost during a call; the message says why."""


class LoginNeeded(ServerDown):
    """The server asks for a login, or for one with more scopes; the message says how to log in."""

    def __init__(self, server: McpServer) -> None:
        super().__init__(str(LoginRequired(server.name)))


class InvalidResult(Exception):
    """The server sent a result that MCP does not know; the message counts its faults, which may be many."""


class MessageTooLarge(Exception):
    """The server sent a message that is larger than one may be; the error's message says so."""


class Session:
    """One server's session, held open by a task of its own: anyio wants it closed by the task that opened it."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._lock = asyncio.Lock()
        self._client: Client | None = None
        self._tools: list[Tool] = []
        self._owner: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._refused = ""
        """Why a message of the server was refused and the session ended; empty where none was."""
        self._was_alone = False
        """Whether one call was pending when a message was refused: that message was its result."""
        self._pending = 0
        self._asking: list[Asking] = []
        """Who is asked in the calls that are pending."""
        self._login_needed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._elsewhere: WeakKeyDictionary[asyncio.AbstractEventLoop, Session] = WeakKeyDictionary()

    def here(self) -> "Session":
        """The server's session in the running event loop: that of another one cannot be used."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if loop is self._loop:
            return self
        if loop not in self._elsewhere:
            self._elsewhere[loop] = Session(self.server)
            self._elsewhere[loop]._loop = loop
        return self._elsewhere[loop]

    async def tools(self) -> list["Tool"]:
        """The tools that the server offers."""
        await self._live()
        return self._tools

    async def call(
        self, name: str, arguments: Mapping[str, Any], meta: "RequestParamsMeta | None", repeat: bool
    ) -> "CallToolResult":
        """Call a tool. A lost server is started or reached again, at most once a call.

        `repeat`: a call that the server died in is made again; it must be one that may run twice.
        """
        known = self._known
        client = await self._live()
        try:
            return await self._ask(client, name, arguments, meta)
        except ServerDown as error:
            if not repeat or client is not known or isinstance(error, LoginNeeded):
                raise
        return await self._ask(await self._live(), name, arguments, meta)

    async def _ask(
        self, client: "Client", name: str, arguments: Mapping[str, Any], meta: "RequestParamsMeta | None"
    ) -> "CallToolResult":
        from mcp import MCPError

        from .mcp_limits import REFUSED
        from .mcp_questions import Asking, current_asking
        from .mcp_tasks import is_session_lost, result_of

        here, job = copy_context(), current_job.get(Job())
        asking = Asking(self.server.name, lambda question: here.run(interrupt, question))
        self._pending += 1
        self._asking.append(asking)
        self._login_needed = False
        current_asking.set(asking)
        try:
            if job.state:
                result = await result_of(client.session, job)
            else:
                result = await client.call_tool(name, dict(arguments), meta=meta)
            if asking.interrupted:
                raise asking.interrupted
            return result
        except ValidationError as error:
            raise InvalidResult(_invalid(error)) from None
        except MCPError as error:
            if asking.interrupted:
                raise asking.interrupted from None
            if error.code == REFUSED:
                raise MessageTooLarge(error.message) from error
            if self._login_needed:
                raise LoginNeeded(self.server) from error
            if not is_session_lost(error):
                raise
            if self._client is client:
                self._client = None
            if self._refused and self._was_alone:
                raise MessageTooLarge(self._refused) from error
            raise ServerDown(f'the MCP server "{self.server.name}" was lost during the call') from error
        finally:
            self._pending -= 1
            self._asking.remove(asking)

    async def _answer(self, context: Any, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        """Answer what the server asks; it names no call, so that only a call that is alone can be meant."""
        from mcp.types import ErrorData

        if len(self._asking) != 1:
            return ErrorData(
                code=-32602, message="Several calls are under way: a question cannot be told to be of one."
            )
        return self._asking[0].answer(params)

    @property
    def _known(self) -> "Client | None":
        """The client as long as its owner has not ended: an HTTP session ends with its first broken connection."""
        return None if self._owner is None or self._owner.done() else self._client

    async def _live(self) -> "Client":
        async with self._lock:
            client = self._known
            if client is None:
                await self._end()
                client = await self._open()
            return client

    async def _open(self) -> "Client":
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        stderr = Tail()
        seconds = self.server.timeout or CONNECT_SECONDS
        self._leave, self._refused, self._login_needed = asyncio.Event(), "", False
        owner = self._owner = asyncio.create_task(self._hold(opened, stderr), name=f"mcp {self.server.name}")
        owner.add_done_callback(_retrieve_exception)
        either: set[asyncio.Future[Any]] = {owner, opened}
        try:
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not opened.done():
                owner.cancel()
        if not opened.done():
            slow = not owner.done()
            await asyncio.wait({owner})
            if self._login_needed:
                raise LoginNeeded(self.server)
            said = await asyncio.to_thread(stderr.last)
            reason = self._refused or _reason(owner, said)
            raise ServerDown(f"it took longer than {seconds:g} s to start" if slow else reason)
        self._client = opened.result()
        return self._client

    async def _hold(self, opened: "asyncio.Future[Client]", stderr: "Tail") -> None:
        leave = self._leave

        def refuse(reason: str) -> None:
            self._refused, self._was_alone = reason, self._pending == 1
            self._client = None  # what is called from now on reopens the session
            leave.set()

        def need_login() -> None:
            self._login_needed = True

        async with _connected(self.server, stderr, refuse, need_login, self._answer) as client:
            self._tools = await _all_tools(client)
            opened.set_result(client)
            await leave.wait()

    async def _end(self) -> None:
        self._client = None
        if self._owner is None:
            return
        self._leave.set()
        _, late = await asyncio.wait({self._owner}, timeout=CLOSE_SECONDS)
        if late:
            self._owner.cancel()
            await asyncio.wait(late)
        self._owner = None

    async def close(self) -> None:
        """End the session in each event loop that runs, and the command if it is one."""
        for session in (self, *self._elsewhere.values()):
            if session._loop is asyncio.get_running_loop():
                await session._close()
            elif session._loop and session._loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session._close(), session._loop))

    async def _close(self) -> None:
        async with self._lock:
            await self._end()


@asynccontextmanager
async def _connected(
    server: McpServer,
    stderr: "Tail",
    refuse: Callable[[str], None],
    need_login: Callable[[], None],
    answer: "ElicitationFnT",
) -> AsyncIterator["Client"]:
    from mcp import Client, StdioServerParameters

    from .mcp_limits import limit_response, limited_stdio
    from .mcp_tasks import Tasks

    if server.command:
        started = StdioServerParameters(command=server.command, args=list(server.args), env=_revealed(server.env))
        with stderr:
            transport = limited_stdio(started, stderr.stream, refuse)
            async with Client(transport, elicitation_callback=answer, extensions=[Tasks()]) as client:
                yield client
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from .mcp_login import auth_for

    timeout = httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS)
    headers = httpx2.Headers(_revealed(server.headers))
    headers["Accept-Encoding"] = "identity"
    hooks = {"response": [limit_response]}
    async with (
        httpx2.AsyncClient(
            headers=headers, timeout=timeout, event_hooks=hooks, auth=auth_for(server, need_login)
        ) as http,
        Client(
            streamable_http_client(server.url, http_client=http, max_sse_event_size=2 * MOST_BYTES),
            elicitation_callback=answer,
            extensions=[Tasks()],
        ) as client,
    ):
        yield client


async def _all_tools(client: "Client") -> list["Tool"]:
    """The pages of the list of tools."""
    page = await client.list_tools()
    tools, size, values, pages = list(page.tools), 0, 0, 1
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
        text = b"".join(tool.model_dump_json().encode() for tool in page.tools)
        size, values, pages = size + len(text), values + Outline.of(text, MOST_VALUES).values, pages + 1
        if size > MOST_BYTES or pages > MOST_PAGES:
            raise MessageTooLarge(TOO_LONG)
        if values > MOST_VALUES:
            raise MessageTooLarge(TOO_MANY)
    return tools


def _revealed(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: secret.get_secret_value() for name, secret in secrets.items()}


def _reason(owner: asyncio.Task[None], said: str) -> str:
    """Why the session could not be opened: the last that the command said, or the innermost error."""
    error = None if owner.cancelled() else owner.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return "its command was not found"
    if isinstance(error, ValidationError):
        return _invalid(error)
    return f"it ended at once, saying: {said}" if said else str(error) or type(error).__name__


def _invalid(error: ValidationError) -> str:
    """What is wrong with a result: how many faults it has, which may be many, and the first."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"]))[:MOST_SHOWN]
    return (
        f"the server sent a result that is not valid: {error.error_count():,} faults, such as {where}: {first['msg']}"
    )


def _retrieve_exception(owner: asyncio.Task[None]) -> None:
    """A broken session is reopened when it is needed; asyncio need not warn of it."""
    if not owner.cancelled():
        owner.exception()


class Tail:
    """The last lines that a command writes to its stderr, read by a thread as long as anyone can write."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=20)
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> None:
        self._reading, writing = os.pipe()
        self.stream = os.fdopen(writing, "w")
        self._reader.start()

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def _read(self) -> None:
        with os.fdopen(self._reading, errors="replace") as lines:
            self._lines.extend(iter(partial(lines.readline, LINE_CHARS), ""))

    def last(self) -> str:
        """The last line that is not blank; waits a moment for a command that is ending."""
        if self._reader.ident is not None:
            self._reader.join(1)
        return next((line.strip() for line in reversed(self._lines) if line.strip()), "")


if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock, RequestParamsMeta
    from mcp.types import Tool as Offered


class ServerToolError(Exception):
    """A tool of an MCP server answered with an error, or its server was lost; the message is for the model."""


@dataclass(frozen=True)
class McpTool(Marked):
    """One tool of an MCP server. The server checks the arguments; its refusal is the call's error."""

    name: str
    marks: Marks
    spec: Mapping[str, Any] = field(repr=False)
    session: Session = field(repr=False)

    @property
    def source_kind(self) -> SourceKind:
        return "mcp"

    @property
    def foreign_text(self) -> str:
        """What the server says of the tool; of one whose results are trusted, the text is, too."""
        return "" if self.trusted else json.dumps(self.spec["function"], ensure_ascii=False)

    @property
    def owner(self) -> str:
        """Whose tool it is, in an error."""
        return f"that of the MCP server {self.session.server.name}"

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Have the server run the tool; a lost server is reconnected once, and an idempotent call repeated.

        A call that began a task of the server fetches its result.
        """
        from mcp import MCPError

        from .mcp_tasks import TaskEnded, try_later

        arguments = fit_arguments(self.spec["function"]["parameters"], arguments)
        job = current_job.get(Job())
        try:
            repeat = self.idempotent or bool(job.state)
            result = await self.session.here().call(self.name, arguments, _meta(), repeat=repeat)
        except TaskEnded as error:
            raise ServerToolError(str(error)) from error
        except ServerDown as error:
            if job.state:
                raise try_later(job, str(error)) from error
            if isinstance(error, LoginNeeded):
                raise ServerToolError(str(error)) from error
            raise ServerToolError(f"{error}; the next call tries to reach it again") from error
        except MessageTooLarge as error:
            raise ServerToolError(f"{error}: ask it for less") from error
        except InvalidResult as error:
            raise ServerToolError(str(error)) from error
        except MCPError as error:
            raise ServerToolError(error.message) from error
        if result.is_error:
            raise ServerToolError(_text(result.content) or "the tool failed and did not say why")
        text, structured = _text(result.content), result.structured_content
        return text if structured in (None, {"result": text}) else structured  # SDKs put a text into `result`


class McpTools:
    """The MCP servers that an app is connected to, from the first run that needs them until the app is closed."""

    def __init__(self) -> None:
        self._sessions: list[Session] = []

    async def open(self, servers: Iterable[McpServer]) -> list[McpTool]:
        """The tools of these servers; what is not connected yet, or was lost, is connected now."""
        need_extra("An agent with MCP servers", "mcp", "mcp")
        opened = await asyncio.gather(*(self._tools_of(server) for server in servers))
        return [tool for tools in opened for tool in tools]

    async def _tools_of(self, server: McpServer) -> list[McpTool]:
        session = self._session(server)
        try:
            offered = {tool.name: tool for tool in await session.here().tools()}
        except LoginNeeded as error:
            raise LoginRequired(server.name) from error
        except ServerDown as error:
            raise ToolServerUnavailable(server.name, REFUSALS.get(str(error), str(error))) from error
        requested = list(offered) if server.tools is None else server.tools
        for name in (*requested, *server.read_only, *server.needs_approval, *server.trusted):
            if name not in offered:
                raise ConfigurationError(
                    'The MCP server "{name}" has no tool "{tool}"; use one of: {known}.',
                    name=server.name,
                    tool=name,
                    known=listed(offered),
                )
        return [_tool(session, offered[name]) for name in requested]

    def _session(self, server: McpServer) -> Session:
        for session in self._sessions:
            if session.server == server:
                return session
        self._sessions.append(Session(server))
        return self._sessions[-1]

    async def close(self) -> None:
        """End every session."""
        await asyncio.gather(*(session.close() for session in self._sessions))
        self._sessions.clear()


def _tool(session: Session, offered: "Offered") -> McpTool:
    server, hints = session.server, offered.annotations
    marks = Marks(
        read_only=offered.name in server.read_only or bool(hints and hints.read_only_hint),
        idempotent=bool(hints and hints.idempotent_hint),
        needs_approval=offered.name in server.needs_approval,
        trusted=offered.name in server.trusted,
        timeout=server.timeout,
        title=offered.title or (hints and hints.title) or offered.name,
    )
    function = {
        "name": offered.name,
        "description": offered.description or "",
        "parameters": _parameters(session, offered),
    }
    spec = {"type": "function", "function": function, "segue": marks.shown(offered.name)}
    return McpTool(offered.name, marks, spec, session)


def _parameters(session: Session, offered: "Offered") -> dict[str, Any]:
    try:
        return {"type": "object", "properties": {}} | inlined(offered.input_schema)
    except UnusableSchema as error:
        raise ConfigurationError(
            "The tool {tool} of the MCP server {name} cannot be used: {reason}. Leave it out with the server's "
            "`tools`, or correct its schema.",
            tool=offered.name,
            name=session.server.name,
            reason=error.reason,
        ) from error


def _meta() -> "RequestParamsMeta | None":
    """The `_meta` of the request: the idempotency key of the call that is running."""
    call = current_call.get(None)
    return cast("RequestParamsMeta", {"idempotencyKey": call.idempotency_key}) if call else None


def _text(content: Iterable["ContentBlock"]) -> str:
    return "\n".join(_said(block) for block in content)


def _said(block: "ContentBlock") -> str:
    """A block's text; other content is named only, since no model here looks at it."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, {len(block.data) * 3 // 4} bytes]"
        case "resource_link":
            return f"[resource: {block.name}, {block.uri}]"
        case "resource":
            inner = block.resource
            return getattr(inner, "text", "") or f"[resource: {inner.uri}, {inner.mime_type or 'unknown type'}]"
