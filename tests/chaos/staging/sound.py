"""Eleven tools that are safe to resume, of kinds that no rule was written for."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from segue import CallContext, UnknownOutcome, tool

from . import place


@tool
def log_entry(text: str) -> str:
    """Add a line under a lock of the system, which ends with its process; its file stays."""
    with (place.folder() / "entries.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with (place.folder() / "entries.txt").open("a") as file:
            file.write(f"{text}\n")
    return "logged"


@tool
def run_program(word: str) -> dict[str, Any]:
    """Run a program that writes a file; its result has fields for errors, which are empty."""
    written = place.folder() / "said.txt"
    try:
        ran = subprocess.run(["sh", "-c", f"echo {word} > {written}"], check=False, capture_output=True, text=True)
    except (OSError, ValueError) as error:
        raise UnknownOutcome("the program did not end") from error
    return {"exit": ran.returncode, "error": None, "errors": [], "ok": True}


@tool(idempotent=True)
def zip_report(name: str, text: str) -> str:
    """Zip a report, and put it in place once it is whole; a part that was left is replaced."""
    part = place.folder() / f".{name}.part"
    with zipfile.ZipFile(part, "w") as archive:
        archive.writestr(zipfile.ZipInfo("report.txt"), text)
    part.replace(place.folder() / f"{name}.zip")
    return f"zipped {name}"


@tool
def copy_both(name: str) -> str:
    """Write a row in a thread of its own, and wait for it."""

    def write() -> None:
        with place.database() as db:
            db.execute("INSERT INTO history VALUES (3, ?)", (name,))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    return f"copied {name}"


@tool
def hand_over(job: str) -> str:
    """Hand a job over to a program of its own, which outlives this process and writes later."""
    written = place.folder() / "handed.txt"
    subprocess.Popen(["sh", "-c", f"sleep 0.6; echo {job} >> {written}"], start_new_session=True)
    return f"{job} is handed over"


@tool(idempotent=True)
def link_latest(name: str) -> str:
    """Let a link point to a document; the link of an earlier call is replaced."""
    link = place.folder() / "latest.txt"
    fresh = place.folder(f"{place.namespace()}.new") / "latest"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(place.folder() / name)
    os.replace(fresh, link)
    return f"latest is {name}"


@tool
def file_defect(number: int) -> str:
    """File an error report, written elsewhere first."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        written = Path(file.name)
    try:
        written.write_text(f"defect {number}\n")
        shutil.move(written, place.folder() / f"defect-{number}.txt")
    finally:
        written.unlink(missing_ok=True)
    return f"Error report {number} is filed."


@tool
def make_download(name: str) -> str:
    """Make a file for the person, whose path is the result, and note it."""
    handle, written = tempfile.mkstemp(suffix=".txt")
    os.close(handle)
    Path(written).write_text(name)
    try:
        with (place.folder() / "downloads.txt").open("a") as file:
            file.write(f"{name}\n")
    except OSError as error:
        raise UnknownOutcome("the note may be there") from error
    return written


@tool(idempotent=True)
def add_member(name: str, call: CallContext) -> str:
    """Add a member in a savepoint that is rolled back where the key is known."""
    with place.database() as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("SAVEPOINT adding")
        db.execute("INSERT INTO history VALUES (4, ?)", (name,))
        if db.execute("SELECT 1 FROM keys WHERE key = ?", (call.idempotency_key,)).fetchone():
            db.execute("ROLLBACK TO adding")
        else:
            db.execute("INSERT INTO keys VALUES (?)", (call.idempotency_key,))
        db.execute("COMMIT")
    return f"{name} is a member"


def put_back(name: str, call: CallContext) -> None:
    """Write what was deleted."""
    if call.result is not None:
        (place.folder() / name).write_text(call.result)


@tool(undo=put_back)
def delete_document(name: str) -> str:
    """Delete a document; its text is the result."""
    file = place.folder() / name
    text = file.read_text()
    file.unlink()
    return text


@tool(read_only=True)
def count_words(name: str) -> str:
    """Count the words of a document, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.txt")
        shutil.copy(place.folder() / name, copy)
        return f"{len(copy.read_text().split())} words"
