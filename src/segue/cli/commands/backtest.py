"""`segue backtest`: what changed agents would do otherwise in recorded sessions."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...core.bounds import LEAST_SEED, MOST_COUNT, MOST_SEED
from .. import options
from ..exits import FAILED, report_errors
from ..lookup import ask
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import stderr_console, write_json
from ..views.sanitize import printable
from .rollout import SHOWN, print_check

if TYPE_CHECKING:
    from ...backtest import Backtest, BacktestOptions

Sessions = Annotated[
    list[str] | None, typer.Argument(metavar="[SESSION]...", help="The sessions; by default all: see `segue sessions`.")
]
Since = Annotated[str, typer.Option("--since", metavar="AGE", help="Only tasks of the last 7d, 12h, 30m or 2w.")]
Sample = Annotated[
    int | None, typer.Option("--sample", min=1, max=MOST_COUNT, metavar="N", help="Use N random sessions.")
]
Seed = Annotated[int, typer.Option("--seed", min=LEAST_SEED, max=MOST_SEED, help="The random seed of --sample.")]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="openai:NAME, local:FILE.gguf, offline, or `recorded`, which replies what was recorded; by default the "
        "agents' own.",
    ),
]
Steps = Annotated[
    bool,
    typer.Option("--steps", help="Compare single decisions, each from its recorded state, instead of whole turns."),
]
LiveReads = Annotated[
    bool,
    typer.Option(
        "--live-reads", help="Run tools that are read-only, and were when recorded, if a call has no recorded result."
    ),
]
Effects = Annotated[
    Literal["stop", "recorded-shape", "model"],
    typer.Option(
        "--effects",
        help="What to do at a call without a recorded result: end the turn, or continue with a stand-in: the "
        "result of a similar call, or one written by the judge or the agent's model.",
    ),
]
Judge = Annotated[
    str,
    typer.Option(
        "--judge",
        metavar="MODEL",
        help="A model that decides whether different answers mean the same, and whether each version does what "
        "was asked: openai:NAME.",
    ),
]
Baseline = Annotated[
    str,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="The unchanged agents file, for models that answer differently each time: only changes that are more "
        "frequent than with it count.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write backtest.json, backtest.md and backtest.html into this folder."),
]
Unfinished = Annotated[
    bool,
    typer.Option(
        "--unfinished",
        help="Check waiting and paused tasks against the agents without running them: see `segue rollout`.",
    ),
]


def backtest(
    sessions: Sessions = None,
    since: Since = "",
    sample: Sample = None,
    seed: Seed = 0,
    model: Model = "",
    steps: Steps = False,
    live_reads: LiveReads = False,
    effects: Effects = "stop",
    judge: Judge = "",
    baseline: Baseline = "",
    out: Out = None,
    unfinished: Unfinished = False,
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Show what changed agents would do differently.

    Each recorded message is answered again from the recorded history. Calls get their
    recorded results; calls with effects never run. The exit code is 1 if calls or effects change.
    """
    settings = Settings(db, agents)
    if unfinished:
        found = ask(settings, lambda app: app.check_unfinished(language=settings.ui_language))
        raise typer.Exit(print_check(found, settings, as_json=as_json))
    given: BacktestOptions = {"since": since, "seed": seed, "model": model, "steps": steps}
    given |= {"live_reads": live_reads, "effects": effects, "judge": judge}
    if sample is not None:
        given["sample"] = sample
    with report_errors(settings):
        if baseline:
            given["baseline"] = replace(settings, agents_file=baseline).agents()
        made = asyncio.run(_backtested(settings, sessions or [], given))
        files = _written(made, out, settings.ui_language) if out else []
    if as_json:
        write_json(made.json(), indent=2)
    else:
        _print(made, settings.ui_language)
        typer.echo("".join(f"\n{file}" for file in files))
    raise typer.Exit(FAILED if made.is_changed else 0)


def _written(made: "Backtest", folder: Path, language: str) -> list[Path]:
    from ...backtest.report import write_report

    return write_report(made, folder, language)


async def _backtested(settings: Settings, sessions: list[str], given: "BacktestOptions") -> "Backtest":
    from rich import progress as bars

    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=stderr_console(), transient=True) as progress:
        bar = progress.add_task("", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        async with settings.reading() as app:
            given["on_progress"] = show
            return await app.backtest(*sessions, **given)


def _print(made: "Backtest", language: str) -> None:
    """Print what came out, and the first tasks that differ."""
    from ...backtest.report import notes
    from ...prompts.catalogue import backtest_text

    typer.echo(printable(made.conclusion(language)))
    for note in notes(made, language):
        typer.echo(printable(note))
    for task in made.differing[:SHOWN]:
        typer.echo(printable(f"\n{task.describe(language)}"))
    if len(made.differing) > SHOWN:
        typer.echo("\n" + backtest_text("more", language, n=len(made.differing) - SHOWN))
