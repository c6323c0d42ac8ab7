"""Eighteen tools with one fault each, of kinds that no rule was written for."""

import asyncio
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from segue import NOT_DONE, CallContext, tool

from . import place

_OPENED: dict[str, Any] = {}
"""Files that a process keeps open."""


@tool
def subscribe(name: str) -> str:
    """Subscribe a customer. The transaction is never committed."""
    with closing(sqlite3.connect(place.folder() / "staging.db")) as db:
        db.execute("INSERT INTO seats VALUES (?)", (name,))
    return f"{name} is subscribed"


@tool
def post_comment(text: str) -> str:
    """Post a comment, in a thread that nobody waits for."""

    def post() -> None:
        time.sleep(1)
        with (place.folder() / "comments.txt").open("a") as file:
            file.write(f"{text}\n")

    threading.Thread(target=post, daemon=True).start()
    return "posted"


@tool
async def schedule_call(customer: str) -> str:
    """Schedule a call, in a task of the event loop that nobody awaits."""

    async def schedule() -> None:
        await asyncio.sleep(0.8)
        (place.folder() / "calls.txt").write_text(f"{customer}\n")

    _OPENED["task"] = asyncio.create_task(schedule())
    return f"call to {customer} scheduled"


@tool
def archive(name: str) -> str:
    """Archive a document. The folder does not exist, and the error is swallowed."""
    with suppress(OSError):
        shutil.move(place.folder() / "notes.txt", place.folder() / "archive" / "2024" / name)
    return f"{name} is archived"


@tool
def record_sale(item: str) -> str:
    """Record a sale in a file that stays open and is not flushed."""
    if "sales" not in _OPENED:
        _OPENED["sales"] = (place.folder() / "sales.txt").open("a")
    _OPENED["sales"].write(f"{item}\n")
    return f"sold {item}"


@tool
def charge_fee(customer: str) -> dict[str, Any]:
    """Charge a fee. It returns an error once the fee is charged."""
    with place.database() as db:
        db.execute("INSERT INTO history VALUES (1, ?)", (f"fee of {customer}",))
    try:
        return {"receipt": int("none")}
    except ValueError as error:
        return {"error": str(error)}


@tool
def order_flowers(kind: str) -> dict[str, Any]:
    """Order flowers. Whatever goes wrong is returned as a status."""
    try:
        return {"status": "ok", "order": place.post("orders", {"flowers": kind})}
    except (OSError, ValueError) as error:
        return {"status": "error", "message": str(error)}


@tool(idempotent=True)
def rent_room(room: str) -> str:
    """Rent a room, under a lock that a killed process leaves."""
    lock = place.folder() / "rooms.lock"
    lock.mkdir()
    (place.folder() / "rooms.txt").write_text(f"{room}\n")
    lock.rmdir()
    return f"rented {room}"


@tool
def update_index(word: str) -> str:
    """Add a word to the index. Its lock is a file that must not exist."""
    lock = place.folder() / "index.lock"
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    with (place.folder() / "words.txt").open("a") as file:
        file.write(f"{word}\n")
    lock.unlink()
    return f"{word} is in the index"


@tool(idempotent=True)
def save_report(name: str, text: str) -> str:
    """Save a report by way of a file whose name is new each time."""
    written = place.folder() / f"{name}.{uuid.uuid4().hex[:6]}.tmp"
    written.write_text(text)
    written.replace(place.folder() / f"{name}.txt")
    return f"saved {name}"


@tool
def export_rows(name: str) -> str:
    """Export the customers. The temporary file stays."""
    handle, written = tempfile.mkstemp(suffix=".csv")
    os.write(handle, b"Ada,new\n")
    os.close(handle)
    shutil.copy(written, place.folder() / f"{name}.csv")
    return f"exported {name}"


@tool(idempotent=True)
def grant_points(customer: str, points: int) -> str:
    """Grant points: it reads the sum, and writes a larger one."""
    file = place.folder() / "points.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    known[customer] = known.get(customer, 0) + points
    file.write_text(json.dumps(known))
    return f"{points} points"


@tool(idempotent=True)
def rename_customer(name: str, new: str) -> str:
    """Rename a customer. The name is the same after a repetition, and its history is not."""
    with place.database() as db:
        db.execute("BEGIN")
        db.execute("UPDATE customers SET status = ? WHERE name = ?", (new, name))
        db.execute("INSERT INTO history VALUES (2, ?)", (f"{name} is {new}",))
        db.execute("COMMIT")
    return f"{name} is {new}"


def move_back(name: str, to: str) -> None:
    """Move the document back. What it replaced is lost."""
    (place.folder() / to).replace(place.folder() / name)


@tool(undo=move_back)
def move_document(name: str, to: str) -> str:
    """Move a document onto another name."""
    (place.folder() / name).replace(place.folder() / to)
    return f"{name} is {to}"


@tool(read_only=True)
def next_job() -> str:
    """Show the next job, and take it out of the queue."""
    file = place.folder() / "jobs.txt"
    first, *others = file.read_text().splitlines()
    file.write_text("".join(f"{job}\n" for job in others))
    return first


@tool(idempotent=True)
def issue_voucher(customer: str, call: CallContext) -> str:
    """Issue a voucher. It is stored once, and each answer has a code of its own."""
    code = uuid.uuid4().hex[:6]
    with place.database() as db:
        db.execute("INSERT OR IGNORE INTO members VALUES (?, ?)", (call.idempotency_key, customer))
    return f"voucher {code}"


@tool
def split_stock(count: int) -> str:
    """Move stock to another shelf, a row after the other."""
    with place.database() as db:
        db.execute("UPDATE accounts SET balance = balance - ? WHERE name = 'checking'", (count,))
        db.execute("INSERT INTO accounts VALUES ('shelf', ?)", (count,))
    return f"moved {count}"


def is_enrolled(name: str) -> object:
    """Whether there is a person of this name: it may be another one."""
    lines = Path(place.folder() / "notes.txt").read_text().splitlines()
    return "enrolled" if name in lines else NOT_DONE


@tool(check=is_enrolled)
def enrol(name: str) -> str:
    """Enrol a person."""
    with (place.folder() / "notes.txt").open("a") as file:
        file.write(f"{name}\n")
    return "enrolled"
