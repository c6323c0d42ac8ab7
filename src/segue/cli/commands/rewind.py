"""Commands that go back in a session: timeline, diff, fork, edit, undo."""

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.bounds import MOST_COUNT
from .. import options
from ..exits import FAILED, USAGE, report_errors, sentence_of
from ..lookup import ask, find_session, for_session, for_snapshot, named
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings, task_command
from ..views.console import output, print_error, print_note, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...app import App
    from ...core.records import Json, Task
    from ...core.timeline import Branch, SnapshotDifference, TimelineEntry
    from ..views.timeline import Reverted

Snapshot = Annotated[
    str,
    typer.Argument(
        metavar="SNAPSHOT",
        help="A snapshot's id or its last six characters: see `segue timeline`. A SESSION means its newest snapshot.",
    ),
]
Undo = Annotated[bool, typer.Option("--undo", help="First undo the calls after the snapshot, if their tools can.")]


def timeline(
    session: options.AnySession = None,
    last: options.LastSession = False,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST_COUNT, help="The maximum number of snapshots, newest first.")
    ] = 100,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List a session's snapshots: turns, recursions, steps."""
    from ..views.timeline import print_branches, print_timeline

    name = named(session, last, "SESSION")
    settings = for_session(Settings(db, agents), name, required=False)

    listing = partial(list_snapshots, settings=settings, name=name, limit=limit)
    found, entries, branches = ask(settings, listing)
    if as_json:
        return write_json([entry.json() for entry in entries], indent=2)
    print_timeline(output(), entries, settings, lambda place: task_command(settings, "fork", f"{found}/{place}"))
    print_branches(output(), branches, found, settings, lambda other: task_command(settings, "timeline", other))


async def list_snapshots(
    app: "App", settings: Settings, name: str, limit: int
) -> "tuple[str, list[TimelineEntry], Sequence[Branch]]":
    """A session, its newest snapshots, and the branches of its conversation; a note says that there are older ones."""
    found = await find_session(app, name)
    entries = await app.rewind.timeline(found, limit + 1)
    if len(entries) > limit:
        print_note(settings.say("older_snapshots"))
    return found, entries[-limit:], await app.sessions.branches(found)


def diff(
    a: Snapshot,
    b: Snapshot,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Compare two snapshots.

    The state, plan, messages, results and prompt are compared.
    """
    from ..views.timeline import print_difference

    settings = for_snapshot(Settings(db, agents), a, required=False)

    async def compared(app: "App") -> "SnapshotDifference":
        left, right = await app.rewind.find(a), await app.rewind.find(b)
        return await app.rewind.diff(left.session_id, left.checkpoint_id, right.checkpoint_id, right.session_id)

    found = ask(settings, compared)
    write_json(found.json(), indent=2) if as_json else print_difference(output(), found, settings.ui_language)


def fork(
    snapshot: Snapshot,
    to: options.NewSession = "",
    undo: Undo = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """Start a new session from a snapshot.

    A task that was unfinished at the snapshot can be resumed in the new session.
    """
    from ..views.timeline import print_fork

    settings = for_snapshot(Settings(db, agents), snapshot, required=undo)

    async def forked(app: "App") -> "tuple[Reverted, str, Task | None]":
        if to:
            await app.rewind.check_new(to)  # before anything is undone
        back = await revert(app, snapshot, undo)
        _check_undone(snapshot, back, settings)
        session = to or app.sessions.new_id()
        return back, session, await app.rewind.fork(back.place.session_id, back.place.checkpoint_id, session)

    back, session, task = ask(settings, forked)
    if as_json:
        form = task.json() if task else {"session_id": session, "task_id": None, "status": None}
        return write_json({**form, **back.json()}, indent=2)
    if task and task.agents_file == settings.agents_path:  # the new session remembers it
        settings = replace(settings, agents_file="")
    print_fork(output(), snapshot, session, task, back, settings)


async def revert(app: "App", snapshot: str, undo: bool) -> "Reverted":
    """Undo the effects after a snapshot, if requested, and list those that stay."""
    from ..views.timeline import Reverted

    place = await app.rewind.find(snapshot)
    undone = await app.rewind.undo(place.session_id, place.checkpoint_id) if undo else []
    effects = await app.rewind.effects(place.session_id, place.checkpoint_id)
    return Reverted(place, [effect for effect in effects if effect.undo != "done"], undone)


def _check_undone(snapshot: str, back: "Reverted", settings: Settings) -> None:
    """Exit before a new session begins where an undo failed."""
    from ..views.timeline import effect_lines

    if not back.all_undone:
        print_error(
            settings.say("not_all_undone"), *effect_lines(back, settings, task_command(settings, "undo", snapshot))
        )
        raise typer.Exit(FAILED)


def edit(
    snapshot: Snapshot,
    message: Annotated[str, typer.Option("--message", help="A new message for the snapshot's turn.")] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=JSON", help="A field of the state: 'iteration=3'; may be repeated."),
    ] = None,
    to: options.NewSession = "",
    undo: Undo = False,
    agents: options.TaskAgents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOption = False,
) -> None:
    """Change a past message or state, in a new branch.

    A changed message restarts its turn; with a changed state the task continues from the snapshot. The original session
    stays as it is.
    """
    if bool(message) == bool(changes):
        raise typer.BadParameter(Settings(db).say("message_or_set"), param_hint="--message")
    settings = for_snapshot(Settings(db, agents), snapshot)
    state = dict(_field(change, settings) for change in changes or ()) or None
    with report_errors(settings):
        from ...core.timeline import SHORT
        from ..dialog import edited
        from ..views.timeline import effect_lines

        async def begun(app: "App") -> "Task":
            if to:
                await app.rewind.check_new(to)  # before anything is undone
            if state:
                await _check_state(app, snapshot, state, settings)
            place = await app.rewind.find(snapshot)
            start = place.checkpoint_id if state else (await app.rewind.before_turn_of(place)).checkpoint_id
            begin = f"{place.session_id}/{start[-SHORT:]}"
            back = await revert(app, begin, undo)
            _check_undone(begin, back, settings)
            if not as_json:
                for line in effect_lines(back, settings, task_command(settings, "undo", begin)):
                    echo(line, err=True)
            new = to or app.sessions.new_id()
            task = await app.rewind.edit(place.session_id, place.checkpoint_id, new, message=message, state=state)
            if not as_json:
                echo(settings.say("branched", session=new, other=place.session_id), err=True)
            return task

        raise typer.Exit(edited(settings, begun, as_json=as_json))


async def _check_state(app: "App", snapshot: str, state: "Json", settings: Settings) -> None:
    """Exit before anything is undone where the state cannot be changed like this."""
    from ...core.errors import TaskError

    try:
        place = await app.rewind.find(snapshot)
        await app.rewind.check_edit(place.session_id, place.checkpoint_id, state)
    except TaskError as error:
        print_error(sentence_of(error, settings))
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
    """Undo the calls after a snapshot, newest first.

    Only calls of tools that declare an undo can be undone.
    """
    from ..views.timeline import undo_lines

    settings = for_snapshot(Settings(db, agents), snapshot)
    back = ask(settings, lambda app: revert(app, snapshot, True))
    if as_json:
        write_json(back.json(), indent=2)
    else:
        for line in undo_lines(back, settings, task_command(settings, "undo", snapshot)):
            echo(line)
    if not back.all_undone:
        raise typer.Exit(FAILED)
