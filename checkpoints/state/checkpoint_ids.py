"""Order of checkpoint ids, which are times: the newest checkpoint of a thread is the one with the greatest id."""

import contextlib
import time
from typing import Any
from uuid import UUID

from langgraph.checkpoint.base import id as langgraph_ids

_EPOCH = 0x01B21DD213814000
"""1970 in the time of an id, which counts 100 ns from 1582."""
_SECOND = 10_000_000
AHEAD = 86_400.0
"""Seconds that another machine's clock may be ahead."""


def follow(checkpoint_id: str) -> None:
    """Let the next ids of this process come after this one.

    The clock of another machine, or of this one before it was set back, may have been ahead.
    """
    ids: Any = langgraph_ids
    with contextlib.suppress(ValueError):  # another saver's id
        ids._last_v6_timestamp = max(ids._last_v6_timestamp or 0, _time_of(UUID(checkpoint_id)))


def is_plausible(checkpoint_id: str) -> bool:
    """Whether LangGraph may have made an id by now."""
    try:
        found = UUID(checkpoint_id)
    except ValueError:
        return False
    return found.version == 6 and _time_of(found) < _EPOCH + int((time.time() + AHEAD) * _SECOND)


def _time_of(found: UUID) -> int:
    """The time of an id of version 6: RFC 9562, section 5.6."""
    return (found.int >> 80) << 12 | (found.int >> 64 & 0xFFF)
