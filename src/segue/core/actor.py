"""Who acts: the API key, terminal or program in whose name something is done, and the roles that it has."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

PYTHON: Final = "python"
"""A program that uses the app."""
TERMINAL: Final = "terminal"
"""A person who uses a command; their name at the operating system follows, as in `terminal:ann`."""
KEY: Final = "key"
"""The API key of a request; its name follows, as in `key:ann@acme`."""
HTTP: Final = "http"
"""A request to a service without keys."""
OPERATOR: Final = "operator"
"""Who wrote the agents file, or what takes its place."""
SEGUE: Final = "segue"
"""Nobody: a task went on by itself."""


@dataclass(frozen=True)
class Actor:
    """In whose name something is done. `roles` of None are all there are: who owns the database has them."""

    name: str
    roles: frozenset[str] | None = None

    def has_one_of(self, roles: Collection[str]) -> bool:
        """Whether it has one of these roles, or none is needed."""
        return not roles or self.roles is None or not self.roles.isdisjoint(roles)


_PROGRAM: Final = Actor(PYTHON)
_actor: ContextVar[Actor] = ContextVar("segue_actor", default=_PROGRAM)


def current_actor() -> Actor:
    """In whose name the caller acts."""
    return _actor.get()


def actor() -> str:
    """The name of the one in whose name the caller acts."""
    return _actor.get().name


def person(name: str) -> str:
    """The person behind the name of an actor: `ann` of `key:ann@acme`, `terminal:ann` and `ann`."""
    kind, colon, rest = name.partition(":")
    return rest.partition("@")[0] if colon and kind in (KEY, TERMINAL) else name


def act_as(name: str) -> None:
    """Act in somebody's name, with every role, from now on, in this asyncio task and in those that it begins."""
    _actor.set(Actor(name))


@contextmanager
def acting(name: str, roles: Iterable[str] | None = ()) -> Iterator[None]:
    """Act in somebody's name: what is begun meanwhile is done in it, too.

    They have these roles; with None all of them.
    """
    token = _actor.set(Actor(name, None if roles is None else frozenset(roles)))
    try:
        yield
    finally:
        _actor.reset(token)
