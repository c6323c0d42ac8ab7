"""Checks of the catalogues of texts: each id in the code exists and is used, and what people read is translated."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from re import fullmatch

from segue.prompts.catalogue import catalogue
from tests.source import ROOT, source

NAMED_ELSEWHERE = ("errors_over_http", "validation")
"""Sections whose ids are errors of ours, and of pydantic."""
TO_PEOPLE = {
    *("ConfigurationError", "InvalidAnswer", "InvalidMessage", "InvalidSnapshot", "TaskError"),
    *("DatabaseUnavailable", "DatabaseDamaged", "MemoryUnavailable", "InvalidMemory", "ModelRefused"),
}
"""Errors whose sentences people read."""
_EN, _ZH = "prompts/locales/en.json", "prompts/locales/zh.json"


def text_faults() -> list[str]:
    """What of the catalogues does not fit the code, a line each."""
    return [*find_unknown_ids(), *find_untranslated()]


def find_unknown_ids() -> Iterator[str]:
    """Ids that the code names and that are not there, and ids that nothing uses."""
    found = _read_uses()
    for section, known in catalogue("en").items():
        if section in NAMED_ELSEWHERE:
            continue
        for name in sorted(found.named[section]):
            if not any(fullmatch(name, text) for text in known):
                yield f"{_EN}: {section} has no {name}"
        for name in sorted(known.keys() - found.constants):
            if not any(fullmatch(made, name) for made in found.made[section]):
                yield f"{_EN}: nothing uses {section}.{name}"


def find_untranslated() -> Iterator[str]:
    """Sentences that people read and that have no Chinese form, and Chinese forms of what is nowhere raised."""
    chinese = catalogue("zh")
    sentences = {english for english in chinese["errors"] if not english.isidentifier()}
    raised: set[str] = set()
    for file, nodes in source().items():
        is_catalogue = file.parent.name == "prompts" and file.name != "catalogue.py"
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_catalogue:
                raised.add(node.value)
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            first, name = node.args[0], node.func.id
            text = first.value if isinstance(first, ast.Constant) else ast.unparse(first)
            if name in TO_PEOPLE and (node.keywords or isinstance(first, ast.JoinedStr)) and text not in sentences:
                yield f"{_ZH}: errors has no form of {text!r}, which {file.name} raises"
            if name == "Clause" and isinstance(first, ast.Constant) and text not in chinese["clauses"]:
                yield f"{_ZH}: clauses has no form of {text!r} of {file.name}"
    for text in sorted({*sentences, *chinese["clauses"]} - raised):
        yield f"{_ZH}: nothing raises {text!r}"


@cache
def _sections_of_names() -> dict[tuple[str, str], str]:
    """The section of each name that is bound to one, by the name of its module."""
    return {
        (file.stem, node.targets[0].id): node.value.args[0].value
        for file, (module, *_) in source().items()
        if isinstance(module, ast.Module)
        for node in module.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "Texts"
        if isinstance(node.value.args[0], ast.Constant)
    }


def _find_bound(file: Path, nodes: list[ast.AST]) -> dict[str, str]:
    """The section that each name of a file stands for."""
    known = _sections_of_names()
    found = {name: section for (stem, name), section in known.items() if file.stem == stem}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            stem = (node.module or "").rpartition(".")[2]
            imported = [name for name in node.names if (stem, name.name) in known]
            found |= {name.asname or name.name: known[stem, name.name] for name in imported}
    return found


def _patterns(node: ast.expr) -> Iterator[str]:
    """Patterns of the ids that an argument may be."""
    match node:
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case ast.IfExp():
            yield from _patterns(node.body)
            yield from _patterns(node.orelse)
        case ast.JoinedStr():
            parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values]
            yield "".join(parts)


@dataclass
class _Uses:
    """What the source does with the sections."""

    named: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Patterns of the ids that a section's function is called with."""
    made: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Patterns of the f-strings in files that use a section."""
    constants: set[str] = field(default_factory=set)
    """Every string of the source, every word of its templates, and the names of HTTP's statuses."""


@cache
def _read_uses() -> _Uses:
    found = _Uses()
    for file, nodes in source().items():
        section_of = _find_bound(file, nodes)
        for node in nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in section_of
                and node.args
            ):
                found.named[section_of[node.func.id]] |= set(_patterns(node.args[0]))
            elif isinstance(node, ast.JoinedStr):
                patterns = {pattern for pattern in _patterns(node) if re.search(r"[a-z]{4}", pattern)}
                for section in section_of.values():
                    found.made[section] |= patterns
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.constants.add(node.value)
    for template in (ROOT / "src").rglob("*.j2"):
        found.constants |= set(re.findall(r"\w+", template.read_text(encoding="utf-8")))
    found.constants |= {status.phrase.title().replace(" ", "") for status in HTTPStatus}
    return found
