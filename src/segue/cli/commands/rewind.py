"""Going back in a session: timeline, diff, fork, edit, undo; and its export and import."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import options
from ..exits import FAILED, USAGE, complain, remark, report_errors, sentence_of
from ..latest import find_session, named
from ..remembered import for_session, for_snapshot
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, write_json
from .inspect import ask

if TYPE_CHECKING:
    from ...app import App
    from ...core.records import Json, Task

Snapshot = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOT", help="An id, or its last six characters: see `segue timeline`. SESSION is its newest one."
    ),
]
NewSession = Annotated[str, typer.Option("--to", metavar="SESSION", help="The new session's name.")]
Undo = Annotated[bool, typer.Option("--undo", help="First undo the calls after the snapshot, where tools allow it.")]


def timeline(
    session: options.AnySession = None,
    last: options.LastSession = False,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of snapshots: the newest.")] = 100,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the snapshots of a session: one for each turn, recursion and step."""
    from ..views.timeline import print_timeline

    name = named(session, last, "SESSION")
    settings = for_session(Settings(db, agents), name, needed=False)

    async def listed(opened: "App") -> "tuple[str, list[Json]]":
        found = await find_session(opened, name)
        entries = await opened.timeline(found, limit=limit + 1)
        if len(entries) > limit:
            remark(settings.say("older_snapshots"))
        return found, entries[-limit:]

    found, entries = ask(settings, listed)
    write_json(entries, indent=2) if as_json else print_timeline(output(), found, entries, settings)


def diff(
    a: Snapshot,
    b: Snapshot,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Compare two snapshots: state, plan, messages, results and prompt."""
    from ..views.timeline import print_difference

    settings = for_snapshot(Settings(db, agents), a, needed=False)

    async def compared(opened: "App") -> "Json":
        left, right = await opened.find_snapshot(a), await opened.find_snapshot(b)
        return await opened.diff(
            left["session_id"], left["checkpoint_id"], right["checkpoint_id"], other_session=right["session_id"]
        )

    found = ask(settings, compared)
    write_json(found, indent=2) if as_json else print_difference(output(), found, settings.language_for(""))


def fork(
    snapshot: Snapshot,
    to: NewSession = "",
    undo: Undo = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Start a new session from a snapshot.

    A task that had not ended there can be resumed in it.
    """
    from ..views.timeline import print_fork

    settings = for_snapshot(Settings(db, agents), snapshot, needed=undo)

    async def forked(opened: "App") -> "tuple[Json, list[Json], list[Json]]":
        place, effects, undone = await _gone_back(opened, snapshot, undo)
        _check_undone(snapshot, effects, undone, settings)
        task = await opened.fork(place["session_id"], place["checkpoint_id"], session_id=to or _new_session())
        return task, effects, undone

    task, effects, undone = ask(settings, forked)
    if as_json:
        return write_json({**task, "effects": effects, "undone": undone}, indent=2)
    if task["agents_file"] == settings.agents_path:  # the new session remembers it
        settings = replace(settings, agents_file="")
    print_fork(output(), snapshot, task, effects, undone, settings)


async def _gone_back(opened: "App", snapshot: str, undo: bool) -> "tuple[Json, list[Json], list[Json]]":
    """The place, the effects after it that stay, and those whose undo was tried."""
    place = await opened.find_snapshot(snapshot)
    undone = await opened.undo(**place) if undo else []
    effects = await opened.effects(**place)
    return place, [effect for effect in effects if effect["undo"] != "done"], undone


def _check_undone(snapshot: str, effects: "list[Json]", undone: "list[Json]", settings: Settings) -> None:
    """Exit before a new session begins where an undo failed."""
    from ..views.timeline import effect_lines

    if not _all_undone(undone):
        complain(settings.say("not_all_undone"), *effect_lines(snapshot, effects, undone, settings))
        raise typer.Exit(FAILED)


def _all_undone(undone: "list[Json]") -> bool:
    return all(each["undo"] == "done" for each in undone)


def _new_session() -> str:
    from ...core.context import Ids

    return Ids().thread()


def edit(
    snapshot: Snapshot,
    message: Annotated[str, typer.Option("--message", help="Another message for the snapshot's turn.")] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=JSON", help="A field of the state: 'iteration=3'; may be repeated."),
    ] = None,
    to: NewSession = "",
    undo: Undo = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOption = False,
) -> None:
    """Change a past message, or the state at a snapshot, and continue from there in a new session."""
    if bool(message) == bool(changes):
        raise typer.BadParameter(Settings(db).say("message_or_set"), param_hint="--message")
    settings = for_snapshot(Settings(db, agents), snapshot)
    state = dict(_field(change, settings) for change in changes or ()) or None
    with report_errors(settings):
        from ..dialog.loop import edited
        from ..views.timeline import effect_lines

        async def begun(opened: "App") -> "Task":
            if state:
                await _check_state(opened, snapshot, state, settings)
            place, effects, undone = await _gone_back(opened, snapshot, undo)
            _check_undone(snapshot, effects, undone, settings)
            if not as_json:
                for line in effect_lines(snapshot, effects, undone, settings):
                    typer.echo(line, err=True)
            new = to or _new_session()
            task = await opened.rewind.edit(**place, new_session=new, message=message, changes=state)
            if not (to or as_json or output().is_terminal):
                typer.echo(settings.say("forked", session=new), err=True)
            return task

        raise typer.Exit(edited(settings, begun, as_json=as_json))


