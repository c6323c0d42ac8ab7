"""`segue backtest` and `segue rollout`: what changed agents would do otherwise."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
from rich.text import Text

from ...core.bounds import LEAST_SEED, MOST_COUNT, MOST_SEED
from ...prompts.catalogue import word
from .. import options
from ..exits import FAILED, report_errors
from ..lookup import ask, find_task
from ..output import echo
from ..settings import DEFAULT_DATABASE, SHORT, Settings
from ..views.console import output, print_note, print_prose, printable, stderr_console, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...app import App
    from ...core.records import Json, OnUpgrade, Task
    from ...testing.backtest import Backtest, BacktestOptions, Cost, UnfinishedTask


# `segue rollout`: which versions of their agents unfinished tasks have, and what becomes of them.

TaskIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TASK_ID]...", help="The tasks to change, or the beginnings of their ids."),
]
OfVersion = Annotated[str, typer.Option("--version", help="Only tasks of this version of their agent.")]
Every = Annotated[bool, typer.Option("--all", help="Change all unfinished tasks, filtered by --agent and --version.")]
Pin = Annotated[bool, typer.Option("--pin", help="Run the tasks only with their own version.")]
Continue = Annotated[
    bool, typer.Option("--continue", help="Let another version continue them if theirs is not available.")
]
Ask = Annotated[bool, typer.Option("--ask", help="Ask a person before another version continues them.")]
Reset = Annotated[bool, typer.Option("--reset", help="Let their agent's `on_upgrade` decide again.")]
Check = Annotated[
    bool,
    typer.Option("--check", help="Restore the tasks with the agents of --agents without running them, and compare."),
]
SHOWN = 20
"""Tasks that differ, of which the terminal shows the first ones."""


def rollout(
    task_ids: TaskIds = None,
    pin: Pin = False,
    continue_: Continue = False,
    ask_: Ask = False,
    reset: Reset = False,
    every: Every = False,
    check: Check = False,
    agent: options.OfAgent = "",
    version: OfVersion = "",
    agents: options.MoreAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Show the agent versions of unfinished tasks, or pin them.

    --check restores each task with the agents of another file: nothing runs, and
    nothing is stored. The exit code is then 1 if a call or an approval of a task would no longer be valid.
    """
    settings = Settings(db, agents)
    choices: dict[OnUpgrade | None, bool] = {"pin": pin, "continue": continue_, "ask": ask_, None: reset}
    chosen = [choice for choice, given in choices.items() if given]
    if len(chosen) + check > 1:
        raise typer.BadParameter("give one of --pin, --continue, --ask, --reset and --check", param_hint="--pin")
    if chosen and bool(task_ids) == every:
        raise typer.BadParameter("give TASK_IDs, or --all", param_hint="TASK_ID")

    async def checked(app: "App") -> "list[UnfinishedTask]":
        found = await app.check_unfinished(await _named(app, task_ids or ()), language=settings.ui_language)
        return [task for task in found if agent in ("", task.agent_id) and version in ("", task.version)]

    if check:
        raise typer.Exit(print_check(ask(settings, checked), settings, as_json=as_json))

    async def shown(app: "App") -> "tuple[list[Json], int]":
        tasks = await _selected(app, task_ids or (), agent, version)
        for task in tasks if chosen else ():
            await app.tasks.set_on_upgrade(task.task_id, chosen[0])
        changed = await _selected(app, task_ids or (), agent, version) if chosen else tasks
        return await _versions(app, changed), len(tasks)

    rows, changed = ask(settings, shown)
    if as_json:
        return write_json(rows, indent=2)
    if chosen:
        echo(settings.say("rollout_changed", n=changed))
    from ..views.tables import print_versions

    print_versions(output(), rows, settings.ui_language)


async def _named(app: "App", task_ids: "Sequence[str]") -> "list[str] | None":
    """The ids that these are, or begin; None where there are none."""
    return [*dict.fromkeys([await find_task(app, text) for text in task_ids])] or None


async def _selected(app: "App", task_ids: "Sequence[str]", agent: str, version: str) -> "list[Task]":
    """The tasks of these ids, else the unfinished ones, as far as they are of the agent and version."""
    named = await _named(app, task_ids)
    tasks = [await app.task(task_id) for task_id in named] if named else await app.tasks.unfinished()
    return [task for task in tasks if agent in ("", task.agent_id) and version in ("", task.agent_version)]


async def _versions(app: "App", tasks: "Sequence[Task]") -> "list[Json]":
    """The versions with how many tasks have them, in which status, and how many processes have them."""
    workers = await app.tasks.workers()
    found: dict[tuple[str, str | None], list[Task]] = {}
    for task in tasks:
        found.setdefault((task.agent_id, task.agent_version), []).append(task)
    return [
        {
            "agent_id": agent_id,
            "version": version,
            "tasks": dict(Counter(str(task.status) for task in group)),
            "on_upgrade": dict(Counter(task.on_upgrade for task in group if task.on_upgrade)),
            "here": version in app.agents.versions(agent_id),
            "workers": sum(version in worker.agents.get(agent_id, ()) for worker in workers),
        }
        for (agent_id, version), group in found.items()
    ]


