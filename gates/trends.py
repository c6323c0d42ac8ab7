"""Measures of how much a reader has to know; they may not grow.

- `files`: the source files that one chat message with one tool call enters.
- `names`: the public names of each package, methods left out.
- `helpers`: private functions and methods that are used once.

So is the work of that message, of which 5 % more is taken for noise: other work on the machine adds calls:

- `chat calls`: the calls of Python functions, those of libraries included.
- `chat checkpoints`: the checkpoints that LangGraph writes.
- `chat bytes`: what the database's rows hold of it.
"""

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.source import ROOT, source

from .chat import follow_chat

KEPT = Path(__file__).with_name("trends.json")

RUNS = 3
"""How often the chat is followed; the least of each count is its own, the rest is other threads' time."""
NOISE = 1.05
Trends = Mapping[str, int]


def measure() -> Trends:
    """Each trend's number, by its name; a package's is `names of PACKAGE`."""
    names = Counter(_package(file) for file, nodes in source().items() for _ in _public_names(nodes[0]))
    chats = [follow_chat() for _ in range(RUNS)]
    return {
        "files": min(len(chat.files) for chat in chats),
        "chat calls": min(chat.calls for chat in chats),
        "chat checkpoints": min(chat.checkpoints for chat in chats),
        "chat bytes": min(chat.bytes for chat in chats),
        **{f"names of {package}": number for package, number in sorted(names.items())},
        "helpers": _count_helpers(),
    }


def find_grown(now: Trends) -> list[str]:
    """The trends that grew since they were kept, a line each."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    grown = []
    for name, number in now.items():
        before = kept.get(name, 0)
        if number > before * (NOISE if name.startswith("chat ") else 1):
            grown.append(f"{name}: {number}, was {before}")
    return grown


def keep(now: Trends) -> None:
    KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")


def _package(file: Path) -> str:
    parts = file.relative_to(ROOT).parts
    if parts[0] == "src":
        parts = parts[2:]
    return parts[0] if len(parts) > 1 else "segue"


def _public_names(module: ast.AST) -> Iterator[str]:
    """The functions, classes and constants that a module defines for others."""
    assert isinstance(module, ast.Module)
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined = [node.name]
        elif isinstance(node, ast.Assign):
            defined = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined = [node.target.id]
        else:
            defined = []
        yield from (name for name in defined if not name.startswith("_"))


def _count_helpers() -> int:
    """How many private functions are named once in their file, beside their definition."""
    found = 0
    for nodes in source().values():
        used = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found += sum(1 for name in functions if _is_private(name) and used[name] == 1)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
