"""What is measured by tests of their own, and belongs into the tables as well."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from .harness import ROOT, environment

BY_TESTS: Mapping[str, str] = {
    "a damaged database": "tests/crash/test_damage.py",
    "any operations in any order": "tests/crash/test_sequences.py",
}


@dataclass(frozen=True)
class Tested:
    """How a file of tests ended; `told` is what pytest wrote."""

    what: str
    file: str
    passed: int
    failed: int
    told: str


def by_tests(what: str, file: str) -> Tested:
    """Run one file of tests; one that cannot even be collected counts as failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={result}", file]
        ended = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
        suite = ElementTree.parse(result).getroot()[0].attrib if result.exists() else {}
    count = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"] or int(ended.returncode != 0)
    passed = max(0, count["tests"] - failed - count["skipped"])
    return Tested(what, file, passed, failed, ended.stdout[-3000:] + ended.stderr[-1000:])
