"""Texts on which a careless reader takes quadratic time, and the judge of what a reader takes."""

import ast
import importlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

SIZE = 16_000
GROWTH = 3.0
"""How much more twice the length may cost."""
NOTICED = 0.005
"""Seconds of the processor below which nothing is compared."""
TRIES = 3
ROOT = Path(__file__).parents[1]
FOLDERS = ("src/segue", "nodes", "tools", "prompts", "checkpoints", "graphs")
_ANYWHERE = ("sub", "subn", "split", "findall", "finditer", "search")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_CATEGORIES = {"SPACE": " ", "DIGIT": "1", "WORD": "a", "NOT_SPACE": "a", "NOT_WORD": " ", "NOT_DIGIT": "a"}


@dataclass(frozen=True)
class Shape:
    """A text of any size: a beginning, one thing again and again, and an end."""

    unit: str
    before: str = ""
    after: str = "\0"

    def __call__(self, size: int) -> str:
        return self.before + self.unit * (size // len(self.unit)) + self.after


SHAPES = tuple(map(Shape, (" ", "\n", "#", "1", "a")))


def grows(read: Callable[[str], object], shape: Callable[[int], str], size: int = SIZE) -> bool:
    """Whether a text of twice the size costs much more than twice as much, by the least of several tries.

    A step that only a cache or an allocation makes is not met again from half the size to the size.
    """
    if _seconds(read, shape(size)) < NOTICED / (2 * GROWTH):  # what is quadratic takes a hundred times as much here
        return False
    return _steps(read, shape(size), shape(2 * size)) and _steps(read, shape(size // 2), shape(size))


def _steps(read: Callable[[str], object], small: str, large: str) -> bool:
    least = [float("inf"), float("inf")]
    for _ in range(TRIES):
        least = [min(before, _seconds(read, text)) for before, text in zip(least, (small, large), strict=True)]
        if least[1] < NOTICED or least[1] <= GROWTH * least[0]:
            return False
    return True


def _seconds(read: Callable[[str], object], text: str) -> float:
    """What reading takes, of this thread's time on a processor: other programs do not count."""
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


@dataclass(frozen=True)
class Used:
    """A pattern and a method of it that the code calls."""

    name: str
    pattern: re.Pattern[Any]
    method: str

    def read(self, text: str) -> None:
        given = text if isinstance(self.pattern.pattern, str) else text.encode()
        if self.method in _ANYWHERE:
            deque(self.pattern.finditer(given), maxlen=0)
        else:
            getattr(self.pattern, self.method)(given)

    def shapes(self) -> list[Shape]:
        """Runs that every text may have, and those of what the pattern itself repeats or begins with."""
        source = self.pattern.pattern
        tree = _parser.parse(source if isinstance(source, str) else source.decode("latin-1"), self.pattern.flags & ~32)
        whole = _example(tree)
        own = [Shape(unit) for unit in (whole, whole[:-1], whole[:1]) if unit]
        return [*dict.fromkeys([*SHAPES, *own, *_repeated(tree, "")])]


def _example(tree: Any) -> str:
    """A short text that the pattern matches, or almost."""
    return "".join(_one(op.name, given) for op, given in tree)


def _one(kind: str, given: Any) -> str:
    match kind:
        case "LITERAL":
            return chr(given)
        case "NOT_LITERAL":
            return "a" if given != ord("a") else "b"
        case "ANY":
            return "a"
        case "IN":
            return _member(given)
        case "BRANCH":
            return _example(given[1][0])
        case "SUBPATTERN":
            return _example(given[3])
        case "ATOMIC_GROUP":
            return _example(given)
        case kind if kind in _REPEATS:
            return _example(given[2]) * max(1, given[0])
    return ""


def _member(items: Any) -> str:
    (kind, given), *_ = items
    if kind.name == "NEGATE":
        return next(char for char in "a1 -é\0\x01" if not re.match(_class(items[1:]), char))
    if kind.name == "RANGE":
        return chr(given[0])
    return _CATEGORIES[given.name.removeprefix("CATEGORY_")] if kind.name == "CATEGORY" else chr(given)


def _class(items: Any) -> str:
    shown = {"SPACE": r"\s", "DIGIT": r"\d", "WORD": r"\w", "NOT_SPACE": r"\S", "NOT_WORD": r"\W", "NOT_DIGIT": r"\D"}
    parts = []
    for kind, given in items:
        if kind.name == "CATEGORY":
            parts.append(shown[given.name.removeprefix("CATEGORY_")])
        else:
            ends = given if kind.name == "RANGE" else (given,)
            parts.append("-".join(re.escape(chr(end)) for end in ends))
    return f"[{''.join(parts)}]"


def _repeated(tree: Any, before: str) -> Iterator[Shape]:
    """A long run for each repetition in the pattern, behind what comes before it."""
    for op, given in tree:
        if op.name in _REPEATS:
            unit = _example(given[2])
            if given[1] is _constants.MAXREPEAT and unit:
                yield Shape(unit, before)
                yield Shape(before + unit)
            yield from _repeated(given[2], before)
        elif op.name == "BRANCH":
            for branch in given[1]:
                yield from _repeated(branch, before)
        elif op.name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from _repeated(given[3] if op.name == "SUBPATTERN" else given, before)
        before += _one(op.name, given)


def patterns() -> list[Used]:
    """The patterns of all modules: compiled ones in their globals, and those that are written into a call."""
    found: dict[tuple[str, int, str], Used] = {}
    for module in map(importlib.import_module, _names()):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for used in (*_compiled(module, tree), *_inline(module, tree)):
            found.setdefault((str(used.pattern.pattern), used.pattern.flags, used.method), used)
    return [*found.values()]


def _names() -> Iterator[str]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts[folder.startswith("src") :]
            if parts[-1] != "__main__":
                yield ".".join(["segue", *(part for part in parts if part not in ("segue", "__init__"))])


def _compiled(module: ModuleType, tree: ast.Module) -> Iterator[Used]:
    """Each with the methods that its module calls; one that is kept in a collection, or used elsewhere, is searched."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [(f.value.id, f.attr) for f in calls if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name)]
    for name, value in vars(module).items():
        for place, pattern in enumerate(_within(value)):
            methods = {method for owner, method in called if owner == name}
            for method in ["finditer"] if not methods or methods.intersection(_ANYWHERE) else sorted(methods):
                yield Used(f"{module.__name__}.{name}" + (f"[{place}]" if place else ""), pattern, method)


def _within(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict | tuple | list) and len(value) < 1000:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _within(each)


def _inline(module: ModuleType, tree: ast.Module) -> Iterator[Used]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[ast.Constant(value=str(source)), *_]
            ) if method not in ("compile", "escape"):
                yield Used(f"{module.__name__}:{node.lineno}", re.compile(source), method)
