"""Every environment variable that the source reads is documented, and with its default."""

import re
from pathlib import Path

from segue.models.build import DEFAULT_OPENAI_MODEL
from segue.runtime.run import MAX_QUEUED, MAX_RUNNING

from .blocks import ROOT

PAGE = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
FOLDERS = ("src", "graphs", "nodes", "tools", "prompts", "checkpoints")
SOURCE = "\n".join(path.read_text(encoding="utf-8") for name in FOLDERS for path in Path(ROOT, name).rglob("*.py"))
OF_OTHERS = {"TERM"}
"""Variables of the terminal, which nobody sets for Segue."""


def documented() -> set[str]:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}


def test_every_variable_is_documented() -> None:
    named = set(re.findall(r"\b(?:SEGUE|OPENAI)_[A-Z0-9_]+\b", SOURCE))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", SOURCE)) - OF_OTHERS
    assert {"SEGUE_MODEL", "OPENAI_MODEL", "SEGUE_API_KEY_SHA256"} <= named
    assert (named | read) - documented() <= set(re.findall(r"\$?([A-Z_]{4,})", PAGE))
    assert named - documented() == set(), "describe them in docs/reference/environment.md"


def test_every_documented_variable_is_read() -> None:
    assert documented() - set(re.findall(r"\w+", SOURCE)) == set()


def test_the_defaults_are_those_of_the_source() -> None:
    defaults = dict(re.findall(r"whole_number\(\w+, \"(\w+)\", (\d+)", SOURCE))
    assert len(defaults) > 6
    wrong = [name for name, default in defaults.items() if f"| `{name}` | `{default}` |" not in PAGE]
    assert wrong == [], "correct their rows in docs/reference/environment.md"
    assert f"| `OPENAI_MODEL` | `{DEFAULT_OPENAI_MODEL}` |" in PAGE
    assert f"| `SEGUE_MAX_RUNNING` | `{MAX_RUNNING}` | Tasks that run at once in a process; {MAX_QUEUED} more" in PAGE
