"""What befalls a call in a child: a kill, a stop, a network that fails, a second call, another clock."""

import ast
import json
import os
import random
import signal
import socket
import sqlite3
import ssl
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

from ...core.calls import Tool
from ...core.records import Json
from ...tools.bound_tool import NOT_DONE, BoundTool, Marked, run_in_thread

# The clock of a process, moved: what Python code sees as the time and the date.

HOURS = {"clock-forward": 25, "clock-back": -25}
"""The faults, and by how many hours they move the clock: the date is another one, too."""


def can_move() -> bool:
    """Whether the library that moves it is installed."""
    return find_spec("time_machine") is not None


def move(hours: int) -> None:
    """From now on, this process sees a time that is so many hours later; monotonic clocks go on."""
    from time_machine import travel

    travel(datetime.now(UTC) + timedelta(hours=hours), tick=True).start()


# The lines of the user's own code that a call runs, and what befalls them.

_FOREIGN = tuple(
    os.path.realpath(path) + os.sep
    for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), Path(__file__).parents[2])
)
_HARMLESS = (
    *("close", "aclose", "print", "debug", "info", "warning", "error", "exception", "log", "getLogger"),
    *("str", "repr", "len", "list", "dict", "tuple", "set", "sorted", "sum", "round", "isinstance"),
    *("format", "join", "strip", "lower", "upper", "split", "replace", "get", "append", "items", "values"),
    *("dumps", "isoformat", "strftime", "time", "now", "today"),
)
"""Calls that raise nothing in practice: they build a text, write a log, or close."""


class Unexpected(ValueError, LookupError, TypeError, OSError, RuntimeError):
    """An exception of each of the usual families, so that a tool that expects any of them catches it."""


def fail(place: str) -> None:
    """Raise an exception in the tool."""
    raise Unexpected(f"raised by segue chaos at {place}")


class Lines:
    """Before each of the lines `at` (the first is 1) `act` is called, with the file and the number of the line.

    `calling` are the lines of the tool itself, without what it calls, that call something which may fail.
    """

    def __init__(self, at: Container[int] = (), act: Callable[[str], None] = lambda place: None) -> None:
        self.count = 0
        self.calling: list[int] = []
        self._at = at
        self._act = act
        self._tool: FrameType | None = None
        self._seen: set[int] = set()

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
            self._tool = None  # a frame holds all that its function does

    def _frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        own = not name.startswith("<") and not os.path.realpath(name).startswith(_FOREIGN)
        if not own or str(frame.f_globals.get("__name__", "")).startswith("segue."):
            return None
        self._tool = self._tool or frame
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.count += 1
            if frame is self._tool:
                self._look(frame)
            if self.count in self._at:
                self._act(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return self._line

    def _look(self, frame: FrameType) -> None:
        """Note a line that calls something, the first time: the end of a `with` comes back to its line."""
        if frame.f_lineno not in self._seen and frame.f_lineno in _calling(frame.f_code):
            self.calling.append(self.count)
        self._seen.add(frame.f_lineno)


@lru_cache
def _calling(code: CodeType) -> frozenset[int]:
    """The lines of the file at which a call begins that may fail, apart from what tidies up or raises an error."""
    try:
        tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return frozenset()
    tidying = {
        id(inner)
        for node in ast.walk(tree)
        for part in (node.finalbody if isinstance(node, ast.Try) else [node] if isinstance(node, ast.Raise) else [])
        for inner in ast.walk(part)
    }
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in tidying)
    return frozenset(call.lineno for call in calls if _name(call.func) not in _HARMLESS)


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


