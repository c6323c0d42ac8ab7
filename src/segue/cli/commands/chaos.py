"""`segue chaos`: whether an agent's own tools are safe to resume."""

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.bounds import MOST_COUNT
from .. import options
from ..exits import FAILED, PAUSED, prepared, report_errors
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings
from ..views.console import print_note, printable, stderr_console, write_json

if TYPE_CHECKING:
    from ...testing.chaos.run import Chaos
    from ...testing.chaos.runs import Hunted

Sessions = Annotated[
    list[str] | None, typer.Argument(metavar="[SESSION]...", help="Recorded sessions: see `segue sessions`.")
]
Scenarios = Annotated[
    list[str] | None,
    typer.Option(
        "--scenarios",
        metavar="NAME",
        help="A workflow whose scenarios to play, such as travel_change, or one of them, as WORKFLOW:SCENARIO; "
        "may be repeated.",
    ),
]
World = Annotated[
    str,
    typer.Option("--world", metavar="MODULE:CLASS", help="Your staging system: a class with `snapshot` and `reset`."),
]
Faults = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="NAMES",
        help="Some of kill,duplicate,workers,timeout,network,disk,exception,check,clock,undo; by default all.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Selects the moments of kills and the order of runs.")]
Repeat = Annotated[str, typer.Option("--repeat", metavar="RUN", help="Repeat only the run of a finding.")]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", metavar="TIME", help="Start no run after this time, such as 5m; the same command continues."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        max=MOST_COUNT,
        metavar="N",
        help="Parallel runs, if the world takes a namespace; by default one per core.",
    ),
]
Refused = Annotated[
    list[str] | None,
    typer.Option(
        "--refuse-host",
        metavar="HOST",
        help="Stop before a tool connects to this host; may be repeated. Adds to `refuse_hosts` of the agents file.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over, instead of continuing after finished runs.")]
Output = Annotated[
    Path, typer.Option("--output", metavar="DIR", help="The folder of the runs, and of chaos.json, .md and .html.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before the tools run.")]


def chaos(
    world: World,
    sessions: Sessions = None,
    scenarios: Scenarios = None,
    agents: options.Agents = "",
    faults: Faults = "",
    seed: Seed = 0,
    repeat: Repeat = "",
    budget: Budget = "",
    jobs: Jobs = None,
    refuse_host: Refused = None,
    fresh: Fresh = False,
    output: Output = Path("chaos"),
    yes: Yes = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Run recorded sessions with your real tools in processes that are killed, and compare your staging system.

    The tools really run, many times: use a staging system. The exit code is 1 if a tool is not safe, or a run fails.
    """
    settings = Settings(db, agents)
    with report_errors(settings):
        from ...testing.chaos.run import ChaosOptions

        given = ChaosOptions(
            agents=agents,
            world=world,
            faults=[name.strip() for name in faults.split(",") if name.strip()],
            repeat=repeat,
            seconds=_seconds(budget) if budget else float("inf"),
            seed=seed,
            jobs=jobs,
            refused=refuse_host or [],
            output=output,
            fresh=fresh,
        )
        hunt = asyncio.run(prepared(settings, sessions or [], scenarios or [], given))
        _ask(settings, hunt, yes=yes)
        made = _hunted(settings, hunt)
        files = [] if repeat else _written(made, output, settings.ui_language)
    if as_json:
        write_json(made.json(), indent=2)
    else:
        _print(made, settings.ui_language)
        echo("".join(f"\n{file}" for file in files))
    raise typer.Exit(0 if made.is_safe else FAILED)


_UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(text: str) -> float:
    """The seconds of a duration such as 5m."""
    from ...core.errors import ConfigurationError

    if found := re.fullmatch(r"(\d{1,6})([smh])", text.strip()):
        return float(int(found[1]) * _UNITS[found[2]])
    raise ConfigurationError("{text} is not a duration: use one such as 30s, 5m or 2h.", text=repr(text))


def _ask(settings: Settings, hunt: "Chaos", *, yes: bool) -> None:
    """Say how many effects there will be, and go on only if the person wants that."""
    from ...prompts.catalogue import chaos_text

    language = settings.ui_language
    print_note(chaos_text("effects", language, n=hunt.effects, sessions=hunt.sessions))
    if not yes and stderr_console().is_terminal:
        typer.confirm(chaos_text("go_on", language), abort=True, err=True)


def _hunted(settings: Settings, hunt: "Chaos") -> "Hunted":
    from rich import progress as bars

    from ...prompts.catalogue import chaos_text

    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=stderr_console(), transient=True) as progress:
        bar = progress.add_task("", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        def resumed(count: int) -> None:
            print_note(chaos_text("resumed", settings.ui_language, n=count))

        try:
            return hunt.run(show, resumed)
        except KeyboardInterrupt:
            print_note(chaos_text("stopped", settings.ui_language))
            raise typer.Exit(PAUSED) from None


def _written(made: "Hunted", folder: Path, language: str) -> list[Path]:
    from ...prompts.catalogue import chaos_text
    from ...testing.chaos.hunt import write_report

    files = write_report(made, folder, language)
    if len(files) == 1:
        print_note(chaos_text("only_json", language))
    return files


def _print(made: "Hunted", language: str) -> None:
    from ...prompts.catalogue import chaos_text

    echo(chaos_text("summary", language, runs=made.runs, findings=len(made.faults)))
    for note in made.noted(language):
        echo(printable(note))
    if made.left:
        echo(chaos_text("left", language, n=len(made.left)))
    if made.failed:
        echo(chaos_text("failed", language, n=len(made.failed)))
        echo("\n".join(printable(f"  {run}: {why}") for run, why in made.failed.items()))
    if not made.findings and not made.left and not made.failed:
        echo(chaos_text("clean", language))
    for found in made.findings:
        echo(printable(f"\n{found.described(language)}"))
