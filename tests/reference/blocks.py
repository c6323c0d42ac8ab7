"""The fenced blocks of a page, and how they are tried."""

import doctest
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from typer.testing import CliRunner

from reference.commands import root_command
from segue.cli import app
from segue.core.agents import load_agents
from tests.cli.conftest import Shell

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TYPED = re.compile(r"^(Your choice: |请选择：)(.+)$", re.MULTILINE)
"""A prompt, and what is typed there."""
_BEGINNING = re.compile(r"(?:^|[|&] *)segue ([^|<>&;\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block; `output` is what the text block right after it says that it prints."""

    language: str
    title: str
    text: str
    output: str | None = None


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=False):
        adjacent = following and following[1] == "text" and not text[block.end() : following.start()].strip()
        yield Block(block[1], block[2] or "", block[3], following[3] if following and adjacent else None)


class Reader:
    """Does what a page says, in a folder of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)

    def follow(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            if act := self._ACTS.get(block.language):
                act(self, block)

    def _python(self, block: Block) -> None:
        if block.title:
            return
        Path("example.py").write_text(block.text, encoding="utf-8")
        self._monkeypatch.syspath_prepend(os.getcwd())
        said = self._run_file("example.py")
        if block.output is not None:
            assert_matches(block.output, said)

    def _run_file(self, name: str) -> str:
        self._capsys.readouterr()
        runpy.run_path(name, run_name="__main__")
        return self._capsys.readouterr().out

    def _toml(self, block: Block) -> None:
        if "[[agent]]" in block.text:
            file = Path(block.title or "example.toml")
            file.write_text(block.text, encoding="utf-8")
            assert load_agents(file)
        tomllib.loads(block.text)

    def _console(self, block: Block) -> None:
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", block.text, re.MULTILINE):
            assert_matches(expected, self._run(shlex.split(command), expected))

    def _run(self, words: list[str], expected: str) -> str:
        match words:
            case ["cd", folder]:
                self._monkeypatch.chdir(folder)
            case ["export", setting]:
                self._monkeypatch.setenv(*setting.split("=", 1))
            case ["python", file]:
                self._monkeypatch.syspath_prepend(os.getcwd())
                return self._run_file(file)
            case ["source", _]:
                pass
            case ["sed", script, file, ">", other]:
                changed = subprocess.run(["sed", script, file], capture_output=True, check=True, text=True)
                Path(other).write_text(changed.stdout, encoding="utf-8")
            case ["segue", *arguments]:
                return self._run_segue(arguments, expected)
            case _:
                raise AssertionError(f"A page's console runs {words}, which its test cannot.")
        return ""

    def _run_segue(self, arguments: list[str], expected: str) -> str:
        return CliRunner().invoke(app, arguments, catch_exceptions=False).output

    def _shell(self, block: Block) -> None:
        commands = re.sub(r"#.*$|\\\n", "", block.text, flags=re.MULTILINE)
        for arguments in _BEGINNING.findall(commands):
            check_command(shlex.split(arguments))

    _ACTS: ClassVar[dict[str, Callable[["Reader", Block], None]]] = {
        "python": _python,
        "toml": _toml,
        "console": _console,
        "sh": _shell,
        "json": lambda self, block: json.loads(block.text),
        "yaml": lambda self, block: yaml.safe_load(block.text),
    }


class TerminalReader(Reader):
    """Does what a page says at a terminal, and types what it shows after a prompt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: Shell) -> None:
        super().__init__(monkeypatch, capsys)
        self._shell_of_commands = shell

    def _run_segue(self, arguments: list[str], expected: str) -> str:
        self._shell_of_commands.folder = Path.cwd()
        exported = {name: os.environ[name] for name in ("SEGUE_AGENTS", "SEGUE_LANGUAGE") if name in os.environ}
        terminal = self._shell_of_commands.at_terminal(*arguments, **exported)
        for prompt, typed in _TYPED.findall(expected):
            terminal.until(prompt)
            terminal.type(f"{typed}\n")
        terminal.end()
        return terminal.text


def assert_matches(expected: str, said: str) -> None:
    """Compare an output with what a page says; … stands for anything, alone on a line also for nothing."""
    pattern = expected.replace("…\n", "...").replace("…", "...")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(pattern, said, flags), f"{expected}\n≠\n{said}"


def check_command(arguments: list[str]) -> None:
    """Check that a command line has a command and options that exist, with values that they take."""
    name, command, context = "segue", root_command(), None
    while True:
        context = command.make_context(name, list(arguments), parent=context)
        if not hasattr(command, "commands"):
            return
        name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
