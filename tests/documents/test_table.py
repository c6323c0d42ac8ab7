"""The table of `docs/documents.md` against the tests that it names."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = "tests/documents"


def defined(path: Path) -> set[str]:
    """The tests of a module, as the table names them."""
    names = {node.name for node in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(node, "name")}
    relative = path.relative_to(ROOT)
    prefix = "" if relative.parent == Path(HERE) else f"{relative}::"
    return {f"{prefix}{name}" for name in names if name.startswith("test_")}


def named() -> set[str]:
    page = (ROOT / "docs/documents.md").read_text(encoding="utf-8")
    return set(re.findall(r"`((?:tests/[\w/]+\.py::)?test_\w+)`", page))


def test_every_test_of_the_table_exists() -> None:
    elsewhere = {name.partition("::")[0] for name in named() if "::" in name}
    here = (ROOT / HERE).glob("test_*.py")
    assert named() <= set().union(*map(defined, here), *(defined(ROOT / path) for path in elsewhere))


def test_every_test_of_the_documents_is_in_the_table() -> None:
    modules = [path for path in (ROOT / HERE).glob("test_*.py") if path != Path(__file__)]
    assert set().union(*map(defined, modules)) <= named()


def test_every_row_names_a_test() -> None:
    rows = [
        line for line in (ROOT / "docs/documents.md").read_text(encoding="utf-8").splitlines() if line.count("|") == 4
    ]
    assert [row for row in rows if "test_" not in row and "---" not in row and "| feature |" not in row] == []