def print_check(found: "Sequence[UnfinishedTask]", settings: Settings, *, as_json: bool) -> int:
    """Print what unfinished tasks would meet; returns the exit code."""
    from ...testing.backtest import Restored

    counts = Counter(str(task.verdict) for task in found)
    fails = any(task.verdict not in (Restored.SAME, Restored.DIVERGES) for task in found)
    if as_json:
        summary = {str(verdict): counts[verdict] for verdict in Restored}
        write_json({"summary": summary, "tasks": [task.json() for task in found]}, indent=2)
        return FAILED if fails else 0
    parts = ", ".join(f"{_verdict(name, settings)} {n}" for name, n in counts.items())
    echo(settings.say("rollout_checked", n=len(found), parts=parts or "0"))
    differing = [task for task in found if task.verdict != Restored.SAME]
    for task in differing[:SHOWN]:
        version = f"{task.agent_id} {task.version} → {task.new_version}"
        echo(f"{task.task_id[:SHORT]}  {_verdict(task.verdict, settings)}  {printable(version)}")
        for reason in task.reasons:
            echo(f"          {printable(reason)}")
    if differing[SHOWN:]:
        echo(settings.say("rollout_more", n=len(differing) - SHOWN))
    return FAILED if fails else 0


def _verdict(verdict: str, settings: Settings) -> str:
    return word(verdict.replace("_", " "), settings.ui_language)


# `segue backtest`: what changed agents would do otherwise in recorded sessions.

Sessions = Annotated[
    list[str] | None, typer.Argument(metavar="[SESSION]...", help="The sessions; by default all: see `segue sessions`.")
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
Confirm = Annotated[
    str,
    typer.Option(
        "--confirm",
        metavar="FILE",
        help="The unchanged agents file: up to five differing tasks of each kind are answered five more times with "
        "both files, and only what is then more frequent with the new one counts.",
    ),
]
AskAbove = Annotated[
    float,
    typer.Option("--ask-above", min=0.0, metavar="COST", help="Ask before a backtest that may cost more than this."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask, whatever it may cost.")]
MANY_TOKENS = 1_000_000
"""Tokens above which a person is asked where no cost is known."""
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


@dataclass(frozen=True)
class Arguments:
    """What the command line says of a backtest, under the names of `BacktestOptions`."""

    since: Annotated[str, typer.Option("--since", metavar="AGE", help="Only tasks of the last 7d, 12h, 30m or 2w.")] = (
        ""
    )
    sample: Annotated[
        int | None, typer.Option("--sample", min=1, max=MOST_COUNT, metavar="N", help="Use N random sessions.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=LEAST_SEED, max=MOST_SEED, help="The random seed of --sample.")] = 0
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="openai:NAME, local:FILE.gguf, offline, or `recorded`, which replies what was recorded; by default "
            "the agents' own.",
        ),
    ] = ""
    steps: Annotated[
        bool,
        typer.Option("--steps", help="Compare single decisions, each from its recorded state, instead of whole turns."),
    ] = False
    ablate: Annotated[
        bool,
        typer.Option(
            "--ablate",
            help="Leave out each sentence of the prompts in turn, to list those that no recorded task rests on.",
        ),
    ] = False
    live_reads: Annotated[
        bool,
        typer.Option(
            "--live-reads",
            help="Run tools that are read-only, and were when recorded, if a call has no recorded result.",
        ),
    ] = False
    effects: Annotated[
        Literal["stop", "recorded-shape", "model"],
        typer.Option(
            "--effects",
            help="What to do at a call without a recorded result: end the turn, or continue with a stand-in: the "
            "result of a similar call, or one written by the judge or the agent's model.",
        ),
    ] = "stop"
    judge: Annotated[
        str,
        typer.Option(
            "--judge",
            metavar="MODEL",
            help="A model that decides whether different answers mean the same, and whether each version does what "
            "was asked: openai:NAME.",
        ),
    ] = ""


@options.with_options_of(Arguments)
def backtest(
    sessions: Sessions = None,
    *,
    shared: Arguments,
    baseline: Baseline = "",
    confirm: Confirm = "",
    ask_above: AskAbove = 1.0,
    yes: Yes = False,
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
    given = cast("BacktestOptions", {name: value for name, value in vars(shared).items() if value is not None})
    with report_errors(settings):
        if baseline:
            given["baseline"] = replace(settings, agents_file=baseline).agents()
        if confirm:
            given["confirm"] = replace(settings, agents_file=confirm).agents()
        given["on_cost"] = partial(_ask_for, settings, float("inf") if yes else ask_above)
        made = asyncio.run(_backtested(settings, sessions or [], given))
        files = _written(made, out, settings.ui_language) if out else []
    if as_json:
        write_json(made.json(), indent=2)
    else:
        _print(made, settings.ui_language)
        echo("".join(f"\n{file}" for file in files))
    raise typer.Exit(FAILED if made.is_changed else 0)


def _ask_for(settings: Settings, limit: float, cost: "Cost") -> None:
    """Say what the backtest may cost, and above the limit go on only if the person wants that."""
    from ...prompts.catalogue import backtest_text

    print_note(cost.describe(settings.ui_language))
    is_much = cost.cost > limit if cost.cost else cost.tokens > MANY_TOKENS and limit != float("inf")
    if is_much and stderr_console().is_terminal:
        typer.confirm(backtest_text("go_on", settings.ui_language), abort=True, err=True)


def _written(made: "Backtest", folder: Path, language: str) -> list[Path]:
    from ...testing.backtest.run import write_report

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
    from ...prompts.catalogue import backtest_text
    from ...testing.backtest.run import notes

    lines = [made.conclusion(language), *notes(made, language)]
    lines += [f"\n{task.describe(language)}" for task in made.differing[:SHOWN]]
    if len(made.differing) > SHOWN:
        lines.append("\n" + backtest_text("more", language, n=len(made.differing) - SHOWN))
    for line in lines:
        print_prose(output(), Text(printable(line)))