# What befalls a call in a child: the process is killed or stopped, its network fails, or its call is made again.

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
        self._made: list[str] = []

    def install(self) -> None:
        """From now on, notice each file that is opened for writing."""
        sys.addaudithook(self._opened)

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            self.written = True
        if event in ("tempfile.mkstemp", "tempfile.mkdtemp"):
            self._made.append(str(arguments[0]))
        if event == "sqlite3.connect" and self.is_lost.get():
            self.was_asked = True
            raise sqlite3.OperationalError("unable to open database file")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch a call, at whose end there is room again."""
        import resource

        self.written, self._made, limits = False, [], resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def left(self) -> list[str]:
        """The temporary files and folders of the call that are still there."""
        return [path for path in self._made if os.path.exists(path)]

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


# A tool's check that fails, hangs, or answers from before the effect.

HANGS = 1.5
"""Seconds that Segue waits for a check that hangs."""


def has_check(tool: Tool) -> bool:
    """Whether the tool can say what came of an interrupted call."""
    if isinstance(tool, BoundTool):
        return tool.effect_check is not None
    return isinstance(tool, Marked) and type(tool).check_effect is not Marked.check_effect


def said(answer: Any) -> Any:
    """An answer as the journal has it."""
    is_json = answer is None or isinstance(answer, dict | list | str | int | float | bool)
    return answer if is_json else str(answer)


class FaultyCheck:
    """The check of a call, with the fault that befalls it in this process."""

    def __init__(self, tool: Tool, fault: str, label: str) -> None:
        self._tool: Any = tool
        self._fault = fault
        self._label = label
        self._is_asked = False

    @property
    def timeout(self) -> float | None:
        """How long Segue waits for its answer, where it hangs; None for the call itself."""
        return HANGS if self._fault == "check-hangs" and not self._is_asked else None

    async def keep(self, arguments: Mapping[str, Any], journal: Journal) -> None:
        """Ask it before the call, and keep what it answers."""
        answer = await self._tool.check_effect(arguments)
        journal.write("stale", label=self._label, answer=said(answer), not_done=answer is NOT_DONE)

    async def ask(self, arguments: Mapping[str, Any], journal: Journal, network: Network, files: Files) -> Any:
        """What it answers after the process was killed."""
        self._is_asked = True
        if self._fault == "check-stale":
            kept = next(line for line in journal.lines if line["moment"] == "stale")
            return NOT_DONE if kept["not_done"] else kept["answer"]
        if self._fault not in ("check-fails", "check-hangs"):
            return await self._tool.check_effect(arguments)
        lines, network.refused = Lines(), ANY if self._fault == "check-fails" else ""
        network.silent, lost = not network.refused, files.is_lost.set(bool(network.refused))
        network.watch()
        try:
            with lines.watched():
                answer = await self._tool.check_effect(arguments)
        finally:
            files.is_lost.reset(lost)
            network.refused, network.silent = "", False
        if network.was_asked or files.was_asked:
            return answer
        # A check that asks neither host nor database fails in its last line, or does not come to its end.
        if self._fault == "check-hangs":
            return await run_in_thread("check", lambda: time.sleep(60))
        with Lines((lines.count,), fail).watched():
            return await self._tool.check_effect(arguments)


# Which runs a hunt needs: one fault at one call each.

FAULTS = ("kill", "duplicate", "workers", "timeout", "network", "disk", "exception", "check", "clock", "undo")
"""The faults by name: the process is killed around and in a call; a call is carried out again, or by two workers at
once; its time is up before its effect; its hosts refuse connections, do not answer, or lose the answer; the disk is
full; what it calls after its effect raises an exception; its check fails, hangs, or answers from before the effect; the
clock has moved when it is resumed; and calls are undone."""
CHECKS = ("check-fails", "check-hangs", "check-stale")
AFTER_CALL = ("kill-after-call", *CHECKS, *HOURS)
"""Faults that begin with a kill after the call, before its outcome is stored."""
MOMENTS = 3
"""Lines of a call at which the process is killed."""
WATCHED = 60
"""Lines of a call before which the world is looked at, to find those that change it."""
HOSTS = 3
"""Hosts of a call whose connections are refused."""
UNDISTURBED = 4
"""Undisturbed runs at most: they show what differs by itself."""


@dataclass(frozen=True)
class Planned:
    """A run: a fault at a call, such as pay#1."""

    label: str
    fault: str
    at: int = 0
    host: str = ""

    def __str__(self) -> str:
        name = self.tool if self.fault == "none" else self.label
        return "/".join(filter(None, [name, self.fault, str(self.at or ""), self.host]))

    @classmethod
    def read(cls, name: str) -> Self:
        """The run of this name."""
        label, _, rest = name.partition("/")
        fault, _, rest = rest.partition("/")
        at, _, host = rest.partition("/")
        return cls(label, fault, int(at), host) if at.isdecimal() else cls(label, fault, 0, rest)

    @property
    def tool(self) -> str:
        return self.label.partition("#")[0]


@dataclass
class Step:
    """A call of the undisturbed run, with the world before and after it."""

    label: str
    name: str
    before: Any = None
    after: Any = None
    landing: float = 0.0
    lines: int = 0
    changes: list[int] = field(default_factory=list)
    """Lines before which the world was another than before the previous line."""
    calling: Sequence[int] = ()
    """Lines of the tool itself that call something which may fail."""
    hosts: Sequence[str] = ()
    writes: bool = False
    """Whether the call opened a file for writing."""
    result: Json = field(default_factory=dict)


