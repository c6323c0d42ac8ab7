"""How long a new process takes until it shows its first answer."""

import os
import subprocess
import sys
import time
from pathlib import Path

from .endpoint import ANSWER

_BARE = """
import sys
from openai import OpenAI
stream = OpenAI(base_url=sys.argv[1], api_key="none").chat.completions.create(
    model="bench-model", messages=[{"role": "user", "content": sys.argv[2]}], stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
"""


def first_answer(url: str, folder: Path, name: str, mode: str) -> float:
    """Seconds from the start of `segue chat` to the end of its answer."""
    kind = "json" if mode == "react" else "native"
    message = f"Read the handbook. [bench {kind} 0 {name}]"
    command = [sys.executable, "-m", "segue", "chat", message, "--mode", mode]
    return _seconds([*command, "--model", "openai:bench-model", "--db", str(folder / "first.db")], url)


def first_answer_bare(url: str, name: str) -> float:
    """The same of a script with the `openai` client."""
    return _seconds([sys.executable, "-c", _BARE, url, f"[bench native 0 {name}]"], url)


def _seconds(command: list[str], url: str) -> float:
    environ = {**os.environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    start = time.perf_counter()
    null = subprocess.DEVNULL
    done = subprocess.run(command, env=environ, stdin=null, stdout=subprocess.PIPE, text=True, check=True)
    if ANSWER.split()[-1] not in done.stdout:
        raise RuntimeError(f"there is no answer in {done.stdout!r}")
    return time.perf_counter() - start
