"""The databases that implement the storage port, each in a package of its own."""

from .ports import Storage


async def open_storage(url: str) -> Storage:
    """Open the database that `url` names: the path of a SQLite file, a `file:` URI or `:memory:`.

    Raises:
        DatabaseUnavailable, DatabaseTooNew: saying what to do.
    """
    from .sqlite.storage import open_sqlite

    return await open_sqlite(url)