def planned(steps: Sequence[Step], tools: Mapping[str, Tool], faults: Sequence[str], seed: int = 0) -> list[Planned]:
    """The runs of these calls. The seed chooses the lines at which processes are killed."""
    return [run for step in steps if step.name in tools for run in _of_step(step, tools[step.name], faults, seed)]


def notes(steps: Sequence[Step], tools: Mapping[str, Tool], faults: Sequence[str]) -> dict[str, list[str]]:
    """What cannot be tried: the ids of sentences, with the tools that they are about."""
    effects = [step for step in steps if step.name in tools and not tools[step.name].read_only]
    found = {
        "note_lines": {step.name: None for step in effects if not step.lines},
    }
    if "clock" in faults and not can_move():
        found["note_clock"] = {step.name: None for step in effects}
    return {name: [*about] for name, about in found.items() if about}


def _of_step(step: Step, tool: Tool, faults: Sequence[str], seed: int) -> Iterator[Planned]:
    if "duplicate" in faults and not tool.read_only:
        yield Planned(step.label, "duplicate")
    if "undo" in faults and getattr(tool, "undo", None) is not None:
        yield Planned(step.label, "undo")
    if "network" in faults and step.hosts:
        yield from (Planned(step.label, "refuse", host=host) for host in step.hosts[:HOSTS])
        yield Planned(step.label, "hang")
    if not tool.read_only:
        yield from _of_effect(step, tool, faults, random.Random(f"{seed}/{step.label}"))


def _of_effect(step: Step, tool: Tool, faults: Sequence[str], chance: random.Random) -> Iterator[Planned]:
    if "kill" in faults:
        yield from (
            Planned(step.label, f"kill-{at}") for at in ("before-intent", "before-call", "after-call", "after-outcome")
        )
        yield from (Planned(step.label, "kill-line", at) for at in _lines(step, chance))
    if "timeout" in faults and getattr(tool, "synchronous", False) and step.lines > 1:
        yield Planned(step.label, "timeout", step.lines)
    elif "timeout" in faults and step.hosts:
        yield Planned(step.label, "slow")
    if "network" in faults and step.hosts:
        yield Planned(step.label, "reset")
    if "workers" in faults and tool.idempotent and step.changes:
        yield Planned(step.label, "workers", step.changes[0] - 1)
    if "disk" in faults and step.writes:
        yield from (Planned(step.label, "disk", line) for line in (1, *step.changes[:1]))
    if "exception" in faults and not tool.idempotent and step.changes:
        yield from [Planned(step.label, "exception", n) for n in step.calling if n >= step.changes[0]][:1]
    if "check" in faults and has_check(tool):
        yield from (Planned(step.label, fault) for fault in CHECKS)
    if "clock" in faults and (tool.idempotent or has_check(tool)) and can_move():
        yield from (Planned(step.label, fault) for fault in HOURS)


def _lines(step: Step, chance: random.Random) -> list[int]:
    """At most MOMENTS of the lines after the first: the last one, and by chance those that the world changes before."""
    if step.lines < 2:
        return []
    others = [line for line in step.changes if line < step.lines] or range(2, step.lines)
    return sorted({step.lines, *chance.sample(others, min(MOMENTS - 1, len(others)))})


def most_effects(calls: Sequence[str], tools: Mapping[str, Tool], faults: Sequence[str], repeat: str = "") -> int:
    """How many effects the runs of a session with these calls, or the one that is repeated, may have at most.

    Each run makes all calls of the session again; the one that has the fault is made once more, or up to REPEATS times.
    """
    with_effect = [name for name in calls if name in tools and not tools[name].read_only]
    if not with_effect:
        return 0
    hosts = [str(number) for number in range(HOSTS)]
    numbers = [calls[:place].count(name) + 1 for place, name in enumerate(calls)]
    steps = [
        Step(f"{name}#{number}", name, lines=MOMENTS + 2, changes=[2, 3, 4], calling=[4], hosts=hosts, writes=True)
        for name, number in zip(calls, numbers, strict=True)
    ]
    runs = planned(steps, tools, faults)
    if repeat:
        runs = [run for run in runs if repeat.startswith(f"{run.label}/{run.fault}")][:1]
    compared = len({run.label for run in runs}) + sum(run.fault.startswith("kill") for run in runs)
    again = sum(len(with_effect) if run.fault == "undo" else _again(run, tools[run.tool]) for run in runs)
    return len(with_effect) * (len(runs) + UNDISTURBED + 1 + compared) + again


def _again(run: Planned, tool: Tool) -> int:
    if tool.read_only:
        return 0
    return REPEATS if run.fault == "duplicate" and not tool.idempotent else 1
