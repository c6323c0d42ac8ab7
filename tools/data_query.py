"""A model's SQL in a process of its own, which has a limit on its time and memory and none of our settings.

The database engine interrupts a query only between steps, and one step of a hostile query can take minutes and all of
a machine's memory; a process can be ended.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from .data_engine import SECONDS, need_extra
from .data_files import DataFolder
from .data_words import Language, told

ROWS = 100
"""Rows of a result at most."""
GRACE = 5.0
"""Seconds between the interrupt and the end of the process."""
_KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def run_query(folder: DataFolder, sql: str, language: Language, seconds: float = SECONDS) -> dict[str, Any]:
    """The columns and rows of a query over the folder's files, and whether there are more.

    Raises:
        MissingExtra: the database engine is not installed.
        ValueError: the query is refused, fails, or takes too long; the message says which.
    """
    need_extra()
    asked = {"folder": str(folder.path.absolute()), "sql": sql, "language": language, "seconds": seconds, "rows": ROWS}
    command = [sys.executable, "-P", "-m", f"{__package__}.data_query_child"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=seconds + GRACE,
            env=_environment(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            told(
                language,
                f"查询超过 {seconds:g} 秒，已终止。",
                f"The query took longer than {seconds:g} s and was ended.",
            )
        ) from error
    if done.returncode:
        raise ValueError(
            told(
                language,
                "查询的进程异常结束，可能是内存不够：请写更简单的查询。",
                "The query's process broke down, perhaps for want of memory: write a simpler query.",
            )
        )
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise ValueError(found["error"])
    return found


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Python needs, and no keys."""
    kept = {name: environ[name] for name in _KEPT if name in environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONIOENCODING": "utf-8"}
