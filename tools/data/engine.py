"""The database engine: DuckDB in memory, with limits on time and memory, and locked before it runs foreign SQL."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from segue.core.environment import need_extra
from segue.prompts.data import phrase
from segue.prompts.language import Language

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SECONDS = 20.0
"""How long one question may take."""
MEMORY = "1GB"
_CONFIG: dict[str, str | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": MEMORY,
    "temp_directory": "",
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}


def need_duckdb() -> None:
    """Check that the database engine is installed.

    Raises:
        MissingExtra: naming what to install.
    """
    need_extra("Reading data files", "data", "duckdb")


def connect() -> "DuckDBPyConnection":
    """Open an empty database that may still read files: call `lock` before it runs SQL of a model."""
    need_duckdb()
    import duckdb

    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lock(connection: "DuckDBPyConnection") -> None:
    """Take away every file, the network, and the means to undo this."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def limited(connection: "DuckDBPyConnection", language: Language, seconds: float = SECONDS) -> Iterator[None]:
    """Interrupt what runs too long.

    Raises:
        ValueError: it took too long or needs too much memory.
    """
    import duckdb

    watch = threading.Timer(seconds, connection.interrupt)
    watch.daemon = True
    watch.start()
    try:
        yield
    except duckdb.InterruptException as error:
        raise ValueError(phrase("too_slow", language, seconds=seconds)) from error
    except duckdb.OutOfMemoryException as error:
        raise ValueError(phrase("too_large", language, memory=MEMORY)) from error
    finally:
        watch.cancel()
        watch.join()
