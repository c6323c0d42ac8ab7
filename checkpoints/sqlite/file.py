"""Identity of the database's file."""

import os

from segue.core.errors import DatabaseUnavailable


class File:
    """The file at a path, as it was when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)

    def check(self) -> None:
        """Make sure that the path still names the file that was opened.

        Raises:
            DatabaseUnavailable: it was deleted or replaced; what is written now would be lost.
        """
        if _identity(self._path) != self._identity:
            raise DatabaseUnavailable(
                "The database {path} was deleted or replaced while it was open: nothing more is written. Restore "
                "the file, then start this process again.",
                path=self._path,
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
