"""Rules that no linter holds: lines of a function and of a module, contents of large packages, and what is private."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import cases
from tests.source import FOLDERS, ROOT, nodes_of

MODULE_LINES = 1000
FUNCTION_LINES = 80


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def functions(text: str) -> Iterator[tuple[str, int]]:
    """The name and the length in lines of every function, decorators left out."""
    blocks: list[ast.AST] = [ast.parse(text)]
    for block in blocks:  # statements hold statements; an expression holds no function that has a name
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inside = getattr(block, name, ())
            blocks += inside if isinstance(inside, list) else ()
        if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef):
            yield block.name, (block.end_lineno or block.lineno) - block.lineno + 1


@cases("folder", [*FOLDERS, "reference"])
def test_no_module_and_no_function_is_too_long(folder: str) -> None:
    found = modules(folder)
    assert found, f"there are no modules in {folder}"
    long = []
    for module in found:
        name = module.relative_to(ROOT)
        text = module.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        if lines > MODULE_LINES:
            long.append(f"{name}: {lines} lines")
        if lines > FUNCTION_LINES:
            long += [f"{name}: {function} has {n} lines" for function, n in functions(text) if n > FUNCTION_LINES]
    assert not long, "\n".join(long)


INTERFACES = {"agents", "audit", "files", "memory", "notifications", "rewind", "schedules", "sessions", "tasks"}
WITHIN = ("src/segue/app.py", "src/segue/runtime/")
APPS = {"app", "_app", "opened"}
PRIVATE = re.compile(rf"\b({'|'.join(APPS)})\)*\s*\._")


def reaches_inside(node: ast.AST) -> bool:
    """Whether this is a private attribute of what is called an app."""
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
        return False
    owner = node.value
    return getattr(owner, "id", getattr(owner, "attr", "")) in APPS


def test_an_app_shows_its_interfaces_only() -> None:
    (app,) = (
        node
        for node in ast.parse((ROOT / "src/segue/app.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "App"
    )
    kept = {node.attr for node in ast.walk(app) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    assert {name for name in kept if not name.startswith("_")} == INTERFACES


def test_nobody_reaches_past_the_interfaces_of_an_app() -> None:
    found = []
    for module in (path for folder in (*FOLDERS, "reference", "examples", "benchmarks") for path in modules(folder)):
        name = module.relative_to(ROOT).as_posix()
        if not name.startswith(WITHIN) and PRIVATE.search(module.read_text(encoding="utf-8")):
            nodes = (node for node in nodes_of(module) if isinstance(node, ast.Attribute))
            found += [f"{name}:{node.lineno}" for node in nodes if reaches_inside(node)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", ["src/segue/core", "src/segue/runtime"])
def test_a_large_package_lists_its_modules(package: str) -> None:
    folder = ROOT / package
    listed = re.findall(r"`(\w+)`", (folder / "__init__.py").read_text(encoding="utf-8"))
    there = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(listed) == sorted(there - {"__init__"}), (
        f"the docstring of {package}/__init__.py lists them by subject"
    )
