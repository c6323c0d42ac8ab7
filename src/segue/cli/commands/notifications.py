"""Notifications that were not delivered, and how they are sent again."""

from typing import TYPE_CHECKING, Annotated

import typer

from .. import options
from ..exits import FAILED
from ..lookup import ask
from ..settings import DEFAULT_DATABASE, Settings
from ..views.consoles import output, print_error, write_json

if TYPE_CHECKING:
    from ...app import App

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
