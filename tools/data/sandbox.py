"""A model's SQL in a process of its own, with limits on its time and memory and without our environment.

The database engine interrupts a query only between steps, and one step of a hostile query can take minutes and all of
a machine's memory; a process can be ended.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from segue.core.environment import whole_number
from segue.prompts.data import phrase
from segue.prompts.language import Language

from .engine import SECONDS, need_duckdb
from .folder import DataFolder

ROWS = 100
"""Rows of a result at most."""
GRACE = 5.0
"""Seconds between the interrupt and the end of the process."""
LIMIT = "SEGUE_QUERY_PROCESSES"
_KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@cache
def slots() -> threading.BoundedSemaphore:
    """How many queries this process runs at once: `SEGUE_QUERY_PROCESSES`, 2 by default.

    Raises:
        ConfigurationError: it is not a whole number above zero.
    """
    return threading.BoundedSemaphore(whole_number(os.environ, LIMIT, 2))


def run_query(folder: DataFolder, sql: str, language: Language, seconds: float = SECONDS) -> dict[str, Any]:
    """The columns and rows of a query over the folder's files, and whether there are more.

    The time includes waiting until fewer than `SEGUE_QUERY_PROCESSES` queries run.

    Raises:
        MissingExtra: the database engine is not installed.
        ValueError: the query is refused, fails, takes too long, or there is no slot for it; the message says which.
    """
    need_duckdb()
    deadline = time.monotonic() + seconds
    if not slots().acquire(timeout=seconds):
        raise ValueError(phrase("query_busy", language, seconds=seconds))
    try:
        left = max(deadline - time.monotonic(), min(seconds, 1.0))
        asked = {"folder": str(folder.path.absolute()), "sql": sql, "language": language, "seconds": left, "rows": ROWS}
        done = _run(json.dumps(asked).encode(), left + GRACE)
    except subprocess.TimeoutExpired as error:
        raise ValueError(phrase("too_slow", language, seconds=seconds)) from error
    finally:
        slots().release()
    if done.returncode:
        raise ValueError(phrase("query_crashed", language))
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise ValueError(found["error"])
    return found


def _run(asked: bytes, seconds: float) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", f"{__package__}.worker"]
    environment = _environment(os.environ)
    return subprocess.run(command, input=asked, capture_output=True, timeout=seconds, env=environment, check=False)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Python needs, and no keys."""
    kept = {name: environ[name] for name in _KEPT if name in environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONIOENCODING": "utf-8"}
