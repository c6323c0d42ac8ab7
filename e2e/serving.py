"""`segue serve` as a process of its own, and what its interface says about a task."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.cli.process import Begun, begin
from tests.ports import free_port

SCREENSHOTS = Path(__file__).parents[1] / "build/screenshots"
SECONDS = 40.0
STARTING_SECONDS = 120.0
Json = dict[str, Any]


class Service:
    """A service with a database and a log in a folder: `with Service(folder) as service:`."""

    def __init__(self, folder: Path, agents: str = "", **environ: str) -> None:
        self._folder = folder
        self._environ = {**environment(), **environ}
        self._options: list[str] = []
        if agents:
            (folder / "agents.toml").write_text(agents, encoding="utf-8")
            self._options = ["--agents", str(folder / "agents.toml")]
        self.port = free_port()
        self.api = httpx.Client(base_url=self.url, timeout=SECONDS, trust_env=False)
        self._process: Begun | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, **environ: str) -> Self:
        """Start the process, with these settings beside the service's own."""
        command = ("serve", "--port", str(self.port), "--db", "segue.db", *self._options)
        self._process = begin(command, self._folder, {**self._environ, **environ}, self._folder / "log")
        wait_until(self._ready, STARTING_SECONDS)
        return self

    def _ready(self) -> bool:
        assert self._process and self._process.poll() is None, (self._folder / "log").read_text(encoding="utf-8")
        try:
            return self.api.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        code = self.stop()
        self.api.close()
        assert code == 0, (self._folder / "log").read_text(encoding="utf-8")

    def task(self, task_id: str) -> Json:
        """A task's row."""
        task: Json = self.api.get(f"/api/tasks/{task_id}").json()["task"]
        return task

    def answer(self, task_id: str) -> str:
        """The whole answer of a task that is done."""
        answer: str = self.task(task_id)["result"]["answer"]
        return answer

    def seqs(self, task_id: str) -> list[int]:
        """The numbers of a task's durable events, which are 1, 2, 3, …"""
        found = [event["seq"] for event in self._events(task_id)]
        assert found == [*range(1, len(found) + 1)]
        return found

    def types(self, task_id: str) -> list[str]:
        """The types of a task's durable events."""
        return [event["type"] for event in self._events(task_id)]

    def _events(self, task_id: str) -> list[Json]:
        events: list[Json] = self.api.get(f"/api/tasks/{task_id}/events", params={"limit": 500}).json()["items"]
        return events


def environment() -> dict[str, str]:
    """Nothing of the person's who runs the tests but where programs and home are."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "NO_PROXY": "127.0.0.1", "PYTHONUTF8": "1", "SEGUE_OFFLINE_PACE": "0"}


def wait_until(reached: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
