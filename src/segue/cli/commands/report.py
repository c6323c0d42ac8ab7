"""`segue report`: what a batch of conversations amounts to, in files and on the terminal."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import FAILED, report_errors

if TYPE_CHECKING:
    from ...rehearsal.report.summary import Report

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a batch: see `segue simulate --out`.")]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="DIR", help="An earlier batch of the same scenarios to compare with."),
]
Judge = Annotated[
    str, typer.Option("--judge", metavar="MODEL", help="Have a model judge every conversation too: openai:NAME.")
]


def report(folder: Folder, against: Against = None, judge: Judge = "") -> None:
    """Write report.json, report.md and report.html of a batch.

    With --against it lists the conversations that got worse or better, and says whether the
    difference exceeds noise; the exit code is 1 if it does and the batch is worse.
    """
    with report_errors():
        from ...rehearsal.report.comparison import compare
        from ...rehearsal.report.files import figures, write_report

        made = asyncio.run(_report(folder, judge))
        comparison = compare(asyncio.run(_report(against, judge)), made) if against else None
        files = write_report(made, folder, comparison)
    width = max(len(name) for name, _ in figures(made))
    for name, value in figures(made):
        typer.echo(f"{name:<{width}}  {value}")
    if comparison:
        typer.echo(f"\n{comparison.conclusion}")
        for change in comparison.worse:
            typer.echo(f"worse: {change.conversation_id}: {change.why}")
        for change in comparison.better:
            typer.echo(f"better: {change.conversation_id}")
    typer.echo("\n" + "\n".join(str(file) for file in files))
    if comparison and comparison.is_worse:
        raise typer.Exit(FAILED)


async def _report(folder: Path, judge: str) -> "Report":
    from ...rehearsal.batch.manifest import Manifest
    from ...rehearsal.report.grades import outcomes_of
    from ...rehearsal.report.judge import judge_batch
    from ...rehearsal.report.summary import report_of

    manifest = Manifest.read(folder)
    verdicts = await judge_batch(folder, manifest, judge) if judge else {}
    return report_of(manifest, outcomes_of(folder, manifest, verdicts), judge)
