"""The systems behind the shipped workflows as real tools: a state in SQLite, changed once for a key."""

import inspect
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from langchain_core.tools import StructuredTool
from pydantic import create_model

from segue import tool
from segue.testing.rehearsal.backends import BACKENDS, Backend
from segue.tools.bound_tool import current_call

from . import place

WRITES = ("change_booking", "cancel_booking", "book_appointment", "cancel_appointment", "create_return")


def _connected(namespace: str) -> sqlite3.Connection:
    return sqlite3.connect(place.folder(namespace) / "systems.db", isolation_level=None, timeout=30)


class Systems:
    """The states of all systems, each as it begins with seed 0."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        with closing(_connected(namespace)) as db:
            db.execute("CREATE TABLE states (name TEXT PRIMARY KEY, state TEXT)")
            db.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT)")
            for name, backend in BACKENDS.items():
                db.execute("INSERT INTO states VALUES (?, ?)", (name, json.dumps(backend.initial(0))))

    def snapshot(self) -> object:
        with closing(_connected(self._namespace)) as db:
            return {name: json.loads(state) for name, state in db.execute("SELECT * FROM states")}


def _called(backend: Backend, name: str, arguments: dict[str, Any]) -> Any:
    """Make a call in one transaction, which keeps the reply by the call's key."""
    key = current_call.get().idempotency_key
    with closing(_connected(place.namespace())) as db:
        db.execute("BEGIN IMMEDIATE")
        if known := db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone():
            db.execute("COMMIT")
            return json.loads(known[0])
        (state,) = db.execute("SELECT state FROM states WHERE name = ?", (backend.name,)).fetchone()
        response = backend.call(json.loads(state), name, arguments)
        if response.status_code == 200 and name in WRITES:
            db.execute("INSERT INTO replies VALUES (?, ?)", (key, json.dumps(response.data)))
            db.execute("UPDATE states SET state = ? WHERE name = ?", (json.dumps(response.state), backend.name))
        db.execute("COMMIT")
    return response.data


def _tool(backend: Backend, name: str) -> Any:
    function: Callable[..., Any] = backend.apis[name]
    taken = [parameter for parameter in inspect.signature(function).parameters if parameter != "state"]
    schema: Any = create_model(name, **{parameter: (str, ...) for parameter in taken})  # type: ignore[call-overload]

    def call(**arguments: Any) -> Any:
        return _called(backend, name, arguments)

    made = StructuredTool.from_function(call, name=name, description=name, args_schema=schema)
    return tool(read_only=name not in WRITES, idempotent=name in WRITES)(made)


TOOLS = {name: _tool(backend, name) for backend in BACKENDS.values() for name in backend.apis}
globals().update(TOOLS)
