"""Tables of the agents file that are settings of the app."""

from pathlib import Path
from typing import TypeVar

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
        first = error.errors()[0]
        raise ConfigurationError(
            "The [{table}] table of {file}: {field}{reason}.",
            table=name,
            file=path,
            field="".join(f"{part}: " for part in first["loc"][:1]),
            reason=first["msg"].removeprefix("Value error, "),
        ) from error
