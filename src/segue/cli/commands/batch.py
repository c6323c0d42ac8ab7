"""`segue simulate --n`: many conversations by several processes, with a progress bar."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..exits import FAILED, PAUSED, complain, remark
from ..settings import Settings
from ..views.consoles import complaints

if TYPE_CHECKING:
    from ...prompts.language import Language
    from ...rehearsal.batch import BatchResult, Manifest
    from ...rehearsal.batch import Progress as Report


def run_batch(settings: Settings, folder: Path, manifest: "Manifest") -> int:
    """Hold the conversations of a batch that have not ended, and return the exit code."""
    try:
        result = asyncio.run(_rehearse(folder, manifest, settings.language_for("")))
    except KeyboardInterrupt:
        remark(settings.say("batch_stopped"))
        return PAUSED
    for error in result.errors:
        complain(error)
    if result.finished < result.total:
        complain(settings.say("batch_unfinished", n=result.total - result.finished, total=result.total))
        return FAILED
    remark(settings.say("batch_finished", total=result.total, folder=folder))
    return 0


async def _rehearse(folder: Path, manifest: "Manifest", language: "Language") -> "BatchResult":
    from ...rehearsal.batch import rehearse

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=complaints()) as progress:
        bar = progress.add_task("", total=manifest.n)

        def show(report: "Report") -> None:
            progress.update(bar, completed=report.finished, total=report.total, description=report.conversation_id)

        return await rehearse(folder, manifest, show, language)
