"""Upgrades of a PostgreSQL database: its own tables, and those of the queue."""

from pathlib import Path

import pytest

from segue.checkpoints.open import open_storage
from segue.checkpoints.postgres import schema, workers_schema
from segue.checkpoints.postgres.database import open_database
from segue.core.errors import DatabaseUnavailable
from tests.postgres import Cluster

_TASK = """
    INSERT INTO segue.tasks
        (task_id, thread_id, agent_id, user_id, mode, model, message, status, created_at, updated_at)
    VALUES ('t', 's', 'a', 'u', 'react', '', 'hello', 'pending', 1, 1)
"""
_WAKE = "SET search_path = segue; SELECT segue_wake('t', 'a', false)"


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def test_a_task_that_waits_for_a_worker_still_does(
    postgres: Cluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(schema, "SCRIPTS", schema.SCRIPTS[:3])
        older.setattr(schema, "SCHEMA_VERSION", 3)
        async with await open_database(postgres_url):
            postgres.execute(_TASK, _WAKE, database=name_of(postgres_url))
    storage = await open_storage(postgres_url)
    assert storage.workers and await storage.workers.is_queued("t")
    (waiting,) = await storage.workers.unowned()
    assert (waiting.agent_digest, waiting.orphaned) == (None, False)
    await storage.close()


async def test_later_migrations_of_the_queue_are_applied_once_and_a_newer_queue_is_refused(
    postgres: Cluster, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_database(postgres_url):
        pass
    folder = tmp_path / "procrastinate/sql/migrations"
    folder.mkdir(parents=True)
    (folder / workers_schema.FIRST_MIGRATION).touch()
    (folder / "99.00.00_01_pre_later.sql").write_text("ALTER TABLE procrastinate_jobs ADD COLUMN later text")
    with monkeypatch.context() as later:
        later.setattr(workers_schema, "distribution", lambda _: Later(tmp_path))
        for _ in range(2):
            async with await open_database(postgres_url):
                pass
    postgres.execute("SELECT later FROM segue.procrastinate_jobs", database=name_of(postgres_url))
    with pytest.raises(DatabaseUnavailable, match="queue of a newer procrastinate"):
        await open_database(postgres_url)


class Later:
    """A later procrastinate, as far as its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def locate_file(self, path: str) -> Path:
        return self._folder / path
