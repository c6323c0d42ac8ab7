"""A process that has imported an adapter, and forks a process for each thing that is to be done.

An order is a line of JSON; two lines answer it, the process's id and how it ended.
"""

import contextlib
import functools
import importlib
import json
import os
import subprocess
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.durability import verbs
from benchmarks.durability.work import LONGEST, Outcome, Trap, Work

HANGS, MODULES = "hangs", "modules.json"


@dataclass(frozen=True)
class Ended(Outcome):
    """How a process ended: as an outcome, killed by its trap, or after too long a time."""

    killed: bool = False
    more: Any = None
    """What a verb gives that is no outcome."""


class Host:
    """One adapter, one thing at a time; `begin` and `end` are apart, so that two hosts can be made to meet."""

    def __init__(self, adapter: str, process: str) -> None:
        self.process = process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.durability.host", adapter],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._file = Path()
        self._running = 0

    def begin(self, verb: str, work: Work, die_at: int = 0, **options: Any) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._file = work.folder / "ended.json"
        self._file.unlink(missing_ok=True)
        work.process = self.process
        order = {"verb": verb, "work": work.json(), "die_at": die_at, "options": options}
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        self._running = int(self._process.stdout.readline())

    def end(self, seconds: float = LONGEST) -> Ended:
        """Wait until it ends; what takes longer is killed, and hangs."""
        assert self._process.stdout is not None
        late: list[int] = []

        def kill() -> None:
            late.append(self._running)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._running, 9)

        timer = threading.Timer(seconds, kill)
        timer.start()
        status = int(self._process.stdout.readline())
        timer.cancel()
        if late:
            return Ended(error=HANGS)
        if status == 9:
            return Ended(killed=True)
        return Ended(**json.loads(self._file.read_text(encoding="utf-8")))

    def do(self, verb: str, work: Work, die_at: int = 0, seconds: float = LONGEST, **options: Any) -> Ended:
        self.begin(verb, work, die_at, **options)
        return self.end(seconds)

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def adapter_named(name: str) -> ModuleType:
    return importlib.import_module(name if "." in name else f"benchmarks.durability.adapters.{name}")


def _carry_out(adapter: ModuleType, order: dict[str, Any]) -> None:
    """Run in the fork."""
    folder = Path(order["work"]["folder"])
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    trap = Trap(folder, order["die_at"])
    work = Work.read(order["work"], trap)
    trap.install()
    ended: dict[str, Any] = {}
    try:
        carry_out = getattr(adapter, order["verb"], None) or functools.partial(getattr(verbs, order["verb"]), adapter)
        given = verbs.call(carry_out, work, *order["options"].values())
        ended = vars(given) if isinstance(given, Outcome) else {"more": given}
    except BaseException as error:  # noqa: BLE001 - a framework may raise anything
        traceback.print_exc()
        ended = {"error": type(error).__name__}
    trap.reach()
    (folder / MODULES).write_text(json.dumps([name for name in sys.modules if name != "__main__"]), encoding="utf-8")
    (folder / "ended.json").write_text(json.dumps(ended), encoding="utf-8")
    os._exit(0)


def main(name: str) -> None:
    adapter = adapter_named(name)
    answers = os.dup(1)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _carry_out(adapter, order)
        os.write(answers, f"{child}\n".encode())
        status = os.waitpid(child, 0)[1]
        modules = Path(order["work"]["folder"]) / MODULES
        names = json.loads(modules.read_text(encoding="utf-8")) if modules.exists() else []
        os.write(answers, f"{os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}\n".encode())
        for name in names:  # what the fork has imported, the next ones need not import
            if name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)


if __name__ == "__main__":
    main(sys.argv[1])
