"""The database engine that data files are read into: in memory, and shut off from everything once they are."""

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from segue.core.errors import MissingExtra

from .data_words import Language, told

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
_LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")


def need_extra() -> None:
    """Refuse to go on without the database engine.

    Raises:
        MissingExtra: naming what to install.
    """
    if importlib.util.find_spec("duckdb") is None:
        raise MissingExtra("Reading data files", "data")


def connect() -> "DuckDBPyConnection":
    """An empty database of its own, which may still read files: call `lock` before anybody else's SQL."""
    need_extra()
    import duckdb

    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def lock(connection: "DuckDBPyConnection") -> None:
    """Take away every file, the network and the way back."""
    for statement in _LOCKS:
        connection.execute(statement)


@contextmanager
def limited(connection: "DuckDBPyConnection", language: Language, seconds: float = SECONDS) -> Iterator[None]:
    """Interrupt what runs too long, and say in a sentence what the engine cannot do.

    Raises:
        ValueError: it took too long, needs too much memory, or cannot be read.
    """
    import duckdb

    watch = threading.Timer(seconds, connection.interrupt)
    watch.daemon = True
    watch.start()
    try:
        yield
    except duckdb.InterruptException as error:
        raise ValueError(
            told(language, f"超过 {seconds:g} 秒，已中断。", f"It took longer than {seconds:g} s and was stopped.")
        ) from error
    except duckdb.OutOfMemoryException as error:
        too_much = told(language, f"需要的内存超过 {MEMORY}，已停止。", f"It needs more than {MEMORY} and was stopped.")
        raise ValueError(too_much) from error
    finally:
        watch.cancel()
        watch.join()
