"""`segue record` and `segue replay`: a stored session as a regression test."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.bounds import MOST_COUNT
from ...core.errors import ConfigurationError
from ...core.task import TaskStatus
from .. import options
from ..exits import FAILED, WAITING, report_errors
from ..lookup import find_session, for_session, named
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings, replay_command
from ..views.console import indented, print_note, printable

if TYPE_CHECKING:
    from ...testing.cassette import Cassette, Replay
    from ...testing.cassette.cassette import Level, ToolCall

Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE|DIR", help="The file or folder to write to; in a folder SESSION.cassette.yaml."
    ),
]
Redact = Annotated[
    list[str] | None,
    typer.Option(
        "--redact",
        metavar="NAME",
        help="Replace the values of arguments and results of this name wherever they occur; may be repeated.",
    ),
]
CallsOnly = Annotated[
    bool,
    typer.Option(
        "--calls-only",
        help="A replay compares calls, questions and outcomes, not the requests to the model: a changed prompt, model "
        "or unused tool needs no new recording.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
File = Annotated[Path, typer.Argument(metavar="CASSETTE", help="A file written by `segue record`.")]
From = Annotated[
    int | None,
    typer.Option(
        "--from",
        min=1,
        max=MOST_COUNT,
        metavar="TURN",
        help="Continue live from this turn on: the model is called, and REAL TOOLS RUN from the first call that "
        "was not recorded.",
    ),
]
LiveModel = Annotated[str, typer.Option("--model", help="With --from: a model instead of the agent's.")]
LiveDatabase = Annotated[
    str, typer.Option("--db", metavar="FILE", help="With --from: keep the session in this database.")
]
Agents = options.Agents


def record(
    session: options.AnySession = None,
    last: options.LastSession = False,
    out: Out = Path(),
    redact: Redact = None,
    calls_only: CallsOnly = False,
    force: Force = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Record a session as a regression test.

    The cassette has its messages, the model's replies and the results of its tools. `segue replay`,
    or pytest, runs it again without a model and without tools, and shows the first difference after
    a prompt, a tool or the model was changed. Read the file before you publish it.
    """
    name = named(session, last, "SESSION")
    settings = for_session(Settings(db, agents), name)
    with report_errors(settings):
        from ...testing.cassette import SUFFIX, write_cassette

        made = asyncio.run(_recorded(settings, name, redact or [], "calls" if calls_only else "requests"))
        file = out / f"{made.session}{SUFFIX}" if out.is_dir() or not out.suffix else out
        if file.exists() and not force:
            raise ConfigurationError(
                "The file {file} already exists: replace it with --force, or name another one with --out.", file=file
            )
        write_cassette(made, file)
    echo(settings.say("recorded", file=file, command=replay_command(settings, file), **_counts(made)))


async def _recorded(settings: Settings, session: str, redact: list[str], level: "Level") -> "Cassette":
    from ...testing.cassette import record as recorded

    async with settings.reopened() as app:
        name = await find_session(app, session)
        return await recorded(app, name, redact=redact, level=level, language=settings.ui_language)


def replay(
    cassette: File,
    turn: From = None,
    model: LiveModel = "",
    agents: options.Agents = "",
    db: LiveDatabase = ":memory:",
) -> None:
    """Replay a cassette with the current agents, offline.

    The exit code is 1 if they differ from the recording. With --from TURN the earlier turns are
    replayed and the agent continues live with the recorded messages. Results of recorded calls are
    reused as long as the calls match.
    """
    if turn is None and (model or db != ":memory:"):
        raise typer.BadParameter("needs --from", param_hint="--model" if model else "--db")
    settings = Settings(db, agents)
    with report_errors(settings):
        made = asyncio.run(_replayed(settings, cassette, turn, model))
    raise typer.Exit(_report(settings, made))


async def _replayed(settings: Settings, file: Path, turn: int | None, model: str) -> "Replay":
    from ...testing.cassette import read_cassette
    from ...testing.cassette import replay as replayed

    runs = False

    def show(call: "ToolCall", reused: bool) -> None:
        nonlocal runs
        if not reused and not runs:
            runs = True
            print_note(settings.say("replay_tools_run"))
        echo(printable(settings.say("replay_reused" if reused else "replay_ran", call=call.text)))

    return await replayed(
        read_cassette(file),
        agents=settings.agents(),
        modes=settings.modes(),
        live_from=turn,
        model=model,
        database=settings.database,
        on_call=show,
    )


def _report(settings: Settings, made: "Replay") -> int:
    """Print the outcome of a replay; returns the exit code."""
    if made.difference:
        echo(printable(made.difference.describe(settings.ui_language)))
        return FAILED
    for turn in made.live:
        recorded = made.cassette.turns[turn.number - 1]
        then, now = recorded.answer or recorded.failure, turn.answer or turn.status
        same = settings.say("replay_same") if now == then else settings.say("replay_now", answer=now)
        lines = [f"{turn.number}. {recorded.message}", settings.say("replay_then", answer=then), same]
        echo("\n" + "\n".join(map(indented, lines)))
    if not made.live:
        echo(settings.say("replayed", **_counts(made.cassette)))
        return 0
    last = made.live[-1]
    if last.question:
        print_note(settings.say("replay_waits"))
        return WAITING
    return 0 if last.status == TaskStatus.DONE else FAILED


def _counts(cassette: "Cassette") -> dict[str, int]:
    turns = cassette.turns
    return {
        "turns": len(turns),
        "model_calls": sum(len(turn.model_calls) for turn in turns),
        "tool_calls": sum(len(turn.tool_calls) for turn in turns),
    }
