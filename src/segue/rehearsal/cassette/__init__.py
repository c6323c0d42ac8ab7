"""Cassettes: recorded sessions that are replayed offline, as regression tests."""

from ...core.files import SUFFIX
from .cassette import Cassette, Turn, read_cassette, write_cassette
from .difference import Difference
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
