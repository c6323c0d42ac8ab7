"""Let the person change a text in the editor that the environment names."""

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def editor_of(environ: Mapping[str, str]) -> str:
    """The command of the editor, or empty."""
    return environ.get("VISUAL") or environ.get("EDITOR") or ""


def edited(text: str, editor: str) -> str:
    """The text as it was left by the editor.

    Raises:
        OSError, ValueError, subprocess.CalledProcessError: the editor cannot be run, or failed.
    """
    handle, name = tempfile.mkstemp(suffix=".json", prefix="segue-", text=True)
    path = Path(name)
    try:
        os.close(handle)
        path.write_text(text, encoding="utf-8")
        with _interrupts_left_to_the_editor():
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        return path.read_text(encoding="utf-8")
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _interrupts_left_to_the_editor() -> Iterator[None]:
    """Ctrl-C goes to both; ignoring it outright would be passed on to the editor."""
    usual = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
