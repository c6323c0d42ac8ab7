"""LangGraph's PostgreSQL saver, fenced, on the database's connections."""

import secrets
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from ..connection import Connection
from ..state.saver import FencedSaver, OnEvents, OnPause, next_version
from .statements import Statements

if TYPE_CHECKING:
    from .database import PostgresDatabase


class FencedPostgresSaver(FencedSaver):
    """Saves checkpoints in a server."""

    def __init__(
        self,
        database: "PostgresDatabase",
        on_events: OnEvents | None = None,
        on_pause: OnPause | None = None,
    ) -> None:
        super().__init__(database, on_events, on_pause)
        self._server = database
        self._unwritten = Statements(self._checked)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The next version of a channel: another one in each branch, since values are stored by their versions."""
        return next_version(current, secrets.token_hex(4))

    def statements(self, thread_id: str) -> Statements:
        return self._unwritten.for_write()

    def listing(self) -> AbstractAsyncContextManager[Connection]:
        return self._server.listing()
