"""A turn of a hundred calls in a long conversation, killed on its way and resumed.

`python -m costs.conversation URL FOLDER` prints JSON. It is the conversation of
https://github.com/temporalio/sdk-python/issues/1890: about 209,000 tokens, then calls with results of 5 kB, each of
which sends all of it.
"""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from .peers import UNTRIMMED, open_segue, page_tool
from .processes import HERE, requests_of
from .worker import converse, stored

CALLS, KILLED_AT, TURNS_BEFORE = 100, 53, 27
RESULTS = "random-5000"
NAME = "kept-whole-resumed"


async def begin(url: str, folder: Path) -> None:
    """Hold the conversation, and end without any farewell when the model is asked for the call KILLED_AT."""
    async with open_segue(url, folder, counted(folder), "native", **UNTRIMMED) as app:

        async def ask(message: str, session: str) -> AsyncIterator[str]:
            async for event in app.chat(message, session_id=session, agent="bench"):
                yield event.type

        await converse(ask, NAME, TURNS_BEFORE)
        results = 0
        async for kind in ask(f"Read the handbook. [bench native {CALLS} {NAME}]", NAME):
            results += kind == "tool_result"
            if results == KILLED_AT - 1:
                os.kill(os.getpid(), signal.SIGKILL)


async def resume(url: str, folder: Path) -> None:
    """Continue the task in another process, until its answer."""
    start, cpu = time.perf_counter(), time.process_time()

    def spent() -> tuple[float, float]:
        return time.perf_counter() - start, time.process_time() - cpu

    async with open_segue(url, folder, counted(folder), "native", **UNTRIMMED) as app:
        (task,) = await app.resumable()
        called = None
        async for event in app.resume_and_follow(task.task_id):
            called = called or (spent() if event.type == "tool_call" else None)
        ended = await app.task(task.task_id)
    took = dict(zip(("first", "first_cpu", "seconds", "cpu"), (called or spent()) + spent(), strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(took | {"status": ended.status, "peak": peak}))


def counted(folder: Path) -> Any:
    """The tool, which writes down each of its calls."""
    tool: Any = page_tool(RESULTS)

    async def read_page(number: int) -> str:
        """Read one page of the handbook."""
        with (folder / "calls").open("a", encoding="ascii") as calls:
            calls.write(f"{number}\n")
        return str(await tool(number))

    return read_page


def main(url: str, folder: Path) -> None:
    """Kill it and resume it; print what the resumption took, and which calls were made."""
    command = [sys.executable, "-m", f"{HERE.name}.conversation", url, str(folder)]
    killed = subprocess.run([*command, "begin"], check=False, cwd=HERE.parent)
    if killed.returncode != -signal.SIGKILL:
        raise RuntimeError(f"it was not killed, but ended with {killed.returncode}")
    before = stored(folder)
    done = subprocess.run([*command, "resume"], cwd=HERE.parent, stdout=subprocess.PIPE, check=True)
    calls = (folder / "calls").read_text(encoding="ascii").split()
    made = {"calls": len(set(calls)), "repeated": len(calls) - len(set(calls)), "requests": requests_of(url, NAME)}
    print(json.dumps(json.loads(done.stdout) | made | {"stored_before": before, "stored": stored(folder)}))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], Path(sys.argv[2]))
    else:
        asyncio.run({"begin": begin, "resume": resume}[sys.argv[3]](sys.argv[1], Path(sys.argv[2])))
