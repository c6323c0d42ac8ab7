"""What befalls a call in a child: the process is killed or stopped, its network fails, or its call is made again."""

import json
import os
import resource
import signal
import socket
import ssl
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

REPEATS = 40
"""How often a call is repeated that is not marked; fewer where it takes long."""
REPEAT_SECONDS = 3.0
SILENCE = 0.5
"""Seconds that a socket waits for an answer that does not come, whatever its time-out."""


class Journal:
    """What the run's tools did, a line of JSON each, on the disk before anything else happens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lines: list[dict[str, Any]] = read_journal(path)

    def write(self, moment: str, **fields: Any) -> None:
        """Append a line."""
        line = {"moment": moment, "at": time.monotonic(), **fields}
        self.lines.append(line)
        append_line(self._path, line)

    def label(self, key: str, name: str) -> str:
        """The call's name with its number among those of its tool; the same in each process of the run."""
        known = dict.fromkeys(line["key"] for line in self.lines if line["moment"] == "intent" and line["name"] == name)
        if key not in known:
            self.write("intent", key=key, name=name)
            known[key] = None
        return f"{name}#{[*known].index(key) + 1}"


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line of JSON, which is on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, json.dumps(line, default=str).encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's journal."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def kill() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal comes before that


def stop() -> None:
    """Stop this process until it is continued."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # to this thread, so that it stops here


_FOREIGN = tuple(
    os.path.realpath(path) + os.sep
    for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), Path(__file__).parents[1])
)


class Lines:
    """The lines of the user's own code that a call runs; before each line of `at` (the first is 1), `act` is called."""

    def __init__(self, at: Container[int] = (), act: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self._at = at
        self._act = act

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch what runs in this thread, and in those that begin meanwhile."""
        sys.settrace(self._frame)
        threading.settrace(self._frame)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        own = not name.startswith("<") and not os.path.realpath(name).startswith(_FOREIGN)
        return self._line if own and "/tools/" not in _module_path(frame) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count in self._at:
                self._act()
        return self._line


def _module_path(frame: FrameType) -> str:
    """The module's name as a path, where it is one of Segue's that lies elsewhere."""
    name = str(frame.f_globals.get("__name__", ""))
    return "/tools/" if name.startswith("segue.") else ""


class Files:
    """The files that this process writes: `written` is set by the first one; a full disk takes no more bytes."""

    def __init__(self) -> None:
        self.written = False

    def install(self) -> None:
        """From now on, notice each file that is opened for writing."""
        sys.addaudithook(self._opened)

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            self.written = True

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch a call, at whose end there is room again."""
        self.written, limits = False, resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def fill(self) -> None:
        """Let every further write fail, as on a full disk."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class Network:
    """The connections of this process to IPv4 and IPv6 hosts: `seen` are those that calls asked for.

    While it is `refused` (a host and port) connections to it fail; while it is `silent` no answer arrives: a socket
    with a time-out runs out of it at once, and `hung` is set where one would wait for ever. While it is `reset` an
    answer that arrives is lost with its connection.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.refused = ""
        self.silent = False
        self.reset = False
        self.hung = False

    def install(self) -> None:
        """From now on, every connection of this process is watched."""
        real: Any = socket.socket
        connect, network = real.connect, self

        def connecting(sock: Any, address: Any) -> Any:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                host = f"{address[0]}:{address[1]}"
                if host not in network.seen:
                    network.seen.append(host)
                if host == network.refused:
                    raise ConnectionRefusedError(111, "Connection refused")
            return connect(sock, address)

        real.connect = connecting
        for kind, name in ((real, "recv"), (real, "recv_into"), (ssl.SSLSocket, "read")):
            setattr(kind, name, self._receiving(getattr(kind, name)))

    def _receiving(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def receive(sock: Any, *arguments: Any) -> Any:
            if self.silent and sock.family in (socket.AF_INET, socket.AF_INET6):
                seconds = sock.gettimeout()
                if seconds == 0:
                    time.sleep(0.01)
                    raise BlockingIOError(11, "no answer yet")
                self.hung = self.hung or seconds is None
                time.sleep(min(seconds or SILENCE, SILENCE))
                raise TimeoutError("timed out")
            given = real(sock, *arguments)
            if self.reset and sock.family in (socket.AF_INET, socket.AF_INET6):
                raise ConnectionResetError(104, "Connection reset by peer")
            return given

        return receive
