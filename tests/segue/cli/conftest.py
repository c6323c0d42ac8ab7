"""The command line as people run it: in a process of its own, in a folder of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from segue.cli import app

SECONDS = 60

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
'''

AGENTS = """
[[agent]]
agent_id = "pages"
mode = "plan"
tools = ["page_tools:fetch", "page_tools:store"]
"""


@dataclass
class Shell:
    """Runs `python -m segue` in a folder."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __call__(
        self, *arguments: str | bytes, stdin: bytes = b"", **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "segue", *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )

    def begin(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command; what it writes goes to the files `out` and `err`."""
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "segue", *arguments],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
        self.started.append(process)
        return process

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
        """What `segue threads` or `segue tasks` lists."""
        listed = CliRunner().invoke(app, [command, "--json", "--db", str(self.folder / "segue.db")])
        rows: list[dict[str, Any]] = json.loads(listed.stdout)
        return rows


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "SYSTEMROOT")}
    shell = Shell(tmp_path, {**kept, "LC_ALL": "C.UTF-8", "TOOLS_FOLDER": str(tmp_path)})
    yield shell
    for process in shell.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


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
