"""Processes that have imported everything and fork a child for each run.

It reads requests from its standard input and writes replies to its standard output, a line of JSON each:
{"fork": orders} gives {"pid"} of a child that carries the orders out, and whose output goes to `log.txt` in the orders'
`folder`; {"wait": pid, "seconds"} gives {"status"}: an exit code, a negative signal, 'stopped' or 'hung' (then it was
killed).
"""

import ctypes
import gc
import json
import os
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ...core.agents import refused_hosts
from ...core.errors import ConfigurationError
from .traps import Journal

# Hosts that are never reached: a process ends, or an error is raised, before it connects to one.

REFUSED = 75
"""The exit code of a process that reached for a host that is never to be reached."""

_REACHING = (
    *("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"),
)
_LOOKS_UP = ("socket.getaddrinfo", "socket.gethostbyname")
_NAME = re.compile(r"[\w.-]+")


def hosts_of(refused: Sequence[str], agents: str) -> list[str]:
    """The hosts that an option and the agents file refuse."""
    return [*dict.fromkeys(host_of(text) for text in (*refused, *refused_hosts(agents)))]


def host_of(text: str) -> str:
    """The host of a name, an address or a URL, with or without a port; subdomains belong to it anyway."""
    with suppress(ValueError):
        bare = text.strip().removeprefix("*.")
        address = f"[{bare}]" if bare.count(":") > 1 and "[" not in bare else bare
        found = urlsplit(bare if "://" in bare else f"//{address}")
        host = (found.hostname or "").rstrip(".")
        is_network = found.path and not found.scheme
        if not is_network and (_NAME.fullmatch(host) or _address(host)):
            return host
    raise ConfigurationError("{text} is not a valid host: use one such as api.example.com.", text=repr(text))


def with_addresses(hosts: Sequence[str]) -> Iterator[str]:
    """The hosts, and the addresses that their names have now."""
    yield from hosts
    for host in hosts:
        with suppress(OSError, UnicodeError):
            yield from {str(found[4][0]) for found in socket.getaddrinfo(host, None)} - {host}


def refuse(hosts: Sequence[str], journal: Journal) -> None:
    """From now on, end this process before it connects to one of these hosts, or looks its name up.

    It sees what Python code asks for, and the arguments of programs that it starts; not connections of a C library.
    """

    def end(host: str) -> None:
        journal.write("refused", host=host)
        os._exit(REFUSED)

    if hosts:
        sys.addaudithook(_watch(hosts, end))


@contextmanager
def refusing(hosts: Sequence[str]) -> Iterator[None]:
    """Meanwhile, raise an error in this process, where the world is, before it does so."""
    watching = True

    def complain(host: str) -> None:
        if watching:
            raise ConfigurationError(
                "The world, or code loaded by the agents file, tried to connect to {host}, which is "
                "refused. No connection was made: use a staging system.",
                host=host,
            )

    if hosts:
        sys.addaudithook(_watch(hosts, complain))  # it cannot be removed again
    try:
        yield
    finally:
        watching = False


