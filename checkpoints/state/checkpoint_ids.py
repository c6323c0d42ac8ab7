"""Order of checkpoint ids, which are times, and of channels' versions: the greatest one is the newest."""

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
VERSION_DIGITS = 8
"""Of a channel's version at least: versions are compared as text."""


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


def seconds_of(checkpoint_id: str) -> float:
    """When a checkpoint was made, in Unix seconds.

    Raises:
        ValueError: its id is none.
    """
    return (_time_of(UUID(checkpoint_id)) - _EPOCH) / _SECOND


def next_version(current: str | None, branch: str = "") -> str:
    """The version of a channel after another one, as text that sorts after it; `branch` keeps branches apart."""
    number, _, _ = str(current or "0").partition(".")
    digits = max(len(number), VERSION_DIGITS)
    return f"{int(number) + 1:0{digits}}{'.' if branch else ''}{branch}"


def _time_of(found: UUID) -> int:
    """The time of an id of version 6: RFC 9562, section 5.6."""
    return (found.int >> 80) << 12 | (found.int >> 64 & 0xFFF)
