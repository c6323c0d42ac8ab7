"""The processes of the benchmark: the endpoint, and one for each peer."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TOOL = "async-1000"
"""The tool where none is named: asynchronous, with results of 1,000 characters."""


@dataclass(frozen=True)
class Run:
    """What some tasks of one peer took: seconds, bytes, turns of the event loop and hops to it from threads."""

    seconds: float
    cpu: float
    first: float
    first_cpu: float
    worst: float
    turns: int
    hops: int
    stored: int
    resident: int
    peak: int


@contextmanager
def endpoint() -> Iterator[str]:
    """The address of a running endpoint."""
    with _started("endpoint") as process:
        yield f"http://127.0.0.1:{_line(process).strip()}/v1"


def requests_of(url: str, name: str) -> Mapping[str, int]:
    """What the endpoint knows of the requests of a task."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/requests/{name}") as answer:
        known: Mapping[str, int] = json.load(answer)
    return known


class Worker:
    """A peer that waits for tasks."""

    def __init__(self, process: "subprocess.Popen[str]", kind: str) -> None:
        self._process = process
        self._kind = kind
        self._ready = False

    def run(self, name: str, calls: int, tasks: int = 1, at_once: int = 1, earlier: int = 0) -> Run:
        """Run tasks with so many calls each, and wait for their end."""
        if not self._ready:  # so that several start at once
            self._ready = bool(_line(self._process))
        asked = {"tasks": tasks, "at_once": at_once, "earlier": earlier}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked | {"kind": self._kind, "calls": calls, "name": name}) + "\n")
        self._process.stdin.flush()
        return Run(**json.loads(_line(self._process)))


@contextmanager
def worker(peer: str, url: str, folder: Path, tool: str = TOOL) -> Iterator[Worker]:
    """A peer in a process of its own, with its database in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with _started("worker", peer, url, str(folder), tool) as process:
        yield Worker(process, "json" if "json" in peer else "native")


@contextmanager
def _started(module: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", f"{HERE.name}.{module}", *arguments]
    process = subprocess.Popen(command, cwd=HERE.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise RuntimeError(f"{process.args} ended with {process.wait()}")
    return line
