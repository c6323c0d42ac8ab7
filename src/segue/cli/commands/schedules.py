"""Messages for later and notifications: `segue schedules` and `segue notifications`."""

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...core.logs import configure_logs
from ...prompts.catalogue import word
from .. import options
from ..exits import FAILED, report_errors
from ..lookup import ask
from ..output import echo
from ..settings import DEFAULT_DATABASE, Settings, places
from ..views.console import one_line, output, print_error, print_hints, print_note, printable, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...app import App
    from ...core.schedules import Schedule


# Notifications that were not delivered, and how they are sent again.

Replay = Annotated[
    list[str] | None,
    typer.Option("--replay", metavar="ID", help="Send this notification again; may be repeated."),
]
AllDead = Annotated[bool, typer.Option("--all-dead", help="Send all dead notifications again.")]
Dead = Annotated[bool, typer.Option("--dead", help="Only dead ones, which are no longer retried.")]


def notifications(
    replay: Replay = None,
    all_dead: AllDead = False,
    dead: Dead = False,
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List undelivered notifications, or send them again.

    This command sends for up to three seconds if the agents file has the receivers. Otherwise the
    next process that has them sends.
    """
    from ..views.tables import print_notifications

    settings = Settings(db, agents)
    if replay or all_dead:
        missing = ask(settings, lambda app: _replayed(app, replay or [], all_dead))
        for notification_id in missing:
            print_error(settings.say("no_notification", id=notification_id))
        if missing:
            raise typer.Exit(FAILED)
    found = ask(settings, lambda app: app.notifications.list("dead" if dead else None))
    if as_json:
        return write_json([each.json() for each in found], indent=2)
    return print_notifications(output(), found, settings.ui_language)


async def _replayed(app: "App", ids: list[str], all_dead: bool) -> list[str]:
    """Send notifications again; returns the ids of those that are not there."""
    if all_dead:
        await app.notifications.replay_dead()
    return [each for each in ids if not await app.notifications.replay(each)]


# Messages for later: how `segue chat` stores one, and `segue schedules`.

At = Annotated[
    str,
    typer.Option("--at", metavar="MOMENT", help="Send the message later: 18:00, '2026-12-01 18:00', or ISO 8601."),
]
Every = Annotated[
    str,
    typer.Option(
        "--every",
        metavar="CRON",
        help="Send the message repeatedly, by a cron expression: '0 9 * * mon' is Mondays at 9.",
    ),
]
Timezone = Annotated[
    str,
    typer.Option("--timezone", metavar="ZONE", help="The time zone of --at and --every; by default this machine's."),
]
Overlap = Annotated[
    Literal["skip", "queue"] | None,
    typer.Option("--overlap", help="If the last run is unfinished, skip the next one (default) or queue it."),
]
Missed = Annotated[
    Literal["once", "skip", "all"] | None,
    typer.Option("--missed", help="Runs missed while no process was running: run one of them (default), none, or all."),
]
ScheduleId = Annotated[str, typer.Argument(metavar="[SCHEDULE_ID]", help="Only this schedule.")]
Pause = Annotated[str, typer.Option("--pause", metavar="ID", help="Pause this schedule.")]
Resume = Annotated[str, typer.Option("--resume", metavar="ID", help="Resume this schedule.")]
Delete = Annotated[str, typer.Option("--delete", metavar="ID", help="Delete this schedule; its sessions are kept.")]
Run = Annotated[bool, typer.Option("--run", help="Run due schedules until Ctrl-C, if no other process does.")]
GRACE = 30.0
"""Seconds that a step may take to end when the process stops."""


def schedule_message(settings: Settings, message: str, times: dict[str, Any], *, as_json: bool) -> None:
    """Store a message for later, and print when it is sent."""
    about = {
        "session_id": settings.session,
        "agent": settings.chosen_agent(),
        "mode": settings.mode,
        "model": settings.model,
        "user_id": settings.user,
        "language": settings.language,
        "origin": "terminal",
        "files": settings.files,
        "memory_files": settings.memory_files,
        "remember": settings.remember,
        "wait": settings.wait,
    }

    async def store() -> "Schedule":
        async with settings.opened() as app:
            given = {name: value for name, value in about.items() if value or value is False}
            return await app.schedules.create(message, {**given, **settings.asks, **times})

    with report_errors(settings):
        made = asyncio.run(store())
    if as_json:
        return write_json(made.json(), indent=2)
    echo(settings.say("schedule_made", schedule=made.schedule_id, moment=_next(made, settings)))
    command = " ".join(["segue schedules --run", *places(settings)])
    print_hints(settings.say("schedule_needs_process", command=command))


def schedules(
    schedule_id: ScheduleId = "",
    pause: Pause = "",
    resume: Resume = "",
    delete: Delete = "",
    run: Run = False,
    agents: options.Agents = "",
    db: options.Database = DEFAULT_DATABASE,
    as_json: options.JsonOfList = False,
) -> None:
    """List the messages for later, or change one.

    `segue serve` and `segue worker` run what is due, and so does `segue schedules --run`.
    """
    settings = Settings(db, agents)
    if sum(map(bool, (schedule_id, pause, resume, delete, run))) > 1:
        raise typer.BadParameter("give one of --pause, --resume, --delete and --run", param_hint="--pause")
    if run:
        return run_schedules(settings)

    async def changed(app: "App") -> "Sequence[tuple[Schedule, str]]":
        if delete:
            await app.schedules.delete(delete)
            return []
        if named := schedule_id or pause or resume:
            does = app.schedules.pause if pause else app.schedules.resume if resume else app.schedules.get
            found: Sequence[Schedule] = [await does(named)]
        else:
            found = await app.schedules.list()
        return [(each, await _status(app, each)) for each in found]

    found = ask(settings, changed)
    if as_json:
        return write_json([{**each.json(), "last_status": status or None} for each, status in found], indent=2)
    if delete:
        return echo(settings.say("schedule_deleted", schedule=printable(delete)))
    from ..views.tables import Column, print_table

    columns: list[Column[tuple[Schedule, str]]] = [
        Column("schedule", lambda row: printable(row[0].schedule_id), whole=True),
        Column("next run", lambda row: _next(row[0], settings), whole=True),
        Column("every", lambda row: row[0].every or "–", 80),
        Column("last task", lambda row: _last_task(*row, settings)),
        Column("message", lambda row: one_line(row[0].message, 120)),
    ]
    print_table(output(), settings.ui_language, columns, found, "no_schedules")


async def _status(app: "App", schedule: "Schedule") -> str:
    """The status of the last run; empty where there is none any more."""
    from ...core.errors import UnknownTask

    try:
        return str((await app.task(schedule.last_task)).status) if schedule.last_task else ""
    except UnknownTask:
        return ""


def _next(schedule: "Schedule", settings: Settings) -> str:
    from ...core.task import format_time, zone_named

    if not schedule.is_active:
        return word("paused" if schedule.due else "ended", settings.ui_language)
    return format_time(schedule.due or 0.0, zone_named(schedule.timezone))


def _last_task(schedule: "Schedule", status: str, settings: Settings) -> str:
    last = f"{(schedule.last_task or '')[:8]} {word(status, settings.ui_language) if status else ''}".strip()
    problem = word(schedule.problem, settings.ui_language) if schedule.problem else ""
    return " · ".join(filter(None, [last, one_line(problem, 200)])) or "–"


def run_schedules(settings: Settings) -> None:
    """Run what is due until a signal says to stop."""
    with report_errors(settings):
        configure_logs(level=logging.WARNING)
        asyncio.run(_run(settings))


async def _run(settings: Settings) -> None:
    from ..interrupts import handling_signals

    stopping = asyncio.Event()
    async with settings.opened(serving=True) as app:
        with handling_signals(stopping.set):
            app.schedules.watch()
            scheduled = {each.agent_id for each in await app.schedules.list() if each.is_active}
            print_note(settings.say("schedules_run", agents=", ".join(app.agents)))
            if elsewhere := sorted(scheduled - set(app.agents)):
                print_note(settings.say("schedules_elsewhere", agents=", ".join(elsewhere)))
            await stopping.wait()
        await app.drain(GRACE)
    print_note(settings.say("worker_stopped"))
