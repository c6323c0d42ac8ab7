"""Commands on whole sessions and databases: export, import, copy, prune, recover, delete."""

import asyncio
import json
import sys
from codecs import BOM_UTF8
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.bounds import MOST_COUNT
from ...core.task import TaskStatus
from .. import options
from ..exits import FAILED, USAGE, report_errors, sentence_of
from ..lookup import ask
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings, continue_command, task_command
from ..views.console import print_error, printable, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...app import App
    from ...core.records import Recovery, Task
    from ...core.timeline import Pruned
    from ...runtime.sessions import Progress

UNNAMED = "\0"
"""Where no title is given."""
Source = Annotated[str, typer.Argument(metavar="FROM", help="The database: a SQLite file or a postgresql:// URL.")]
Target = Annotated[str, typer.Argument(metavar="TO", help="The database to copy to; a file is created.")]
Sessions = Annotated[list[str] | None, typer.Argument(metavar="[SESSION]...", help="The sessions; by default all.")]


def export(
    session: options.SessionName,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The file; by default standard output.")] = None,
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Write a session to a JSON document.

    `segue import` reads it.
    """
    settings = Settings(db)
    document = ask(settings, lambda app: app.sessions.export(session))
    if file is None:
        return write_json(document)
    try:
        file.write_text(json.dumps(document), encoding="utf-8")
    except OSError as error:
        print_error(settings.say("not_written", file=str(file), why=error.strerror or error))
        raise typer.Exit(FAILED) from error
    echo(settings.say("exported", session=session, file=file))


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An exported session, or - for standard input.")],
    to: options.NewSession = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Store an exported session as a new one."""
    settings = Settings(db)
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        document = json.loads(text.removeprefix(BOM_UTF8))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not valid JSON"
        print_error(settings.say("not_read", file=file, why=why))
        raise typer.Exit(USAGE) from error

    async def imported() -> str:
        async with settings.opened() as app:
            session = to or app.sessions.new_id()
            await app.sessions.import_(document, session)
            return session

    with report_errors(settings):
        echo(settings.say("imported", session=asyncio.run(imported())))


def copy(source: Source, target: Target, sessions: Sessions = None, as_json: options.JsonOfList = False) -> None:
    """Copy sessions to another database.

    Everything in them is copied. Sessions that were copied before are skipped, so an interrupted copy
    can be repeated. Unfinished tasks can be resumed in the copy. A session with a running task is not
    copied.
    """
    from ...entry import copy as copy_sessions

    settings = Settings(source)

    def show(done: "Progress") -> None:
        slots = {"place": done.place, "n": done.n, "session": done.session_id}
        if done.error is not None:
            line = settings.say("not_copied", **slots, why=sentence_of(done.error, settings))
        else:
            line = settings.say("copied" if done.copied else "copied_before", **slots)
        echo(line, err=True)

    with report_errors(settings):
        copies = asyncio.run(copy_sessions(source, target, sessions or (), on_progress=show))
    if as_json:
        write_json(copies.json(), indent=2)
    else:
        counts = {name: len(found) for name, found in vars(copies).items()}
        echo(settings.say("copies", **counts))
    if copies.refused:
        raise typer.Exit(FAILED)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Write the whole database to one file, also while it is in use.

    The files of messages and the memory files are included. The file is verified by checksum.
    """
    from ...entry import backup as write_backup

    _report_backup(Settings(db), "backed_up", lambda: write_backup(db, file), as_json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that segue backup wrote.")],
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Write a backup's database, with its files, where none is yet.

    The backup is verified by checksum before anything is written.
    """
    from ...entry import restore as restore_backup

    _report_backup(Settings(db), "restored", lambda: restore_backup(file, db), as_json)


def _report_backup(settings: Settings, said: str, work: "Callable[[], Any]", as_json: bool) -> None:
    with report_errors(settings):
        done = work()
    if as_json:
        return write_json(done.json())
    slots = {"file": done.file, "database": settings.database, "files": done.files, "memory": done.memory}
    return echo(settings.say(said, **slots, mib=f"{done.bytes / 2**20:.1f}"))


def prune(
    keep: Annotated[str, typer.Option("--keep", metavar="AGE", help="Keep snapshots newer than this: 30d, 12h.")] = "",
    newest: Annotated[
        int | None,
        typer.Option("--last", min=1, max=MOST_COUNT, metavar="N", help="Keep the N newest snapshots of each session."),
    ] = None,
    session: Annotated[str, typer.Option("--session", help="Only this session.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Delete old snapshots.

    History, traces and unfinished tasks stay. A session with a running task is skipped.
    """
    settings = Settings(db)
    if not keep and newest is None:
        raise typer.BadParameter(settings.say("keep_what"), param_hint="--keep")

    async def pruned(app: "App") -> "Pruned":
        from ...core.timeline import Retention

        retention = Retention.of(",".join(filter(None, (keep, str(newest or "")))))
        return await app.sessions.prune(retention, session or None, dry_run=dry_run)

    done = ask(settings, pruned)
    if as_json:
        return write_json(asdict(done), indent=2)
    echo(settings.say("to_prune" if dry_run else "pruned", n=done.snapshots, sessions=done.sessions))
    for name in done.busy:
        echo(settings.say("not_pruned", session=name))


def recover(
    session: options.SessionName, agents: options.TaskAgents = "", db: options.Database = DEFAULT_DATABASE
) -> None:
    """Repair a damaged session.

    If necessary, it is restored to its newest readable snapshot.
    """
    settings = Settings(db, agents)

    async def recovered(app: "App") -> "tuple[Recovery, Task | None]":
        found = await app.sessions.recover(session, settings.ui_language)
        return found, await app.tasks.newest(session) if found.readable else None

    found, task = ask(settings, recovered)
    for line in _recovery_lines(settings, session, found):
        echo(line)
    if found.readable and (found.dropped or found.repaired):
        echo("\n".join(_next_command(settings, session, task)))
    if not found.readable:
        raise typer.Exit(FAILED)


def _recovery_lines(settings: Settings, session: str, found: "Recovery") -> list[str]:
    """What was dropped and repaired."""
    from ..views.tables import when

    if not found.dropped and not found.repaired:
        return [settings.say("nothing_damaged", session=session)]
    dropped = [
        settings.say("went_back", session=session, at=when(found.created_at), checkpoint=found.checkpoint_id),
        settings.say("dropped", n=found.dropped),
    ]
    copy = [settings.say("copy_kept", copy=found.copy)] if found.copy else []
    return [*(dropped if found.dropped else []), *map(printable, found.repaired), *copy]


def _next_command(settings: Settings, session: str, task: "Task | None") -> list[str]:
    """How to continue a recovered session."""
    from ..hints import continue_hint

    if task is None:
        return [settings.say("to_continue"), continue_command(settings, session)]
    if task.is_over:
        return [*continue_hint(settings, task)]
    verb = "answer" if task.status == TaskStatus.WAITING else "resume"
    return [settings.say("to_continue"), task_command(settings, verb, task.task_id)]


def title(
    session: options.SessionName,
    name: Annotated[str, typer.Argument(metavar="[TITLE]", help="The title to give it; '' takes it back.")] = UNNAMED,
    make: Annotated[
        bool, typer.Option("--make", help="Have the agent's model write it, once; a title that there is stays.")
    ] = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Show, change or make a session's title."""
    settings = Settings(db, agents)
    if make and name != UNNAMED:
        raise typer.BadParameter("give either a title or --make", param_hint="--make")

    async def titled(app: "App") -> str:
        if make:
            return await app.sessions.make_title(session)
        if name != UNNAMED:
            await app.sessions.rename(session, name)
        return (await app.sessions.get(session)).title

    echo(printable(ask(settings, titled)))


def delete(
    session: options.SessionName,
    keep_memory: Annotated[
        bool, typer.Option("--keep-memory", help="Keep what its tasks wrote to memory files.")
    ] = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Delete a session and everything in it.

    Its forks stay. A session with a running task is not deleted.
    """
    settings = Settings(db, agents)
    ask(settings, lambda app: app.sessions.delete(session, keep_memory))
    echo(settings.say("session_deleted", session=session))
