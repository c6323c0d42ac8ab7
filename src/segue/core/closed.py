"""The placeholder for the parts of a closed app."""

from typing import NoReturn

from .errors import AppClosed


class Closed:
    """Raises AppClosed on any attribute access, and where a call is awaited."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AppClosed

    async def __call__(self, *_: object, **__: object) -> NoReturn:
        raise AppClosed
