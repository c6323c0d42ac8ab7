"""How long a new process takes until it shows its first answer, and its CPU time."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .endpoint import ANSWER

_BARE = """
import sys
from openai import OpenAI
stream = OpenAI(base_url=sys.argv[1], api_key="none").chat.completions.create(
    model="bench-model", messages=[{"role": "user", "content": sys.argv[2]}], stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
"""


class Start(NamedTuple):
    """Seconds of one start, by the clock and of the process's CPU."""

    wall: float
    cpu: float


def first_answer(url: str, folder: Path, name: str, mode: str) -> Start:
    """`segue chat`, from its start to its end."""
    kind = "json" if mode == "react" else "native"
    message = f"Read the handbook. [bench {kind} 0 {name}]"
    command = [sys.executable, "-m", "segue", "chat", message, "--mode", mode]
    return _seconds([*command, "--model", "openai:bench-model", "--db", str(folder / "first.db")], url)


def first_answer_bare(url: str, name: str) -> Start:
    """The same of a script with the `openai` client."""
    return _seconds([sys.executable, "-c", _BARE, url, f"[bench native 0 {name}]"], url)


def _seconds(command: list[str], url: str) -> Start:
    environ = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    null = subprocess.DEVNULL
    done = subprocess.run(command, env=environ, stdin=null, stdout=subprocess.PIPE, text=True, check=True)
    if ANSWER.split()[-1] not in done.stdout:
        raise RuntimeError(f"there is no answer in {done.stdout!r}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Start(time.perf_counter() - start, cpu)
