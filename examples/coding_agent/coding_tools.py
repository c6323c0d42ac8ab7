"""Tools of a coding agent: they write, read and run Python programs in a scratch folder of the session.

The limits keep a program from running away. They are no wall against one that means harm: see README.md.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from segue import CallContext, tool

SECONDS = 10
MEMORY_BYTES = 1 << 30
FILE_BYTES = 10 << 20
"""Bytes of any file that a program writes, what it prints included."""
TEXT_BYTES = 100_000
"""Bytes of a file that `write_file` takes."""
SHOWN = 8_000
"""Characters of a file or of what a program printed that the model sees."""

# A program that sets its own limits and then becomes the program that is to run: limits outlive exec, and the
# alternative, code between fork and exec, is not safe in a process with threads.
_LIMITED = f"""
import os, sys
try:
    import resource
except ImportError:
    resource = None
if resource:
    limits = {{"CPU": {SECONDS}, "AS": {MEMORY_BYTES}, "FSIZE": {FILE_BYTES}, "CORE": 0, "NOFILE": 128}}
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{{name}}"), (most, most))
os.execv(sys.executable, [sys.executable, "-B", "-E", "-s", "-X", "utf8", *sys.argv[1:]])
"""
_KEPT = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "LANG", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What a program is told of our environment: no keys."""
_SET = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

FilePath = Annotated[str, Field(description="A relative path, such as calc.py or tests/test_calc.py")]


@tool(idempotent=True)
def write_file(
    path: FilePath, text: Annotated[str, Field(description="The whole text")], call: CallContext
) -> dict[str, Any]:
    """Write a text file, in place of the one that is there."""
    if len(text.encode()) > TEXT_BYTES:
        raise ValueError(f"The text is longer than {TEXT_BYTES} bytes: write several files.")
    file = _file(call, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return {"path": path, "lines": len(text.splitlines())}


@tool(read_only=True)
def read_file(
    path: FilePath, call: CallContext, first_line: Annotated[int, Field(ge=1, description="Where to begin")] = 1
) -> dict[str, Any]:
    """Read a text file, from a line on."""
    file = _file(call, path)
    if not file.is_file():
        raise ValueError(f"There is no file {path}; there are: {', '.join(_names(call)) or 'none'}.")
    with file.open(encoding="utf-8", errors="replace") as opened:
        lines = opened.read(FILE_BYTES).splitlines()
    return {"path": path, "lines": len(lines), "text": _shortened("\n".join(lines[first_line - 1 :]))}


@tool(read_only=True)
def list_files(call: CallContext) -> list[str]:
    """List the files that there are."""
    return _names(call)


@tool(idempotent=True, timeout=SECONDS + 10)
def run_python(
    path: FilePath,
    call: CallContext,
    arguments: Annotated[Sequence[str], Field(description="The program's arguments")] = (),
    standard_input: str = "",
) -> dict[str, Any]:
    """Run a Python file that was written before; it gets 10 seconds and 1 GiB of memory."""
    if not _file(call, path).is_file():
        raise ValueError(f"There is no file {path}: write it first.")
    return _run(_folder(call), [path, *arguments], standard_input)


@tool(idempotent=True, timeout=SECONDS + 10)
def run_tests(call: CallContext, path: FilePath = ".") -> dict[str, Any]:
    """Run the tests with pytest, all of them or those of one file."""
    _file(call, path)
    # Nothing above the folder counts: no settings, no conftest.py.
    alone = ["-c", os.devnull, "--rootdir", ".", "--confcutdir", ".", "-p", "no:cacheprovider"]
    return _run(_folder(call), ["-m", "pytest", "-q", "--tb=short", *alone, path], "")


def _folder(call: CallContext) -> Path:
    """The scratch folder of the session, below $CODING_FOLDER or ./scratch."""
    name = quote(call.session_id or "none", safe="").replace(".", "%2E")
    folder = Path(os.environ.get("CODING_FOLDER") or "scratch", name).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _file(call: CallContext, path: str) -> Path:
    """The file of that path; links that lead out of the folder lead nowhere.

    Raises:
        ValueError: it is outside the folder.
    """
    folder = _folder(call)
    if "\0" in path or Path(path).is_absolute() or not (file := (folder / path).resolve()).is_relative_to(folder):
        raise ValueError(f"{path!r} is outside the scratch folder: use a relative path such as calc.py.")
    return file


def _names(call: CallContext) -> list[str]:
    folder = _folder(call)
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(file.as_posix() for file in found if "__pycache__" not in file.parts)


def _run(folder: Path, arguments: Sequence[str], standard_input: str) -> dict[str, Any]:
    """What a Python process within the limits printed, and how it ended."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | _SET
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as given:
        given.write(standard_input.encode())
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _LIMITED, *arguments],
            cwd=folder,
            env=environment,
            stdin=given,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ended = _wait(process)
        printed.seek(0)
        text = printed.read().decode("utf-8", "replace")
    return {"exit_code": process.returncode, "output": _shortened(text)} | ({} if ended else {"stopped": _TOO_LONG})


_TOO_LONG = f"It ran longer than {SECONDS} seconds and was stopped."


def _wait(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of the process, and end what it started; False if its time was up."""
    try:
        process.wait(SECONDS)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        if os.name == "posix":
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def _shortened(text: str) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= SHOWN:
        return text
    half = SHOWN // 2
    return f"{text[:half]}\n… {len(text) - SHOWN} characters left out …\n{text[-half:]}"
