"""`make mutants`: put each fault into a copy of the source and see the tests turn red.

Arguments are words that a fault's name must hold: `python -m tests.mutants paused`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.calls import CALLS
from tests.mutants.cassettes import CASSETTES
from tests.mutants.conversations import CONVERSATIONS
from tests.mutants.mutants import ALL, Mutant

ROOT = Path(__file__).parents[2]
PARTS = {"src/segue": "segue"} | {
    name: f"segue/{name}" for name in ("graphs", "nodes", "tools", "prompts", "checkpoints")
}
"""The folders of the source, and where they stand once installed."""
SECONDS = 120
"""A fault may hang the tests: after so long that counts as noticed."""
RED = 1
"""pytest's exit code where tests failed."""


def copy_to(folder: Path) -> None:
    """The source as it is installed, with its tests."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for source, target in PARTS.items():
        shutil.copytree(ROOT / source, folder / target, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignored)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)


def installed(folder: Path, file: str) -> Path:
    """Where a file of the source stands in the copy."""
    part = next(name for name in PARTS if file.startswith(f"{name}/"))
    return folder / PARTS[part] / file.removeprefix(f"{part}/")


def test(folder: Path, tests: list[str]) -> int | None:
    """pytest's exit code; None where it came to no end. A run that was killed from outside is made once more."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    for _ in range(2):
        try:
            ran = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        if ran.returncode >= 0:
            break
    if ran.returncode not in (0, RED):
        print(f"pytest ended with {ran.returncode}", ran.stdout[-3000:], ran.stderr[-3000:])
    return ran.returncode


def notices(folder: Path, mutant: Mutant) -> bool:
    """Whether the tests turn red with the fault in place, which is taken out again."""
    file = installed(folder, mutant.file)
    text = file.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        print(f"{mutant.file} does not hold exactly once: {mutant.old!r}")
        return False
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return test(folder, [mutant.tests]) in (RED, None)
    finally:
        file.write_text(text, encoding="utf-8")


def main(words: list[str]) -> int:
    mutants = [
        mutant for mutant in (*ALL, *CALLS, *CONVERSATIONS, *CASSETTES) if all(word in mutant.bug for word in words)
    ]
    with tempfile.TemporaryDirectory(prefix="segue-mutants-") as name:
        folder = Path(name)
        copy_to(folder)
        if (code := test(folder, sorted({mutant.tests for mutant in mutants}))) != 0:
            print(f"The tests are not green to begin with: pytest ended with {code}.")
            return 2
        missed = 0
        for mutant in mutants:
            started = time.monotonic()
            noticed = notices(folder, mutant)
            missed += not noticed
            print(f"{'red ' if noticed else 'MISSED'}  {time.monotonic() - started:5.1f} s  {mutant.bug}", flush=True)
        print(f"{len(mutants) - missed} of {len(mutants)} faults are noticed")
    return 1 if missed else 0


sys.exit(main(sys.argv[1:]))
