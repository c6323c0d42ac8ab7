"""Database names: SQLite files and PostgreSQL URLs."""

import re

_SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://")
_SECRET = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*&?")


def is_server(database: str) -> bool:
    """Whether a name is the URL of a PostgreSQL server rather than a file."""
    return database.startswith(("postgresql://", "postgres://"))


def foreign_scheme(database: str) -> str:
    """The scheme of a URL that names neither a PostgreSQL server nor a file; empty where there is none."""
    found = _SCHEME.match(database)
    return found[1] if found and found[1] != "file" and not is_server(database) else ""


def without_password(database: str) -> str:
    """The name as it may be shown; a password is found even where it should have been escaped."""
    if not is_server(database):
        return database
    scheme, _, rest = _SECRET.sub("", database).rstrip("?&").partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{place}"
