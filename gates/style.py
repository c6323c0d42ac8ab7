"""Checks of length, of docstrings, of the modules that a package lists, and of access to private attributes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.source import FOLDERS, ROOT, nodes_of, source

MODULE_LINES = 1000
FUNCTION_LINES = 80
INTERFACES = {"agents", "audit", "files", "memory", "notifications", "rewind", "schedules", "sessions", "tasks"}
"""The attributes of an app."""
PYTHON = "docs/reference/python.md"
PUBLIC = ("graphs", "memory.folder", "runtime.message_files", "runtime.notifications", "runtime.schedules")
"""What is public beside what `segue` exports and the page of Python lists: the graphs, and interfaces of an app."""

_WITHIN = ("src/segue/app.py", "src/segue/runtime/")
_APPS = {"app", "_app", "opened"}
_PRIVATE = re.compile(rf"\b({'|'.join(_APPS)})\)*\s*\._")
_LISTED = ("src/segue/core", "src/segue/runtime")


def style_faults() -> list[str]:
    """What breaks a rule, a line each."""
    return [*find_long(), *_unlisted_interfaces(), *_reaches_inside(), *_unlisted_modules(), *find_internal_raises()]


def _modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def find_long() -> Iterator[str]:
    for module in _modules(*FOLDERS, "reference", "gates"):
        name = module.relative_to(ROOT)
        lines = len(module.read_text(encoding="utf-8").splitlines())
        if lines > MODULE_LINES:
            yield f"{name}: {lines} lines, more than {MODULE_LINES}"
        for node in nodes_of(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield f"{name}: {node.name} has {lines} lines, more than {FUNCTION_LINES}"


def _unlisted_interfaces() -> Iterator[str]:
    for node in nodes_of(ROOT / "src/segue/app.py"):
        if isinstance(node, ast.ClassDef) and node.name == "App":
            stored = {
                inner.attr
                for inner in ast.walk(node)
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)
                if isinstance(inner.value, ast.Name) and inner.value.id == "self"
            }
            for name in sorted({name for name in stored if not name.startswith("_")} ^ INTERFACES):
                yield f"src/segue/app.py: App.{name} is either no attribute or not listed in gates/style.py"


def _reaches_inside() -> Iterator[str]:
    for module in _modules(*FOLDERS, "reference", "examples", "benchmarks"):
        name = module.relative_to(ROOT).as_posix()
        if name.startswith(_WITHIN) or not _PRIVATE.search(module.read_text(encoding="utf-8")):
            continue
        for node in nodes_of(module):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = node.value
                if getattr(owner, "id", getattr(owner, "attr", "")) in _APPS:
                    yield f"{name}:{node.lineno}: {node.attr} is a private attribute of an app"


def find_internal_raises() -> Iterator[str]:
    """Docstrings with `Raises:` that are not those of the public API."""
    modules = {_module_name(file): file for file in source()}
    public = [name if name in modules else name.rpartition(".")[0] for name in _public_names()]
    for module, file in modules.items():
        is_public = any(f"{module}.".startswith(f"{name}.") for name in public)
        for node in source()[file]:
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and re.search(r"^\s*Raises:", ast.get_docstring(node) or "", re.MULTILINE)
                and (not is_public or re.match("_(?!_)", node.name))
            ):
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.name} is internal: leave out its Raises section"


def _module_name(file: Path) -> str:
    """The name of a module of the package, which folders of the repository are parts of; without `segue` itself."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[2 if parts[0] == "src" else 0 :]).removesuffix(".__init__")


def _public_names() -> set[str]:
    """The modules that `segue` exports names of, and the modules and names that the page of Python lists."""
    exported = {
        node.module
        for node in nodes_of(ROOT / "src/segue/__init__.py")
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
    }
    named = re.findall(r"\bsegue\.([a-z]\w*(?:\.\w+)+)", (ROOT / PYTHON).read_text(encoding="utf-8"))
    return {*exported, *named, *PUBLIC}


def _unlisted_modules() -> Iterator[str]:
    for package in _LISTED:
        folder = ROOT / package
        listed = set(re.findall(r"`(\w+)`", (folder / "__init__.py").read_text(encoding="utf-8")))
        there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
        for name in sorted(listed ^ there):
            yield f"{package}: {name} is either no module or not listed in the docstring of the package"
