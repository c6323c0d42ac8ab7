"""Commands in processes of their own, forked from one that has imported everything: a tenth of a second each."""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import segue.cli
import segue.cli.dialog
import segue.entry
import segue.graphs.lifecycle

Patches = Mapping[str, object]
"""Values of modules' names, by their whole names."""
SERVER = multiprocessing.get_context("forkserver")
_POSTGRES = (
    "segue.checkpoints.postgres.database",
    "langgraph.checkpoint.postgres.aio",
    "procrastinate",
    "psycopg_pool",
)
_SERVICE = ("segue.server.app", "uvicorn", "aiosqlite", "langchain_openai", "prometheus_client")
SERVER.set_forkserver_preload(["pytest", __name__, *_POSTGRES, *_SERVICE])


def run_elsewhere(work: Callable[..., object], *given: object) -> int:
    """Call a function of a module in a process of its own, with the environment of this one.

    Returns the exit code, negative for a signal.
    """
    process = ForkServerProcess(target=_call, args=(work, given, {**os.environ}))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _call(work: Callable[..., object], given: tuple[object, ...], environ: dict[str, str]) -> None:
    """The server's own environment is the one that its first process happened to have."""
    os.environ.clear()
    os.environ.update(environ)
    work(*given)


class CommandProcess:
    """A command under way: a part of the interface of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        folder: Path,
        environ: dict[str, str],
        patched: Patches | None = None,
        **streams: str,
    ) -> None:
        for name in ("out", "err"):
            if file := streams.get(name):
                Path(folder, file).write_bytes(b"")
        orders = (arguments, str(folder), environ, patched or {}, streams)
        self._process = ForkServerProcess(target=_run_commands, args=orders)
        self._process.start()

    @property
    def pid(self) -> int:
        pid = self._process.pid
        assert pid is not None
        return pid

    @property
    def sentinel(self) -> int:
        """Ready to be read once the process has ended."""
        return self._process.sentinel

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, seconds: float | None = None) -> int:
        self._process.join(seconds)
        code = self._process.exitcode
        assert code is not None, f"it did not end within {seconds} seconds"
        return code


Begun = CommandProcess | subprocess.Popen[bytes]


def begin(
    arguments: tuple[str, ...], folder: Path, environ: dict[str, str], log: Path, *, forked: bool = True
) -> Begun:
    """Start a command that writes to a file, forked or as `python -m segue`."""
    if forked:
        return CommandProcess(arguments, folder, environ, out=str(log), err=str(log))
    with log.open("wb") as said:
        command = [sys.executable, "-m", "segue", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said)


def _run_commands(
    arguments: tuple[str, ...], folder: str, environ: dict[str, str], patched: Patches, streams: dict[str, str]
) -> None:
    """What the process does: `terminal` is what it reads and writes, or else `out` and `err` are what it writes to."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    if terminal := streams.get("terminal"):
        os.setsid()  # so that Ctrl-C reaches it as a signal
        paths = [terminal] * 3
    else:
        paths = [os.devnull, streams["out"], streams["err"]]
    for number, path in enumerate(paths):
        opened = os.open(path, os.O_RDWR if terminal or not number else os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (_text(number, mode) for number, mode in enumerate("rww"))
    for name, value in patched.items():
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], value)
    sys.argv[:] = ["segue", *arguments]
    segue.cli.main()


def _text(number: int, mode: str) -> io.TextIOWrapper:
    stream = os.fdopen(number, mode + "b", closefd=False)
    return io.TextIOWrapper(stream, encoding="utf-8", line_buffering=number == 2 or os.isatty(number))
