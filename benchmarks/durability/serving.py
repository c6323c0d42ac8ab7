"""An ASGI application on a free port of this machine, and the frames of an event stream."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import uvicorn


@contextlib.contextmanager
def serve(application: Any) -> Iterator[str]:
    """Serve in a thread until the block is left; gives the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(5)


def frames(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The id and the JSON of each server-sent event."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "id":
            name = value
        elif field == "data" and value.startswith("{"):
            yield name, json.loads(value)
