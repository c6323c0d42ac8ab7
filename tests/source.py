"""The syntax trees of the source, read once for all that checks it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("graphs", "nodes", "tools", "prompts", "checkpoints", "src")


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """Every node of a file, its module first."""
    return [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]


@cache
def source() -> dict[Path, list[ast.AST]]:
    """The nodes of each file of the package."""
    return {file: nodes_of(file) for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))}
