"""`segue chaos`: whether an agent's own tools are safe to resume."""

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exits import FAILED, report_errors
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import stderr_console, write_json
from ..views.sanitize import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...chaos.hunt import Hunted
    from ...core.tools import Tool
    from ...rehearsal.cassette import Cassette

Sessions = Annotated[list[str], typer.Argument(metavar="SESSION...", help="Recorded sessions: see `segue sessions`.")]
World = Annotated[
    str,
    typer.Option("--world", metavar="MODULE:CLASS", help="Your staging system: a class with `snapshot` and `reset`."),
]
Faults = Annotated[
    str, typer.Option("--faults", metavar="NAMES", help="Some of kill,duplicate,timeout,network,undo; by default all.")
]
Repeat = Annotated[str, typer.Option("--repeat", metavar="RUN", help="Only the run of a finding.")]
Budget = Annotated[str, typer.Option("--budget", metavar="AGE", help="Begin no run after so long, such as 5m.")]
Output = Annotated[Path, typer.Option("--output", metavar="DIR", help="The folder of the runs, and of chaos.json.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before the tools run.")]
PER_CALL = 50
"""Effects that a call may have in all of its runs, repetitions of unmarked ones included."""


def chaos(
    sessions: Sessions,
    world: World,
    agents: options.Agents = "",
    faults: Faults = "",
    repeat: Repeat = "",
    budget: Budget = "",
    output: Output = Path("chaos"),
    yes: Yes = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Run recorded sessions with your real tools in processes that are killed, and compare your staging system.

    The tools really run, many times: use a staging system. The exit code is 1 if a tool is not safe.
    """
    settings = Settings(db, agents)
    with report_errors(settings):
        chosen = _faults(faults)
        hunted = _hunted(settings, sessions, world, chosen, repeat, budget, output, yes)
    write = output / "chaos.json"
    from json import dumps

    write.write_text(dumps(hunted.json(), ensure_ascii=False, indent=2), encoding="utf-8")
    if as_json:
        write_json(hunted.json(), indent=2)
    else:
        _print(hunted)
    raise typer.Exit(0 if hunted.is_safe else FAILED)


def _faults(text: str) -> list[str]:
    from ...chaos.hunt import FAULTS
    from ...core.errors import UnknownOption

    chosen = [name.strip() for name in text.split(",") if name.strip()] or [*FAULTS]
    for name in chosen:
        if name not in FAULTS:
            raise UnknownOption(name, FAULTS)
    return chosen


def _hunted(
    settings: Settings,
    sessions: list[str],
    world: str,
    faults: list[str],
    repeat: str,
    budget: str,
    output: Path,
    yes: bool,
) -> "Hunted":
    from ...backtest.recording import age
    from ...chaos.hunt import Hunt, Hunted
    from ...chaos.world import load
    from ...core.agents import is_production
    from ...core.errors import ConfigurationError

    if not settings.agents_file:
        raise ConfigurationError("Name the agents file whose tools are run, with --agents.")
    if is_production(settings.agents_file):
        raise ConfigurationError(
            "{file} says production = true: name that of a staging system.", file=settings.agents_file
        )
    worlds, seconds = load(world), age(budget) if budget else float("inf")
    recorded, tools = asyncio.run(_read(settings, sessions))
    calls = sum(len(turn.tool_calls) for cassette in recorded for turn in cassette.turns)
    typer.echo(f"The tools run for real: up to {calls * PER_CALL} effects in {len(recorded)} session(s).", err=True)
    if not yes and stderr_console().is_terminal:
        typer.confirm("Go on?", abort=True, err=True)
    whole = Hunted()
    for cassette in recorded:
        words = [
            "segue",
            "chaos",
            cassette.session,
            "--agents",
            settings.agents_file,
            "--world",
            world,
            "--db",
            settings.database,
        ]
        with Hunt(cassette, tools, settings.agents_file, worlds, output, shlex.join(words)) as hunt:
            made = _with_progress(hunt, faults, repeat, seconds)
        whole.runs, whole.left = whole.runs + made.runs, whole.left + made.left
        whole.findings += made.findings
    return whole


def _with_progress(hunt: "object", faults: list[str], repeat: str, seconds: float) -> "Hunted":
    from rich import progress as bars

    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=stderr_console(), transient=True) as progress:
        bar = progress.add_task("", total=None)

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        return hunt.run(faults, repeat, seconds, show)  # type: ignore[attr-defined, no-any-return]


async def _read(settings: Settings, sessions: list[str]) -> "tuple[list[Cassette], Mapping[str, Tool]]":
    from ...rehearsal.cassette.recorder import read_session

    async with settings.reading() as app:
        recorded = [await read_session(app, name) for name in sessions]
        used = {turn.agent: turn.mode for cassette in recorded for turn in cassette.turns}
        for name in used:
            await app.agents.prepare(app.agents.agent(name))
        tools = {
            name: tool
            for agent, mode in used.items()
            for name, tool in app.agents.tools_in(app.agents.agent(agent), mode).items()
        }
        return recorded, tools


def _print(hunted: "Hunted") -> None:
    typer.echo(
        f"{hunted.runs} runs, {len(hunted.findings)} findings" + (f", {hunted.left} runs left out" * bool(hunted.left))
    )
    for found in hunted.findings:
        typer.echo(printable(f"\n{found.tool}  {found.kind}  ({found.fault})\n  {found.detail}\n  {found.repeat}"))
