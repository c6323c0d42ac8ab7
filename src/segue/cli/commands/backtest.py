"""`segue backtest`: what changed agents would do otherwise in recorded sessions."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .. import options
from ..exits import FAILED, report_errors
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import print_note, stderr_console, write_json
from ..views.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backtest import Backtest, BacktestOptions, TaskReport

Sessions = Annotated[
    list[str] | None, typer.Argument(metavar="[SESSION]...", help="The sessions; by default all: see `segue sessions`.")
]
Since = Annotated[str, typer.Option("--since", metavar="AGE", help="Only tasks of the last 7d, 12h, 30m or 2w.")]
Sample = Annotated[int | None, typer.Option("--sample", min=1, metavar="N", help="N sessions, drawn at random.")]
Seed = Annotated[int, typer.Option("--seed", help="Makes --sample draw others.")]
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
    typer.Option("--steps", help="Compare each decision by itself, from its recorded state, instead of whole turns."),
]
LiveReads = Annotated[
    bool, typer.Option("--live-reads", help="Run tools that only read, where a call has no recorded result.")
]
Effects = Annotated[
    Literal["stop", "recorded-shape"],
    typer.Option(
        "--effects",
        help="What a call without a recorded result does: end the turn, or go on with the result of a similar call.",
    ),
]
SHOWN = 20
"""Tasks that differ, of which the terminal shows the first ones."""
MESSAGE_CHARS = 80


def backtest(
    sessions: Sessions = None,
    since: Since = "",
    sample: Sample = None,
    seed: Seed = 0,
    model: Model = "",
    steps: Steps = False,
    live_reads: LiveReads = False,
    effects: Effects = "stop",
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Show what changed agents would do otherwise.

    Each recorded message is answered anew from the recorded history. Calls are answered with their
    recorded results, and none with an effect runs. The exit code is 1 if calls or effects change.
    """
    settings = Settings(db, agents)
    given: BacktestOptions = {"since": since, "seed": seed, "model": model, "steps": steps}
    given |= {"live_reads": live_reads, "effects": effects}
    if sample is not None:
        given["sample"] = sample
    with report_errors(settings):
        made = asyncio.run(_backtested(settings, sessions or [], given))
    if as_json:
        write_json(made.json(), indent=2)
    else:
        _print(made, settings.ui_language)
    raise typer.Exit(FAILED if made.is_changed else 0)


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
    """Print the figures, and the first tasks that differ."""
    from collections import Counter

    from ...prompts.catalogue import backtest_text

    def counted(counts: "Mapping[str, int]") -> str:
        return ", ".join(f"{backtest_text(name, language)} {count}" for name, count in counts.items())

    typer.echo(backtest_text("summary", language, n=len(made.tasks), counts=counted(made.summary)))
    if made.coverage is not None:
        typer.echo(backtest_text("coverage", language, share=f"{made.coverage:.0%}"))
    if share := made.agreement:
        interval = f"{share.value:.0%} ({share.low:.0%} – {share.high:.0%})"
        typer.echo(backtest_text("agreement", language, share=interval))
    if made.skipped:
        print_note(backtest_text("skipped", language, counts=counted(Counter(made.skipped.values()))))
    for task in made.changed[:SHOWN]:
        _print_task(task, language)
    if len(made.changed) > SHOWN:
        typer.echo("\n" + backtest_text("more", language, n=len(made.changed) - SHOWN))


def _print_task(task: "TaskReport", language: str) -> None:
    from ...backtest.comparison import shortened
    from ...prompts.catalogue import backtest_text

    verdict, message = backtest_text(task.verdict, language), shortened(task.message, MESSAGE_CHARS)
    lines = [f"\n{verdict}: {message}  ({task.session_id}, {task.task_id[:8]})"]
    lines += [task.difference.describe(language)] if task.difference else []
    typer.echo(printable("\n".join(lines)))
