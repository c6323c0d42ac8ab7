"""How long a new process takes until it shows its first answer, and its CPU time.

`python -m costs.startup PEER URL FOLDER NAME` is such a process of a peer.
"""

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .endpoint import ANSWER
from .peers import PEERS, page_tool
from .processes import HERE, TOOL


class Start(NamedTuple):
    """Seconds of one start, by the clock and of the process's CPU."""

    wall: float
    cpu: float


def first_answer(what: str, url: str, folder: Path, name: str) -> Start:
    """A start of `segue chat --mode …`, or of a peer, from its start to its end."""
    folder.mkdir(exist_ok=True)
    if what in PEERS:
        return _seconds([sys.executable, "-m", f"{HERE.name}.startup", what, url, str(folder), name], url)
    kind = "json" if "react" in what else "native"
    options = ["--model", "openai:bench-model", "--db", str(folder / "first.db"), f"Hello. [bench {kind} 0 {name}]"]
    return _seconds([sys.executable, "-m", *what.split(), *options], url)


async def _answered(peer: str, url: str, folder: Path, name: str) -> None:
    async with PEERS[peer](url, folder, page_tool(TOOL)) as ask:
        kind = "json" if "json" in peer else "native"
        async for piece in ask(f"Hello. [bench {kind} 0 {name}]", name):
            print(piece, end="")


def _seconds(command: list[str], url: str) -> Start:
    environ = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    null = subprocess.DEVNULL
    done = subprocess.run(
        command, cwd=HERE.parent, env=environ, stdin=null, stdout=subprocess.PIPE, text=True, check=True
    )
    if ANSWER.split()[-1] not in done.stdout:
        raise RuntimeError(f"there is no answer in {done.stdout!r}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Start(time.perf_counter() - start, cpu)


if __name__ == "__main__":
    asyncio.run(_answered(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
