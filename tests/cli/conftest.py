"""The command line as people run it: in a process of its own, in a folder of its own."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from segue.cli import app

from .process import CommandProcess, Patches

SECONDS = 60
PLAIN_TERMINAL = {"TTY_COMPATIBLE": "1", "TERM": "dumb"}
"""Progress and hints are shown, line by line; they are not where there is no terminal."""

TOOLS = '''
import os, pathlib, time
from segue import tool

HERE = pathlib.Path(os.environ["TOOLS_FOLDER"])

def effect(text):
    with (HERE / "effects").open("a") as file:
        file.write(text + "\\n")

@tool(keywords=("fetch",), title="Fetch")
def fetch(page: str = "front") -> str:
    """Fetch a page, once it is let go."""
    effect("fetch begun")
    while not (HERE / "go").exists():
        time.sleep(0.01)
    effect("fetch done")
    return "fetched"

@tool(keywords=("store",), title="Store")
def store(page: str = "front") -> str:
    """Store a page."""
    effect("store done")
    return "stored [red]\\x1b[31m"

@tool(keywords=("refund",), title="Refund", needs_approval=True)
def refund(amount: int = 50, note: str = "sorry") -> str:
    """Refund an amount."""
    effect(f"refund {amount} {note}")
    return f"refunded {amount}"

@tool(keywords=("mail",), title="Mail", needs_approval=True)
def mail(to: str = "ann") -> str:
    """Mail somebody."""
    effect(f"mail {to}")
    return f"mailed {to}"
'''

AGENTS = """
[[agent]]
agent_id = "pages"
mode = "plan"
tools = ["page_tools:fetch", "page_tools:store"]

[[agent]]
agent_id = "shop"
mode = "plan"
tools = ["page_tools:fetch", "page_tools:store", "page_tools:refund", "page_tools:mail"]
"""


class Terminal:
    """A process at a terminal of its own, and the person who types there."""

    def __init__(self, process: CommandProcess, ours: int, theirs: int) -> None:
        self.process = process
        self._ours = ours
        self._theirs: int | None = theirs
        """Open as long as the process runs, so that what it wrote last can be read."""
        self._raw = b""
        self._read_to = 0

    @property
    def raw(self) -> str:
        """All that was written so far."""
        return self._raw.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """All that was written so far, without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r", "")

    def until(self, text: str, seconds: float = SECONDS) -> None:
        """Wait until the text comes, after what was waited for before."""
        deadline = time.monotonic() + seconds
        while (place := self.text.find(text, self._read_to)) < 0:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.text[self._read_to :]}"
            assert self._take(), f"it ended without {text!r}: {self.text[self._read_to :]}"
        self._read_to = place + len(text)

    def type(self, text: str) -> None:
        """Type the text as it is; Enter is \\n, Ctrl-C is \\x03."""
        os.write(self._ours, text.encode())

    def press(self, key: str, *, until: str) -> None:
        """Press a key, and again if it had no effect: GNU readline loses a signal that comes as it begins to wait."""
        self.type(key)
        try:
            self.until(until, SECONDS / 4)
        except AssertionError:
            self.type(key)
            self.until(until)

    def end(self) -> int:
        """Read all that comes, and return the exit code."""
        deadline = time.monotonic() + SECONDS
        while self._take():
            assert time.monotonic() < deadline, self.text[self._read_to :]
        return self.process.wait(SECONDS)

    def _take(self) -> bool:
        """Read what is there, waiting a moment for it; False at the end."""
        ready = select.select([self._ours, self.process.sentinel], [], [], 0.1)[0]
        if self.process.sentinel in ready:
            self._close_theirs()
        if self._ours not in ready:
            return True
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self._raw += piece
        return bool(piece)

    def _close_theirs(self) -> None:
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None

    def close(self) -> None:
        self._close_theirs()
        os.close(self._ours)


@dataclass
class Shell:
    """Runs `segue` in a folder: in this process, or in one of its own."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    started: list["CommandProcess | subprocess.Popen[bytes]"] = field(default_factory=list)
    terminals: list[Terminal] = field(default_factory=list)

    def __call__(self, *arguments: str, stdin: bytes = b"", **environ: str) -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end in this process, as a script without a terminal would."""
        path, modules = [*sys.path], {*sys.modules}
        try:
            with contextlib.chdir(self.folder):
                done = CliRunner().invoke(app, arguments, input=stdin, env={**self.environ, **environ})
        finally:
            sys.path[:] = path
            for name in {"page_tools", "order_tools"} & ({*sys.modules} - modules):
                del sys.modules[name]
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout_bytes, done.stderr_bytes)

    def process(
        self, *arguments: str | bytes, stdin: bytes = b"", **environ: str
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "segue", *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )

    def begin(self, *arguments: str, patched: Patches | None = None, **environ: str) -> CommandProcess:
        """Start a command; what it writes goes to the files `out` and `err`."""
        process = CommandProcess(arguments, self.folder, {**self.environ, **environ}, patched, out="out", err="err")
        self.started.append(process)
        return process

    def at_terminal(self, *arguments: str, **environ: str) -> Terminal:
        """Start a command at a terminal of its own, 100 columns wide."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        environ = {**self.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **environ}
        process = CommandProcess(arguments, self.folder, environ, terminal=os.ttyname(theirs))
        self.started.append(process)
        self.terminals.append(Terminal(process, ours, theirs))
        return self.terminals[-1]

    def until(self, name: str, text: str) -> None:
        """Wait until a file of the folder holds a text."""
        deadline = time.monotonic() + SECONDS
        while text not in self.read(name):
            assert time.monotonic() < deadline, f"{text!r} never came into {name}: {self.read(name)}"
            time.sleep(0.01)

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def rows(self, command: str) -> list[dict[str, Any]]:
        """What `segue sessions` or `segue tasks` lists."""
        listed = CliRunner().invoke(app, [command, "--json", "--db", str(self.folder / "segue.db")])
        rows: list[dict[str, Any]] = json.loads(listed.stdout)
        return rows


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "SYSTEMROOT")}
    own = {"LC_ALL": "C.UTF-8", "TOOLS_FOLDER": str(tmp_path), "SEGUE_HISTORY": str(tmp_path / "history")}
    shell = Shell(tmp_path, {**kept, **own, "SEGUE_OFFLINE_PACE": "0"})
    yield shell
    for process in shell.started:
        if process.poll() is None:
            process.kill()
        process.wait()
    for terminal in shell.terminals:
        terminal.close()


@pytest.fixture
def pages(shell: Shell) -> Shell:
    """A shell with an agent whose first tool waits until the file `go` is there."""
    (shell.folder / "page_tools.py").write_text(TOOLS, encoding="utf-8")
    (shell.folder / "agents.toml").write_text(AGENTS, encoding="utf-8")
    return shell


@pytest.fixture
def let_go(pages: Shell) -> Callable[[], None]:
    """Let the waiting tool finish."""
    return (pages.folder / "go").touch
