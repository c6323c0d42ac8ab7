"""A process that has imported everything and forks a child for each run, so that a child costs a tenth of a second.

It reads requests from its standard input and writes replies to its standard output, a line of JSON each:
{"fork": orders} gives {"pid"} of a child that plays a scenario, races where the orders name a `letterbox`, or carries a
command out where they name an `errand`; {"wait": pid, "seconds"} gives {"status"}: an exit code, a negative signal,
'stopped' or 'hung' (then it was killed).
"""

import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import (
    clock,  # noqa: F401 - before anything keeps a reference to the real clock
    errand,
    warm,
)
from .child import carry_on
from .worker import race


def main() -> None:
    warm.up()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        reply = _fork(request["fork"]) if "fork" in request else _wait(request["wait"], request["seconds"])
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def _fork(orders: dict[str, Any]) -> dict[str, Any]:
    pid = os.fork()
    if pid:
        return {"pid": pid}
    code = 1
    try:
        _redirect(Path(orders["folder"], "log.txt"))
        _work_for(orders)(orders)
        code = 0
    except BaseException:  # noqa: BLE001 - a child must never fall back into the zygote's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _work_for(orders: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    if "letterbox" in orders:
        return race
    return errand.run if "errand" in orders else carry_on


def _redirect(log: Path) -> None:
    """The child has no part in the zygote's talk; what it says goes to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)


def _wait(pid: int, seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found and os.WIFSTOPPED(status):
            return {"status": "stopped"}
        if found:
            return {"status": os.waitstatus_to_exitcode(status)}
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"status": "hung"}
        time.sleep(0.001)


if __name__ == "__main__":
    main()
