"""Where the tools of this process work: the folder, database and services of its run."""

import json
import os
import sqlite3
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def namespace() -> str:
    """The run's, or that of the recording."""
    return os.environ.get("SEGUE_CHAOS_NAMESPACE", "recorded")


def folder(name: str = "") -> Path:
    """The folder of a namespace."""
    made = Path(os.environ["STAGING"], name or namespace())
    made.mkdir(parents=True, exist_ok=True)
    return made


TABLES = """
CREATE TABLE IF NOT EXISTS seats (seat TEXT);
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS members (key TEXT PRIMARY KEY, name TEXT);
CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, key TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS tickets (ticket INTEGER PRIMARY KEY, title TEXT);
CREATE TABLE IF NOT EXISTS history (ticket INTEGER, what TEXT);
CREATE TABLE IF NOT EXISTS customers (name TEXT PRIMARY KEY, lookups INTEGER, status TEXT);
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER);
INSERT OR IGNORE INTO customers VALUES ('Ada', 0, 'new');
INSERT OR IGNORE INTO accounts VALUES ('checking', 100), ('savings', 0);
"""


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """The database; each statement is committed unless a transaction was begun."""
    connection = sqlite3.connect(folder() / "staging.db", isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def url(path: str, name: str = "") -> str:
    """The address of the service's resource."""
    return f"{os.environ['STAGING_URL']}/{name or namespace()}/{path}"


def get(path: str, name: str = "") -> Any:
    """Read a resource."""
    with urllib.request.urlopen(url(path, name), timeout=5) as response:
        return json.load(response)


def post(path: str, body: dict[str, Any], key: str = "") -> Any:
    """Create a resource."""
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    request = urllib.request.Request(url(path), json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=5) as response:
        return json.load(response)
