"""The tools of MCP servers, as the graphs see tools."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from segue.core.agents import McpServer
from segue.core.environment import need_extra
from segue.core.errors import ConfigurationError, ToolServerUnavailable, listed
from segue.core.json_schema import UnusableSchema, inlined

from ..bound_tool import Marked
from ..calls.context import current_call
from ..registry import Marks
from .mcp_session import InvalidResult, MessageTooLarge, ServerDown, Session

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
    def server(self) -> str:
        return self.session.server.name

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Have the server run the tool; a lost server is reconnected once, and an idempotent call repeated.

        Raises:
            ServerToolError: the tool or its server failed.
        """
        from mcp import MCPError

        try:
            result = await self.session.call(self.name, arguments, _meta(), repeat=self.idempotent)
        except ServerDown as error:
            raise ServerToolError(f"{error}; the next call tries to reach it again") from error
        except MessageTooLarge as error:
            raise ServerToolError(f"{error}: ask it for less") from error
        except InvalidResult as error:
            raise ServerToolError(str(error)) from error
        except MCPError as error:
            raise ServerToolError(error.message) from error
        if result.is_error:
            raise ServerToolError(_text(result.content) or "the tool failed and did not say why")
        return _value(result)


class McpTools:
    """The MCP servers that an app is connected to, from the first run that needs them until the app is closed."""

    def __init__(self) -> None:
        self._sessions: list[Session] = []

    async def open(self, servers: Iterable[McpServer]) -> list[McpTool]:
        """The tools of these servers; what is not connected yet, or was lost, is connected now.

        Raises:
            MissingExtra: the extra `mcp` is not installed.
            ToolServerUnavailable: a server does not start or answer.
            ConfigurationError: an agent asks for a tool that its server does not have.
        """
        need_extra("An agent with MCP servers", "mcp", "mcp")
        opened = await asyncio.gather(*(self._tools_of(server) for server in servers))
        return [tool for tools in opened for tool in tools]

    async def _tools_of(self, server: McpServer) -> list[McpTool]:
        session = self._session(server)
        try:
            offered = {tool.name: tool for tool in await session.tools()}
        except ServerDown as error:
            raise ToolServerUnavailable(server.name, str(error)) from error
        requested = list(offered) if server.tools is None else server.tools
        for name in (*requested, *server.read_only, *server.needs_approval):
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
        timeout=server.timeout,
        title=offered.title or (hints and hints.title) or offered.name,
    )
    function = {
        "name": offered.name,
        "description": offered.description or "",
        "parameters": _parameters(session, offered),
    }
    segue = {"keywords": [], "title": marks.title, "read_only": marks.read_only}
    return McpTool(offered.name, marks, {"type": "function", "function": function, "segue": segue}, session)


def _parameters(session: Session, offered: "Offered") -> dict[str, Any]:
    try:
        return {"type": "object", "properties": {}} | inlined(offered.input_schema)
    except UnusableSchema as error:
        raise ConfigurationError(
            "The tool {tool} of the MCP server {name} cannot be used: {reason}. Leave it out with the server's "
            "`tools`, or correct its schema.",
            tool=offered.name,
            name=session.server.name,
            reason=str(error),
        ) from error


def _meta() -> "RequestParamsMeta | None":
    """The `_meta` of the request: the idempotency key of the call that is running."""
    call = current_call.get(None)
    return cast("RequestParamsMeta", {"idempotencyKey": call.idempotency_key}) if call else None


def _value(result: "CallToolResult") -> Any:
    """The structured result; a text is taken out of the `result` that SDKs put it in."""
    text, structured = _text(result.content), result.structured_content
    return text if structured in (None, {"result": text}) else structured


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
