"""The catalogues of texts: the same ids and values in both languages, and each id used."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from re import fullmatch
from string import Formatter

import pytest

from segue.prompts.catalogue import FOLDER, Texts, catalogue
from tests.cases import cases
from tests.source import ROOT, source

TRANSLATIONS = ("errors", "clauses", "words", "labels")
"""Sections of the Chinese catalogue whose English is in the code."""
SECTIONS = tuple(catalogue("en"))
NAMED_ELSEWHERE = ("errors_over_http", "validation")
"""Sections whose ids are errors of ours, and of pydantic."""
SENTENCES = {english for english in catalogue("zh")["errors"] if not english.isidentifier()}
"""The English templates of sentences without a class of their own."""


@cache
def section_of_function() -> dict[tuple[str, str], str]:
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


def bound(file: Path, nodes: list[ast.AST]) -> dict[str, str]:
    """The section that each name of a file stands for."""
    known = section_of_function()
    found = {name: section for (stem, name), section in known.items() if file.stem == stem}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            stem = (node.module or "").rpartition(".")[2]
            imported = [name for name in node.names if (stem, name.name) in known]
            found |= {name.asname or name.name: known[stem, name.name] for name in imported}
    return found


def names(node: ast.expr) -> Iterator[str]:
    """Patterns of the ids that an argument may be."""
    match node:
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case ast.IfExp():
            yield from names(node.body)
            yield from names(node.orelse)
        case ast.JoinedStr():
            parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in node.values]
            yield "".join(parts)


@dataclass
class Uses:
    """What the source does with the sections."""

    named: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Patterns of the ids that a section's function is called with."""
    made: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Patterns of the f-strings in files that use a section."""
    constants: set[str] = field(default_factory=set)
    """Every string of the source, every word of its templates, and the names of HTTP's statuses."""


@cache
def uses() -> Uses:
    found = Uses()
    for file, nodes in source().items():
        section_of = bound(file, nodes)
        for node in nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in section_of
                and node.args
            ):
                found.named[section_of[node.func.id]] |= set(names(node.args[0]))
            elif isinstance(node, ast.JoinedStr):
                patterns = {pattern for pattern in names(node) if re.search(r"[a-z]{4}", pattern)}
                for section in section_of.values():
                    found.made[section] |= patterns
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.constants.add(node.value)
    for template in (ROOT / "src").rglob("*.j2"):
        found.constants |= set(re.findall(r"\w+", template.read_text(encoding="utf-8")))
    found.constants |= {status.phrase.title().replace(" ", "") for status in HTTPStatus}
    return found


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_there_is_one_catalogue_per_language() -> None:
    assert {file.name for file in (FOLDER / "locales").iterdir()} == {"en.json", "zh.json"}


def test_both_languages_have_the_same_ids() -> None:
    assert {section: list(texts) for section, texts in catalogue("en").items()} == {
        section: list(texts) for section, texts in catalogue("zh").items() if section not in TRANSLATIONS
    }


@cases("section", SECTIONS)
def test_every_text_has_the_same_values_in_both_languages(section: str) -> None:
    for name, english in catalogue("en")[section].items():
        chinese = catalogue("zh")[section][name]
        assert fields(chinese) == fields(english), name
        assert not any("\u4e00" <= char <= "\u9fff" for char in english), name


@cases("section", catalogue("zh"))
def test_every_chinese_text_is_chinese(section: str) -> None:
    without = {
        "why",
        "judge_says",
        "ANSWER",
        "SegueError",
        "api",
        "{problem}",
        "{fault}: {advice}.",
        "{fault}.",
        "happened",
    }
    for name, text in catalogue("zh")[section].items():
        assert any("\u4e00" <= char <= "\u9fff" for char in text) or name in without, name


@cases("section", [each for each in SECTIONS if each not in NAMED_ELSEWHERE])
def test_every_id_that_the_code_names_exists(section: str) -> None:
    known = catalogue("en")[section]
    assert {name for name in uses().named[section] if not any(fullmatch(name, text) for text in known)} == set()


@cases("section", [each for each in SECTIONS if each not in NAMED_ELSEWHERE])
def test_every_id_is_used(section: str) -> None:
    unnamed = catalogue("en")[section].keys() - uses().constants
    assert {name for name in unnamed if not any(fullmatch(made, name) for made in uses().made[section])} == set()


def test_every_translated_sentence_is_one_that_the_code_raises() -> None:
    raised = {
        node.value
        for file, nodes in source().items()
        if file.parent.name != "prompts" or file.name == "catalogue.py"
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {*SENTENCES, *catalogue("zh")["clauses"]} <= raised


TO_PEOPLE = {
    *("ConfigurationError", "InvalidAnswer", "InvalidMessage", "InvalidSnapshot", "TaskError"),
    *("DatabaseUnavailable", "DatabaseDamaged", "MemoryUnavailable", "InvalidMemory", "ModelRefused"),
}


def test_every_sentence_with_fields_that_people_read_is_translated() -> None:
    raised = {
        (file.name, ast.unparse(node.args[0]))
        if not isinstance(node.args[0], ast.Constant)
        else (file.name, node.args[0].value)
        for file, nodes in source().items()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TO_PEOPLE and node.args
        if node.keywords or isinstance(node.args[0], ast.JoinedStr)
    }
    assert {(file, text) for file, text in raised if text not in SENTENCES} == set()


def test_every_clause_is_translated() -> None:
    made = {
        (file.name, node.args[0].value)
        for file, nodes in source().items()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Clause" and node.args
        if isinstance(node.args[0], ast.Constant)
    }
    assert made
    assert {(file, text) for file, text in made if text not in catalogue("zh")["clauses"]} == set()


def test_a_text_keeps_the_braces_of_its_values() -> None:
    assert Texts("task")("why", "en", reason="{x} {0}") == ": {x} {0}"


def test_an_unknown_id_and_a_missing_value_are_errors() -> None:
    with pytest.raises(KeyError):
        Texts("task")("no_such_text", "en")
    with pytest.raises(KeyError):
        Texts("task")("why", "zh")
