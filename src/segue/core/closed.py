"""The placeholder for the parts of a closed app."""

from typing import NoReturn

from .errors import AppClosed


class Closed:
    """Raises AppClosed on any attribute access."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AppClosed
