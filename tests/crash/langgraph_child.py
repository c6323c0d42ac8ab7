"""The process that `segue serve --graphs` is forked from, and what each fork does: see `tests.crash.langgraph`."""

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import segue.cli
from segue.testing.chaos import processes

from . import langgraph_graphs
from .traps import Traps

_LATE = (
    *("segue.server.app", "segue.server.langgraph.endpoint", "segue.checkpoints.sqlite.state", "uvicorn", "aiosqlite"),
    *("prometheus_client", "sqlite3", "websockets"),
)
SETTINGS = {"SEGUE_RATE_CHATS": "100000", "SEGUE_RATE_REQUESTS": "1000000"}


def serve(orders: dict[str, Any]) -> None:
    """Serve the graphs of the folder until killed; `at` are the points at which that happens."""
    folder = Path(orders["folder"])
    os.chdir(folder)
    os.environ |= {**SETTINGS, langgraph_graphs.EFFECTS: str(folder / "effects.jsonl")}
    traps = Traps(orders["at"])
    traps.install()
    langgraph_graphs.reach = traps.reach

    def tell(*_: object) -> None:
        (folder / "written.json").write_text(json.dumps(len(traps.written)), encoding="utf-8")

    signal.signal(signal.SIGUSR1, tell)
    sys.argv[:] = ["segue", "serve", "--port", str(orders["port"]), "--graphs", "langgraph.json"]
    segue.cli.main()


if __name__ == "__main__":
    for name in _LATE:
        importlib.import_module(name)
    processes.serve(serve)
