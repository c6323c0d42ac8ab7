"""The ledger as a middleware of LangChain's create_agent."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.prebuilt.tool_node import ToolCallRequest

from ..core.environment import need_extra
from .graph_calls import DATABASE, CallLedger, Check

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware

    Middleware = AgentMiddleware[Any, Any, Any]
else:
    try:
        from langchain.agents.middleware import AgentMiddleware as Middleware
    except ImportError:  # it is asked for where a ledger is made
        Middleware = object


class Ledger(CallLedger, Middleware):
    """A ledger of tool calls for LangChain's `create_agent`, in a SQLite file or at a `postgresql://` URL.

    `create_agent(model, tools, middleware=[segue.Ledger("effects.db")])`: a finished call is not run again after a
    crash. An interrupted one is decided by its `check`, by tool, as in `segue.tool`; runs again if it is `idempotent`;
    else its outcome is reported to the model as unknown, in `language`. Marks of `segue.tool` count, too. Put it last
    in `middleware`. Any number of graphs, threads and processes may use one database; `close` is optional.

    Raises:
        DatabaseUnavailable: the database cannot be written.
        MissingExtra: LangChain is not installed.
    """

    def __init__(
        self,
        database: str | Path = DATABASE,
        *,
        check: Mapping[str, Check] | None = None,
        idempotent: Iterable[str] = (),
        language: str = "en",
    ) -> None:
        need_extra("segue.Ledger", "langchain", "langchain.agents")
        super().__init__(database, check=check, idempotent=idempotent, language=language)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run a call of a tool, unless it ran before."""
        return self.run(request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run a call of a tool, unless it ran before."""
        return await self.arun(request, handler)
