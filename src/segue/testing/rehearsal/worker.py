"""One process of a batch: `python -m segue.testing.rehearsal.worker FOLDER WORKER LANGUAGE`.

It holds its conversations one after the other, in a database of its own, and writes a line of JSON for each to standard
output. When its standard input closes, whoever started it is gone, and it ends.
"""

import asyncio
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from ...app import App
from ...core.conversation import Conversation
from ...core.errors import SegueError
from ...core.task import TaskStatus
from ...prompts.catalogue import Language, error_text, language_named, sentence_of
from .batch import HERE, Counting, Manifest, Planned, is_finished, log_file, opened
from .simulate import converse, write_log


def database(folder: Path, worker: int) -> Path:
    """The database of a worker."""
    return folder / f"worker-{worker}.db"


async def work(
    folder: Path, worker: int, reports: TextIO, language: Language = "en", counting: Counting = HERE
) -> None:
    """Hold the worker's conversations that have not ended; one that fails leaves the others alone.

    Calls count where `counting` says, of which the default is the first worker's database.
    """
    if not counting.database:
        counting = replace(counting, database=str(database(folder, 1)))
    manifest = Manifest.read(folder)
    mine = [planned for planned in manifest.conversations() if planned.worker == worker]
    async with opened(manifest, database(folder, worker), counting, _name_of(folder)) as app:
        for planned in mine:
            if is_finished(folder, planned):
                continue
            _report(reports, planned, "started")
            try:
                conversation = await converse(app, planned.config, conversation_id=planned.conversation_id)
            except Exception as error:  # noqa: BLE001  participants of one's own raise anything
                _report(reports, planned, "failed", error=sentence_of(error, language))
                continue
            write_log(conversation, log_file(folder, planned))
            why = await _why(app, conversation)
            _report(reports, planned, "failed" if why else "finished", why)


def _name_of(folder: Path) -> str:
    return folder.absolute().name


async def _why(app: App, conversation: Conversation) -> str:
    """Why a conversation has not ended; empty if it has."""
    if conversation.ending:
        return ""
    task = await app.task(conversation.task_id)
    if task.status == TaskStatus.WAITING:
        question = await app.question(task.task_id)
        names = ", ".join(call["name"] for call in question.get("calls", ()))
        return str(question.get("question") or f"it waits for {question['kind']} {names}".strip())
    return task.error or f"its task is {task.status}"


def _report(reports: TextIO, planned: Planned, status: str, error: str = "") -> None:
    line = {"conversation_id": planned.conversation_id, "status": status, "error": error}
    reports.write(json.dumps(line) + "\n")
    reports.flush()


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def _only_reports() -> TextIO:
    """Standard output for reports; what tools print goes to standard error from now on."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return reports


def main() -> None:
    """Work until the conversations are done, or the process that started this one is gone."""
    counting = Counting(**json.loads(sys.stdin.readline() or "{}"))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder, worker, language = sys.argv[1:]
    chosen = language_named(language) or "en"
    try:
        asyncio.run(work(Path(folder), int(worker), _only_reports(), chosen, counting))
    except SegueError as error:
        sys.exit(error_text(error, chosen))


if __name__ == "__main__":
    main()
