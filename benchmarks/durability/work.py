"""What an adapter gets, and what it gives; the tools, whose effects are lines of a file that is not the framework's."""

import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MODEL, SESSION, SYSTEM = "scripted", "ann", "You are a clerk."
LONGEST = 3_600.0
"""Seconds after which a process gives up that nobody waits for any more; no judge waits for it."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: with an answer, or waiting for approvals of these calls, by the names of their tools."""

    answer: str = ""
    waiting: tuple[str, ...] = ()
    error: str = ""
    """The error's class, where it ended with one."""


@dataclass
class Work:
    """One thing that an adapter is to do in the session `SESSION`.

    It stores what it needs in `folder`, and reaches the model at `url`. Calls of `guarded` tools need approval. With
    `nested` these tools are those of an agent that is the tool `clerk` of the agent that gets the message.
    """

    folder: Path
    url: str
    message: str = ""
    names: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    process: str = "first"
    """Which of two processes it is, for frameworks that tell them apart."""
    changed: bool = False
    """The program is another version: its tools have other descriptions, and one more is there."""
    tools: list[Callable[..., Any]] = field(default_factory=list)
    nested_tools: list[Callable[..., Any]] = field(default_factory=list)
    arrival: Callable[[Callable[[str], object]], None] = field(default=lambda deliver: None)
    """Takes what delivers a message to the running task, for frameworks that can do it in the same process only."""

    def json(self) -> dict[str, Any]:
        given = ("folder", "url", "message", "names", "guarded", "nested", "process", "changed")
        return {
            name: str(value) if name == "folder" else value for name, value in asdict(self).items() if name in given
        }

    @classmethod
    def read(cls, given: dict[str, Any], trap: "Trap") -> "Work":
        work = cls(**given | {"folder": Path(given["folder"])})
        names = [*work.names, *(["archive"] if work.changed else [])]
        work.tools = [_tool(work, name, trap) for name in names]
        work.nested_tools = [_tool(work, name, trap) for name in work.nested]
        work.arrival = lambda deliver: threading.Thread(
            target=_deliver, args=(work.folder, deliver), daemon=True
        ).start()
        return work


class Trap:
    """Kills this process at its n-th boundary: a commit, a renamed or written file, before and after an effect.

    The boundaries of effects also have names, because threads may change the order of the others.

    A commit is the end of a transaction of SQLite, or a statement that writes outside of one, in any database that the
    process opens. Each is a boundary just before it takes effect: what was committed before is stored, and no more.
    """

    def __init__(self, folder: Path, place: int | str) -> None:
        self._folder, self._place, self._passed = str(folder), place, 0
        self._lock = threading.Lock()

    def install(self) -> None:
        """Watch every database and file from now on; it cannot be taken back, so the process is a fork."""
        if not self._place:
            return
        real = sqlite3.connect

        def connect(*given: Any, **named: Any) -> sqlite3.Connection:
            connection = real(*given, **named)
            connection.set_trace_callback(lambda statement: self._note(connection, statement))
            return connection

        sqlite3.connect = sqlite3.dbapi2.connect = connect  # type: ignore[assignment]
        sys.addaudithook(self._see)

    def reach(self, name: str = "") -> None:
        with self._lock:
            self._passed += 1
            if self._place in (self._passed, name):
                os.kill(os.getpid(), signal.SIGKILL)

    def _see(self, event: str, given: tuple[Any, ...]) -> None:
        renames = event == "os.rename" and str(given[1]).startswith(self._folder)
        opens = event == "open" and str(given[0]).startswith(self._folder) and not str(given[0]).endswith(OURS)
        if renames or (opens and isinstance(given[1], str) and set(given[1]) & set("wax+")):
            self.reach()

    def _note(self, connection: sqlite3.Connection, statement: str) -> None:
        verb = statement.split(maxsplit=1)[0].upper() if statement.strip() else ""
        writes = verb in ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE") and not connection.in_transaction
        if verb in ("COMMIT", "END") or writes:
            self.reach()


EFFECTS, INSIDE, GO, ARRIVED, DELIVERED = "effects.txt", "inside", "go", "arrived", "delivered"
OURS = (EFFECTS, INSIDE, GO, ARRIVED, DELIVERED, "ended.json", "modules.json", "log.txt")
"""Files of the judge; writing them is no boundary."""


def append(file: Path, line: str) -> None:
    """Add a line that outlives this process, whatever happens to it next."""
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(opened, f"{line}\n".encode())
    os.fsync(opened)
    os.close(opened)


def effects(folder: Path) -> list[str]:
    """What happened outside, in its order."""
    file = folder / EFFECTS
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def wait_for(file: Path, seconds: float = LONGEST) -> bool:
    end = time.monotonic() + seconds
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return file.exists()


def _deliver(folder: Path, deliver: Callable[[str], object]) -> None:
    if not (folder / DELIVERED).exists() and wait_for(folder / ARRIVED):
        deliver((folder / ARRIVED).read_text(encoding="utf-8").strip())
        append(folder / DELIVERED, "")


def _tool(work: Work, name: str, trap: Trap) -> Callable[[int], str]:
    def effect(order: int) -> str:
        if name == "look":
            return f"Order {order} is open."
        if name == "hold":
            append(work.folder / INSIDE, "")
            wait_for(work.folder / GO)
        trap.reach(f"before {name}")
        append(work.folder / EFFECTS, name)
        trap.reach(f"after {name}")
        return f"{name} is done."

    effect.__name__ = effect.__qualname__ = name
    effect.__doc__ = f"{name.capitalize()} an order{', as of the second version' if work.changed else ''}."
    return effect
