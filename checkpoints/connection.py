"""A connection to a database, as the tables use it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from .state.rows import State

Values = Sequence[Any] | Mapping[str, Any]

ALL = 2**62
"""The limit of a query that has none."""


class Row(Protocol):
    """A row, read by the name of a column or by its index."""

    def __getitem__(self, column: Any, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Cursor(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """A connection. Statements name their values with `?` or `:name`, and are understood by every database.

    A transaction that writes is alone in SQLite's file. In a server it is not, so it locks the rows that it reads
    before it changes them: `for_update` and `for_key_share` end such a query, and are empty where nothing is to lock.
    """

    duplicate: ClassVar[type[Exception]]
    """What a row raises that contradicts another one."""
    for_update: ClassVar[str]
    for_key_share: ClassVar[str]

    @property
    def state(self) -> "State":
        """The rows of LangGraph's checkpoints, which databases store differently."""
        ...

    def execute(self, statement: str, values: Values = ..., /) -> Cursor: ...

    def fetched(self, statement: str, values: Values = ...) -> list[Any]:
        """The rows of a query, whatever they hold."""
        ...

    def notify(self, task_id: str, thread_id: str) -> None:
        """Tell every process, once this transaction is committed, that a task changed or has new events."""
        ...

    def now(self) -> float:
        """Unix time in seconds, by the one clock that leases expire by."""
        ...


def lease_clock(clock: Callable[[], float] | None) -> Callable[[Connection], float]:
    """The time that leases expire by, in a transaction: the connection's, or that of `clock`."""
    return methodcaller("now") if clock is None else lambda _: clock()
