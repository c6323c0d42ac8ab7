"""Cassettes: recorded sessions that are replayed offline, as regression tests."""

from ...core.records import SUFFIX
from .cassette import Cassette, Difference, Turn, read_cassette, write_cassette
from .recorder import record
from .replay import LiveTurn, RecordedExecutor, RecordedModel, RecordedResults, Replay, replay

__all__ = [
    "SUFFIX",
    "Cassette",
    "Difference",
    "LiveTurn",
    "RecordedExecutor",
    "RecordedModel",
    "RecordedResults",
    "Replay",
    "Turn",
    "read_cassette",
    "record",
    "replay",
    "write_cassette",
]
