"""What befalls a call in a child: the process is killed or stopped, its network fails, or its call is made again."""

import json
import os
import signal
import socket
import sqlite3
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

REPEATS = 40
"""How often a call is repeated that is not marked; fewer where it takes long."""
REPEAT_SECONDS = 3.0
ANY = "any host"
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


class Files:
    """The files that this process writes: `written` is set by the first one; a full disk takes no more bytes.

    Where they are `is_lost`, no SQLite database can be opened, and `was_asked` is set by one who tries.
    """

    def __init__(self) -> None:
        self.written = False
        self.is_lost: ContextVar[bool] = ContextVar("is_lost", default=False)
        self.was_asked = False

    def install(self) -> None:
        """From now on, notice each file that is opened for writing."""
        sys.addaudithook(self._opened)

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            self.written = True
        if event == "sqlite3.connect" and self.is_lost.get():
            self.was_asked = True
            raise sqlite3.OperationalError("unable to open database file")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch a call, at whose end there is room again."""
        import resource

        self.written, limits = False, resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def fill(self) -> None:
        """Let every further write fail, as on a full disk."""
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class Network:
    """The connections of this process to IPv4 and IPv6 hosts: `seen` are those that calls asked for.

    While it is `refused` (a host and port, or ANY) connections to it fail, and `was_asked` is set by each one. While it
    is `silent` no answer arrives: a socket with a time-out runs out of it at once, and `hung` is set where one would
    wait for ever. While it is `reset` an answer that arrives is lost with its connection.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.refused = ""
        self.silent = False
        self.reset = False
        self.hung = False
        self.was_asked = False

    def watch(self) -> None:
        """Forget what was asked for."""
        self.hung = self.was_asked = False

    def install(self) -> None:
        """From now on, every connection of this process is watched."""
        real: Any = socket.socket
        connect, network = real.connect, self

        def connecting(sock: Any, address: Any) -> Any:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                host = f"{address[0]}:{address[1]}"
                network.was_asked = True
                if host not in network.seen:
                    network.seen.append(host)
                if network.refused in (host, ANY):
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
