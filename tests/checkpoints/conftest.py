"""A database on a file, and a second view of it as another process has."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from segue.checkpoints.sqlite.database import Database, open_database

from .graphs import Place


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "segue.db")


@pytest.fixture
async def database(path: str) -> AsyncIterator[Database]:
    async with await open_database(path) as opened:
        yield opened


@pytest.fixture
async def other(database: Database) -> AsyncIterator[Database]:
    """The same file, opened again."""
    async with await open_database(database.path) as opened:
        yield opened


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep everybody else from writing."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def place(database: Database) -> Place:
    return Place(database)
