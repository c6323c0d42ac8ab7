"""The syntax trees of the source, read once for all that checks it."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("graphs", "nodes", "tools", "prompts", "checkpoints", "src")


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """Every node of a file but the contexts of names, its module first: as `ast.walk`, in half the time."""
    found: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and name != "ctx":
                found.append(value)
    return found


@cache
def source() -> dict[Path, list[ast.AST]]:
    """The nodes of each file of the package."""
    return {file: nodes_of(file) for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))}
