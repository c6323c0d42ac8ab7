"""Checks of what names tests, source and environment variables: all of it exists, and nothing is left out."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from segue.models.build import DEFAULT_OPENAI_MODEL
from segue.runtime.run import MAX_QUEUED, MAX_RUNNING
from tests.mutants.calls import CALLS
from tests.mutants.cassettes import CASSETTES
from tests.mutants.conversations import CONVERSATIONS
from tests.mutants.mutants import ALL
from tests.source import FOLDERS, ROOT

PROMISES, FEATURES, VARIABLES = "docs/security.md", "docs/documents.md", "docs/reference/environment.md"
DOCUMENTS = "tests/documents"
OF_OTHERS = {"TERM"}
"""Variables of the terminal, which nobody sets for Segue."""

_NAMED = re.compile(r"`(?:((?:tests|e2e)/[\w/]+\.py)::)?(test_\w+)`")


def documentation_faults() -> list[str]:
    """What a page names that is not there, and what no page names, a line each."""
    return [*find_missing_tests(), *find_stale_faults(), *find_undocumented_variables()]


def find_missing_tests() -> Iterator[str]:
    """Each row of both tables names tests, they exist, and each test of the documents is in its table."""
    here = {
        name: file.relative_to(ROOT).as_posix()
        for file in (ROOT / DOCUMENTS).glob("test_*.py")
        for name in _defined(file.relative_to(ROOT).as_posix())
        if name.startswith("test_")
    }
    unnamed = dict(here)
    for page in (PROMISES, FEATURES):
        for row in _rows(page):
            tests = _NAMED.findall(row)
            if not tests:
                yield f"{page}: no test is named for {row}"
            for file, name in tests:
                if not file:
                    unnamed.pop(name, None)
                if name not in (_defined(file) if file else here):
                    yield f"{page}: {file or DOCUMENTS} has no {name}"
    for name, file in unnamed.items():
        yield f"{FEATURES}: {name} of {file} is in no row"


def find_stale_faults() -> Iterator[str]:
    """Each known fault of `make mutants` can be put into the source once, and its test exists."""
    for fault in (*ALL, *CALLS, *CONVERSATIONS, *CASSETTES):
        if (times := _read(fault.file).count(fault.old)) != 1:
            yield f"tests/mutants: {fault.file} has {times} times {fault.old!r}"
        file, _, name = fault.tests.partition("::")
        if not (ROOT / file).exists() or (name and name.partition("[")[0] not in _defined(file)):
            yield f"tests/mutants: there is no {fault.tests}"


def find_undocumented_variables() -> Iterator[str]:
    """Each variable that the source reads has a row, with its default, and each row is of such a variable."""
    page = _read(VARIABLES)
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    rows = {name for row in _rows(VARIABLES) for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    named = set(re.findall(r"\b(?:SEGUE|OPENAI)_[A-Z0-9_]+\b", source))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", source)) - OF_OTHERS
    described = rows | (set(re.findall(r"\$?([A-Z_]{4,})", page)) - named)
    for name in sorted((named | read) - described):
        yield f"{VARIABLES}: {name} has no row"
    for name in sorted(rows - set(re.findall(r"\w+", source))):
        yield f"{VARIABLES}: nothing reads {name}"
    defaults = dict(re.findall(r"whole_number\(\w+, \"(\w+)\", (\d+)", source))
    defaults |= {"OPENAI_MODEL": DEFAULT_OPENAI_MODEL, "SEGUE_MAX_RUNNING": str(MAX_RUNNING)}
    for name, default in defaults.items():
        if f"| `{name}` | `{default}` |" not in page:
            yield f"{VARIABLES}: the default of {name} is {default}"
    if f"{MAX_QUEUED} more" not in page:
        yield f"{VARIABLES}: {MAX_QUEUED} more tasks wait"


def _rows(page: str) -> list[str]:
    """The rows of a page's tables, without their heads."""
    lines = _read(page).splitlines()
    heads = {number - 1 for number, line in enumerate(lines) if re.match(r"\|\s*:?---", line)}
    return [line for number, line in enumerate(lines) if re.match(r"\| (?!:?---)", line) and number not in heads]


@cache
def _defined(file: str) -> set[str]:
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@cache
def _read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")
