"""What the service writes to standard error."""

import json
import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from segue.server import configure_logs


@pytest.fixture
def stream() -> Iterator[StringIO]:
    """What is logged while a test runs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = StringIO()
    configure_logs(stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_message_is_not_said_once_more_in_colours(stream: StringIO) -> None:
    coloured = {"color_message": "Started server process [\x1b[36m%d\x1b[0m]"}
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7, extra=coloured)
    line = json.loads(stream.getvalue())
    assert line.keys() == {"event", "level", "logger", "timestamp"}
    assert line["event"] == "Started server process [7]"
