"""Values of state that were decoded lately."""

import threading
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from ..ports import Decoded, Stored

MOST_BYTES = 32_000_000
"""Of stored values and of what they were decoded from; beyond it the oldest goes."""


class DecodedValues:
    """What stored values say, by what is stored: a session's log is rebuilt from the same ones several times a turn.

    They are shared, since nothing changes a message or a record in the state.
    """

    def __init__(self) -> None:
        self._known: dict[Stored, tuple[Any, int]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, stored: Stored) -> Any:
        """The value, or None where it is not kept."""
        return self._known.get(stored, (None, 0))[0]

    def keep(self, stored: Stored, value: Any, size: int) -> None:
        """Keep a value; `size` is the number of bytes that it was decoded from."""
        size += len(stored[1])
        with self._lock:
            self._bytes += size - self._known.pop(stored, (None, 0))[1]
            self._known[stored] = (value, size)
            while self._bytes > MOST_BYTES:
                self._bytes -= self._known.pop(next(iter(self._known)))[1]


class DecodedOnce(SerializerProtocol):
    """A serializer that decodes equal values once."""

    def __init__(self, serde: SerializerProtocol, decoded: Decoded) -> None:
        self._serde = serde
        self._decoded = decoded

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return self._serde.dumps_typed(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        stored = (data[0], bytes(data[1]))
        value = self._decoded.get(stored)
        if value is None:
            value = self._serde.loads_typed(stored)
            self._decoded.keep(stored, value, len(stored[1]))
        return value


def unshared(history: DeltaChannelHistory) -> DeltaChannelHistory:
    """A log's history with a list of its own, for a channel to begin with."""
    seed = history.get("seed")
    if not isinstance(seed, _DeltaSnapshot) or not isinstance(seed.value, list):
        return history
    return {**history, "seed": _DeltaSnapshot([*seed.value])}
