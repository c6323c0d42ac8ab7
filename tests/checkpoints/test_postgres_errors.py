"""What a server refuses, each in one clear sentence that gives no password away."""

from collections.abc import Iterator

import psycopg
import pytest

import segue
from segue.checkpoints.leases import Lease
from segue.checkpoints.postgres import state
from segue.checkpoints.postgres.database import open_database
from segue.core.errors import DatabaseTooNew, DatabaseUnavailable, InvalidMessage, StorageError
from segue.prompts.catalogue import error_text
from tests.modes import agent_that
from tests.postgres import Cluster

SECRET = "s3cret/?&"


async def refused(url: str) -> str:
    """The sentence in English, after a look at the Chinese one."""
    with pytest.raises(StorageError) as caught:
        async with await open_database(url):
            pass
    sentence, chinese = str(caught.value), error_text(caught.value, "zh")
    assert SECRET not in sentence + chinese and "s3cret" not in sentence + chinese
    assert "\n" not in sentence and sentence.endswith(".")
    assert any("\u4e00" <= character <= "\u9fff" for character in chinese.partition("：")[2]), chinese
    return sentence


@pytest.fixture
def guarded(postgres: Cluster, postgres_url: str) -> Iterator[str]:
    """The name of a role that has a password and the database of the test, which is asked for it."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"CREATE ROLE guard LOGIN PASSWORD '{SECRET}'", f"GRANT CREATE ON DATABASE {database} TO guard")
    with postgres.rules("local all guard scram-sha-256"):
        yield database
    postgres.execute("DROP OWNED BY guard", database=database)
    postgres.execute("DROP OWNED BY guard", "DROP ROLE guard")


async def test_a_server_that_is_not_there() -> None:
    for url in ("postgresql://ann:s3cret@127.0.0.1:1/segue", "postgresql:///segue?host=/nowhere&password=s3cret"):
        assert "cannot be reached: check that the server runs" in await refused(url)


@pytest.mark.parametrize("url", ["postgresql://ann:s3cret@[::1/segue", "postgresql://ann:s3cret@here/segue?odd=1"])
async def test_a_url_that_is_none(url: str) -> None:
    assert "write it as postgresql://USER@HOST:PORT/DATABASE" in await refused(url)


async def test_a_database_or_a_user_that_does_not_exist(postgres: Cluster) -> None:
    assert "does not exist: create it with `createdb`" in await refused(postgres.url("nowhere"))
    assert "refuses the password or the user" in await refused(postgres.url(user="nobody"))


async def test_a_wrong_password_and_the_right_one(postgres: Cluster, guarded: str) -> None:
    for password in ("", "s3cret"):
        assert "refuses the password or the user" in await refused(postgres.url(guarded, "guard", password))
    async with await open_database(postgres.url(guarded, "guard", SECRET)) as database:
        assert await Lease(database).acquire("s", "me") == 1
        assert "guard@" in database.url and "s3cret" not in database.url


async def test_a_user_without_rights(postgres: Cluster, guarded: str) -> None:
    postgres.execute(f"REVOKE CREATE ON DATABASE {guarded} FROM guard")
    assert "may not be used by this user: grant it CREATE" in await refused(postgres.url(guarded, "guard", SECRET))
    async with await open_database(postgres.url(guarded)):
        pass
    assert "may not be used by this user: grant it CREATE" in await refused(postgres.url(guarded, "guard", SECRET))


async def test_too_many_connections(postgres: Cluster, guarded: str) -> None:
    postgres.execute("ALTER ROLE guard CONNECTION LIMIT 0")
    assert "has no connection left" in await refused(postgres.url(guarded, "guard", SECRET))


async def test_a_database_that_is_read_only(postgres: Cluster, postgres_url: str) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "is read-only: name the primary server" in await refused(postgres_url)
    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    async with await open_database(postgres_url):
        pass
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with await open_database(postgres_url) as database:
        with pytest.raises(DatabaseUnavailable, match="is read-only"):
            await Lease(database).acquire("s", "me")
        postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


async def test_a_server_or_an_encoding_that_cannot_be_used(
    postgres: Cluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute("CREATE DATABASE odd ENCODING 'SQL_ASCII' TEMPLATE template0")
    assert "has the encoding SQL_ASCII and Segue needs UTF8" in await refused(postgres.url("odd"))
    postgres.execute("DROP DATABASE odd WITH (FORCE)")
    monkeypatch.setattr(state, "OLDEST_SERVER", 99)
    assert "and Segue needs 99 or newer: upgrade the server" in await refused(postgres_url)


async def test_a_database_of_a_newer_segue_or_of_another_program(postgres: Cluster, postgres_url: str) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute("CREATE SCHEMA segue CREATE TABLE events (id INTEGER)", database=name)
    assert 'has a schema "segue" of another program' in await refused(postgres_url)
    postgres.execute("DROP SCHEMA segue CASCADE", database=name)
    async with await open_database(postgres_url):
        pass
    postgres.execute("UPDATE segue.schema_version SET version = 99", database=name)
    with pytest.raises(DatabaseTooNew, match="99"):
        await open_database(postgres_url)


async def test_a_table_that_was_dropped(postgres: Cluster, postgres_url: str) -> None:
    async with await open_database(postgres_url) as database:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("DROP TABLE segue.lease_queue")
        with pytest.raises(DatabaseUnavailable, match="lacks a part of Segue's schema"):
            await Lease(database).acquire("s", "me")


async def test_a_disk_that_is_full(postgres_url: str) -> None:
    async with await open_database(postgres_url) as database:

        def fill(connection: object) -> None:
            raise psycopg.errors.DiskFull("could not extend file: No space left on device")

        with pytest.raises(DatabaseUnavailable, match="is full: free some space on the server's disk"):
            await database.write(fill)
        assert await Lease(database).acquire("s", "me") == 1


async def test_text_that_the_server_cannot_store(postgres_url: str) -> None:
    async with await open_database(postgres_url) as database:
        with pytest.raises(InvalidMessage, match="NUL character"):
            await Lease(database).acquire("s\0", "me")


async def test_a_message_that_the_server_cannot_store_and_a_result_that_it_can(postgres_url: str) -> None:
    @segue.tool(read_only=True)
    def read() -> str:
        """Read a file."""
        return "a\0b"

    async with segue.open(postgres_url, agents=[agent_that("react", ("read", {}), tools=[read])]) as app:
        for given in ({"message": "a\0b"}, {"message": "a", "session_id": "s\0"}, {"message": "a", "user_id": "u\0"}):
            with pytest.raises(InvalidMessage, match=r"NUL character|session name"):
                await app.ask(**{"session_id": "s", "agent": "a", **given})
        task = await app.ask("go", agent="a", session_id="s")
        (call,) = (await app.tasks.trace(task.task_id)).calls
        assert (task.success, call.outcome) == (True, {"success": "a\0b"})
