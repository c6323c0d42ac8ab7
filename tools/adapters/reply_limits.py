"""Limits on what MCP servers and A2A agents send, which hold before it is decoded."""

from segue.core.clause import Clause
from segue.core.json_depth import DEEPEST, Outline

MOST_BYTES = 20_000_000
"""Of one message."""
MOST_VALUES = 100_000
"""JSON values in one message: each takes up to a kilobyte once it is decoded."""
_FIRST_LOOK = 250_000
"""Bytes of a message after which its values are counted first; then each time that it is twice as long."""
_REFUSALS = (
    Clause("it sent a message of more than {most} bytes, which is the limit", most=f"{MOST_BYTES:,}"),
    Clause("it sent a message of more than {most} JSON values, which is the limit", most=f"{MOST_VALUES:,}"),
    Clause("it sent a message of more than {most} levels of JSON values, which is the limit", most=DEEPEST),
    Clause("it sent a compressed message: have it send plain ones, as it was asked to"),
)
TOO_LONG, TOO_MANY, TOO_DEEP, COMPRESSED = map(str, _REFUSALS)
REFUSALS = {str(clause): clause for clause in _REFUSALS}
"""The clauses by their texts, which the clients' own errors carry."""


def over_limit(message: bytes | bytearray) -> str:
    """What a message, or the beginning of one, has too much of; empty where it may be decoded."""
    if len(message) > MOST_BYTES:
        return TOO_LONG
    outline = Outline.of(message, MOST_VALUES)
    return TOO_MANY if outline.values > MOST_VALUES else TOO_DEEP if outline.depth > DEEPEST else ""


class Received:
    """What has been received of a message."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._next_look = _FIRST_LOOK

    def add(self, piece: bytes) -> str:
        """Why the message is refused; empty as long as it is not."""
        self._received += piece
        if len(self._received) <= min(self._next_look, MOST_BYTES):
            return ""
        self._next_look *= 2
        return over_limit(self._received)

    def end(self) -> tuple[bytes, str]:
        """The whole message, and why it is refused; then another one begins."""
        whole, self._received, self._next_look = bytes(self._received), bytearray(), _FIRST_LOOK
        return whole, over_limit(whole)
