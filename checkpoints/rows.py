"""What rows are read through: SQLite keeps to the form of its pages, not to what a row may hold."""

import json
from collections.abc import Mapping
from typing import Any

from segue.errors import DatabaseUnavailable

NUMBER = (int, float)
OBJECT_OR_NONE = (dict, type(None))
TEXT_OR_NONE = (str, type(None))


def damaged_row(reason: str) -> DatabaseUnavailable:
    """The error for a row that is not what was stored."""
    return DatabaseUnavailable(
        f"The database holds a row that cannot be read ({reason}), so it is damaged: `segue doctor` says what to do."
    )


def decoded(text: str | None) -> Any:
    """The value of a JSON text that a row holds; None for none.

    Raises:
        DatabaseUnavailable: it is damaged.
    """
    try:
        return None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged_row("a JSON text is none") from error


def checked(row: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The row, with values of these kinds in it.

    Raises:
        DatabaseUnavailable: it is damaged.
    """
    for name, kind in kinds.items():
        if not isinstance(row[name], kind):
            raise damaged_row(f"its {name} is {type(row[name]).__name__}")
    return dict(row)