def _watch(hosts: Sequence[str], act: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _REACHING and (host := refused_in(_asked(event, arguments), hosts)):
            act(host)

    return watch


def _asked(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """The hosts that an event names, or the words of a command."""
    asked = arguments[0] if event in (*_LOOKS_UP, "os.system") else arguments[1]
    if event.startswith(("subprocess", "os.")):
        words = [asked] if isinstance(asked, str | bytes | os.PathLike) else asked
        return [os.fsdecode(word) for word in words]
    host = asked[0] if isinstance(asked, tuple) else asked
    return [host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)]


def refused_in(asked: Sequence[str], hosts: Sequence[str]) -> str:
    """The first of the hosts that is named in a text, as itself or with a subdomain; empty if none is."""
    for host in hosts:
        pattern = re.compile(rf"(?<![\w-]){re.escape(host)}(?![\w.-]*\w)", re.IGNORECASE)
        address = _address(host)
        if any(pattern.search(text) or (address and _address(text) == address) for text in asked):
            return host
    return ""


def _address(text: str) -> str:
    """An IP address in its one usual form; empty if the text is none."""
    with suppress(ValueError):
        found = ip_address(text.partition("%")[0])
        return str(getattr(found, "ipv4_mapped", None) or found)
    with suppress(ValueError, OSError):
        return socket.inet_ntoa(socket.inet_aton(text))
    return ""


# A process that has imported everything and forks a child for each run, so that a child costs a tenth of a second.

SECONDS = 60.0
"""A child that takes longer hangs."""

_PR_SET_PDEATHSIG = 1

Status = int | str


class Zygote:
    """The process that children are forked from: `python -m MODULE`, which calls `serve`."""

    def __init__(self, module: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._module = module
        self._folder = folder
        self._environment = environment

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            cwd=self._folder,
            env=dict(self._environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the process that asks
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._process.stdin and self._process.stdout
        if kind is not None:
            self.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def kill(self) -> None:
        """End the process and all that it has started, which are a session of their own."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def fork(self, orders: Mapping[str, Any]) -> int:
        """Start a child; returns its process id."""
        return int(self._ask({"fork": dict(orders)})["pid"])

    def wait(self, pid: int, seconds: float = SECONDS) -> Status:
        """The exit code, a negative signal, 'stopped' or 'hung'."""
        status: Status = self._ask({"wait": pid, "seconds": seconds})["status"]
        return status

    def run(self, orders: Mapping[str, Any], kill_after: float | None = None) -> Status:
        """Run a child to its end, or for so many seconds."""
        pid = self.fork(orders)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)  # a child that has ended is a zombie until it is waited for
        return self.wait(pid)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._module} ended: its error is above.")
        reply: dict[str, Any] = json.loads(line)
        return reply


class Zygotes:
    """So many processes that children are forked from; each is taken by one run at a time."""

    def __init__(self, module: str, count: int) -> None:
        self._all = [Zygote(module, Path.cwd(), os.environ) for _ in range(count)]
        self._free: queue.Queue[Zygote] = queue.Queue()
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for zygote in self._all:
                self._free.put(opened.enter_context(zygote))
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def kill(self) -> None:
        """End all of them, and what they have started."""
        for zygote in self._all:
            zygote.kill()

    @contextmanager
    def taken(self) -> Iterator[Zygote]:
        """Wait for one that is free."""
        zygote = self._free.get()
        try:
            yield zygote
        finally:
            self._free.put(zygote)


def serve(work: Callable[[dict[str, Any]], None]) -> None:
    """Fork children that do the work, and wait for them, until the standard input ends.

    Those that are left then are killed.
    """
    gc.freeze()
    left: set[int] = set()
    try:
        _answer(work, left)
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def _answer(work: Callable[[dict[str, Any]], None], left: set[int]) -> None:
    """Answer each request; `left` are the children that have not ended."""
    for line in sys.stdin:
        request = json.loads(line)
        if "fork" in request:
            reply = _fork(request["fork"], work)
            left.add(reply["pid"])
        else:
            reply = _wait(request["wait"], request["seconds"])
            if reply["status"] != "stopped":
                left.discard(request["wait"])
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def _fork(orders: dict[str, Any], work: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return {"pid": pid}
    code = 1
    try:
        _end_with(parent)
        _redirect(Path(orders["folder"], "log.txt"))
        work(orders)
        code = 0
    except BaseException:  # noqa: BLE001 - a child must never fall back into the zygote's loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that does; Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _redirect(log: Path) -> None:
    """The child has no part in the zygote's talk; what it says goes to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)


def _wait(pid: int, seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    asking = select.poll()
    asking.register(sys.stdin.fileno(), 0)
    while True:
        if asking.poll(0):
            sys.exit("The process that asks has ended.")
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if found and os.WIFSTOPPED(status):
            return {"status": "stopped"}
        if found:
            return {"status": os.waitstatus_to_exitcode(status)}
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"status": "hung"}
        time.sleep(0.001)
