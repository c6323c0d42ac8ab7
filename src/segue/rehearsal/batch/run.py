"""A batch of conversations, held by worker processes; what was finished is not held again."""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from ...core.errors import ConfigurationError
from ...core.records import Json
from ...prompts.language import Language
from ...prompts.phrases import phrase
from ..text_file import check_writable
from .manifest import FILE, Manifest, open_batch, unfinished
from .worker import check


@dataclass(frozen=True)
class Progress:
    """What a worker says: a conversation is started, finished or failed. The first one, "begun", is of none."""

    conversation_id: str
    status: str
    error: str = ""
    finished: int = 0
    """Conversations of the batch that have ended, of `total`."""
    total: int = 0


@dataclass(frozen=True)
class BatchResult:
    """How a batch went: how many conversations there are, how many have ended, and why others did not."""

    total: int
    finished: int
    errors: tuple[str, ...] = ()


async def rehearse(
    folder: Path,
    manifest: Manifest,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    language: Language = "en",
) -> BatchResult:
    """Hold the conversations of a batch that have not ended yet; `language` is that of errors.

    Each worker has a process and a database. After a crash of this process or a worker the same call goes on: finished
    conversations and turns are not repeated.

    Raises:
        ConfigurationError: the folder holds another batch or cannot be written, another process works on this batch,
            or it names what is not there.
    """
    check_writable(folder / FILE)
    await check(manifest)
    try:
        with _lock(folder).acquire(timeout=0):
            return await _run_workers(folder, open_batch(folder, manifest), on_progress, language)
    except Timeout:
        raise ConfigurationError(
            "Another process works on the batch in {folder}: wait for it to end.", folder=folder
        ) from None


def _lock(folder: Path) -> FileLock:
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".lock")


async def _run_workers(
    folder: Path, manifest: Manifest, on_progress: Callable[[Progress], None], language: Language
) -> BatchResult:
    todo = unfinished(folder, manifest)
    finished, errors = manifest.n - len(todo), list[str]()

    def note(progress: Progress) -> None:
        nonlocal finished
        finished += progress.status == "finished"
        if progress.status == "failed":
            errors.append(f"{progress.conversation_id}: {progress.error}")
        on_progress(replace(progress, finished=finished, total=manifest.n))

    note(Progress("", "begun"))
    async with asyncio.TaskGroup() as group:
        for worker in sorted({planned.worker for planned in todo}):
            group.create_task(_watch(folder, worker, language, note, errors))
    return BatchResult(manifest.n, manifest.n - len(unfinished(folder, manifest)), tuple(errors))


async def _watch(
    folder: Path, worker: int, language: Language, on_progress: Callable[[Progress], None], errors: list[str]
) -> None:
    """Start a worker and pass on what it says; its standard input stays open as long as this process lives."""
    command = (sys.executable, "-m", "segue.rehearsal.batch.worker", str(folder), str(worker), language)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdout
    assert process.stderr
    stderr = asyncio.create_task(process.stderr.read())
    try:
        async for line in process.stdout:
            on_progress(_read(line))
        if await process.wait():
            lines = (await stderr).decode("utf-8", "replace").strip().splitlines()
            ended = phrase("worker_ended", language, worker=worker, code=process.returncode)
            errors.append(lines[-1] if lines else ended)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _read(line: bytes) -> Progress:
    form: Json = json.loads(line)
    return Progress(form["conversation_id"], form["status"], form["error"])
