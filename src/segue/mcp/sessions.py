"""The sessions of MCP clients over HTTP, whose streams can be resumed."""

from collections import deque

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import JSONRPCMessage

EVENTS = 100
"""How many events of a session are kept."""


class LatestEvents(EventStore):
    """The latest events of one session."""

    def __init__(self) -> None:
        self._events: deque[tuple[str, str, JSONRPCMessage | None]] = deque(maxlen=EVENTS)
        """The id, the stream and the message of each."""
        self._count = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._count += 1
        self._events.append((str(self._count), stream_id, message))
        return str(self._count)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        known = list(self._events)
        at = next((index for index, (event_id, *_) in enumerate(known) if event_id == last_event_id), None)
        if at is None:
            return None
        stream = known[at][1]
        for event_id, owner, message in known[at + 1 :]:
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream


class SessionManager(StreamableHTTPSessionManager):
    """Keeps the events of each session apart: the SDK names a stream by its request, as other sessions do theirs."""

    @property
    def event_store(self) -> EventStore | None:
        """A new store; the SDK reads this once for each session."""
        return None if self.stateless else LatestEvents()

    @event_store.setter
    def event_store(self, _: EventStore | None) -> None: ...
