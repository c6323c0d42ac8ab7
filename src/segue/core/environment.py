"""Settings of the environment: variables that hold numbers, packages of extras, names of databases, and folders."""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from .errors import ConfigurationError, MissingExtra
from .variables import masked


def whole_number(environ: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    """The number in an environment variable; the default where it is empty or not set."""
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text[:20]) <= 10**9):
        raise ConfigurationError(
            "{name} must be a whole number of at least {least}, not '{text}'.", name=name, least=least, text=text[:40]
        )
    return int(text)


def need_extra(what: str, extra: str, *packages: str) -> None:
    """Check that the packages of an extra are installed."""
    try:
        installed = all(map(find_spec, packages))
    except ModuleNotFoundError:  # not even the package that one is part of
        installed = False
    if not installed:
        raise MissingExtra(what, extra)


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


def address_without_secrets(url: str) -> str:
    """An address without its user, password, query and variables of an agents file, for messages."""
    try:
        parts = urlsplit(masked(url))
    except ValueError:
        return "…"
    host = parts.netloc.rpartition("@")[2]
    scheme = f"{parts.scheme}:" if parts.scheme else ""
    return f"{scheme}//{host}{parts.path}" if host else parts.path.rpartition("@")[2]


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, such as a rename, to the disk, where the system supports it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
