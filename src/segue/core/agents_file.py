"""Tables of the agents file that are settings of the app."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from .agents import read_file
from .errors import ConfigurationError

Settings = TypeVar("Settings", bound=BaseModel)


def load_table(path: str | Path, name: str, kind: type[Settings]) -> Settings | None:
    """A table of an agents file; None where the file has none of that name.

    Raises:
        ConfigurationError: naming the file and the field that is wrong.
    """
    table = read_file(Path(path)).get(name)
    try:
        return None if table is None else kind.model_validate(table)
    except ValidationError as error:
        field, reason = first_fault(error)
        raise ConfigurationError(
            "The [{table}] table of {file}: {field}{reason}.", table=name, file=path, field=field, reason=reason
        ) from error


def list_tables(path: str | Path, name: str) -> list[dict[str, Any]]:
    """The `[[name]]` tables of an agents file.

    Raises:
        ConfigurationError: naming the file, which has something else of that name.
    """
    tables = read_file(Path(path)).get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(
            "`{table}` in the agents file {file} must be a list of tables: [[{table}]].", table=name, file=path
        )
    return tables


def first_fault(error: ValidationError) -> tuple[str, str]:
    """The field that is wrong first, as it begins a sentence, and why; the field is empty for a table as a whole."""
    first = error.errors()[0]
    return "".join(f"{part}: " for part in first["loc"][:1]), first["msg"].removeprefix("Value error, ")
