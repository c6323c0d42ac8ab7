"""What the data tools give back: plain values with a summary."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .data_files import DataFolder
from .data_loading import names_in
from .data_questions import Facts, facts_of, groups_of, sample_of
from .data_summaries import describe_summary, groups_summary, overview_summary, top_summary
from .data_tables import TABLES, Table
from .data_words import Language, language_of

DETAILED = 30
"""Columns that a description goes into; further ones are only named."""
GROUPS = 50
"""Groups of a result at most."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 3, 12
OVERVIEW = 20
"""Files that an overview goes into."""

Result = dict[str, Any]


def opened(
    folder: DataFolder, file: str | None, named: Sequence[str | None], language: Language | None
) -> tuple[Table, Language]:
    """The file's table, and the language to answer in: the one that was asked for, else that of the names.

    Raises:
        ValueError: there is no such file, or it cannot be read.
    """
    texts = [text for text in (file, *named) if text]
    reader = language or language_of(texts)
    table = TABLES.open(folder.find(file, reader), reader)
    return table, language or language_of(texts or table.names)


def described(table: Table, language: Language) -> Result:
    names = table.names[:DETAILED]
    result = {
        "file": table.file.name,
        "rows": table.rows,
        "columns": [_detailed(facts) for facts in facts_of(table, names, language)],
        "more_columns": table.names[DETAILED:],
        "sample": sample_of(table, names[:SAMPLE_COLUMNS], SAMPLE_ROWS, language),
    }
    return {**result, "summary": describe_summary(result, language)}


def _detailed(facts: Facts) -> Result:
    found: Result = {
        **{"name": facts.name, "type": facts.kind, "nulls": facts.missing, "distinct": facts.distinct},
        **({} if facts.least is None else {"min": facts.least, "max": facts.most}),
        **({} if facts.mean is None else {"mean": facts.mean}),
    }
    common = [{"value": value, "rows": rows} for value, rows in facts.common]
    return {**found, "common": common} if common else found


def overview(folder: DataFolder, language: Language) -> Result:
    """The files there are, with their columns; a file that cannot be read says why."""
    files = [{"file": file.name, **names_in(file, language)} for file in folder.files()[:OVERVIEW]]
    return {"files": files, "summary": overview_summary(files, language)}


def grouped(table: Table, column: str, value: str | None, language: Language) -> Result:
    """The sums of a column by another one, or without a column the counts."""
    found = groups_of(table, column, value, language, most=GROUPS)
    result = {
        **{"file": table.file.name, "column": column, "value": value, "rows": table.rows},
        **{"groups": [asdict(group) for group in found.groups], "count": found.count, "total": found.total},
    }
    return {**result, "summary": groups_summary(result, language)}


def ranked(table: Table, column: str, value: str | None, language: Language, *, most: int, lowest: bool) -> Result:
    """The groups with the highest, or lowest, sums or counts."""
    found = groups_of(table, column, value, language, most=most, lowest=lowest)
    result = {
        **{"file": table.file.name, "column": column, "value": value, "rows": table.rows, "lowest": lowest},
        **{"groups": [asdict(group) for group in found.groups], "count": found.count, "total": found.total},
    }
    return {**result, "summary": top_summary(result, language)}


def shown_path(path: Path) -> str:
    """A path as a person finds it: from the working directory where it lies below it."""
    whole = path.absolute()
    here = Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)