async def _check_state(opened: "App", snapshot: str, state: "Json", settings: Settings) -> None:
    """Exit before anything is undone where the state cannot be changed like this."""
    from ...core.errors import TaskError

    try:
        await opened.rewind.check_edit(**await opened.find_snapshot(snapshot), changes=state)
    except TaskError as error:
        complain(sentence_of(error, settings))
        raise typer.Exit(USAGE) from error


def _field(text: str, settings: Settings) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise typer.BadParameter(settings.say("no_field", text=text), param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def undo(
    snapshot: Snapshot,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Undo the calls that were made after a snapshot, newest first, where their tools declare how."""
    from ..views.timeline import effect_lines

    settings = for_snapshot(Settings(db, agents), snapshot)
    _, effects, undone = ask(settings, lambda opened: _gone_back(opened, snapshot, True))
    if as_json:
        write_json({"undone": undone, "effects": effects}, indent=2)
    else:
        for line in effect_lines(snapshot, effects, undone, settings) or [settings.say("nothing_to_undo")]:
            typer.echo(line)
    if not _all_undone(undone):
        raise typer.Exit(FAILED)


def export(
    session: options.SessionName,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="By default standard output.")] = None,
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Write a session to a JSON document, which `segue import` reads."""
    settings = Settings(db)
    document = ask(settings, lambda opened: opened.export(session))
    if file is None:
        return write_json(document)
    try:
        file.write_text(json.dumps(document), encoding="utf-8")
    except OSError as error:
        complain(settings.say("not_written", file=str(file), why=error.strerror or error))
        raise typer.Exit(FAILED) from error
    typer.echo(settings.say("exported", session=session, file=file))


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An exported session, or - for standard input.")],
    to: NewSession = "",
    db: options.Database = DEFAULT_DATABASE,
) -> None:
    """Store an exported session as a new one."""
    settings = Settings(db)
    try:
        text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not valid JSON"
        complain(settings.say("not_read", file=file, why=why))
        raise typer.Exit(USAGE) from error
    task = _imported(settings, document, to or _new_session())
    typer.echo(settings.say("imported", session=task["thread_id"]))


def _imported(settings: Settings, document: Any, session: str) -> Any:
    import asyncio

    async def store() -> "Json":
        async with settings.opened() as opened:
            return await opened.import_(document, session_id=session)

    with report_errors(settings):
        return asyncio.run(store())


def prune(
    keep: Annotated[str, typer.Option("--keep", metavar="AGE", help="Keep the snapshots of this time: 30d, 12h.")] = "",
    newest: Annotated[
        int | None, typer.Option("--last", min=1, metavar="N", help="Keep the N newest snapshots of each session.")
    ] = None,
    session: Annotated[str, typer.Option("--session", help="Only of this session.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Merge older snapshots into the oldest one that is kept.

    History, traces and unfinished tasks stay; a session with a running task is left as it is.
    """
    settings = Settings(db)
    if not keep and newest is None:
        raise typer.BadParameter(settings.say("keep_what"), param_hint="--keep")
    retention = ",".join(filter(None, (keep, str(newest or ""))))
    done = ask(settings, lambda opened: opened.prune(retention, session_id=session or None, dry_run=dry_run))
    if as_json:
        return write_json(done, indent=2)
    typer.echo(settings.say("to_prune" if dry_run else "pruned", n=done["snapshots"], sessions=done["sessions"]))
    for name in done["busy"]:
        typer.echo(settings.say("not_pruned", session=name))
