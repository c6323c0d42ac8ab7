"""The data tools of one folder, with its files and columns in their specifications."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from segue.tools.adapters.functions import bind_function
from segue.tools.bound_tool import BoundTool

from .engine import need_duckdb
from .folder import DataFile, DataFolder
from .kinds import Kind
from .sandbox import slots
from .sources import peek, tables_text
from .tools import DATA
from .vocabulary import words_for

LOOKED_AT = 20
"""Files whose columns are known by name."""
MOST_COLUMNS = 60
"""Columns of one kind that are known by name."""
_BY = {
    "sum_by": ("按{}", "各{}", "各个{}", "每个{}", "分{}", "by {}", "per {}", "each {}", "every {}"),
    "top_n": ("哪个{}", "哪些{}", "哪种{}", "哪家{}", "which {}", "what {}"),
}
"""How a sentence asks for groups of a column."""
_OF = {"sum_by": ("how many {}", "how much {}", "number of {}", "多少{}")}
"""How a sentence asks for the values of a column of numbers: "how many units" does not count rows."""
_KINDS: Mapping[str, Kind] = {"column": "text", "value": "number", "date_column": "date"}


def data_tools(folder: str | Path = "", charts: str | Path = "") -> tuple[BoundTool, ...]:
    """The tools over a folder: as given, else as `SEGUE_DATA` says, else `./data`; likewise where charts are written.

    Raises:
        MissingExtra: the database engine is not installed.
        ConfigurationError: `SEGUE_QUERY_PROCESSES` is not a number of processes.
    """
    need_duckdb()
    slots()
    where = DataFolder.of(folder, charts)
    return _bound(where, tuple(where.files()))


@lru_cache(maxsize=8)
def _bound(folder: DataFolder, files: tuple[DataFile, ...]) -> tuple[BoundTool, ...]:
    """The same tools as long as no file changes."""
    words, tables = _words(files[:LOOKED_AT]), tables_text(files[:LOOKED_AT])
    return tuple(_knowing(bind_function(partial(function, folder=folder)), words, tables) for function in DATA)


Words = Mapping[str, Mapping[str, list[str]]]
"""By argument the words that stand for its values."""


def _words(files: Iterable[DataFile]) -> Words:
    known: dict[str, dict[str, list[str]]] = {"file": {}, **{argument: {} for argument in _KINDS}}
    for file in files:
        known["file"][file.name] = [word for word in (file.name, file.stem) if len(word) > 1]
        try:
            columns = peek(file)
        except ValueError:
            continue  # a question about the file says why
        words = words_for([column.name for column in columns])
        for argument, kind in _KINDS.items():
            of_kind = [column.name for column in columns if column.kind == kind][:MOST_COLUMNS]
            known[argument] |= {name: words[name] for name in of_kind}
    return known


def _knowing(bound: BoundTool, words: Words, tables: str) -> BoundTool:
    """The tool, with the names of the files and columns among what its specification says."""
    function, marks = bound.spec["function"], bound.spec["segue"]
    parameters = function["parameters"]
    properties = {name: _with_words(schema, words.get(name)) for name, schema in parameters["properties"].items()}
    if tables and "sql" in properties:
        sql = properties["sql"]
        properties["sql"] = {**sql, "description": f"{sql['description']} The tables are: {tables}."}
    forms = ((_BY, "column"), (_OF, "value"))
    asked = [
        form.format(word)
        for form_of, argument in forms
        for form in form_of.get(bound.name, ())
        for said in words[argument].values()
        for word in said
    ]
    spec = {
        **bound.spec,
        "function": {**function, "parameters": {**parameters, "properties": properties}},
        "segue": {**marks, "keywords": [*marks["keywords"], *asked]},
    }
    return replace(bound, spec=spec)


def _with_words(schema: Mapping[str, Any], words: Mapping[str, list[str]] | None) -> Mapping[str, Any]:
    return {**schema, "examples": list(words), "aliases": words} if words else schema
