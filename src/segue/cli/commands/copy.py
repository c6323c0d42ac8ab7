"""Copying sessions from one database to another."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exits import FAILED, report_errors, sentence_of
from ..settings import Settings
from ..views.consoles import write_json

if TYPE_CHECKING:
    from ...runtime.sessions import Progress

Source = Annotated[str, typer.Argument(metavar="FROM", help="The database: a SQLite file or a postgresql:// URL.")]
Target = Annotated[str, typer.Argument(metavar="TO", help="The database to copy to; a file is created.")]
Sessions = Annotated[list[str] | None, typer.Argument(metavar="[SESSION]...", help="The sessions; all by default.")]


def copy(source: Source, target: Target, sessions: Sessions = None, as_json: options.JsonOfList = False) -> None:
    """Copy sessions to another database, with everything that is stored of them.

    Repeat an interrupted copy: what is there already is skipped. Unfinished tasks can be resumed there; a session with
    a running task is not copied.
    """
    from ...entry import copy as copy_sessions

    settings = Settings(source)

    def show(done: "Progress") -> None:
        slots = {"place": done.place, "n": done.n, "session": done.session_id}
        if done.error is not None:
            line = settings.say("not_copied", **slots, why=sentence_of(done.error, settings))
        else:
            line = settings.say("copied" if done.copied else "copied_before", **slots)
        typer.echo(line, err=True)

    with report_errors(settings):
        copies = asyncio.run(copy_sessions(source, target, sessions or (), on_progress=show))
    if as_json:
        write_json(copies.json(), indent=2)
    else:
        counts = {name: len(found) for name, found in vars(copies).items()}
        typer.echo(settings.say("copies", **counts))
    if copies.refused:
        raise typer.Exit(FAILED)
