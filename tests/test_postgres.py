"""The server that tests start: databases of their own, and what was committed survives a crash of it."""

import psycopg

from .postgres import Cluster


def test_each_database_is_new_and_gone_afterwards(postgres: Cluster) -> None:
    with postgres.database() as first, postgres.database() as second:
        with psycopg.connect(first) as connection:
            connection.execute("CREATE TABLE notes (text TEXT)")
        with psycopg.connect(second) as connection:
            connection.execute("CREATE TABLE notes (text TEXT)")
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test%'").fetchall() == []


def test_what_was_committed_survives_a_crash_of_the_server(postgres: Cluster, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE notes AS SELECT 1 AS number")
    postgres.restart("immediate")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT number FROM notes").fetchone() == (1,)
