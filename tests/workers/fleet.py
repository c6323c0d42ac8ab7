"""Workers as processes over one database, and the endpoint that their model is."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.process import Begun, begin

AGENTS = Path(__file__).with_name("agents.toml")
ROOT = Path(__file__).parents[2]


class Fleet:
    """Processes of `segue worker`; a number names each for as long as the fleet is there."""

    def __init__(self, url: str, folder: Path, environ: Mapping[str, str], concurrency: int, *, forked: bool) -> None:
        self.payments = folder / "payments.jsonl"
        self.environ = {**os.environ, **environ, "PAYMENTS": str(self.payments)}
        self._command = ("worker", "--db", url, "--concurrency", str(concurrency), "--grace", "5", "--agents")
        self._folder = folder
        self._forked = forked
        self._processes: list[Begun] = []

    def start(self, count: int = 1, agents: Path = AGENTS, **environ: str) -> None:
        """Start more workers."""
        for _ in range(count):
            name = f"worker-{len(self._processes)}"
            given, log = {**self.environ, "PGAPPNAME": name, **environ}, self._folder / f"{name}.log"
            self._processes.append(begin((*self._command, str(agents)), ROOT, given, log, forked=self._forked))

    def name_of(self, pid: int) -> str:
        """What the server knows a worker's connections by."""
        return f"worker-{[process.pid for process in self._processes].index(pid)}"

    @property
    def running(self) -> list[int]:
        """The ids of the processes that are there."""
        return [process.pid for process in self._processes if process.poll() is None]

    def kill(self, pid: int) -> None:
        """Kill a worker with −9."""
        self._signal(pid, signal.SIGKILL)
        next(process for process in self._processes if process.pid == pid).wait()

    def freeze(self, pid: int) -> None:
        self._signal(pid, signal.SIGSTOP)

    def thaw(self, pid: int) -> None:
        self._signal(pid, signal.SIGCONT)

    def terminate(self, pid: int) -> None:
        """Ask a worker to hand its tasks over and end."""
        self._signal(pid, signal.SIGTERM)

    def wait(self, pid: int, seconds: float = 120.0) -> int:
        """The exit code of a worker that ends."""
        return next(process for process in self._processes if process.pid == pid).wait(seconds)

    def said(self) -> str:
        """What the workers wrote to standard error."""
        return "".join(log.read_text(encoding="utf-8") for log in sorted(self._folder.glob("worker-*.log")))

    def end(self) -> None:
        for pid in self.running:
            self.kill(pid)

    def _signal(self, pid: int, number: int) -> None:
        if pid not in self.running:
            raise ProcessLookupError(f"worker {pid} is gone: {self.said()[-2000:]}")
        os.kill(pid, number)


@contextmanager
def endpoint() -> Iterator[dict[str, str]]:
    """A model as a process, and the environment that names it."""
    command = [sys.executable, "-m", "tests.workers.endpoint"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
                "OPENAI_API_KEY": "none",
                "OPENAI_MODEL": "payer",
                "PYTHONPATH": str(ROOT),
            }
        finally:
            process.kill()


@contextmanager
def fleet(
    url: str, folder: Path, environ: Mapping[str, str], concurrency: int = 4, *, forked: bool = False
) -> Iterator[Fleet]:
    """No worker yet; those that are started are killed at the end. A measurement starts them as people do, unforked."""
    workers = Fleet(url, folder, environ, concurrency, forked=forked)
    try:
        yield workers
    finally:
        workers.end()


@contextmanager
def service(url: str, folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """`segue serve` as a process that leaves every task to the workers; gives its address."""
    log = folder / "service.log"
    environ = {**os.environ, **environ, "SEGUE_DISPATCH": "always"}
    command = ("serve", "--port", "0", "--db", url, "--agents", str(AGENTS))
    process = begin(command, ROOT, environ, log)
    try:
        for _ in range(900):
            if found := re.search(r"running on (http://[\w.]+:[1-9]\d*)", log.read_text(encoding="utf-8")):
                break
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        assert found, log.read_text(encoding="utf-8")
        yield found[1]
    finally:
        process.kill()
        process.wait()
