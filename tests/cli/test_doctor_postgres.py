"""`segue doctor` on a PostgreSQL database: what it holds, what hinders, and no password."""

from collections.abc import Iterator

import pytest

from segue.checkpoints.postgres.database import open_database
from segue.checkpoints.postgres.storage import open_postgres
from segue.cli.commands.doctor import Finding, _database
from segue.cli.settings import Settings
from segue.core.records import Worker
from tests.postgres import Cluster


def looked_at(url: str) -> Finding:
    (found,) = _database(Settings(database=url), "en")
    (chinese,) = _database(Settings(database=url), "zh")
    assert chinese.ok == found.ok
    assert "s3cret" not in found.detail + chinese.detail
    return found


@pytest.fixture
def guard(postgres: Cluster, postgres_url: str) -> Iterator[str]:
    """The database's URL for a user who may not do anything."""
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute("CREATE ROLE visitor LOGIN")
    yield postgres.url(name, "visitor", "s3cret")
    postgres.execute("DROP OWNED BY visitor", database=name)
    postgres.execute("DROP ROLE visitor")


async def test_a_database_is_described_and_an_empty_one_left_empty(postgres_url: str) -> None:
    for _ in range(2):
        empty = looked_at(postgres_url)
        assert empty.ok and "has no tables of Segue yet" in empty.detail
    async with await open_database(postgres_url):
        found = looked_at(postgres_url)
    assert (
        found.ok and "writable, schema version" in found.detail and "live leases: 0, workers: 0, tasks" in found.detail
    )


async def test_workers_with_different_versions_of_an_agent_are_reported(postgres_url: str) -> None:
    storage = await open_postgres(postgres_url)
    for owner, digest in (("one", "1"), ("two", "2")):
        agents = {"same": "1", "payer": digest}
        await storage.workers.report(Worker(owner=owner, agents=agents, modes=["react"], concurrency=1))
    await storage.close()
    _, differ = _database(Settings(database=postgres_url), "en")
    assert differ.ok is None and "different versions of these agents: payer;" in differ.detail


async def test_what_hinders_is_said(postgres: Cluster, postgres_url: str, guard: str) -> None:
    assert "may not create Segue's tables: grant it CREATE" in looked_at(guard).detail
    async with await open_database(postgres_url):
        denied = looked_at(guard)
    assert denied.ok is False and "may not use the tables calls, " in denied.detail
    away = looked_at("postgresql://ann:s3cret@127.0.0.1:1/segue")
    assert away.ok is False and "cannot be reached" in away.detail
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "is read-only: name the primary server" in looked_at(postgres_url).detail
    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
