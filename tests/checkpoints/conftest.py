"""A database, in a file or in a server, and a second view of it as another process has."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from segue.checkpoints.ports import Database
from segue.checkpoints.postgres.database import open_database as open_postgres
from segue.checkpoints.sqlite.database import SqliteDatabase, open_database

from .graphs import Place
from .worlds import World, world

if TYPE_CHECKING:
    from tests.postgres import Cluster

Store = Database[Any]
"""An open database, whichever backend has it."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "segue.db")


@pytest.fixture
async def database(path: str) -> AsyncIterator[SqliteDatabase]:
    async with await open_database(path) as opened:
        yield opened


@pytest.fixture
async def other(database: SqliteDatabase) -> AsyncIterator[SqliteDatabase]:
    """The same file, opened again."""
    async with await open_database(database.path) as opened:
        yield opened


@pytest.fixture(scope="session")
def prepared(postgres: "Cluster") -> str:
    """The name of a PostgreSQL database that has the schema: a copy of it is made faster than a schema."""

    async def create() -> None:
        async with await open_postgres(postgres.url("prepared")):
            pass

    postgres.execute("CREATE DATABASE prepared")
    asyncio.run(create())
    return "prepared"


@pytest.fixture
def prepared_url(postgres: "Cluster", prepared: str) -> Iterator[str]:
    """The URL of a PostgreSQL database that has been opened before and holds nothing."""
    with postgres.database(prepared) as url:
        yield url


BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest) -> str:
    """What names a new database, of each backend."""
    return str(request.getfixturevalue("path" if request.param == "sqlite" else "prepared_url"))


async def opened(address: str) -> Store:
    """Open a database of either backend."""
    return await (open_postgres(address) if address.startswith("postgresql:") else open_database(address))


@pytest.fixture
async def store(address: str) -> AsyncIterator[Store]:
    async with await opened(address) as database:
        yield database


@pytest.fixture
async def second(store: Store, address: str) -> AsyncIterator[Store]:
    """The same database, opened again."""
    async with await opened(address) as database:
        yield database


@contextmanager
def locked(address: str) -> Iterator[None]:
    """Keep everybody else from writing."""
    if address.startswith("postgresql:"):
        with psycopg.connect(address) as connection:
            connection.execute("LOCK TABLE segue.leases, segue.calls, segue.tasks, segue.events IN EXCLUSIVE MODE")
            yield
            connection.rollback()
        return
    with closing(sqlite3.connect(address, isolation_level=None)) as connection:
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
async def place(store: Store) -> Place:
    return Place(store)


@pytest.fixture
async def here(address: str) -> AsyncIterator[World]:
    async with world(address) as opened:
        yield opened
