"""Upgrades of a PostgreSQL database: its own tables, and those of the queue."""

from pathlib import Path

import pytest

from segue.checkpoints.postgres import state
from segue.checkpoints.postgres.database import open_database
from segue.core.errors import DatabaseUnavailable
from tests.postgres import Cluster


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def test_a_script_after_the_baseline_upgrades_a_database_once_and_an_older_one_is_refused(
    postgres: Cluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_database(postgres_url):
        pass
    with monkeypatch.context() as later:
        later.setattr(state, "SCRIPTS", (*state.SCRIPTS, ("CREATE TABLE memories (text TEXT)",)))
        later.setattr(state, "SCHEMA_VERSION", state.SCHEMA_VERSION + 1)
        for _ in range(2):
            async with await open_database(postgres_url):
                pass
    postgres.execute("SELECT text FROM segue.memories", database=name_of(postgres_url))
    postgres.execute(f"UPDATE segue.schema_version SET version = {state.FIRST - 1}", database=name_of(postgres_url))
    with pytest.raises(DatabaseUnavailable, match="export its sessions"):
        await open_database(postgres_url)


async def test_later_migrations_of_the_queue_are_applied_once_and_a_newer_queue_is_refused(
    postgres: Cluster, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_database(postgres_url):
        pass
    folder = tmp_path / "procrastinate/sql/migrations"
    folder.mkdir(parents=True)
    (folder / state.FIRST_MIGRATION).touch()
    (folder / "99.00.00_01_pre_later.sql").write_text("ALTER TABLE procrastinate_jobs ADD COLUMN later text")
    with monkeypatch.context() as later:
        later.setattr(state, "distribution", lambda _: Later(tmp_path))
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
