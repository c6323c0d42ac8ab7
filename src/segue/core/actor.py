"""Who acts: the API key, terminal or program in whose name something is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

PYTHON: Final = "python"
"""A program that uses the app."""
TERMINAL: Final = "terminal"
"""A person who uses a command."""
HTTP: Final = "http"
"""A request to a service without keys."""
SEGUE: Final = "segue"
"""Nobody: a task went on by itself."""

_actor: ContextVar[str] = ContextVar("segue_actor", default=PYTHON)


def actor() -> str:
    """In whose name the caller acts."""
    return _actor.get()


def key_actor(name: str) -> str:
    """The actor of requests with the API key of that name; without keys there is none."""
    return f"key:{name}" if name else HTTP


def act_as(name: str) -> None:
    """Act in somebody's name from now on, in this asyncio task and in those that it begins."""
    _actor.set(name)


@contextmanager
def acting(name: str) -> Iterator[None]:
    """Act in somebody's name: what is begun meanwhile is done in it, too."""
    token = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(token)
