"""`segue report`: what a batch of conversations amounts to, in files and on the terminal."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len

from .. import options
from ..exits import FAILED, report_errors
from ..settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...rehearsal.report.summary import Comparison, Report

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a batch: see `segue simulate --out`.")]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="DIR", help="An earlier batch of the same scenarios to compare with."),
]
Judge = Annotated[
    str, typer.Option("--judge", metavar="MODEL", help="Have a model judge every conversation too: openai:NAME.")
]


def report(folder: Folder, against: Against = None, judge: Judge = "", language: options.Language = "") -> None:
    """Write report.json, report.md and report.html of a batch.

    With --against it lists the conversations that got worse or better, and says whether the
    difference exceeds noise; the exit code is 1 if it does and the batch is worse.
    """
    settings = Settings(language=language)
    said_in = settings.language_for("")
    with report_errors(settings):
        from ...rehearsal.report.files import figures, write_report
        from ...rehearsal.report.summary import compare

        made = asyncio.run(_report(folder, judge))
        comparison = compare(asyncio.run(_report(against, judge)), made) if against else None
        files = write_report(made, folder, comparison, said_in)
    _print_figures(figures(made, said_in))
    if comparison:
        _print_comparison(comparison, said_in)
    typer.echo("\n" + "\n".join(str(file) for file in files))
    if comparison and comparison.is_worse:
        raise typer.Exit(FAILED)


def _print_figures(rows: "Sequence[tuple[str, str]]") -> None:
    width = max(cell_len(name) for name, _ in rows)
    for name, value in rows:
        typer.echo(f"{name}{' ' * (width - cell_len(name))}  {value}")


def _print_comparison(comparison: "Comparison", language: str) -> None:
    from ...prompts.report import report_text

    typer.echo(f"\n{comparison.conclusion(language)}")
    for change in comparison.worse:
        typer.echo(f"{report_text('worse', language)}: {change.conversation_id}: {change.why(language)}")
    for change in comparison.better:
        typer.echo(f"{report_text('better', language)}: {change.conversation_id}")


async def _report(folder: Path, judge: str) -> "Report":
    from ...rehearsal.batch import Manifest
    from ...rehearsal.report.grades import outcomes_of
    from ...rehearsal.report.judge import judge_batch
    from ...rehearsal.report.summary import report_of

    manifest = Manifest.read(folder)
    verdicts = await judge_batch(folder, manifest, judge) if judge else {}
    return report_of(manifest, outcomes_of(folder, manifest, verdicts), judge)
