"""A process that has imported an adapter, and forks a process for each thing that is to be done.

An order is a line of JSON; two lines answer it, the process's id and how it ended.
"""

import collections
import contextlib
import faulthandler
import functools
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.durability import verbs
from benchmarks.durability.work import Outcome, Trap, Work

HANGS, MODULES = "hangs", "modules.json"
PAUSE, LOOKS, MANY_LOOKS = 0.05, 100, 2_400
"""How often a process is looked at, in seconds; after how many looks at rest it waits for another, or hangs."""
AT_REST = 0.9
"""The share of the looks; one that asks every so often whether it may go on is busy in the others."""
CPU_SECONDS = 900
"""A process that has used more of the processor hangs."""

NO_CERTIFICATES = {"SSL_CERT_FILE": "", "SSL_CERT_DIR": str(Path(__file__).parent)}
"""Nothing is reached by TLS, and a client that reads a machine's certificates takes longer for it than for a turn."""


@dataclass(frozen=True)
class Ended(Outcome):
    """How a process ended: as an outcome, killed by its trap, or because it would not have ended."""

    killed: bool = False
    more: Any = None
    """What a verb gives that is no outcome."""


class Host:
    """One adapter, one thing at a time; `begin` and `end` are apart, so that two hosts can be made to meet.

    No clock decides about a process: it hangs if it rests, look after look, while the model owes it nothing, or has
    used too much of the processor. A process that is merely slow, on a busy machine, is never at rest.
    """

    def __init__(self, adapter: str, process: str, owed: Callable[[], int] = lambda: 0) -> None:
        self.process = process
        self._owed = owed
        """How many requests the model has not answered."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.durability.host", adapter],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=os.environ | NO_CERTIFICATES,
        )  # fmt: skip
        self._file = Path()
        self._running = 0

    def begin(self, verb: str, work: Work, die_at: int | str = 0, **options: Any) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._file = work.folder / "ended.json"
        self._file.unlink(missing_ok=True)
        work.process = self.process
        order = {"verb": verb, "work": work.json(), "die_at": die_at, "seconds": CPU_SECONDS, "options": options}
        self._process.stdin.write(f"{json.dumps(order)}\n".encode())
        self._running = int(self._process.stdout.readline())

    def wait(self, looks: int = LOOKS, until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until the process ends or rests, or something else is true; gives whether it ended."""
        assert self._process.stdout is not None
        resting: collections.deque[bool] = collections.deque(maxlen=looks)
        while not select.select([self._process.stdout], [], [], PAUSE)[0]:
            resting.append(not self._owed() and _is_resting(self._running))
            if until() or (len(resting) == looks and sum(resting) >= AT_REST * looks):
                return False
        return True

    def reach(self, file: Path) -> bool:
        """Wait until the process has written a file; gives whether it has."""
        self.wait(MANY_LOOKS, file.exists)
        return file.exists()

    def end(self) -> Ended:
        """Wait until it ends; one that hangs is killed."""
        assert self._process.stdout is not None
        hangs = not self.wait(MANY_LOOKS)
        if hangs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._running, signal.SIGKILL)
        status = int(self._process.stdout.readline())
        if hangs or status == signal.SIGXCPU:
            return Ended(error=HANGS)
        if status:
            return Ended(killed=True) if status == signal.SIGKILL else Ended(error=signal.Signals(status).name)
        return Ended(**json.loads(self._file.read_text(encoding="utf-8")))

    def do(self, verb: str, work: Work, die_at: int | str = 0, **options: Any) -> Ended:
        self.begin(verb, work, die_at, **options)
        return self.end()

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def _is_resting(process: int) -> bool:
    """Whether no thread of it has anything to do; never, where the system does not say."""
    try:
        threads = [each.read_text() for each in Path(f"/proc/{process}/task").glob("*/stat")]
    except OSError:  # one has just ended
        return False
    return bool(threads) and all(each.rpartition(") ")[2][0] == "S" for each in threads)


def adapter_named(name: str) -> ModuleType:
    return importlib.import_module(name if "." in name else f"benchmarks.durability.adapters.{name}")


def _carry_out(adapter: ModuleType, order: dict[str, Any]) -> None:
    """Run in the fork."""
    folder = Path(order["work"]["folder"])
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], resource.RLIM_INFINITY))
    faulthandler.register(signal.SIGUSR1, file=log)
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
